"""A study: a question with data and a picture of its own, answered in one run."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from time import time

import torch

from ..data.sources import Say
from ..tables import stored
from ..tables.experiment import Request, Results, Screen, Section
from ..tables.records import made
from ..tables.table import Table


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
