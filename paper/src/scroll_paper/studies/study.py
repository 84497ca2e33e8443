"""A study: a question with data and a picture of its own, answered without records."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..tables.table import Table

Say = Callable[[str], object]


@dataclass(frozen=True)
class Study:
    """A question of the paper that is answered at once, without records.

    Args:
        about: it, in a line.
        run: given the folder for its pictures, whether to be quick, and what hears of progress.
    """

    about: str
    run: Callable[[Path, bool, Say], list[Table]]
