"""Predictive distributions, one per row, and their scores on held-out data."""

from . import metrics
from .counts import Count, CountMixture
from .normal import Categorical, Implied, Levels, Mixture, Normal, Ordered

__all__ = [
    "Categorical",
    "Count",
    "CountMixture",
    "Implied",
    "Levels",
    "Mixture",
    "Normal",
    "Ordered",
    "metrics",
]
