"""The studies by name; each is imported when it is run."""

from importlib import import_module
from pathlib import Path

from ..data.sources import Say
from ..tables.table import Table
from .study import Study


def _study(study: str, function: str, about: str) -> Study:
    """Return the study of a name that "module.function" answers."""
    module, _, name = function.rpartition(".")

    def answer(output: Path, quick: bool, say: Say) -> list[Table]:
        home = import_module(f".{module}", __package__)
        found: list[Table] = getattr(home, name)(output, quick, say)
        return found

    return Study(about, answer, study)


_ALL = {
    "two-moons": ("contours.two_moons", "where MAP, Laplace and SCROLL are confident of a class"),
    "counts": ("counted.counts.counts", "overdispersion, simulated and on public counts"),
    "routing-vs-selection": (
        "routing_selection.routing_vs_selection",
        "is the gap between the routes one of selection?",
    ),
    "linear": ("linear.linear", "both routes at depth zero, for two kinds of noise"),
    "toy": ("toy.toy", "both routes on one input, with noise that depends on it"),
    "cavities": ("diagrams.cavities.cavities", "which points has the belief that scores one seen?"),
    "design-space": ("diagrams.design_space.design_space", "every named method in its cell"),
    "gaps": ("gaps.gaps", "what binding costs, and what the free variance misses, per data set"),
    "naive-corner": ("naive.naive_corner", "the naive leave-one-out of a free belief, diverging"),
}
STUDIES = {name: _study(name, function, about) for name, (function, about) in _ALL.items()}
