"""Observation factors p(y | f) and their integrals under f ~ N(mean, var).

log_marginal : log Z_n = log E[p(y_n | f)]    the score, the evidence, leave-one-out
expected_log : E[log p(y_n | f)]              the ELBO

A factor is a value; its parameters carry the leading axes `...` of y (..., N).
"""

from .binary import BernoulliLogit, Probit
from .censored import CensoredGaussian
from .confined import Confined
from .count import NegativeBinomial, Poisson
from .custom import Bounded
from .factor import Factor, Moments
from .gaussian import Gaussian
from .inflated import ZeroInflated
from .ordinal import Ordinal
from .smooth import Derivatives, Smooth, derivatives

__all__ = [
    "BernoulliLogit",
    "Bounded",
    "CensoredGaussian",
    "Confined",
    "Derivatives",
    "Factor",
    "Gaussian",
    "Moments",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Probit",
    "Smooth",
    "ZeroInflated",
    "derivatives",
]
