"""Class labels of a classifier: how they are read, ordered, weighted and given back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from ..._core.checks import comma_list, invalid, require
from ...heads.head import Head
from ...tables.frames import Array, missing
from ...tables.labels import class_indices
from ..arguments import one_line
from .task import Units, required

Ordered = bool | Sequence[object]  # whether the classes have an order, or that order
ClassWeight = str | Mapping[object, float] | None


@dataclass(frozen=True, eq=False)
class LabelTask:
    """Class labels: "ova", "gaussreg" or, if they have an order, "ordinal"."""

    likelihood: str
    levels: Array
    class_weight: Array | None = None
    map: None = None

    def read(self, y: ArrayLike) -> Array:
        """Return class indices, (N,)."""
        return class_indices(read_labels(y), self.levels.tolist())

    def n_outputs(self, y: Array) -> int:
        """Return the number of classes."""
        return len(self.levels)

    def units(self, y: Array, scaled: bool) -> Units:
        """Return the units of class indices, which are never rescaled."""
        return Units()

    def encode(self, y: Array, units: Units, seed: int) -> Tensor:
        """Return the class indices."""
        return torch.from_numpy(np.ascontiguousarray(y, np.int64))

    def start(self, head: Head, y: Tensor) -> None:
        """Leave the head as it is."""

    def numbers(self, y: Tensor) -> Tensor:
        """Return one column per class, 1 or -1."""
        classes = torch.arange(len(self.levels), device=y.device)
        return torch.where(y[..., None] == classes, 1.0, -1.0)

    def decode(self, values: Tensor) -> Array:
        """Return the labels of class indices."""
        found: Array = self.levels[values.numpy()]
        return found


def label_likelihood(likelihood: str, ordered: Ordered) -> str:
    """Return the likelihood that the parameters of a classifier ask for."""
    return "ordinal" if _names(ordered) or ordered else likelihood


def read_labels(y: ArrayLike) -> Array:
    """Return labels (N,), none of them missing, all of one kind."""
    if y is None:
        raise required("ScrollClassifier")
    if hasattr(y, "to_numpy"):  # np.asarray would turn pandas' nullable integers into floats
        y = y.to_numpy()
    with one_line("y", "hold one label per row"):
        labels: Array = column_or_1d(y, warn=True)
    plain = labels.dtype.kind != "O"
    gone = labels != labels if plain else np.array([missing(label) for label in labels], bool)
    got = f"{gone.sum()} missing, the first in row {gone.argmax()}"
    require(not gone.any(), "y", "have a label in every row", got, "Drop or fill such rows.")
    if plain:
        return labels
    text = {isinstance(label, str | bytes) for label in labels}
    kinds = sorted({type(label).__name__ for label in labels})
    remedy = "Convert them with y.astype(str)."
    require(len(text) < 2, "y", "hold labels of one kind", " and ".join(kinds), remedy)
    numbers = all(isinstance(label, bool | int | float | np.number | np.bool_) for label in labels)
    return np.array(labels.tolist()) if numbers else labels


def class_levels(y: ArrayLike, labels: Array, likelihood: str, ordered: Ordered) -> Array:
    """Return the classes, lowest first if they have an order, else sorted, (K,).

    Args:
        y: the labels as the user gave them; a pandas Categorical may have an order of its own.
        labels: the same, read.
        likelihood: the parameter of the classifier.
        ordered: the parameter of the classifier.
    """
    order: list[object] | None = None
    if isinstance(ordered, bool | np.bool_):
        dtype = getattr(y, "dtype", None)  # of a Categorical, without importing pandas
        if label_likelihood(likelihood, ordered) == "ordinal" and getattr(dtype, "ordered", False):
            order = list(getattr(dtype, "categories", []))
    else:
        many = isinstance(ordered, Sequence | np.ndarray) and not isinstance(ordered, str)
        require(many, "ordered", "be True, False or a sequence of the classes", repr(ordered))
        order = list(ordered)
    clash = label_likelihood(likelihood, ordered) == "ordinal" and likelihood == "gaussreg"
    require(not clash, "likelihood", "be 'ordinal' for ordered classes", "'gaussreg'")
    with np.errstate(invalid="ignore"), one_line("y", "hold labels"):
        check_classification_targets(labels)
    return np.unique(labels) if order is None else _arranged(order, labels)


def class_weights(
    given: ClassWeight, index: Array, levels: Array, weight: Array | None
) -> Array | None:
    """Return the weight of each class, (K,); None if all classes of the rows weigh the same.

    Args:
        given: the parameter of the classifier.
        index: class of each row, (N,).
        levels: the classes, (K,).
        weight: of each row, (N,), or None.
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "balanced":
        mass = np.bincount(index, weight, len(levels))
        found = mass.sum() / (np.count_nonzero(mass) * np.where(mass > 0, mass, np.inf))
    else:
        want = "be None, 'balanced' or a dict of weights"
        if not isinstance(given, Mapping):
            raise invalid("class_weight", want, repr(given))
        found = _of_mapping(given, levels.tolist())
    return found if np.ptp(found[index]) else None


def _of_mapping(given: Mapping[object, float], classes: list[object]) -> Array:
    """Return the weights of a mapping, class by class."""
    strange = [label for label in given if label not in classes]
    # scikit-learn's rule: a fold may lack a class that the weights name
    sure = not strange or all(label in given for label in classes)
    require(
        sure, "class_weight", f"name classes of y, {comma_list(classes, 10)}", comma_list(strange)
    )
    found = np.array([float(given.get(label, 1.0)) for label in classes])
    sound = bool((np.isfinite(found) & (found >= 0)).all())
    require(sound, "class_weight", "hold finite weights of at least 0", given)
    return found


def _names(ordered: Ordered) -> bool:
    """Return whether `ordered` names the classes, rather than being True or False."""
    return not isinstance(ordered, bool | np.bool_)


def _arranged(order: list[object], labels: Array) -> Array:
    """Return the classes in the given order, in the dtype of the labels."""
    require(len(order) > 1, "ordered", "name at least two classes", order)
    require(len(set(order)) == len(order), "ordered", "name each class once", order)
    absent = [label for label in np.unique(labels).tolist() if label not in order]
    require(not absent, "ordered", "name every class of y", f"none called {comma_list(absent)}")
    return np.array(order, dtype=object if labels.dtype.kind == "O" else None)
