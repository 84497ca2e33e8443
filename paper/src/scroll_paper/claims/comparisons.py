"""Checks that compare rows of a table, column by column."""

from collections.abc import Sequence

from ..tables.significance import marks, p_value
from .checks import counted, each, span
from .claim import FAILS, HOLDS, OPEN, Absent, Check, Evidence, Outcome

LEVEL = 0.05


def ahead(
    table: str,
    row: str,
    other: str,
    claimed: int | None = None,
    columns: Sequence[str] | None = None,
    sign: int = 1,
) -> Check:
    """Return a check that counts the columns where the mean of a row is below that of another.

    Args:
        table: its name.
        row: the row said to be better.
        other: the row it is compared with.
        claimed: how many columns the paper has; None is all.
        columns: to compare in; None is all.
        sign: -1 if larger is better.
    """

    def better(evidence: Evidence, column: str) -> bool:
        return sign * (evidence.mean(table, row, column) - evidence.mean(table, other, column)) < 0

    return each(table, better, claimed, columns, f"{row} ahead of {other} on")


def best_of(
    table: str,
    team: Sequence[str],
    pool: Sequence[str],
    claimed: int | None = None,
    columns: Sequence[str] | None = None,
    *,
    tied: bool = True,
    sign: int = 1,
) -> Check:
    """Return a check that counts the columns where one of a team is best, or tied with the best.

    Tied means not separated by the paper's one-sided paired t-test.

    Args:
        table: its name.
        team: rows said to win.
        pool: rows they are compared with.
        claimed: how many columns the paper has; None is all.
        columns: to compare in; None is all.
        tied: count ties.
        sign: -1 if larger is better.
    """
    wanted = {"best", "tied"} if tied else {"best"}

    def wins(evidence: Evidence, column: str) -> bool:
        rows = [row for row in evidence.rows(table) if row in {*team, *pool}]
        values = {row: evidence.values(table, row, column) for row in team}
        for row in rows:
            if evidence.rows(table)[row].get(column) and row not in values:  # may lack a set
                values[row] = evidence.rows(table)[row][column].values
        signed = {row: {k: sign * x for k, x in v.items()} for row, v in values.items()}
        ranks = marks(signed)
        return any(ranks[row] in wanted for row in team)

    how = "best or tied on" if tied else "best on"
    name = team[0] if len(team) == 1 else "one of them"
    return each(table, wins, claimed, columns, f"{name} {how}")


def never_best(table: str, row: str, pool: Sequence[str]) -> Check:
    """Return a check that a row has the least mean in no column; one such column refutes it.

    Args:
        table: its name.
        row: said never to win.
        pool: rows it is compared with.
    """

    def check(evidence: Evidence) -> Outcome:
        won, missing = [], []
        for column in evidence.columns(table):
            try:
                mine = evidence.mean(table, row, column)
                others = [evidence.mean(table, other, column) for other in pool]
            except Absent:
                missing.append(column)
                continue
            if mine < min(others):
                won.append(column)
        if won:
            return Outcome(FAILS, f"best on {', '.join(won)}")
        if missing:
            return Outcome(OPEN, f"best on no set; not run: {', '.join(missing)}")
        return Outcome(HOLDS, "best on no set")

    return check


def separated(table: str, row: str, other: str, evidence: Evidence, column: str) -> bool:
    """Return True if a row is above another by the one-sided paired t-test."""
    one, two = (evidence.values(table, r, column) for r in (row, other))
    return p_value(one, two, "greater") < LEVEL


def alike(table: str, row: str, other: str, evidence: Evidence, column: str) -> bool:
    """Return True if the two-sided paired t-test does not separate two rows."""
    one, two = (evidence.values(table, r, column) for r in (row, other))
    return not p_value(one, two, "two-sided") < LEVEL


def not_worse(
    table: str,
    row: str,
    other: str,
    claimed: int | None = None,
    columns: Sequence[str] | None = None,
) -> Check:
    """Return a check that counts the columns where a row is not significantly above another."""
    return each(
        table,
        lambda evidence, column: not separated(table, row, other, evidence, column),
        claimed,
        columns,
        f"{row} not significantly behind {other} on",
    )


def equal(
    table: str,
    row: str,
    other: str,
    claimed: int | None = None,
    columns: Sequence[str] | None = None,
) -> Check:
    """Return a check that counts the columns where the two-sided paired t-test finds no gap."""
    return each(
        table,
        lambda evidence, column: alike(table, row, other, evidence, column),
        claimed,
        columns,
        f"{row} and {other} not separated on",
    )


def difference(
    table: str,
    row: str,
    other: str,
    low: float,
    high: float,
    columns: Sequence[str] | None = None,
    claimed: int | None = None,
) -> Check:
    """Return a check that counts the columns where row minus other is between two numbers."""

    def gaps(evidence: Evidence) -> dict[str, float]:
        found = {}
        for column in columns or evidence.columns(table):
            try:
                found[column] = evidence.mean(table, row, column) - evidence.mean(
                    table, other, column
                )
            except Absent:
                continue
        return found

    def check(evidence: Evidence) -> Outcome:
        found = gaps(evidence)
        cases = {
            c: low <= found[c] <= high if c in found else None
            for c in columns or evidence.columns(table)
        }
        shown = span(list(found.values()), "+.3f")
        return counted(cases, claimed, f"{row} minus {other}: {shown}; from {low} to {high} on")

    return check


def between(
    table: str,
    row: str,
    low: float,
    high: float,
    columns: Sequence[str] | None = None,
    claimed: int | None = None,
) -> Check:
    """Return a check that counts the columns where the mean of a row is between two numbers."""

    def check(evidence: Evidence) -> Outcome:
        found: dict[str, float | None] = {}
        for column in columns or evidence.columns(table):
            try:
                found[column] = evidence.mean(table, row, column)
            except Absent:
                found[column] = None
        cases = {c: None if x is None else low <= x <= high for c, x in found.items()}
        shown = span([x for x in found.values() if x is not None], ".3f")
        return counted(cases, claimed, f"{row} {shown}; from {low} to {high} on")

    return check
