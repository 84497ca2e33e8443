"""The studies by name; each is imported when it is run."""

from importlib import import_module
from pathlib import Path

from ..data.sources import Say
from ..tables.table import Table
from .study import Study


def _study(module: str, function: str, about: str) -> Study:
    """Return the study that a function of a module answers."""

    def answer(output: Path, quick: bool, say: Say) -> list[Table]:
        found: list[Table] = getattr(import_module(f".{module}", __package__), function)(
            output, quick, say
        )
        return found

    return Study(about, answer)


STUDIES = {
    "two-moons": _study(
        "moons", "two_moons", "where MAP, Laplace and SCROLL are confident of a class"
    ),
    "counts": _study("counts", "counts", "overdispersion, simulated and on public counts"),
    "routing-vs-selection": _study(
        "routing_selection", "routing_vs_selection", "is the gap between routes due to selection?"
    ),
    "linear": _study("linear", "linear", "both routes at depth zero, for two kinds of noise"),
    "toy": _study("toy", "toy", "both routes on one input with noise that depends on it"),
    "cavities": _study("diagrams.cavities", "cavities", "which points the belief scoring one has seen"),
    "design-space": _study(
        "diagrams.design_space", "design_space", "every named method in its cell"
    ),
}
