"""Training objectives: one choice on each axis, and the named methods as rows of choices."""

from .objective import METHODS, Objective
from .parts import (
    EARLIER_BELIEFS,
    ONE_BELIEF,
    REMOVABLE_POINTS,
    UNSEEN_BATCH,
    Cavity,
    Filtered,
    PriorTerm,
    Route,
    Score,
)

__all__ = [
    "EARLIER_BELIEFS",
    "METHODS",
    "ONE_BELIEF",
    "REMOVABLE_POINTS",
    "UNSEEN_BATCH",
    "Cavity",
    "Filtered",
    "Objective",
    "PriorTerm",
    "Route",
    "Score",
]
