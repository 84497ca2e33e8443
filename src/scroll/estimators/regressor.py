"""A predictive distribution of a real target, or of a count."""

from math import log
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from torch import Tensor

from .._core.checks import LARGE_COUNTS, LARGEST_COUNT, must, one_of, refusal
from ..fitting.plans import Body, Plan
from ..fitting.split import pair
from ..tables.outliers import warn_of_outliers
from .base import Array, Scroll
from .sklearn_checks import check_target, one_line

FARTHEST = 1e8  # standard deviations from the mean that training sees of a target


class ScrollRegressor(RegressorMixin, Scroll):  # type: ignore[misc]
    """Distributions, intervals and a flag for strange inputs from a table.

    Args:
        covariance: "full", "diag", "lowrank" or "none", the family of the belief's S; "auto" takes
            the largest that trains quickly: "full" for one target, or for up to 64 classes.
        routing: what predicts on the trained features: "free", "closed", "hybrid", or "auto",
            which takes the best of them by held-out score.
        likelihood: "gaussian", or "poisson" and "negbinomial" for counts, whose intervals,
            quantiles and samples are integers.
        n_members: networks in the ensemble; the predictive is their exact mixture.
        beta: weight of hard rows in training, between 0 and 1; 0 is the score as it is.
        recipe: "default", or "paper": its 50 units without biases, by the free route unless
            `routing` names another.
        body: "auto" (the better of "smooth" and "waves" by held-out score; of few rows also
            "linear"), one of these, "matern", widths such as (256, 128), or your own module.
        max_steps: of training, at most; None is the recipe's own, as for the next two.
        batch_size: rows a step.
        learning_rate: the greatest of the schedule.
        validation_fraction: of the rows, held out where no `eval_set` is given.
        device: "cpu", "cuda" or "auto".
        random_state: a seed or generator; the same seed gives the same model.
        verbose: 1 shows a progress bar.

    Attributes:
        model_: the fitted model, a torch module.
        bodies_: the body of each member.
        routes_: what each member predicts with.
        tried_: held-out negative log-likelihood of each body and route, in units of the
            standardised target.
        n_features_in_, feature_names_in_: the columns it knows.
    """

    def __init__(
        self,
        covariance: str = "auto",
        routing: str = "auto",
        likelihood: str = "gaussian",
        n_members: int = 1,
        beta: float = 0.0,
        recipe: str = "default",
        body: Body = "auto",
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.2,
        device: str = "cpu",
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.covariance = covariance
        self.routing = routing
        self.likelihood = likelihood
        self.n_members = n_members
        self.beta = beta
        self.recipe = recipe
        self.body = body
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None
    ) -> "ScrollRegressor":
        """Fit to a table.

        Args:
            X: a data frame (numbers, categories, booleans, missing values) or an array.
            y: targets, (N,) or (N, K).
            sample_weight: of each row.
            eval_set: (X, y) to stop and choose by; otherwise some rows are held out.
        """
        one_of("likelihood", self.likelihood, ("gaussian", "poisson", "negbinomial"))
        target = self._checked(y)
        held = pair(eval_set)
        later = None if held is None else (held[0], self._checked(held[1]))
        unit = 0.0 if self.likelihood == "gaussian" else 1.0
        warn_of_outliers(target, least=unit)
        if later is not None:
            warn_of_outliers(later[1], "eval_set[1]", unit)
        self._fit(X, target, sample_weight, later)
        return self

    def _checked(self, y: Any) -> Array:
        if y is None:
            raise ValueError(
                "This ScrollRegressor estimator requires y to be passed, but the target y is None."
            )
        target = check_target(self, y)
        with one_line("y", "hold numbers"):
            target = np.asarray(target, np.float64)
        most = np.abs(target).max(initial=0.0)
        within = most < 1e150 and not 0 < most < 1e-150
        got, remedy = f"{most:g} as its largest absolute value", "Give it in other units."
        must(within, "y", "be zero or lie between 1e-150 and 1e150", got, remedy)
        if target.ndim == 2 and target.shape[1] == 1:
            from sklearn.utils.validation import column_or_1d

            target = column_or_1d(target, warn=True)
        if self.likelihood != "gaussian":
            must(target.ndim == 1, "y", "be one column of counts", f"shape {target.shape}")
            counted(target)
        return target

    def _likelihood(self) -> str:
        return self.likelihood

    def _outputs(self, y: Array) -> int:
        return 1 if y.ndim == 1 else y.shape[1]

    def _units(self, y: Array, plan: Plan) -> tuple[Any, Any]:
        """Mean and spread of the target: training sees neither."""
        if self.likelihood != "gaussian":
            return 0.0, 1.0
        shift, spread = y.mean(0), y.std(0)
        # A target that is constant but for rounding is known to within a millionth of itself.
        least = 1e-6 * np.maximum(np.abs(shift), 1e-300 if np.any(shift) else 1.0)
        constant = spread <= 1e-12 * np.abs(shift)
        scale = np.where(constant, least, spread)
        return shift, scale if plan.scaled else np.where(constant, least, 1.0)

    def _target(self, y: Array, shift: Any, scale: Any, seed: int) -> Tensor:
        if self.likelihood != "gaussian":
            return torch.from_numpy(y.astype(np.float32))
        unit = (y - shift) / scale
        still = (y == y[:1]).all(0) & (np.abs(unit) < 1e-3).all(0)
        if np.any(still):  # nothing to learn but that it is constant: a spread of one, in its unit
            unit = np.where(still, np.random.default_rng(seed).normal(size=unit.shape), unit)
        # Their squares must be finite in single precision. `warn_of_outliers` has named such rows.
        return torch.from_numpy(unit.clip(-FARTHEST, FARTHEST)).float()

    def _folds(self, rows: int) -> int:
        """All members hold out the same rows; a posterior takes them in afterwards."""
        return 0

    def _start(self, head: Any, y: Tensor) -> None:
        """Counts start at their mean rate, and as far apart as they are without the columns."""
        if self.likelihood == "gaussian":
            return
        mean, more = float(y.mean()), float(y.var()) - float(y.mean())
        head.bias.fill_(log(max(mean, 1e-3)))
        if self.likelihood == "negbinomial":  # var = mean + mean^2 / concentration
            concentration = mean**2 / max(more, 1e-3 * mean**2, 1e-9)
            head.likelihood.log_concentration.fill_(log(min(max(concentration, 0.01), 1e3)))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predictive mean, (N,) or (N, K); with its standard deviation if asked."""
        p = self.predict_dist(X)
        mean = p.mean.double().numpy()
        return (mean, p.stddev.double().numpy()) if return_std else mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper end of the central interval of the given coverage.

        Both ends belong to it: of counts it covers at least that much.
        """
        low, high = self.predict_dist(X).interval(coverage)
        return self._values(low), self._values(high)

    def predict_quantiles(self, X: Any, q: Any) -> Array:
        """Quantiles at levels q: (N, Q), or (N, K, Q); (N,) for a single level."""
        return self._values(self.predict_dist(X).quantile(q))

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> Array:
        """n draws of y a row, (n, N) or (n, N, K)."""
        drawn = super().sample(X, n, random_state)
        return drawn if self.likelihood == "gaussian" else whole(drawn)

    def _values(self, found: Tensor) -> Array:
        values: Array = found.double().numpy()
        return values if self.likelihood == "gaussian" else whole(values)

    def variance_parts(self, X: Any) -> tuple[Array, Array]:
        """The predictive variance as (aleatoric, epistemic), each (N,) or (N, K).

        Epistemic is what the posterior of the trained features leaves open, and how far the
        members are apart; aleatoric is the rest.
        """
        self._gaussian("variance_parts")
        codes = self._new(X)
        p = self.model_.predictive(codes)
        total = p.variance
        known = self.model_.over("epistemic", codes) * self.model_.scale.square()
        apart = torch.stack([m.mean for m in p.members]).var(0, unbiased=False)
        epistemic = torch.minimum(known + apart, total)
        return (total - epistemic).numpy(), epistemic.numpy()

    def update(self, X: Any, y: Any) -> "ScrollRegressor":
        """Learn from more rows, as if the posterior had seen them from the start.

        The body stays as it is. Members on the free route have no posterior to update.
        """
        self._gaussian("update")
        codes, target = self._new(X), self._checked(y)
        must(
            any(route != "free" for route in self.routes_),
            "routing",
            "bind at least one member to the posterior for update",
            f"routes {self.routes_}",
            "Fit with routing='closed' or routing='hybrid'.",
        )
        shift, scale = self.model_.shift.numpy(), self.model_.scale.numpy()
        rows = torch.from_numpy((target - shift) / scale).float()
        must(len(rows) == len(codes), "y", f"have {len(codes)} rows, as X", len(rows))
        self.model_.update(codes, rows)
        return self

    def _gaussian(self, name: str) -> None:
        real = self.likelihood == "gaussian"
        must(real, "likelihood", f"be 'gaussian' for {name}", repr(self.likelihood))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def counted(y: Array, name: str = "y", first: int = 0, where: str = "") -> None:
    """Every one of y (N,), whose rows are numbered from `first`, is a count."""
    bad = ~((y >= 0) & (y == np.round(y)))
    if bad.any():
        got = f"{y[bad.argmax()]:g} in row {bad.argmax() + first}{where}"
        raise refusal(name, "hold counts 0, 1, 2, ...", got, "Measurements are 'gaussian'.")
    large = y > LARGEST_COUNT
    if large.any():
        got = f"{y[large.argmax()]:g} in row {large.argmax() + first}{where}"
        raise refusal(name, f"hold counts up to {LARGEST_COUNT:g}", got, LARGE_COUNTS)


def whole(counts: Array) -> Array:
    """Counts as integers, unless one is so large that a float no longer tells it from the next."""
    return counts.astype(np.int64) if bool((counts < 2.0**53).all()) else counts
