"""Class probabilities, plain or of ordered labels."""

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d
from torch import Tensor

from ..checks import must, one_of
from .base import Array, Scroll
from .recipes import Body, Plan
from .rows import pair


class ScrollClassifier(ClassifierMixin, Scroll):  # type: ignore[misc]
    """Class probabilities and a flag for strange inputs from a table.

    Args:
        likelihood: "ova" (one probit a class, normalised), "gaussreg" (least squares) or
            "ordinal" (thresholds on one latent).
        ordered: the classes have an order, that of their sorting; the same as "ordinal".

    The other arguments are those of `ScrollRegressor`; beside them:

    Attributes:
        classes_: the labels, in the order of the columns of `predict_proba`.
    """

    classes_: Array

    def __init__(
        self,
        covariance: str = "full",
        routing: str = "auto",
        likelihood: str = "ova",
        ordered: bool = False,
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
        self.ordered = ordered
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
    ) -> "ScrollClassifier":
        """Fit to a table; arguments as for `ScrollRegressor.fit`, y (N,) of labels."""
        one_of("likelihood", self.likelihood, ("ova", "ordinal", "gaussreg"))
        if y is None:
            raise ValueError(
                "This ScrollClassifier estimator requires y to be passed, but the target y is None."
            )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        counted = y
        if sample_weight is not None:
            counted = y[_check_sample_weight(sample_weight, y, ensure_non_negative=True) > 0]
        must(
            len(np.unique(counted)) > 1,
            "y",
            "hold at least two classes",
            f"only one class, {np.unique(counted)[:1].tolist()}",
        )
        held = pair(eval_set)
        later = None if held is None else (held[0], self._labels(held[1]))
        self._fit(X, labels, sample_weight, later, labels=True)
        return self

    def _labels(self, y: Any) -> Array:
        """Labels of further rows as 0..K-1."""
        y = column_or_1d(y)
        unknown = np.setdiff1d(y, self.classes_)
        must(
            len(unknown) == 0,
            "y",
            f"hold the classes of training, {self.classes_.tolist()[:10]}",
            unknown.tolist()[:5],
        )
        return np.searchsorted(self.classes_, y)

    def _likelihood(self) -> str:
        return "ordinal" if self.ordered else self.likelihood

    def _outputs(self, y: Array) -> int:
        return len(self.classes_)

    def _units(self, y: Array, plan: Plan) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _target(self, y: Array, shift: Any, scale: Any, seed: int) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(y, np.int64))

    def _start(self, head: Any, y: Tensor) -> None:
        """A head of labels starts where it is."""

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (N, K), columns as `classes_`."""
        probs: Array = self.predict_dist(X).probs.double().numpy()
        return probs / probs.sum(1, keepdims=True)

    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms."""
        found: Array = self.predict_dist(X).log_probs.double().numpy()
        return found

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> Array:
        """n labels a row, (n, N)."""
        drawn = super().sample(X, n, random_state)
        return self.classes_[drawn]
