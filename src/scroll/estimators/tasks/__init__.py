"""Tasks: real numbers, censored numbers, counts and labels, with the same operations."""

from ...predictive import TargetMap
from .counts import CountTask, as_integers, check_counts
from .labels import LabelTask
from .numbers import CensoredTask, RealTask
from .task import Task, Units, unit_costs

__all__ = [
    "CensoredTask",
    "CountTask",
    "LabelTask",
    "RealTask",
    "Task",
    "Units",
    "as_integers",
    "check_counts",
    "number_task",
    "unit_costs",
]


def number_task(
    likelihood: str, map: TargetMap | None = None
) -> RealTask | CensoredTask | CountTask:
    """Return the task of a regressor by the name of its likelihood and the map of its target."""
    if likelihood == "censored":
        return CensoredTask(map)
    return RealTask(map) if likelihood == "gaussian" else CountTask(likelihood)
