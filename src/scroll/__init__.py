"""SCROLL: honest predictive distributions from a neural network."""

from . import beliefs, covariances, factors, likelihoods, metrics, predictive
from .checks import unchecked
from .head import Head
from .heads import ClassificationHead, CountHead, OrdinalHead, RegressionHead
from .objectives import METHODS, Objective
from .refit import Refit, refit
from .routes import Problem

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "ClassificationHead",
    "CountHead",
    "Head",
    "Objective",
    "OrdinalHead",
    "Problem",
    "Refit",
    "RegressionHead",
    "beliefs",
    "covariances",
    "factors",
    "likelihoods",
    "metrics",
    "predictive",
    "refit",
    "unchecked",
]
