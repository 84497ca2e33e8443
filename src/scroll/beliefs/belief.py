"""Gaussian beliefs over last-layer weights, q(w) = N(mean, cov).

A belief is a value: it may be built from parameters or computed as a posterior, and nothing
downstream can tell.
"""

from typing import Generic

import torch
from torch import Generator, Tensor
from typing_extensions import TypeVar

from .._core.linalg import LOG_2PI
from .._core.value import value
from ..factors.factor import Moments
from .covariances import Covariance, Spread

C = TypeVar("C", bound=Covariance, covariant=True, default=Covariance)


@value
class Belief(Generic[C]):
    """q(w) = N(mean, cov).

    Attributes:
        mean: (..., H).
        cov: a covariance of (..., H) weights.
    """

    mean: Tensor
    cov: C

    def project(self, psi: Tensor) -> Moments:
        """Return q(f_n) = N(mean . psi_n, psi_n' cov psi_n), psi (..., N, H)."""
        return Moments(*self.cov.project(self.mean, psi))

    def log_evidence(self, alpha: Tensor) -> Tensor:
        """Return log Z_w = log N(mean; 0, cov + I/alpha) (Eq. Lscroll)."""
        return self.cov.plus(1 / alpha).log_normal(self.mean)

    def kl(self: "Belief[Spread]", alpha: Tensor) -> Tensor:
        """Return KL(N(mean, cov) || N(0, I/alpha))."""
        h = self.mean.shape[-1]
        entropy = 0.5 * h - self.cov.log_normal(torch.zeros_like(self.mean))
        second = self.cov.trace() + self.mean.square().sum(-1)
        return 0.5 * (alpha * second + h * (LOG_2PI - alpha.log())) - entropy

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n draws of w, (n, ..., H)."""
        shape = torch.Size((n, *self.mean.shape))
        return self.mean.expand(shape) + self.cov.draw(shape, generator)
