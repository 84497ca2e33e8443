"""Target columns of a table on disk: numbers, or labels and their order.

Rows of a file are counted from 1, without the header.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._core.checks import comma_list, invalid, require
from ..estimators.spec import COUNTS
from ..estimators.tasks import check_counts
from ..tables.cells import UNREADABLE, example
from ..tables.frames import Array
from .table_files import cells_of

KINDS = {"boolean": "booleans", "string": "text", "categorical": "categories"} | dict.fromkeys(
    ("integer", "floating", "mixed-integer-float", "decimal"), "numbers"
)


def target_kind(frame: pd.DataFrame, targets: Sequence[str], path: Path) -> str:
    """Return what the targets hold: "numbers", "text", "booleans" or "categories".

    Missing columns, missing values and other kinds are refused.
    """
    for name in targets:
        require(name in frame, str(path), "hold the target", f"none called {name!r}")
        gone = frame[name].isna().to_numpy()
        got = f"{gone.sum()} missing in {path}, the first in row {gone.argmax() + 1}"
        require(not gone.any(), name, "have a value in every row", got, "Drop or fill such rows.")
    found = {name: pd.api.types.infer_dtype(frame[name]) for name in targets}
    for name, kind in found.items():
        require(kind in KINDS, name, "hold numbers, text or booleans to be a target", kind)
    return next((KINDS[k] for k in found.values() if KINDS[k] != "numbers"), "numbers")


def require_one_kind(frame: pd.DataFrame, targets: Sequence[str], path: Path) -> None:
    """Refuse a target of numbers with some text among them: it could be numbers or labels.

    Such a target has at least 90 % numbers; or at least 50 %, if these are measurements or if all
    other cells are marks of missing values.
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
            raise invalid(name, "hold numbers, or labels, throughout", got, remedy)


def read_targets(
    frame: pd.DataFrame, targets: Sequence[str], path: Path, task: str, likelihood: str
) -> Array:
    """Return the targets of a table for a task: labels (N,), or numbers (N,) or (N, K)."""
    many = len(targets) > 1
    if task == "classification":
        require(not many, "--target", "name one column of classes", comma_list(targets))
        return read_labels(frame, targets[0])
    y = read_numbers(frame, targets, path)
    if likelihood in COUNTS:
        require(not many, "--target", "name one column of counts", comma_list(targets))
        check_counts(y, targets[0], 1, f" of {path}")
    return y


def read_numbers(frame: pd.DataFrame, names: Sequence[str], path: Path) -> NDArray[np.float64]:
    """Return columns of finite numbers, (N,) for one name or (N, K) for several."""
    y = np.stack([_all_numbers(frame[name], path) for name in names], -1)
    for name, column in zip(names, y.T, strict=True):
        bad = ~np.isfinite(column)
        got = f"{column[bad.argmax()]} in row {bad.argmax() + 1} of {path}"
        require(not bad.any(), name, "hold finite numbers", got)
    return y[:, 0] if len(names) == 1 else y


def _all_numbers(values: pd.Series, path: Path) -> NDArray[np.float64]:
    """Return a column as numbers; refuse it if a cell is not a number."""
    if values.dtype.kind in "biuf":
        found: NDArray[np.float64] = values.to_numpy(np.float64)
        return found
    cells, index, _ = cells_of(values)
    bad = (*cells.marks, *cells.unreadable)
    if bad:
        got = f"{example(cells, index, bad, 1)} of {path}"
        raise invalid(values.name, "hold numbers", got, "Correct it, or drop the row.")
    return np.append(cells.numbers, np.nan)[index]


def read_labels(frame: pd.DataFrame, name: str) -> Array:
    """Return a column of labels, (N,): integers, booleans or text."""
    return _labels(frame[name].tolist(), name)


def _labels(values: list[object], name: str) -> Array:
    labels: Array = np.asarray(values)
    if labels.dtype.kind == "f":
        integers = bool((labels == labels.round()).all())
        require(integers, name, "hold whole numbers, text or booleans to be classes", "fractions")
        most = float(np.abs(labels).max(initial=0.0))
        want = "hold whole numbers below 2**53 to be classes: larger ones are not distinct"
        require(most < 2**53, name, want, f"{most:g}", "Quote them, so that they are read as text.")
        return labels.astype(np.int64)
    return labels if labels.dtype.kind in "biuU" else labels.astype(str)


def require_repeated_labels(y: Array, name: str) -> None:
    """Refuse text labels that hardly repeat: they are likely numbers in an unusual notation."""
    found = len({*y.tolist()}) if y.dtype.kind == "U" else 0
    require(
        found <= max(20, len(y) / 2),
        "--target",
        "hold numbers, or labels that repeat",
        f"{found} different ones in {len(y)} rows of {name!r}, such as {y.tolist()[0]!r}",
        "If they are numbers, remove units and separators first.",
    )


def label_order(
    frame: pd.DataFrame, name: str, levels: Sequence[str]
) -> list[str | int | bool] | bool:
    """Return the labels of a column from lowest to highest; True if only sorting orders them.

    Args:
        frame: the table.
        name: the column.
        levels: the order as text; if it is empty, the order of the column's own categories.
    """
    if levels:
        return _named_levels(read_labels(frame, name), name, levels)
    dtype = frame[name].dtype
    if not getattr(dtype, "ordered", False):
        return True
    own: list[str | int | bool] = _labels(dtype.categories.tolist(), name).tolist()
    return own


def _named_levels(labels: Array, name: str, levels: Sequence[str]) -> list[str | int | bool]:
    """Return the labels that `levels` name; levels that no row has are text or integers."""
    known = {str(label): label for label in np.unique(labels).tolist()}
    absent = [level for level in levels if level not in known]
    text = labels.dtype.kind == "U" or not absent
    ok = text or all(level.lstrip("-").isdecimal() for level in absent)
    require(ok, "--levels", f"name classes of {name}, {comma_list(known, 10)}", comma_list(absent))
    new = {level: level if text else int(level) for level in absent}
    return [(known | new)[level] for level in levels]


def read_flags(frame: pd.DataFrame, name: str, path: Path) -> Array:
    """Return the column that marks censored targets, -1, 0 or 1 per row."""
    require(name in frame, str(path), "hold the column of --censored", f"none called {name!r}")
    flags = read_numbers(frame, [name], path)
    bad = ~np.isin(flags, (-1, 0, 1))
    got = f"{flags[bad.argmax()]:g} in row {bad.argmax() + 1} of {path}"
    require(not bad.any(), name, "hold -1, 0 or 1 to mark censored targets", got)
    return flags
