"""A claim of the paper, the evidence it is checked against, and the verdict.

To add a claim, add a `Claim` to a list of this folder. Its check is a function of the evidence
that returns an `Outcome`; `scroll_paper.claims.checks` makes the usual ones.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scroll._core.checks import one_of

from ..tables import published
from ..tables.significance import Values
from ..tables.table import Cell, Table, path

HOLDS, PARTLY, FAILS = "holds", "partly", "fails"
UNTESTABLE = "not testable here"
OPEN = "open"
VERDICTS = {
    HOLDS: "the records show it",
    PARTLY: "the records show at least half of it",
    FAILS: "the records show less than half of it, or the opposite",
    UNTESTABLE: "the data or weights it needs cannot be had here",
    OPEN: "its records are not there yet",
}


class Outcome(NamedTuple):
    """A verdict, and what the records say."""

    verdict: str
    text: str


class Absent(Exception):
    """Records that a check needs are not there; the text says which."""


class Evidence:
    """The tables of the report, by name, for checks to read.

    Args:
        tables: of all experiments.
    """

    def __init__(self, tables: Iterable[Table]):
        self._tables = {table.name: table for table in tables}

    def table(self, name: str) -> Table:
        """Return a table, or raise Absent if no experiment has made it."""
        if name not in self._tables:
            raise Absent(f"no records of `{name}`")
        return self._tables[name]

    def rows(self, table: str) -> dict[str, Mapping[str, Cell]]:
        """Return the rows of a table; the levels of a label are joined by " / "."""
        blocks = self.table(table).blocks
        return {" / ".join(path(label)): row for block in blocks for label, row in block.items()}

    def cell(self, table: str, row: str, column: str) -> Cell:
        """Return a cell, or raise Absent if there is no number in it."""
        found = self.rows(table)
        if row not in found:
            printed = published.numbers(table) if table in published.names() else {}
            one_of("row", row, [*found, *(" / ".join(path(label)) for label in printed)])
        cell = found.get(row, {}).get(column, Cell(None))
        if cell.mean is None:
            raise Absent(f"no records of {row} on {column}")
        return cell

    def mean(self, table: str, row: str, column: str) -> float:
        """Return the mean in a cell."""
        mean = self.cell(table, row, column).mean
        assert mean is not None
        return mean

    def values(self, table: str, row: str, column: str) -> Values:
        """Return the values by seed in a cell."""
        return self.cell(table, row, column).values

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the measured columns: the paper's, if it prints the table, else our own."""
        if table in published.names():
            printed = published.numbers(table).values()
            wanted = max((tuple(row) for row in printed), key=len)
        else:
            wanted = tuple(self.table(table).columns)
        given = self._tables[table].given if table in self._tables else ()
        return tuple(column for column in wanted if column not in given)


Check = Callable[[Evidence], Outcome]


@dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    Args:
        where: section of the paper.
        statement: the claim, in our words.
        check: decides it.
        experiment: whose records decide it; "" for mathematics.
        tests: names of the tests that prove it, "tests/FILE.py::test_name".
        why: why the records disagree, where that is known; shown if they do.
    """

    where: str
    statement: str
    check: Check
    experiment: str = ""
    tests: tuple[str, ...] = ()
    why: str = ""


def decide(claim: Claim, evidence: Evidence) -> Outcome:
    """Return the verdict on a claim; it is open while records are missing."""
    try:
        outcome = claim.check(evidence)
    except Absent as missing:
        outcome = Outcome(OPEN, str(missing))
    one_of("verdict", outcome.verdict, VERDICTS)
    return outcome


def proved(where: str, statement: str, *tests: str) -> Claim:
    """Return a mathematical claim, which holds because its tests pass.

    Args:
        where: section of the paper.
        statement: the claim, in our words.
        tests: "FILE.py::test_name", within the folder `tests`.
    """
    return Claim(where, statement, proven, tests=tuple(f"tests/{test}" for test in tests))


def proven(evidence: Evidence) -> Outcome:
    """Return that the tests of a claim pass; they fail the build otherwise."""
    return Outcome(HOLDS, "tested")


def untestable(reason: str) -> Check:
    """Return the check of a claim that cannot be tested here.

    Args:
        reason: why, and why that cannot be changed here.
    """
    return lambda evidence: Outcome(UNTESTABLE, reason)


def by_section(claims: Iterable[Claim]) -> Iterator[tuple[str, list[Claim]]]:
    """Yield each section of the paper with its claims, in the order of first use."""
    found: dict[str, list[Claim]] = {}
    for claim in claims:
        found.setdefault(claim.where, []).append(claim)
    yield from found.items()
