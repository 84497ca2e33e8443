"""The posterior of the last layer on trained features, from sums over the data."""

from .functions import Functions
from .posterior import Posterior, bind, refit
from .statistics import Statistics

__all__ = ["Functions", "Posterior", "Statistics", "bind", "refit"]
