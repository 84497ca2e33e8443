"""A study: a question with data and a picture of its own, answered in one run."""

import csv
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from time import time

import torch

from ..data.sources import Say
from ..tables.experiment import Request, Results, Screen, Section
from ..tables.records import made
from ..tables.table import Cell, Label, Table
from . import stored


@dataclass(frozen=True)
class Study:
    """A question of the paper that is answered at once; a full run replaces its tables on record.

    Args:
        about: the question, in one line.
        answer: takes the folder for its pictures, whether to be quick, and what takes lines about
            progress; returns the tables.
        name: of its tables on record; "" keeps none.
    """

    about: str
    answer: Callable[[Path, bool, Say], list[Table]]
    name: str = ""

    @property
    def options(self) -> Collection[str]:
        """There is nothing to choose from but how much to run, and where the tables go."""
        return ("quick", "tables", "results", "output")

    def run(self, request: Request, screen: Screen) -> list[Table]:
        """Answer the question, draw its pictures, and put its tables on record unless quick."""
        file = stored.file_of(request.results, self.name)
        if request.tables:
            return stored.load(file)
        request.output.mkdir(parents=True, exist_ok=True)
        began = time()
        tables = self.answer(request.output, request.quick, screen.say)
        if self.name and not request.quick:
            stored.save(file, tables, made(began, torch.device("cpu")))
        return tables

    def report(self, results: Results) -> Section | None:
        """Return its part of the report; None before its first full run."""
        tables = stored.load(stored.file_of(results.folder, self.name))
        return Section(self.about, tables) if tables else None


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
