"""Class probabilities, plain or of ordered labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from .._core.checks import listed, must, one_of
from ..fitting.plans import Body, Plan
from ..fitting.split import pair
from ..tables.frames import missing
from .base import Array, Scroll
from .sklearn_checks import check_weights, one_line

CROSSED = 20_000  # rows above which all members hold out the same: a part of them says enough


class ScrollClassifier(ClassifierMixin, Scroll):  # type: ignore[misc]
    """Class probabilities and a flag for strange inputs from a table.

    Args:
        likelihood: "ova" (one probit a class, normalised), "gaussreg" (least squares) or
            "ordinal" (thresholds on one latent).
        ordered: whether the classes have an order, which is the same as "ordinal"; or that order,
            lowest first, such as ("low", "mid", "high"). True is the order of an ordered pandas
            Categorical, else that of sorting.
        class_weight: None, "balanced" (each class weighs as much as any other) or a dict from
            labels to weights, 1 for those that it leaves out; times `sample_weight`. The
            probabilities are then those of rows that come as often as they weigh.

        n_members: networks in the ensemble. Of a table of up to 20,000 rows each holds out a part
            of its own, so that all rows are learned from and all rows choose; `validation_fraction`
            is then not asked for. One network is four times as fast and a little less sharp.

    The other arguments are those of `ScrollRegressor`; beside them:

    Attributes:
        classes_: the labels, sorted, as the columns of `predict_proba` are.
        levels_: the labels as `predict_dist` numbers them: in their order, if they have one. Levels
            that an order names but no row has are among both.
    """

    classes_: Array
    levels_: Array

    def __init__(
        self,
        covariance: str = "auto",
        routing: str = "auto",
        likelihood: str = "ova",
        ordered: bool | Sequence[Any] = False,
        class_weight: Any = None,
        n_members: int = 5,
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
        self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None
    ) -> "ScrollClassifier":
        """Fit to a table; arguments as for `ScrollRegressor.fit`, y (N,) of labels."""
        one_of("likelihood", self.likelihood, ("ova", "ordinal", "gaussreg"))
        if y is None:
            raise ValueError(
                "This ScrollClassifier estimator requires y to be passed, but the target y is None."
            )
        order, y = self._order(y), labelled(y)
        with np.errstate(invalid="ignore"), one_line("y", "hold labels"):
            check_classification_targets(y)
        self.levels_ = np.unique(y) if order is None else _arranged(order, y)
        self.classes_ = np.sort(self.levels_)
        labels = self._labels(y)
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, y)
        by_class = self._by_class(labels, weight)
        if by_class is not None and not by_class.all():  # as if such rows were not there
            weight = (by_class[labels] > 0) * (1.0 if weight is None else weight)
        counted = np.unique(labels if weight is None else labels[weight > 0])
        got = f"only one class, {self.levels_[counted[:1]].tolist()}"
        must(len(counted) > 1, "y", "hold at least two classes", got)
        self._fit(X, labels, weight, self._later(eval_set, by_class), by_class)
        return self

    def _order(self, y: Any) -> list[Any] | None:
        """The levels, lowest first, where they are given or y itself has an order."""
        given: Any = self.ordered
        if _names(given):
            many = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
            must(many, "ordered", "be True, False or a sequence of the classes", repr(given))
        ordinal = self._likelihood() == "ordinal"
        clash = ordinal and self.likelihood == "gaussreg"
        must(not clash, "likelihood", "be 'ordinal' for ordered classes", "'gaussreg'")
        if _names(given):
            return list(given)
        kind: Any = getattr(y, "dtype", None)  # of a Categorical, without importing pandas
        return list(kind.categories) if ordinal and getattr(kind, "ordered", False) else None

    def _labels(self, y: Array) -> Array:
        """Labels as 0..K-1, in the order of `levels_`."""
        at = {label: k for k, label in enumerate(self.levels_.tolist())}
        found, index = np.unique(y, return_inverse=True)
        unknown = [label for label in found.tolist() if label not in at]
        want = f"hold the classes of training, {listed(at, 10)}"
        must(not unknown, "y", want, listed(unknown))
        return np.array([at[label] for label in found.tolist()], np.int64)[index]

    def _by_class(self, labels: Array, weight: Array | None) -> Array | None:
        """The weight of each class, None where all weigh alike."""
        given: Any = self.class_weight
        if given is None:
            return None
        if isinstance(given, str) and given == "balanced":
            mass = np.bincount(labels, weight, len(self.levels_))
            found = mass.sum() / (np.count_nonzero(mass) * np.where(mass > 0, mass, np.inf))
        else:
            known = isinstance(given, Mapping)
            must(known, "class_weight", "be None, 'balanced' or a dict of weights", repr(given))
            found = _weights(given, self.levels_.tolist())
        return found if np.ptp(found[labels]) else None

    def _later(self, eval_set: Any, by_class: Array | None) -> Any:
        """An `eval_set` with its labels as numbers."""
        held = pair(eval_set)
        if held is None:
            return None
        labels = self._labels(labelled(held[1]))
        weighs = by_class is None or by_class[labels].any()
        must(weighs, "eval_set", "hold a class of positive weight", "none")
        return held[0], labels

    def _likelihood(self) -> str:
        return "ordinal" if _names(self.ordered) or self.ordered else self.likelihood

    def _outputs(self, y: Array) -> int:
        return len(self.classes_)

    def _folds(self, rows: int) -> int:
        """As many as members, each of which holds one out; 0 where all hold out the same rows."""
        free = self._likelihood() != "gaussreg" and self.recipe == "default"
        fit = 2 * self.n_members <= rows <= CROSSED
        return self.n_members if free and fit and self.n_members > 1 else 0

    def _units(self, y: Array, plan: Plan) -> tuple[Any, Any]:
        return 0.0, 1.0

    def _target(self, y: Array, shift: Any, scale: Any, seed: int) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(y, np.int64))

    def _start(self, head: Any, y: Tensor) -> None:
        """A head of labels starts where it is."""

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (N, K), columns as `classes_`."""
        probs: Array = self.predict_dist(X).probs.double().numpy()[:, np.argsort(self.levels_)]
        return probs / probs.sum(1, keepdims=True)

    def predict_log_proba(self, X: Any) -> Array:
        """Their logarithms."""
        found: Array = self.predict_dist(X).log_probs.double().numpy()
        return found[:, np.argsort(self.levels_)]

    def predict(self, X: Any) -> Array:
        """The most probable class of each row, also where classes are ordered.

        The median class is `predict_quantiles(X, 0.5)`.
        """
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Lowest and highest class of the central interval of at least the given coverage."""
        low, high = self._in_order(X).interval(coverage)
        return self.levels_[low.numpy()], self.levels_[high.numpy()]

    def predict_quantiles(self, X: Any, q: Any) -> Array:
        """The lowest class that reaches each level of q: (N, Q); (N,) for a single level."""
        return self.levels_[self._in_order(X).quantile(q).numpy()]

    def _in_order(self, X: Any) -> Any:
        p = self.predict_dist(X)
        must(
            p.ordered,
            "ordered",
            "be True, or the order of the classes, for intervals and quantiles",
            self.ordered,
            "Without an order there is predict_proba.",
        )
        return p

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> Array:
        """n labels a row, (n, N)."""
        drawn = super().sample(X, n, random_state)
        return self.levels_[drawn]


def _names(ordered: Any) -> bool:
    """Whether `ordered` names the classes, rather than saying yes or no."""
    return not isinstance(ordered, bool | np.bool_)


def labelled(y: Any) -> Array:
    """Labels (N,), none of them missing, all of one kind."""
    if hasattr(y, "to_numpy"):  # or integers that pandas lets be missing would become floats
        y = y.to_numpy()
    with one_line("y", "hold one label per row"):
        y = column_or_1d(y, warn=True)
    plain = y.dtype.kind != "O"
    gone = y != y if plain else np.array([missing(label) for label in y], bool)
    got = f"{gone.sum()} missing, the first in row {gone.argmax()}"
    must(not gone.any(), "y", "have a label in every row", got, "Drop or fill such rows.")
    if plain:
        return y
    text = {isinstance(label, str | bytes) for label in y}
    kinds = sorted({type(label).__name__ for label in y})
    remedy = "Convert them with y.astype(str)."
    must(len(text) < 2, "y", "hold labels of one kind", " and ".join(kinds), remedy)
    numbers = all(isinstance(label, bool | int | float | np.number | np.bool_) for label in y)
    return np.array(y.tolist()) if numbers else y


def _weights(given: Mapping[Any, float], classes: list[Any]) -> Array:
    """The weights of a dict, class by class."""
    strange = [label for label in given if label not in classes]
    # as scikit-learn has it: a fold may lack a class that the weights name
    sure = not strange or all(label in given for label in classes)
    must(sure, "class_weight", f"name classes of y, {listed(classes, 10)}", listed(strange))
    found = np.array([float(given.get(label, 1.0)) for label in classes])
    sound = bool((np.isfinite(found) & (found >= 0)).all())
    must(sound, "class_weight", "hold finite weights of at least 0", given)
    return found


def _arranged(order: list[Any], y: Array) -> Array:
    """The levels in that order, as labels of the kind of y."""
    must(len(order) > 1, "ordered", "name at least two classes", order)
    must(len(set(order)) == len(order), "ordered", "name each class once", order)
    absent = [label for label in np.unique(y).tolist() if label not in order]
    must(not absent, "ordered", "name every class of y", f"none called {listed(absent)}")
    return np.array(order, dtype=object if y.dtype.kind == "O" else None)
