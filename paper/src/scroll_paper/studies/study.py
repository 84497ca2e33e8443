"""A study: a question with data and a picture of its own, answered without records."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from ..data.sources import Say
from ..tables.experiment import Request, Results, Screen
from ..tables.table import Table


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
