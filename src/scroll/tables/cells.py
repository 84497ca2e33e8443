"""Text cells as numbers: which columns of text hold numbers, and which cells of them are none.

A column is numeric if nearly all of its cells are numbers. The others become missing values, and
are named. Marks for a missing value, such as "?" or "unknown", do not count against a column.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.checks import quoted, refusal

Counts = NDArray[np.intp]

UNREADABLE = 0.1  # share of cells that may be no numbers in a column of measurements
TYPOS = 0.01  # the same in a column that may hold codes
CODES = 20  # distinct whole numbers, up to which a column may hold codes of categories
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
    """The distinct values of a column: as numbers, NaN where they are none, and which are none.

    `marks` and `unreadable` are positions among the values, `grouped` those of numbers with a
    thousands separator, which `separator` names.
    """

    values: Sequence[Any]
    numbers: NDArray[np.float64]
    marks: tuple[int, ...] = ()
    unreadable: tuple[int, ...] = ()
    grouped: tuple[int, ...] = ()
    separator: str = ""

    @property
    def measured(self) -> bool:
        """True if the numbers cannot be codes of categories: fractions, or many of them."""
        found = self.numbers[np.isfinite(self.numbers)]
        return len(np.unique(found)) > CODES or bool((found != np.round(found)).any())

    def shares(self, counts: Counts) -> tuple[int, int]:
        """Rows with a number and rows with a text that is neither a number nor a mark."""
        unreadable = int(counts[list(self.unreadable)].sum())
        known = np.ones(len(self.values), bool)
        known[[*self.marks, *self.unreadable]] = False
        return int(counts[known].sum()), unreadable


def read(values: Sequence[Any]) -> Cells:
    """Read the distinct values of a column as numbers."""
    numbers = [_number(value) for value in values]
    marks = {i for i, v in enumerate(values) if isinstance(v, str) and v.strip().lower() in MARKS}
    unreadable = [i for i, number in enumerate(numbers) if number is None and i not in marks]
    found = np.array([nan if number is None else number for number in numbers], np.float64)
    return _ungrouped(Cells(values, found, tuple(sorted(marks)), tuple(unreadable)))


def numeric(cells: Cells, counts: Counts) -> bool:
    """Whether a column holds numbers, so that its other cells are missing values.

    At least 90 % of its cells must be numbers. Up to 20 distinct whole numbers may be codes of
    categories, beside which a text may be one more code: there at least 99 % must be, or all but
    one cell.
    """
    n_numbers, n_unreadable = cells.shares(counts)
    total = n_numbers + n_unreadable
    if not n_numbers or n_unreadable > UNREADABLE * total:
        return False
    return cells.measured or n_unreadable <= max(1, TYPOS * total)


def deliberate(cells: Cells) -> bool:
    """Whether whole numbers are written as text throughout: codes, such as postal codes."""
    text = all(isinstance(value, str) for value in cells.values)
    whole = bool((cells.numbers == np.round(cells.numbers)).all())  # NaN is not
    return text and whole and not cells.grouped


def numbers(
    cells: Cells, index: NDArray[np.intp], label: str, first: int = 0
) -> tuple[NDArray[np.float64], list[str]]:
    """A column (N,) that is known to be numeric, and remarks on cells that are read as missing.

    `index` (N,) points to the distinct values, -1 where a value is missing; rows are counted from
    `first`. A column of which more than 10 % of the cells are no numbers is refused.
    """
    counts = np.bincount(index[index >= 0], minlength=len(cells.values))
    n_numbers, n_unreadable = cells.shares(counts)
    if n_unreadable > UNREADABLE * (n_numbers + n_unreadable):
        got = example(cells, index, cells.unreadable, first)
        got += f" and {n_unreadable - 1} more" if n_unreadable > 1 else ""
        remedy = "Training saw numbers there: correct such cells, or leave them empty."
        raise refusal("X", f"hold numbers in column {label}", got, remedy)
    return np.append(cells.numbers, nan)[index], remarks(cells, index, label, first)


def remarks(cells: Cells, index: NDArray[np.intp], label: str, first: int) -> list[str]:
    """What a reader of a numeric column should know: gaps made, separators removed."""
    said = []
    gaps = (*cells.marks, *cells.unreadable)
    n_gaps = int(np.isin(index, gaps).sum())
    if n_gaps:
        one = example(cells, index, gaps, first)
        more = f", and {n_gaps - 1} more such cells" if n_gaps > 1 else ""
        said.append(
            f"Column {label} holds numbers, but {one}{more}: read as missing. "
            "Correct such cells, or leave them empty."
        )
    if cells.grouped:
        one = example(cells, index, cells.grouped, first)
        said.append(
            f"Column {label} holds numbers such as {one}: the {cells.separator} is read as a "
            "thousands separator."
        )
    return said


def quantities(cells: Cells, counts: Counts) -> str:
    """An example of a column that is no number but mostly looks like quantities, else ""."""
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
    return quoted(cells.values[(strange or cells.unreadable)[0]])


def example(cells: Cells, index: NDArray[np.intp], which: Sequence[int], first: int = 0) -> str:
    """The first cell that holds one of some values, with its place."""
    row = int(np.isin(index, which).argmax())
    return f"{quoted(cells.values[index[row]])} in row {row + first}"


def _number(value: Any) -> float | None:
    """The number that a value is or that a text spells, None if there is none."""
    if isinstance(value, str):
        if "_" in value:  # Python's own separator
            return None
    elif isinstance(value, bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _ungrouped(cells: Cells) -> Cells:
    """Read numbers with thousands separators, if all cells of a column that have one agree."""
    values = cells.values
    texts = {i: values[i].strip() for i in cells.unreadable if isinstance(values[i], str)}
    for name, form in GROUPS.items():
        mine = {i: text for i, text in texts.items() if form.fullmatch(text)}
        if mine and (name != COMMA or _thousands(cells, mine, texts)):
            found = cells.numbers.copy()
            found[[*mine]] = [float(re.sub(r"[^\d.+-]", "", text)) for text in mine.values()]
            rest = tuple(i for i in cells.unreadable if i not in mine)
            return Cells(values, found, cells.marks, rest, tuple(mine), name)
    return cells


def _thousands(cells: Cells, grouped: dict[int, str], texts: dict[int, str]) -> bool:
    """Whether a comma is a thousands separator and no decimal comma.

    It is if every comma between digits stands before three digits, and either a number has a
    decimal point or no number of four digits goes without a separator.
    """
    if any(i not in grouped and re.search(r"\d,\d", text) for i, text in texts.items()):
        return False
    plain = cells.numbers[np.isfinite(cells.numbers)]
    point = bool((plain != np.round(plain)).any()) or any("." in t for t in grouped.values())
    return point or bool((np.abs(plain) < 1000).all())
