"""Gaussian beliefs over last-layer weights, their covariances, and the problem they answer."""

from . import covariances
from .belief import Belief
from .covariances import Covariance, Diag, Full, LowRank, Point
from .families import FAMILIES
from .problem import Problem

__all__ = [
    "FAMILIES",
    "Belief",
    "Covariance",
    "Diag",
    "Full",
    "LowRank",
    "Point",
    "Problem",
    "covariances",
]
