"""The paper's numbers, one CSV file per table, and ours beside them."""

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from itertools import accumulate
from statistics import quantiles
from typing import NamedTuple

from scroll._core.checks import invalid, one_of

from .table import Cell, Cells, Label, Table, path

SETS = frozenset({"california", "protein", "year", "sick", "utkface"})  # capitalised in print
DEVIATIONS = {"appendix_cifar": 10, "appendix_utkface_e2e": 3, "loo_gap": 40}
"""Tables that print a standard deviation, and of how many fits; others print standard errors."""
ALIKE = {"depth_trajectory": "row", "loo_gap": "none", "appendix_traintest_gap": "none"}
"""Which numbers of a table are of the same data set and metric; elsewhere those of a column."""
Tolerance = Callable[[Label, str], float]  # of a cell, by row and column
_NUMBER = re.compile(r"(\+?)(-?\d+(?:\.(\d+))?)(\*?)(?: ± (\d+\.\d+))?")


class Agreement(NamedTuple):
    """One of our means beside the paper's number."""

    row: Label
    column: str
    ours: float
    se: float | None
    paper: float
    difference: float
    agrees: bool


def names() -> list[str]:
    """Return the names of the paper's tables."""
    found = (file.name for file in (files(__package__) / "csv").iterdir())
    return sorted(name.removesuffix(".csv") for name in found if name.endswith(".csv"))


def numbers(name: str) -> dict[Label, dict[str, Cell]]:
    """Return the paper's table `name`, by row and column, without its empty cells.

    A label of two levels is a pair. If there are two lines of column names and the lower alone is
    ambiguous, both are joined: "Full lin".
    """
    one_of("name", name, names())
    text = (files(__package__) / "csv" / f"{name}.csv").read_text("utf-8")
    top, *lines = csv.reader(text.splitlines())
    depth = 1 if top[1] else 2
    columns = top[depth:]
    if not _NUMBER.fullmatch(lines[0][-1]):
        columns = lines.pop(0)[depth:]
        if len(set(columns)) < len(columns):
            upper: Iterator[str] = accumulate(top[depth:], lambda left, here: here or left)
            columns = [f"{over} {under}" for over, under in zip(upper, columns, strict=True)]
    columns = [c.lower() if c.lower() in SETS else c for c in columns]
    rows: dict[Label, dict[str, Cell]] = {}
    first = ""
    for line in lines:
        first = line[0] or first
        cells = zip(columns, line[depth:], strict=True)
        label = first if depth == 1 else (first, line[1])
        rows[label] = {column: _cell(printed) for column, printed in cells if printed != "--"}
    return rows


def standard_errors(name: str) -> dict[Label, dict[str, Cell]]:
    """Return the paper's table with standard errors in place of standard deviations."""
    root = math.sqrt(DEVIATIONS.get(name, 1))
    return {
        label: {c: replace(x, se=None if x.se is None else x.se / root) for c, x in row.items()}
        for label, row in numbers(name).items()
    }


def tolerance(name: str) -> Tolerance:
    """Return a tenth of the interquartile range of the paper's numbers of one set and metric.

    With fewer than four such numbers it is zero.
    """
    printed = numbers(name)
    alike = ALIKE.get(name, "column")

    def tenth(label: Label, column: str) -> float:
        others = {
            "column": [row[column].mean for row in printed.values() if column in row],
            "row": [cell.mean for cell in printed.get(label, {}).values()],
            "none": [],
        }[alike]
        found = [mean for mean in others if mean is not None]
        if len(found) < 4:
            return 0.0
        low, _, high = quantiles(found, n=4, method="inclusive")
        return 0.1 * (high - low)

    return tenth


def agreements(table: Table) -> list[Agreement]:
    """Return each measured mean of ours beside the paper's number, if the paper has this table."""
    if table.name not in names():
        return []
    return agreement(table, standard_errors(table.name), tolerance(table.name))


def beside(table: Table) -> Table:
    """Return our table with the paper's numbers; ours alone if the paper does not have it."""
    if table.name not in names():
        return table
    return compare(table, standard_errors(table.name), tolerance(table.name))


def exactly(label: Label, column: str) -> float:
    """Return no tolerance, whatever the cell: `agreement` without a spread to compare with."""
    return 0.0


def agreement(table: Table, printed: Cells, tolerance: Tolerance = exactly) -> list[Agreement]:
    """Return each measured mean for which there is a printed number.

    They agree if |difference| <= max(2 se, tolerance, half of the last printed digit), with the
    standard error of the difference. Where the paper gives no standard error, ours is used.
    """
    known, found = _by_path(printed), []
    columns = [c for c in table.columns if c not in table.given]
    for label, row in ((label, row) for block in table.blocks for label, row in block.items()):
        for column in (c for c in columns if c in row):
            ours, paper = row[column], known.get(path(label), {}).get(column, Cell(None))
            gap = _difference(ours, paper, tolerance(label, column))
            if ours.mean is not None and paper.mean is not None and gap.mean is not None:
                found.append(
                    Agreement(label, column, ours.mean, ours.se, paper.mean, gap.mean, not gap.star)
                )
    return found


def compare(table: Table, printed: Cells, tolerance: Tolerance = exactly) -> Table:
    """Return ours, the paper's and the difference as three rows, starred where they disagree."""
    known = _by_path(printed)
    blocks: list[Cells] = []
    for block in table.blocks:
        rows: dict[Label, Mapping[str, Cell]] = {}
        for label, ours in block.items():
            paper = known.get(path(label), {})
            gaps = {
                c: _difference(ours[c], paper[c], tolerance(label, c)) for c in ours if c in paper
            }
            three = {"ours": ours, "paper": paper, "difference": gaps}
            rows |= {(*path(label), name): row for name, row in three.items()}
        blocks.append(rows)
    return replace(table, blocks=blocks, show_se=True)


def _by_path(rows: Cells) -> dict[tuple[str, ...], Mapping[str, Cell]]:
    return {path(label): row for label, row in rows.items()}


def _difference(ours: Cell, paper: Cell, tolerance: float) -> Cell:
    """Return ours minus the paper's, with its standard error, starred where they disagree."""
    if ours.mean is None or paper.mean is None:
        return Cell(None)
    gap, se = ours.mean - paper.mean, ours.se or 0.0
    error = math.hypot(se, se if paper.se is None else paper.se)
    rounding = 0.5 * 10**-paper.digits
    agrees = abs(gap) <= max(tolerance, 2 * error, rounding)  # a NaN does not
    return Cell(gap, error or None, digits=ours.digits, signed=True, star=not agrees)


def _cell(printed: str) -> Cell:
    """Return a number as printed: "+0.191*", "2.072 ± 0.13"."""
    if (found := _NUMBER.fullmatch(printed)) is None:
        raise invalid("printed", "be a number", repr(printed))
    plus, number, places, star, se = found.groups(default="")
    value, error = float(number), float(se) if se else None
    return Cell(value, error, digits=len(places), signed=bool(plus), star=bool(star))
