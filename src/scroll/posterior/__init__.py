"""The posterior of the last layer on trained features, from sums over the data."""

from .functions import Functions
from .laplace import LaplacePosterior, laplace_refit
from .posterior import Posterior, bind, refit
from .scale import loo_crps_scale
from .statistics import Statistics

__all__ = [
    "Functions",
    "LaplacePosterior",
    "Posterior",
    "Statistics",
    "bind",
    "laplace_refit",
    "loo_crps_scale",
    "refit",
]
