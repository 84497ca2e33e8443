"""A predictive distribution of a real target, or of a count."""

from typing import cast

import torch
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from .._core.checks import one_of, require
from ..fitting.plans import Body
from ..posterior.posterior import Posterior
from ..predictive import Mixture, Normal
from ..tables.frames import Array, TableLike
from ..tables.outliers import describe_all
from .arguments import EvalSet, RandomState, check_eval_set
from .base import Scroll
from .task import number_task
from .user_warnings import warn_of_outliers


class ScrollRegressor(RegressorMixin, Scroll):  # type: ignore[misc]
    """Predictive distributions, intervals and out-of-distribution scores for a table.

    Args:
        covariance: family of the belief's covariance S: "full", "diag", "lowrank" or "none".
            "auto" takes the largest that trains quickly: "full" for one target.
        routing: belief that predicts on the trained features: "free", "closed" or "hybrid";
            "auto" takes the one with the best held-out score.
        likelihood: "gaussian"; for counts "poisson" or "negbinomial", whose intervals, quantiles
            and samples are integers.
        n_members: number of networks in the ensemble, whose predictives are mixed exactly.
        beta: weight of hard rows in training, between 0 and 1; 0 trains on the score itself.
        recipe: "default", or "paper" for the paper's 50 units without biases, with the free route
            unless `routing` names another.
        body: "auto" tries "smooth" and "waves", and "linear" if there are few rows, and takes
            the best by held-out score; for labels also "swell", waves of low frequency. Or one
            of these, "matern", widths such as (256, 128), or your own module.
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
        tried_: held-out negative log-likelihood of each body and route, in units of the
            standardised target.
        scores_: held-out negative log-likelihood of each member, in the same units.
        n_iter_: largest number of training steps of a member.
        n_features_in_, feature_names_in_: number and names of the columns.
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
        random_state: RandomState = None,
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
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        eval_set: EvalSet | None = None,
    ) -> "ScrollRegressor":
        """Fit to a table and return the estimator.

        Args:
            X: a data frame (numbers, categories, booleans, missing values) or an array.
            y: targets, (N,) or (N, K).
            sample_weight: of each row.
            eval_set: (X, y) of a validation set; otherwise some rows are held out.
        """
        one_of("likelihood", self.likelihood, ("gaussian", "poisson", "negbinomial"))
        task = number_task(self.likelihood)
        target, held = task.read(y), check_eval_set(eval_set)
        later = None if held is None else (held[0], task.read(held[1]))
        unit = 0.0 if self.likelihood == "gaussian" else 1.0
        warn_of_outliers(describe_all(target, least=unit))
        if later is not None:
            warn_of_outliers(describe_all(later[1], "eval_set[1]", unit))
        self._fit(task, X, target, sample_weight, later)
        return self

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
        p = cast(Normal | Mixture, self.model_.predictive(codes))
        total = p.variance
        known = self.model_.average(Posterior.epistemic, codes) * self.model_.scale.square()
        apart = torch.stack([m.mean for m in p.members]).var(0, unbiased=False)
        epistemic = torch.minimum(known + apart, total)
        return (total - epistemic).numpy(), epistemic.numpy()

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
        shift, scale = self.model_.shift.numpy(), self.model_.scale.numpy()
        rows = torch.from_numpy((target - shift) / scale).float()
        require(len(rows) == len(codes), "y", f"have {len(codes)} rows, as X", len(rows))
        self.model_.update(codes, rows)
        return self

    def _require_gaussian(self, name: str) -> None:
        real = self.likelihood == "gaussian"
        require(real, "likelihood", f"be 'gaussian' for {name}", repr(self.likelihood))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
