"""The paper's numbers, one CSV file per table, and ours beside them."""

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from itertools import accumulate
from typing import NamedTuple

from scroll._core.checks import invalid, one_of

from .table import Cell, Cells, Label, Table, path

SETS = frozenset({"california", "protein", "year", "sick", "utkface"})  # capitalised in print
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


def tolerance(name: str) -> float:
    """Return the difference up to which two numbers of a table agree.

    NLL 0.1 nat (of labels 0.03), AUROC 0.05, calibration 0.01, RMSE 0.001.
    """
    if name == "ood":
        return 0.05
    if name.endswith("rmse"):
        return 0.001
    if name.endswith(("caliberr", "ece")):
        return 0.01
    return 0.03 if "classification" in name or "cifar" in name else 0.1


def agreements(table: Table) -> list[Agreement]:
    """Return each mean of ours beside the paper's number, if the paper has this table."""
    return agreement(table, _printed(table), tolerance(table.name))


def beside(table: Table) -> Table:
    """Return our table with the paper's numbers; ours alone if the paper does not have it."""
    printed = _printed(table)
    return compare(table, printed, tolerance(table.name)) if printed else table


def _printed(table: Table) -> Cells:
    return numbers(table.name) if table.name in names() else {}


def agreement(table: Table, printed: Cells, tolerance: float = 0.1) -> list[Agreement]:
    """Return each mean for which there is a printed number.

    They agree if |difference| <= max(tolerance, 3 se), with the standard error of the difference.
    Where the paper gives no standard error, ours is used.
    """
    known, found = _by_path(printed), []
    for label, row in ((label, row) for block in table.blocks for label, row in block.items()):
        for column in (c for c in table.columns if c in row):
            ours, paper = row[column], known.get(path(label), {}).get(column, Cell(None))
            gap = _difference(ours, paper, tolerance)
            if ours.mean is not None and paper.mean is not None and gap.mean is not None:
                found.append(
                    Agreement(label, column, ours.mean, ours.se, paper.mean, gap.mean, not gap.star)
                )
    return found


def compare(table: Table, printed: Cells, tolerance: float = 0.1) -> Table:
    """Return ours, the paper's and the difference as three rows, starred where they disagree."""
    known = _by_path(printed)
    blocks: list[Cells] = []
    for block in table.blocks:
        rows: dict[Label, Mapping[str, Cell]] = {}
        for label, ours in _by_path(block).items():
            paper = known.get(label, {})
            both = [c for c in ours if c in paper]
            gaps = {c: _difference(ours[c], paper[c], tolerance) for c in both}
            three = {"ours": ours, "paper": paper, "difference": gaps}
            rows |= {(*label, name): row for name, row in three.items()}
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
    agrees = abs(gap) <= max(tolerance, 3 * error)  # a NaN does not
    return Cell(gap, error or None, digits=ours.digits, signed=True, star=not agrees)


def _cell(printed: str) -> Cell:
    """Return a number as printed: "+0.191*", "2.072 ± 0.13"."""
    if (found := _NUMBER.fullmatch(printed)) is None:
        raise invalid("printed", "be a number", repr(printed))
    plus, number, places, star, se = found.groups(default="")
    value, error = float(number), float(se) if se else None
    return Cell(value, error, digits=len(places), signed=bool(plus), star=bool(star))
