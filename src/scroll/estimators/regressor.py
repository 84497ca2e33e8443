"""A predictive distribution of a real target, or of a count."""

from typing import cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from .._core.checks import one_of, require
from ..fitting.candidates import Body
from ..posterior.posterior import Posterior
from ..predictive import Tail, metrics, survival
from ..predictive.arguments import as_tensor
from ..tables.censoring import bounds, require_known
from ..tables.frames import Array, TableLike
from ..tables.outliers import describe_all
from ..tables.target_maps import require_inside, target_maps
from .arguments import EvalSet, RandomState, check_eval_set, check_held_out
from .base import Scroll
from .spec import COUNTS
from .tasks import CensoredTask, RealTask, Task, number_task
from .user_warnings import warn_of_outliers


class ScrollRegressor(RegressorMixin, Scroll):  # type: ignore[misc]
    """Predictive distributions, intervals and out-of-distribution scores for a table.

    Args:
        covariance: family of the belief's covariance S: "full", "diag", "lowrank" or "none".
            "auto" is "diag", and "full" for the paper's recipe.
        routing: belief that predicts on the trained features: "free", "closed" or "hybrid";
            "auto" takes the one with the best held-out score.
        likelihood: "gaussian"; for counts "poisson" or "negbinomial", or with extra zeros "zip"
            or "zinb". Intervals, quantiles and samples of counts are integers.
        target: monotone map that a real target is trained in: "identity", "log" (y > 0), "log1p"
            (y >= 0) or "logit" (0 < y < 1, or per cent). Predictions are in the units of y. "auto"
            takes the one with the best density of held-out rows.
        tails: of a real target: "gaussian", "student", or "lapse" (a share of the rows has a
            larger error); "auto" takes the one that out-of-fold rows support.
        n_members: number of members; None is the recipe's: 5, of "best" 10, of "paper" 1. A member
            is one network of each chosen body. With up to 50,000 rows every member holds out a
            fold of its own, so that all rows are learned from; with more, or with an `eval_set`,
            all hold out the same rows. Their predictives are mixed exactly.
        beta: weight of hard rows in training, between 0 and 1; 0 trains on the score itself.
        recipe: "default"; "fast", random features for exploring; "best", ten members of up to six
            bodies, twice the steps; or "paper", the paper's 50 units without biases, with the free
            route unless `routing` names another.
        body: "auto" tries "smooth" and "waves", and "linear" if there are few rows, and mixes
            those that out-of-fold rows support; for labels also "swell", waves of low frequency.
            Or one of these, "deep", "fourier", "matern", widths such as (256, 128), or your own
            module.
        max_steps: largest number of training steps; None is the recipe's.
        batch_size: rows per step; None is the recipe's.
        learning_rate: largest learning rate of the schedule; None is the recipe's.
        validation_fraction: share of the rows that is held out if there is no `eval_set`.
        device: "cpu", "cuda" or "auto".
        random_state: a seed or generator; the same seed gives the same model.
        verbose: 1 shows a progress bar.

    Attributes:
        model_: the fitted model, a torch module.
        schema_: the columns of the training table.
        task_: how targets are read and given back.
        bodies_: the body of each member.
        routes_: the route of each member.
        target_: the map that a real target was trained in.
        tails_: the tails of a real target.
        tried_: held-out negative log-likelihood of each body and route.
        scores_: held-out negative log-likelihood of each member.
        oof_: scores of training rows by networks that did not see them.
        n_iter_: largest number of training steps of a member.
        n_features_in_, feature_names_in_: number and names of the columns.
    """

    def __init__(
        self,
        covariance: str = "auto",
        routing: str = "auto",
        likelihood: str = "gaussian",
        target: str = "auto",
        tails: str = "auto",
        n_members: int | None = None,
        beta: float = 0.0,
        recipe: str = "default",
        body: Body = "auto",
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.2,
        device: str = "cpu",
        random_state: RandomState = None,
        verbose: int = 0,
    ):
        self.covariance = covariance
        self.routing = routing
        self.likelihood = likelihood
        self.target = target
        self.tails = tails
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
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        eval_set: EvalSet | None = None,
        censored: ArrayLike | str | None = None,
    ) -> "ScrollRegressor":
        """Fit to a table and return the estimator.

        Args:
            X: a data frame (numbers, categories, booleans, missing values) or an array.
            y: targets, (N,) or (N, K).
            sample_weight: of each row.
            eval_set: (X, y) of a validation set; otherwise some rows are held out. With censored
                targets its y holds pairs (low, high), (N, 2), or exact targets.
            censored: for each row -1 if the target is at most y, 0 if it is y, 1 if it is at
                least y, such as a lifetime that has not ended. Or "interval": y holds pairs (low,
                high), (N, 2), infinite at an open end.
        """
        one_of("likelihood", self.likelihood, ("gaussian", *COUNTS))
        one_of("tails", self.tails, ("auto", *Tail.KINDS))
        task = number_task(self.likelihood if censored is None else "censored")
        target = task.read(y) if censored is None else self._censored(y, censored)
        held = check_eval_set(eval_set)
        later = None if held is None else (held[0], task.read(held[1]))
        unit = 0.0 if self.likelihood == "gaussian" else 1.0
        for name, some in (("y", target), ("eval_set[1]", None if later is None else later[1])):
            if some is not None:
                values = some if censored is None else _known(some)
                warn_of_outliers(describe_all(values, name, unit))
        self._fit(self._tasks(task, target, later), X, target, sample_weight, later)
        return self

    def _censored(self, y: ArrayLike, censored: ArrayLike | str) -> Array:
        """Return censored targets as pairs (low, high), (N, 2)."""
        self._require_gaussian("censored targets")
        plain = self.tails in ("auto", "gaussian") and self.routing in ("auto", "free")
        name = "routing" if self.tails in ("auto", "gaussian") else "tails"
        want = "be 'auto' for censored targets"
        require(plain, name, want, repr(getattr(self, name)))
        if isinstance(censored, str):
            one_of("censored", censored, ("interval",), "Or give -1, 0 or 1 per row.")
            want, remedy = "have two columns, low and high", "Or give -1, 0 or 1 per row."
            require(isinstance(y, tuple) or np.ndim(y) == 2, "y", want, "one", remedy)
            return require_known(bounds(y))
        return require_known(bounds(y, censored))

    def _tasks(self, task: Task, y: Array, later: tuple[TableLike, Array] | None) -> list[Task]:
        """Return the tasks to choose from: one per map of a real target."""
        if later is not None:
            check_held_out(later[1], y)
            y = np.concatenate([y, later[1]])
        if task.likelihood == "censored":
            return [CensoredTask(found) for found in target_maps(self.target, _known(y))]
        if self.likelihood != "gaussian":
            plain = self.target in ("auto", "identity") and self.tails in ("auto", "gaussian")
            name = "tails" if self.target in ("auto", "identity") else "target"
            want = f"be 'auto' for likelihood {self.likelihood!r}"
            require(plain, name, want, repr(getattr(self, name)))
            return [task]
        plain = self.recipe == "paper" and self.target == "auto"
        maps = target_maps("identity" if plain else self.target, y)
        if self.tails == "student" and self.target == "auto":  # whose exponential has no mean
            maps = [found for found in maps if found is None or found.name == "logit"]
        return [RealTask(found) for found in maps]

    def predict(self, X: TableLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return the predictive mean, (N,) or (N, K).

        Args:
            X: a table with the columns of training.
            return_std: whether to return the standard deviation, too.
        """
        p = self.predict_dist(X)
        mean: Array = p.mean.double().numpy()
        return (mean, p.stddev.double().numpy()) if return_std else mean

    def variance_parts(self, X: TableLike) -> tuple[Array, Array]:
        """Return the aleatoric and the epistemic part of the variance, each (N,) or (N, K).

        Epistemic is the variance that the posterior on the trained features leaves, plus the
        variance between the members; aleatoric is the rest.

        Args:
            X: a table with the columns of training.
        """
        self._require_gaussian("variance_parts")
        codes = self._new(X)
        total, base = self.model_.predictive(codes).variance, self.model_.untailed(codes)
        known = self.model_.average(Posterior.epistemic, codes) * self.model_.scale.square()
        apart = torch.stack([m.mean for m in base.members]).var(0, unbiased=False)
        share = ((known + apart) / base.variance).clamp(max=1)  # in the units of the map
        return (total * (1 - share)).numpy(), (total * share).numpy()

    def update(self, X: TableLike, y: ArrayLike) -> "ScrollRegressor":
        """Learn from more rows, as if the posterior had seen them from the start.

        The body stays as it is. Members on the free route have no posterior to update.

        Args:
            X: a table with the columns of training.
            y: its targets.
        """
        self._require_gaussian("update")
        codes, target = self._new(X), self.task_.read(y)
        require(
            any(route != "free" for route in self.routes_),
            "routing",
            "bind at least one member to the posterior for update",
            f"routes {self.routes_}",
            "Fit with routing='closed' or routing='hybrid'.",
        )
        task = cast(RealTask, self.task_)
        if task.map is not None:
            require_inside(task.map, target)
        shift, scale = self.model_.shift.numpy(), self.model_.scale.numpy()
        rows = torch.from_numpy((task.mapped(target) - shift) / scale).float()
        require(len(rows) == len(codes), "y", f"have {len(codes)} rows, as X", len(rows))
        self.model_.update(codes, rows)
        return self

    @property
    def target_(self) -> str:
        """The map of the target: "identity", "log", "log1p" or "logit"."""
        return "identity" if self.model_.map is None else self.model_.map.name

    @property
    def tails_(self) -> str:
        """The tails of the target: "gaussian", "student" or "lapse"."""
        return self.model_.tail.kind

    def predict_survival(self, X: TableLike, times: ArrayLike) -> Array:
        """Return the probability that y exceeds each time, (N, T).

        Args:
            X: a table with the columns of training.
            times: values of y, (T,).
        """
        p = self.predict_dist(X)
        at = as_tensor("times", times).double().flatten()
        require(not bool(at.isnan().any()), "times", "not be NaN", "NaN")
        return torch.stack([survival(p, t) for t in at], -1).numpy()

    def score(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        censored: ArrayLike | None = None,
    ) -> float:
        """Return R^2 of the predictive mean; Harrell's concordance index of censored targets.

        Args:
            X: a table with the columns of training.
            y: its targets.
            sample_weight: of each row, for R^2.
            censored: 0 for each exact target, 1 for each that is at least y.
        """
        if censored is None:
            return float(super().score(X, y, sample_weight))
        require(sample_weight is None, "sample_weight", "be None for censored targets", "weights")
        remedy = "The concordance index compares exact and right-censored targets only."
        require(not isinstance(censored, str), "censored", "be 0 or 1 per row", censored, remedy)
        median = torch.from_numpy(self.predict_quantiles(X, 0.5))
        flags = as_tensor("censored", censored)
        return float(metrics.concordance(median, as_tensor("y", y), flags))

    def _require_gaussian(self, name: str) -> None:
        real = self.likelihood == "gaussian"
        require(real, "likelihood", f"be 'gaussian' for {name}", repr(self.likelihood))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


def _known(pairs: Array) -> Array:
    """Return one finite end of each censored target, (N,): the upper one if low is not positive."""
    low, high = pairs.T
    return np.where(np.isfinite(high) & ((low <= 0) | ~np.isfinite(low)), high, low)
