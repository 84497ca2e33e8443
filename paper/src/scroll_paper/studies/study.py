"""A study: a question with data and a picture of its own, answered without records."""

import csv
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ..data.sources import Say
from ..tables.experiment import Request, Results, Screen
from ..tables.table import Cell, Label, Table


@dataclass(frozen=True)
class Study:
    """A question of the paper that is answered at once, without records.

    Args:
        about: the question, in one line.
        answer: takes the folder for its pictures, whether to be quick, and what takes lines about
            progress; returns the tables.
    """

    about: str
    answer: Callable[[Path, bool, Say], list[Table]]

    @property
    def options(self) -> Collection[str]:
        """It has no records, so there is nothing to choose from."""
        return ("quick", "output")

    def run(self, request: Request, screen: Screen) -> list[Table]:
        """Answer the question, and draw its pictures into the folder of the tables."""
        request.output.mkdir(parents=True, exist_ok=True)
        return self.answer(request.output, request.quick, screen.say)

    def report(self, results: Results) -> None:
        """It keeps no records."""


def printed(study: str) -> dict[str, Cell]:
    """Return the numbers that the paper's text gives for a study, by what is measured."""
    text = (files(__package__) / "printed.csv").read_text("utf-8")
    lines = csv.DictReader(text.splitlines())
    return {
        line["measured"]: Cell(float(line["paper"]), digits=len(line["paper"].partition(".")[2]))
        for line in lines
        if line["study"] == study
    }


def against_paper(name: str, title: str, study: str, ours: Mapping[str, Cell]) -> Table:
    """Return a table of our numbers beside those of the paper's text; ours has all of them.

    Args:
        name: of the table.
        title: above it.
        study: in the file of the paper's numbers.
        ours: by what is measured.
    """
    theirs = printed(study)
    rows: dict[Label, Mapping[str, Cell]] = {
        measured: {"ours": cell, "paper": theirs.get(measured, Cell(None))}
        for measured, cell in ours.items()
    }
    assert theirs.keys() <= rows.keys()
    return Table(name, title, ["ours", "paper"], [rows], show_se=True)
