"""All experiments by name."""

from scroll._core.checks import one_of

from .deep.endtoend import END_TO_END
from .grid.experiments import GRID
from .grid.text import IN_TEXT
from .models.methods import TABLE_METHODS
from .studies.registry import STUDIES
from .tables.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {**GRID, **IN_TEXT, **END_TO_END, **STUDIES}
"""Every experiment that `scroll bench` knows, in the order of the report."""


def check_methods() -> None:
    """Raise an error if a method names an experiment that cannot show a further row."""
    able = [name for name, experiment in GRID.items() if experiment.where is not None]
    for name, method in TABLE_METHODS.items():
        for asked in method.experiments:
            one_of(f"TABLE_METHODS[{name!r}].experiments", asked, able)
