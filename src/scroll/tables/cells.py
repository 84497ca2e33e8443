"""Text cells as numbers: which columns of text are numeric, and which of their cells are not.

A column is numeric if nearly all of its cells are numbers. Its other cells become missing values,
and a remark names them. Marks of missing values, such as "?" or "unknown", are not held against it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import SupportsFloat, cast

import numpy as np
from numpy.typing import NDArray

from .._core.checks import invalid, short_repr

Counts = NDArray[np.intp]

UNREADABLE = 0.1  # share of the cells of a measured column that may be text
TYPOS = 0.01  # the same in a column that may hold codes
CODES = 20  # up to so many distinct integers, a column may hold codes of categories
MARKS = frozenset(  # of a missing value, in lower case
    ("", "?", "-", "--", "---", ".", "..", "*", "na", "n/a", "n.a.", "n.a", "nan", "nil", "none",
     "null", "unk", "unknown", "missing", "undefined", "not available", "not applicable", "no data",
     "#n/a", "#na", "#null!", "#value!", "#div/0!", "#ref!", "#num!", "#name?", "<na>")
)  # fmt: skip
COMMA, SPACES, APOSTROPHES = "comma", " \u00a0\u2009\u202f", "'\u2019"
GROUPS = {
    name: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?P<sep>{sep})\d{{3}}(?:(?P=sep)\d{{3}})*(?:\.\d*)?")
    for name, sep in {
        COMMA: ",", "space": f"[{SPACES}]", "underscore": "_", "apostrophe": f"[{APOSTROPHES}]",
    }.items()
}  # fmt: skip
QUANTITY = re.compile(  # an amount with a currency before it or a unit behind it: $5, 12 kg, 3 %
    rf"[^\w\s]{{0,3}}\s?\d[\d.,_{SPACES}{APOSTROPHES}]*(?:[^\W\d_]{{1,5}}|[^\w\s]{{1,3}})?"
)


@dataclass(frozen=True)
class Cells:
    """The distinct values of a column, read as numbers.

    Attributes:
        values: the distinct values.
        numbers: the values as numbers, NaN for those that are not.
        marks: positions of the values that mark a missing value.
        unreadable: positions of the other values that are not numbers.
        grouped: positions of numbers with a thousands separator.
        separator: name of that separator.
    """

    values: Sequence[object]
    numbers: NDArray[np.float64]
    marks: tuple[int, ...] = ()
    unreadable: tuple[int, ...] = ()
    grouped: tuple[int, ...] = ()
    separator: str = ""

    @property
    def measured(self) -> bool:
        """True if the numbers are not codes of categories: fractions, or many different ones."""
        found = self.numbers[np.isfinite(self.numbers)]
        return len(np.unique(found)) > CODES or bool((found != np.round(found)).any())

    def shares(self, counts: Counts) -> tuple[int, int]:
        """Return how many rows hold a number, and how many hold neither a number nor a mark."""
        unreadable = int(counts[list(self.unreadable)].sum())
        known = np.ones(len(self.values), bool)
        known[[*self.marks, *self.unreadable]] = False
        return int(counts[known].sum()), unreadable


def read(values: Sequence[object]) -> Cells:
    """Read the distinct values of a column as numbers."""
    numbers = [_number(value) for value in values]
    marks = {i for i, v in enumerate(values) if isinstance(v, str) and v.strip().lower() in MARKS}
    unreadable = [i for i, number in enumerate(numbers) if number is None and i not in marks]
    found = np.array([nan if number is None else number for number in numbers], np.float64)
    return _ungrouped(Cells(values, found, tuple(sorted(marks)), tuple(unreadable)))


def numeric(cells: Cells, counts: Counts) -> bool:
    """Return whether a column holds numbers, so that its other cells are missing values.

    At least 90 % of its cells must be numbers. Up to 20 distinct integers may be codes of
    categories, and a text among them one more code: then at least 99 % of the cells, or all but
    one, must be numbers.

    Args:
        cells: the distinct values.
        counts: number of rows of each distinct value.
    """
    n_numbers, n_unreadable = cells.shares(counts)
    total = n_numbers + n_unreadable
    if not n_numbers or n_unreadable > UNREADABLE * total:
        return False
    return cells.measured or n_unreadable <= max(1, TYPOS * total)


def deliberate(cells: Cells) -> bool:
    """Return whether all cells are integers written as text: codes, such as postal codes."""
    text = all(isinstance(value, str) for value in cells.values)
    integers = bool((cells.numbers == np.round(cells.numbers)).all())  # NaN is not one
    return text and integers and not cells.grouped


def numbers(
    cells: Cells, index: NDArray[np.intp], label: str, first: int = 0
) -> tuple[NDArray[np.float64], list[str]]:
    """Return a numeric column (N,), and remarks on cells that are read as missing.

    Args:
        cells: the distinct values.
        index: position of each row's value among them, (N,); -1 if it is missing.
        label: of the column, for messages.
        first: number of the first row, for messages.

    Raises:
        ValueError: if more than 10 % of the cells are not numbers.
    """
    counts = np.bincount(index[index >= 0], minlength=len(cells.values))
    n_numbers, n_unreadable = cells.shares(counts)
    if n_unreadable > UNREADABLE * (n_numbers + n_unreadable):
        got = example(cells, index, cells.unreadable, first)
        got += f" and {n_unreadable - 1} more" if n_unreadable > 1 else ""
        remedy = "Training saw numbers there: correct such cells, or leave them empty."
        raise invalid("X", f"hold numbers in column {label}", got, remedy)
    return np.append(cells.numbers, nan)[index], remarks(cells, index, label, first)


def remarks(cells: Cells, index: NDArray[np.intp], label: str, first: int) -> list[str]:
    """Return remarks on a numeric column: cells read as missing, separators removed."""
    found = []
    gaps = (*cells.marks, *cells.unreadable)
    n_gaps = int(np.isin(index, gaps).sum())
    if n_gaps:
        one = example(cells, index, gaps, first)
        more = f", and {n_gaps - 1} more such cells" if n_gaps > 1 else ""
        found.append(
            f"Column {label} holds numbers, but {one}{more}: read as missing. "
            "Correct such cells, or leave them empty."
        )
    if cells.grouped:
        one = example(cells, index, cells.grouped, first)
        found.append(
            f"Column {label} holds numbers such as {one}: the {cells.separator} is read as a "
            "thousands separator."
        )
    return found


def quantities(cells: Cells, counts: Counts) -> str:
    """Return an example cell of a column that mostly looks like quantities with units, else ""."""
    looks = [
        isinstance(value, str) and QUANTITY.fullmatch(value.strip()) is not None
        for value in cells.values
    ]
    n_numbers, _ = cells.shares(counts)
    strange = [i for i in cells.unreadable if looks[i]]
    alike = n_numbers + int(counts[strange].sum())
    many = cells.measured or len(strange) > CODES
    if not many or 2 * alike < counts.sum() or not cells.unreadable:
        return ""
    return short_repr(cells.values[(strange or cells.unreadable)[0]])


def example(cells: Cells, index: NDArray[np.intp], which: Sequence[int], first: int = 0) -> str:
    """Return the first cell that holds one of some values, and its row, in words."""
    row = int(np.isin(index, which).argmax())
    return f"{short_repr(cells.values[index[row]])} in row {row + first}"


def _number(value: object) -> float | None:
    """Return the number that a value is or that a text spells; None if it is not a number."""
    if isinstance(value, bytes) or (isinstance(value, str) and "_" in value):
        return None  # an underscore is Python's own separator
    try:
        return float(cast(SupportsFloat, value))
    except (TypeError, ValueError, OverflowError):
        return None


def _ungrouped(cells: Cells) -> Cells:
    """Read numbers with thousands separators, if all cells of a column that have one agree."""
    values = cells.values
    unreadable = ((i, values[i]) for i in cells.unreadable)
    texts = {i: value.strip() for i, value in unreadable if isinstance(value, str)}
    for name, form in GROUPS.items():
        matching = {i: text for i, text in texts.items() if form.fullmatch(text)}
        if matching and (name != COMMA or _thousands(cells, matching, texts)):
            found = cells.numbers.copy()
            plain = [re.sub(r"[^\d.+-]", "", text) for text in matching.values()]
            found[[*matching]] = [float(text) for text in plain]
            rest = tuple(i for i in cells.unreadable if i not in matching)
            return Cells(values, found, cells.marks, rest, tuple(matching), name)
    return cells


def _thousands(cells: Cells, grouped: dict[int, str], texts: dict[int, str]) -> bool:
    """Return whether a comma is a thousands separator rather than a decimal comma.

    It is if every comma between digits stands before three digits, and either a number has a
    decimal point or no number of four digits goes without a separator.
    """
    if any(i not in grouped and re.search(r"\d,\d", text) for i, text in texts.items()):
        return False
    plain = cells.numbers[np.isfinite(cells.numbers)]
    point = bool((plain != np.round(plain)).any()) or any("." in t for t in grouped.values())
    return point or bool((np.abs(plain) < 1000).all())
