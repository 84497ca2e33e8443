"""The Gaussian factor, the one that is conjugate to the belief."""

import torch
from torch import Tensor

from .._core.linalg import log_normal
from .._core.value import value
from .factor import Moments
from .smooth import Derivatives


@value
class Gaussian:
    """y ~ N(f, noise^2).

    Attributes:
        noise: standard deviation, (...).
    """

    noise: Tensor

    @property
    def var(self) -> Tensor:
        """The noise variance, (..., 1)."""
        return self.noise.square()[..., None]

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log p(y | f) of each row."""
        return log_normal(y - f, self.var)

    def derivatives(self, y: Tensor, f: Tensor) -> Derivatives:
        """Return (y - f)/noise^2, -1/noise^2 and zero."""
        first = (y - f) / self.var
        return Derivatives(first, (-1 / self.var).expand_as(first), torch.zeros_like(first))

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return log N(y; mean, noise^2 + var) (Eq. gauss_conv)."""
        return log_normal(y - at.mean, self.var + at.var)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log p(y | f) of each row, f ~ N(mean, var)."""
        return self.log_prob(y, at.mean) - 0.5 * at.var / self.var
