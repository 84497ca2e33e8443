"""Remarks as templates: every measured number in them is filled in from the tables.

A remark is a Python format string. In `{ours[headline_nll][SCROLL-Full][yacht]:.2f}` the brackets
hold a table, a row (levels joined by " / ") and a column. `VIEWS` lists the names that can stand
before them. A number that the records do not have reads "--".
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from statistics import fmean

from .claims.claim import Absent, Evidence
from .tables import published
from .tables.table import path

FEW = range(5, 10)  # seeds of the slow method


class Nothing:
    """A number without records."""

    def __format__(self, how: str) -> str:
        return "--"


class View:
    """Numbers found by several keys, one pair of brackets per key.

    Args:
        find: returns a number or words, given all keys.
        depth: number of keys.
        keys: those given so far.
    """

    def __init__(self, find: Callable[..., float | str], depth: int, keys: tuple[str, ...] = ()):
        self._find, self._depth, self._keys = find, depth, keys

    def __getitem__(self, key: str) -> "View | float | str | Nothing":
        keys = (*self._keys, key)
        if len(keys) < self._depth:
            return View(self._find, self._depth, keys)
        try:
            return self._find(*keys)
        except Absent:
            return Nothing()


def printed(evidence: Evidence, table: str, row: str, column: str) -> float:
    """Return a number of the paper."""
    rows = {" / ".join(path(label)): cells for label, cells in published.numbers(table).items()}
    mean = rows[row][column].mean
    assert mean is not None
    return mean


def first_seeds(evidence: Evidence, table: str, row: str, column: str) -> float:
    """Return our mean over the seeds 5 to 9."""
    return fmean(x for seed, x in evidence.values(table, row, column).items() if seed in FEW)


def lead(evidence: Evidence, table: str, row: str, other: str, column: str) -> float:
    """Return our mean of a row minus that of another."""
    return evidence.mean(table, row, column) - evidence.mean(table, other, column)


def extreme(pick: Callable[[list[float]], float]) -> Callable[..., float]:
    """Return the view of the least or the greatest mean of a row."""

    def find(evidence: Evidence, table: str, row: str) -> float:
        cells = evidence.rows(table).get(row, {}).values()
        found = [cell.mean for cell in cells if cell.mean is not None]
        if not found:
            raise Absent(row)
        return pick(found)

    return find


def marked(*marks: str) -> Callable[..., str]:
    """Return the view of the columns where a row has one of some marks."""

    def find(evidence: Evidence, table: str, row: str) -> str:
        cells = evidence.rows(table).get(row, {})
        return joined([name for name, cell in cells.items() if cell.mark in marks])

    return find


VIEWS: Mapping[str, tuple[int, Callable[..., float | str]]] = {
    "ours": (3, Evidence.mean),
    "se": (3, lambda evidence, *keys: evidence.cell(*keys).se or inf),
    "paper": (3, printed),
    "few": (3, first_seeds),
    "lead": (4, lead),
    "agree": (1, lambda e, table: sum(a.agrees for a in published.agreements(e.table(table)))),
    "count": (1, lambda e, table: len(published.agreements(e.table(table)))),
    "best": (2, marked("best", "top")),
    "tied": (2, marked("best", "top", "tied")),
    "least": (2, extreme(min)),
    "most": (2, extreme(max)),
}
"""What stands before the brackets: how many keys it takes, and the number or words it gives.

- ours, se [table][row][column]: our mean and its standard error
- paper [table][row][column]: the printed number
- few [table][row][column]: our mean over the seeds 5 to 9
- lead [table][row][other][column]: our mean of a row minus that of another
- agree, count [table]: numbers that agree with the paper, and all that are compared
- best, tied [table][row]: the columns where a row is marked best, and best or tied
- least, most [table][row]: the least and the greatest mean of a row
"""


def joined(words: list[str]) -> str:
    """Return words as a list in a sentence: "a, b and c"; "no set" for none."""
    if not words:
        return "no set"
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def fill(template: str, evidence: Evidence) -> str:
    """Return a remark with its numbers.

    Args:
        template: the text of the remark.
        evidence: the tables of the report.
    """
    views = {name: View(partial(find, evidence), depth) for name, (depth, find) in VIEWS.items()}
    return template.format(**views)
