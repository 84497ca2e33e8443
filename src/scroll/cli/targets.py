"""Targets of a table on disk: columns of numbers, or of labels and their order.

Rows of a file are counted from 1, without the header.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._core.checks import listed, must, refusal
from ..tables.cells import UNREADABLE, example
from .table_files import cells_of

KINDS = {"boolean": "booleans", "string": "text", "categorical": "categories"} | dict.fromkeys(
    ("integer", "floating", "mixed-integer-float", "decimal"), "numbers"
)


def kind_of(frame: Any, targets: Sequence[str], path: Path) -> str:
    """What the targets hold, once it is known that nothing is missing."""
    for name in targets:
        must(name in frame, str(path), "hold the target", f"none called {name!r}")
        gone = frame[name].isna().to_numpy()
        got = f"{gone.sum()} missing in {path}, the first in row {gone.argmax() + 1}"
        must(not gone.any(), name, "have a value in every row", got, "Drop or fill such rows.")
    infer = pd.api.types.infer_dtype
    found = {name: infer(frame[name]) for name in targets}
    for name, kind in found.items():
        must(kind in KINDS, name, "hold numbers, text or booleans to be a target", kind)
    return next((KINDS[k] for k in found.values() if KINDS[k] != "numbers"), "numbers")


def require_one_kind(frame: Any, targets: Sequence[str], path: Path) -> None:
    """Refuse text among numbers: a target of which it is not clear what it should be.

    That is a target of which at least 90 % of the cells are numbers, or half of them if they are
    measurements or if the others are marks of missing values.
    """
    for name in targets:
        cells, index, counts = cells_of(frame[name])
        n_numbers, n_unreadable = cells.shares(counts)
        n_others = len(index) - n_numbers
        share = 0.5 if cells.measured or not n_unreadable else UNREADABLE
        if n_others <= max(1, share * len(index)) and n_numbers > n_others > 0:
            one = example(cells, index, (*cells.marks, *cells.unreadable), 1)
            got = f"{one} of {path}, and numbers in {n_numbers} of {len(index)} rows"
            remedy = "Correct or drop such rows, or add --task classification if all are labels."
            raise refusal(name, "hold numbers, or labels, throughout", got, remedy)


def _strict(values: Any, path: Path) -> Any:
    """A column of which every cell is a number, as an array."""
    if values.dtype.kind in "biuf":
        return values.to_numpy(np.float64)
    cells, index, _ = cells_of(values)
    bad = (*cells.marks, *cells.unreadable)
    if bad:
        got = f"{example(cells, index, bad, 1)} of {path}"
        raise refusal(values.name, "hold numbers", got, "Correct it, or drop the row.")
    return np.append(cells.numbers, np.nan)[index]


def classes(frame: Any, name: str) -> Any:
    """A column of labels as integers, booleans or text."""
    return _labels(frame[name].tolist(), name)


def repeated(y: Any, name: str) -> None:
    """Labels are seen again; numbers that are written as no number is are not."""
    found = len({*y.tolist()}) if y.dtype.kind == "U" else 0
    must(
        found <= max(20, len(y) / 2),
        "--target",
        "hold numbers, or labels that repeat",
        f"{found} different ones in {len(y)} rows of {name!r}, such as {y.tolist()[0]!r}",
        "If they are numbers, take units and separators out of them first.",
    )


def _labels(values: list[Any], name: str) -> Any:
    labels = np.asarray(values)
    if labels.dtype.kind == "f":
        whole = bool((labels == labels.round()).all())
        must(whole, name, "hold whole numbers, text or booleans to be classes", "fractions")
        most = float(np.abs(labels).max(initial=0.0))
        want = "hold whole numbers below 2**53 to be classes: larger ones cannot be told apart"
        must(most < 2**53, name, want, f"{most:g}", "Quote them, so that they are read as text.")
        return labels.astype(np.int64)
    return labels if labels.dtype.kind in "biuU" else labels.astype(str)


def order(frame: Any, name: str, levels: Sequence[str]) -> Any:
    """The order of a column's labels: that of `levels`, or its own; True where it has none."""
    found = classes(frame, name)
    if levels:
        at = {str(label): label for label in np.unique(found).tolist()}
        gaps = [level for level in levels if level not in at]  # levels that no row has
        text = found.dtype.kind == "U" or not gaps
        ok = text or all(gap.lstrip("-").isdecimal() for gap in gaps)
        must(ok, "--levels", f"name classes of {name}, {listed(at, 10)}", listed(gaps))
        return [at[level] if level in at else level if text else int(level) for level in levels]
    dtype = frame[name].dtype
    ranked = getattr(dtype, "ordered", False)
    return _labels(dtype.categories.tolist(), name).tolist() if ranked else True


def numbers(frame: Any, targets: Sequence[str], path: Path) -> Any:
    """Columns of finite numbers, (N,) or (N, K)."""
    y = np.stack([_strict(frame[name], path) for name in targets], -1)
    for name, column in zip(targets, y.T, strict=True):
        bad = ~np.isfinite(column)
        got = f"{column[bad.argmax()]} in row {bad.argmax() + 1} of {path}"
        must(not bad.any(), name, "hold finite numbers", got)
    return y[:, 0] if len(targets) == 1 else y
