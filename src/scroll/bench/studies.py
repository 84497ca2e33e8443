"""Studies by name: questions with data and a picture of their own, apart from the grid of fits."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .tables import Table

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


def _two_moons(output: Path, quick: bool, say: Say) -> list[Table]:
    from .moons import two_moons

    return two_moons(output, quick, say)


def _counts(output: Path, quick: bool, say: Say) -> list[Table]:
    from .counts import counts

    return counts(output, quick, say)


STUDIES = {
    "two-moons": Study("where MAP, Laplace and SCROLL are sure of a class", _two_moons),
    "counts": Study("overdispersion, simulated and on public counts", _counts),
}
