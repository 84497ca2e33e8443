"""Class probabilities, plain or of ordered labels."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._core.checks import one_of, require
from ..fitting.candidates import Body
from ..predictive.arguments import Levels
from ..tables.frames import Array, TableLike
from ..tables.labels import class_indices
from .arguments import EvalSet, RandomState, check_eval_set, check_weights
from .base import Scroll
from .tasks.labels import (
    ClassWeight,
    LabelTask,
    Ordered,
    class_levels,
    class_weights,
    label_likelihood,
    read_labels,
)


class ScrollClassifier(ClassifierMixin, Scroll):  # type: ignore[misc]
    """Class probabilities and out-of-distribution scores for a table.

    Args:
        likelihood: "ova" (one probit per class, normalised), "gaussreg" (least squares) or
            "ordinal" (thresholds on one latent).
        ordered: True if the classes have an order, which means the likelihood "ordinal"; or that
            order, lowest first, such as ("low", "mid", "high"). With True the order is that of an
            ordered pandas Categorical, else that of sorting.
        class_weight: None, "balanced" (all classes weigh the same) or a dict from labels to
            weights, 1 for labels that it leaves out. It multiplies `sample_weight`. With
            "balanced" the probabilities are as if the classes were equally frequent.

    The other arguments and attributes are those of `ScrollRegressor`.

    Attributes:
        classes_: the labels, sorted: the columns of `predict_proba`.
        levels_: the labels by the index that `predict_dist` uses: in their order, if they have
            one. Both include levels that an order names but no row has.
    """

    classes_: Array
    levels_: Array

    def __init__(
        self,
        covariance: str = "auto",
        routing: str = "auto",
        likelihood: str = "ova",
        ordered: Ordered = False,
        class_weight: ClassWeight = None,
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
        self.ordered = ordered
        self.class_weight = class_weight
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
    ) -> "ScrollClassifier":
        """Fit to a table and return the estimator.

        Args:
            X: a data frame (numbers, categories, booleans, missing values) or an array.
            y: labels, (N,).
            sample_weight: of each row.
            eval_set: (X, y) of a validation set; otherwise some rows are held out.
        """
        one_of("likelihood", self.likelihood, ("ova", "ordinal", "gaussreg"))
        labels = read_labels(y)
        levels = class_levels(y, labels, self.likelihood, self.ordered)
        index = class_indices(labels, levels.tolist())
        weight = None if sample_weight is None else check_weights(sample_weight, len(labels))
        by_class = class_weights(self.class_weight, index, levels, weight)
        if by_class is not None and not by_class.all():  # as if such rows were not there
            weight = (by_class[index] > 0) * (1.0 if weight is None else weight)
        present = np.unique(index if weight is None else index[weight > 0])
        got = f"only one class, {levels[present[:1]].tolist()}"
        require(len(present) > 1, "y", "hold at least two classes", got)
        likelihood = label_likelihood(self.likelihood, self.ordered)
        task = LabelTask(likelihood, levels, by_class)
        held = check_eval_set(eval_set)
        later = None if held is None else (held[0], task.read(held[1]))
        self.levels_, self.classes_ = levels, np.sort(levels)
        self._fit([task], X, index, weight, later)
        return self

    def predict_proba(self, X: TableLike) -> Array:
        """Return the probability of each class, (N, K), with columns as `classes_`.

        Args:
            X: a table with the columns of training.
        """
        probs: Array = self.predict_dist(X).probs.double().numpy()[:, np.argsort(self.levels_)]
        return probs / probs.sum(1, keepdims=True)

    def predict_log_proba(self, X: TableLike) -> Array:
        """Return the logarithms of the probabilities, (N, K), with columns as `classes_`.

        Args:
            X: a table with the columns of training.
        """
        found: Array = self.predict_dist(X).log_probs.double().numpy()
        return found[:, np.argsort(self.levels_)]

    def predict(self, X: TableLike) -> Array:
        """Return the most probable class of each row, also if the classes are ordered.

        The median class is `predict_quantiles(X, 0.5)`.

        Args:
            X: a table with the columns of training.
        """
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_interval(self, X: TableLike, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return the lowest and the highest class of the central interval, for ordered classes.

        Args:
            X: a table with the columns of training.
            coverage: probability that the interval should contain y, at least.
        """
        self._require_order()
        return super().predict_interval(X, coverage)

    def predict_quantiles(self, X: TableLike, q: Levels) -> Array:
        """Return the lowest class that reaches each level, for ordered classes.

        Args:
            X: a table with the columns of training.
            q: one level or several.

        Returns:
            The classes, (N, Q), or (N,) for a single level.
        """
        self._require_order()
        return super().predict_quantiles(X, q)

    def _require_order(self) -> None:
        check_is_fitted(self, "model_")
        require(
            self.task_.likelihood == "ordinal",
            "ordered",
            "be True, or the order of the classes, for intervals and quantiles",
            self.ordered,
            "Without an order there is predict_proba.",
        )
