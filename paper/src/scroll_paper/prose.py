"""Remarks as templates: every measured number in them is filled in from the tables.

A remark is a Python format string. In `{ours[headline_nll][SCROLL-Full][yacht]:.2f}` the brackets
hold a table, a row (levels joined by " / ") and a column. `VIEWS` lists the names that can stand
before them. A number that the records do not have reads "--".
"""

from collections.abc import Callable, Mapping
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


def views(evidence: Evidence) -> Mapping[str, View]:
    """Return what the names in a remark stand for.

    - ours, se [table][row][column]: our mean and its standard error
    - paper [table][row][column]: the printed number
    - few [table][row][column]: our mean over the seeds 5 to 9
    - lead [table][row][other][column]: our mean of a row minus that of another
    - agree, count [table]: numbers that agree with the paper, and all that are compared
    - best, tied [table][row]: the columns where a row is marked best, and best or tied
    - least, most [table][row]: the least and the greatest mean of a row
    """

    def means(table: str, row: str) -> list[float]:
        found = [c.mean for c in evidence.rows(table).get(row, {}).values() if c.mean is not None]
        if not found:
            raise Absent(row)
        return found

    def marked(marks: set[str]) -> Callable[[str, str], str]:
        def find(table: str, row: str) -> str:
            cells = evidence.rows(table).get(row, {})
            return joined([name for name, cell in cells.items() if cell.mark in marks])

        return find

    found: dict[str, tuple[Callable[..., float | str], int]] = {
        "ours": (evidence.mean, 3),
        "se": (lambda *keys: evidence.cell(*keys).se or inf, 3),
        "paper": (printed, 3),
        "few": (
            lambda *keys: fmean(v for s, v in evidence.values(*keys).items() if s in FEW),
            3,
        ),
        "lead": (lambda t, a, b, c: evidence.mean(t, a, c) - evidence.mean(t, b, c), 4),
        "agree": (lambda t: sum(a.agrees for a in published.agreements(evidence.table(t))), 1),
        "count": (lambda t: len(published.agreements(evidence.table(t))), 1),
        "best": (marked({"best", "top"}), 2),
        "tied": (marked({"best", "top", "tied"}), 2),
        "least": (lambda *keys: min(means(*keys)), 2),
        "most": (lambda *keys: max(means(*keys)), 2),
    }
    return {name: View(find, depth) for name, (find, depth) in found.items()}


def printed(table: str, row: str, column: str) -> float:
    """Return a number of the paper."""
    rows = {" / ".join(path(label)): cells for label, cells in published.numbers(table).items()}
    mean = rows[row][column].mean
    assert mean is not None
    return mean


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
    return template.format(**views(evidence))
