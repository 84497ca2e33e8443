"""The studies by name; each is imported when it is run."""

from dataclasses import replace
from pathlib import Path

from ..data.sources import Say
from ..tables.table import Table
from .study import Study


def _two_moons(output: Path, quick: bool, say: Say) -> list[Table]:
    from .moons import two_moons

    return two_moons(output, quick, say)


def _counts(output: Path, quick: bool, say: Say) -> list[Table]:
    from .counts import counts

    return counts(output, quick, say)


def _gaps(output: Path, quick: bool, say: Say) -> list[Table]:
    from .gaps import gaps

    return gaps(output, quick, say)


def _naive_corner(output: Path, quick: bool, say: Say) -> list[Table]:
    from .naive import naive_corner

    return naive_corner(output, quick, say)


STUDIES = {
    "two-moons": Study("where MAP, Laplace and SCROLL are sure of a class", _two_moons),
    "counts": Study("overdispersion, simulated and on public counts", _counts),
    "gaps": Study("what binding costs, and what the free variance misses, per data set", _gaps),
    "naive-corner": Study("the naive leave-one-out of a free belief, diverging", _naive_corner),
}
STUDIES = {name: replace(study, name=name) for name, study in STUDIES.items()}
