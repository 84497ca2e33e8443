"""The Bayesian last layer: heads, their likelihoods and their diagnosis."""

from . import likelihoods
from .head import Head
from .named import CensoredHead, ClassificationHead, CountHead, OrdinalHead, RegressionHead
from .prior_gradient import PriorGradient
from .seen import SeenRows

__all__ = [
    "CensoredHead",
    "ClassificationHead",
    "CountHead",
    "Head",
    "OrdinalHead",
    "PriorGradient",
    "RegressionHead",
    "SeenRows",
    "likelihoods",
]
