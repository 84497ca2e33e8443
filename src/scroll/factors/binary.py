"""Two-valued factors, y = -1 or +1: probit (closed form) and logit (quadrature)."""

from math import pi, sqrt

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.special import erfcx, log_ndtr, ndtr

from .._core.checks import may_hold
from .._core.linalg import log_normal
from .._core.quadrature import expect, log_expect_at_mode
from .._core.value import value
from .factor import Moments
from .smooth import Derivatives, of_sigmoid

_WIDE = 25.0  # variance of f beyond which nodes that span it step over the rise of the sigmoid


@value
class Probit:
    """p(y | f) = Phi(y f / scale), y = -1, +1.

    Attributes:
        scale: (...), not trained; it takes the place of the noise.
    """

    scale: Tensor

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log p(y | f) of each row."""
        return log_ndtr(y * f / self.scale[..., None])

    def derivatives(self, y: Tensor, f: Tensor) -> Derivatives:
        """Return y r/c, -r (z + r)/c^2 and its derivative; z = y f/c, r = N(z; 0, 1)/Phi(z)."""
        c = self.scale[..., None]
        z = y * f / c
        r = hazard(z)
        curve = r * (z + r)
        return Derivatives(y * r / c, -curve / c**2, y * ((z + 2 * r) * curve - r) / c**3)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return log Phi(y mean / sqrt(scale^2 + var)) (Eq. probit_conv)."""
        return log_ndtr(y * at.mean / (self.scale.square()[..., None] + at.var).sqrt())

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log p(y | f) of each row, f ~ N(mean, var)."""
        return expect(lambda f: self.log_prob(y, f), *at)


@value
class BernoulliLogit:
    """p(y | f) = 1/(1 + exp(-y f)), y = -1, +1."""

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log p(y | f) of each row."""
        return logsigmoid(y * f)

    def derivatives(self, y: Tensor, f: Tensor) -> Derivatives:
        """Return y s(-y f), -s(f) s(-f) and its derivative."""
        first, second, third = of_sigmoid(y * f, 1.0, 0.0)
        return Derivatives(y * first, second, y * third)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return log E p(y | f) of each row, by quadrature.

        p(y | f) = P(X < y f), X logistic. Where f is wide, E Phi((y mean - X)/std) is the smoother
        integrand.
        """
        mean, wide = y * at.mean, at.var > _WIDE
        narrow = at.var.clamp(max=_WIDE)
        over_f = log_expect_at_mode(logsigmoid, mean, narrow, derivatives=_slope_and_curve)
        if not may_hold(wide.any()):
            return over_f
        return torch.where(wide, _over_threshold(mean, at.var.clamp(min=_WIDE).sqrt()), over_f)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log p(y | f) of each row, f ~ N(mean, var)."""
        return expect(lambda f: self.log_prob(y, f), *at)


def hazard(z: Tensor) -> Tensor:
    """Return N(z; 0, 1)/Phi(z), to all digits on both sides of zero."""
    left, right = z.clamp(max=0), z.clamp(min=0)
    below = sqrt(2 / pi) / erfcx(-left / sqrt(2))
    above = (-right.square() / 2).exp() / (sqrt(2 * pi) * ndtr(right))
    return torch.where(z < 0, below, above)


def _slope_and_curve(f: Tensor) -> tuple[Tensor, Tensor]:
    """The first two derivatives of log sigmoid."""
    up, down = torch.sigmoid(f), torch.sigmoid(-f)
    return down, -up * down


def _over_threshold(mean: Tensor, std: Tensor) -> Tensor:
    """log E Phi((mean - X)/std), X logistic, as an expectation under N(0, 1)."""
    one = torch.ones_like(mean)

    def log_ratio(x: Tensor) -> Tensor:
        below = log_ndtr((mean - x) / std)
        return logsigmoid(x) + logsigmoid(-x) + below - log_normal(x, one)

    return log_expect_at_mode(log_ratio, torch.zeros_like(mean), one)
