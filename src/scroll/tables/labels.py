"""Class labels as class indices."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._core.checks import comma_list, require


def class_indices(
    labels: NDArray[np.generic],
    classes: Sequence[object],
    *,
    name: str = "y",
    where: str = "",
    as_text: bool = False,
) -> NDArray[np.int64]:
    """Return the index of each label among the classes, (N,).

    Args:
        labels: one label per row, (N,).
        classes: the classes, each of them once.
        name: what the labels are called in an error message.
        where: words behind the unknown labels in an error message, such as " in table.csv".
        as_text: whether a label also matches the class that is written in the same way, such as
            "1" the class 1.

    Raises:
        ValueError: if a label is not one of the classes.
    """
    known: dict[object, int] = {label: k for k, label in enumerate(classes)}
    written = {str(label): k for k, label in enumerate(classes)} if as_text else {}
    distinct, index = np.unique(labels, return_inverse=True)
    found = [known.get(label, written.get(str(label), -1)) for label in distinct.tolist()]
    unknown = [label for label, k in zip(distinct.tolist(), found, strict=True) if k < 0]
    want = f"hold the classes of training, {comma_list(classes, 10)}"
    require(not unknown, name, want, f"{comma_list(unknown)}{where}")
    return np.array(found, np.int64)[index]
