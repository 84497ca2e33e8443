"""The Gaussian factor, the one that is conjugate to the belief."""

from torch import Tensor

from .._core.linalg import log_normal
from .._core.value import value
from .factor import Moments


@value
class Gaussian:
    """y ~ N(f, noise^2)."""

    noise: Tensor  # (...), standard deviation

    @property
    def var(self) -> Tensor:  # (..., 1)
        return self.noise.square()[..., None]

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return log_normal(y - f, self.var)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """log N(y; mean, noise^2 + var) (Eq. gauss_conv)."""
        return log_normal(y - at.mean, self.var + at.var)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        return self.log_prob(y, at.mean) - 0.5 * at.var / self.var
