"""Observation factors p(y | f) and their integrals under f ~ N(mean, var).

log_marginal : log Z_n = log E[p(y_n | f)]    the score, the evidence, leave-one-out
expected_log : E[log p(y_n | f)]              the ELBO

A factor is a value; its parameters carry the leading axes `...` of y (..., N).
"""

from typing import Protocol

from torch import Tensor

from ..beliefs import Moments
from .bounded import Bounded
from .confined import Confined
from .count import NegativeBinomial, Poisson
from .gaussian import Gaussian
from .ordinal import Ordinal
from .sign import BernoulliLogit, Probit


class Factor(Protocol):
    """p(y | f), elementwise in n."""

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """log p(y | f)."""

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """log E[p(y | f)]."""

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """E[log p(y | f)]."""


__all__ = [
    "BernoulliLogit",
    "Bounded",
    "Confined",
    "Factor",
    "Gaussian",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "Probit",
]
