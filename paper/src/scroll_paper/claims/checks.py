"""Checks: how the answers to many small questions become the verdict on a claim."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from ..tables import published
from ..tables.table import path
from .claim import FAILS, HOLDS, OPEN, PARTLY, Absent, Check, Evidence, Outcome

Test = Callable[[Evidence, str], bool]  # of a column of a table


def counted(
    cases: Mapping[str, bool | None],
    claimed: int | None = None,
    words: str = "",
    unrun: Sequence[str] = (),
) -> Outcome:
    """Return a verdict from yes and no by case; None is a case without records.

    It holds if at least `claimed` cases are yes, and fails if fewer than half as many are. While
    cases without records could still decide it, it is open.

    Args:
        cases: by name.
        claimed: how many the paper has; None is all.
        words: before the count.
        unrun: data sets without records, each of which could still refute the claim.
    """
    need = len(cases) if claimed is None else claimed
    yes = sum(value is True for value in cases.values())
    unknown = [name for name, value in cases.items() if value is None]
    if yes >= need:
        verdict = OPEN if unrun else HOLDS
    elif yes + len(unknown) >= need:
        verdict = OPEN
    else:
        verdict = PARTLY if 2 * yes >= need else FAILS
    text = f"{words} {tally(cases)}".strip()
    if need < len(cases):
        text += f"; the paper has {need}"
    if missing := [*unknown, *unrun]:
        text += f"; not run: {', '.join(missing)}"
    return Outcome(verdict, text)


def tally(cases: Mapping[str, bool | None]) -> str:
    """Return how many cases are yes, and the names of the smaller group; for one case, yes or no.

    Args:
        cases: by name; None is left out.
    """
    yes, no = ([k for k, v in cases.items() if v is value] for value in (True, False))
    if len(cases) == 1 and yes + no:
        return f"{(yes + no)[0]}: {'yes' if yes else 'no'}"
    text = f"{len(yes)} of {len(yes) + len(no)}"
    if not (yes and no):
        return text
    return f"{text}, not {', '.join(no)}" if len(no) < len(yes) else f"{text} ({', '.join(yes)})"


def each(
    table: str,
    test: Test,
    claimed: int | None = None,
    columns: Sequence[str] | None = None,
    words: str = "",
) -> Check:
    """Return a check that counts the columns of a table that pass a test.

    Args:
        table: its name.
        test: takes the evidence and a column.
        claimed: how many columns the paper has; None is all.
        columns: to test; None is all that are measured.
        words: before the count.
    """

    def check(evidence: Evidence) -> Outcome:
        cases = {c: _answer(test, evidence, c) for c in columns or evidence.columns(table)}
        return counted(cases, claimed, words)

    return check


def _answer(test: Test, evidence: Evidence, column: str) -> bool | None:
    try:
        return test(evidence, column)
    except Absent:
        return None


def every(*checks: Check) -> Check:
    """Return a check that joins others: it holds, fails or is open if all do; else it is partly."""

    def check(evidence: Evidence) -> Outcome:
        found = [_tried(one, evidence) for one in checks]
        kinds = {outcome.verdict for outcome in found}
        settled = kinds - {OPEN}
        text = "; ".join(outcome.text for outcome in found)
        if OPEN in kinds and settled <= {HOLDS}:
            return Outcome(OPEN, text)
        return Outcome(settled.pop() if len(settled) == 1 else PARTLY, text)

    return check


def _tried(check: Check, evidence: Evidence) -> Outcome:
    try:
        return check(evidence)
    except Absent as missing:
        return Outcome(OPEN, str(missing))


def as_printed(table: str, claimed: int | None = None) -> Check:
    """Return a check that counts the numbers of a table that agree with the paper's."""

    def check(evidence: Evidence) -> Outcome:
        found = published.agreements(evidence.table(table))
        names = [f"{', '.join(path(a.row))} on {a.column}" for a in found]
        return counted(
            dict(zip(names, (a.agrees for a in found), strict=True)), claimed, "as printed:"
        )

    return check


def span(numbers: Sequence[float], how: str) -> str:
    """Return one number, or the least and the greatest of several, as text."""
    if not numbers:
        return "no numbers"
    low, high = min(numbers), max(numbers)
    return f"{low:{how}}" if len(numbers) == 1 else f"{low:{how}} to {high:{how}}"


def averages(numbers: Sequence[float], how: str = "+.3f") -> str:
    """Return the mean and the median of several numbers as text."""
    return f"mean {fmean(numbers):{how}}, median {median(numbers):{how}}"
