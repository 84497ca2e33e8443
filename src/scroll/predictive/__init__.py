"""Predictive distributions, one per row, and their scores on held-out data."""

from . import metrics
from .arguments import Levels
from .counts import Count, CountMixture
from .implied import Implied
from .labels import Categorical, Ordered
from .normal import Mixture, Normal
from .protocol import Distribution, Labels, Numeric, Predictive, Stack

__all__ = [
    "Categorical",
    "Count",
    "CountMixture",
    "Distribution",
    "Implied",
    "Labels",
    "Levels",
    "Mixture",
    "Normal",
    "Numeric",
    "Ordered",
    "Predictive",
    "Stack",
    "metrics",
]
