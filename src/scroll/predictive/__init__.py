"""Predictive distributions, one per row, and their scores on held-out data."""

from . import metrics
from .arguments import Levels
from .censored import Survival, survival
from .continuous import Mapped, Mixture, Normal, Student, Tail, TargetMap, narrowed, with_tails
from .counts import Count, CountMixture
from .implied import Implied
from .labels import Categorical, Ordered
from .protocol import Distribution, Labels, Numeric, Predictive, Stack

__all__ = [
    "Categorical",
    "Count",
    "CountMixture",
    "Distribution",
    "Implied",
    "Labels",
    "Levels",
    "Mapped",
    "Mixture",
    "Normal",
    "Numeric",
    "Ordered",
    "Predictive",
    "Stack",
    "Student",
    "Survival",
    "Tail",
    "TargetMap",
    "metrics",
    "narrowed",
    "survival",
    "with_tails",
]
