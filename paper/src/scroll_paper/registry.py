"""All experiments by name."""

from .deep.endtoend import END_TO_END
from .grid.experiments import GRID
from .studies.registry import STUDIES
from .tables.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {**GRID, **END_TO_END, **STUDIES}
"""Every experiment that `scroll bench` knows, in the order of the report."""
