"""Ordered levels: thresholds on one latent variable."""

import torch
from torch import Tensor
from torch.special import log_ndtr

from .._core.linalg import log_normal
from .._core.quadrature import expect
from .._core.value import value
from .factor import Moments
from .smooth import Derivatives

# Stands for infinity: this many deviations beyond the other end, and beyond zero, a tail is
# empty in every precision, while its gradient is still a number.
_FAR = 40.0


@value
class Ordinal:
    """p(y | f) = Phi((t_y+1 - f)/scale) - Phi((t_y - f)/scale), y = 0..K-1.

    Attributes:
        thresholds: t_1 < ... < t_K-1, (..., K-1); t_0 = -inf and t_K = inf are not stored.
        scale: (...).
    """

    thresholds: Tensor
    scale: Tensor

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log p(y | f) of each row."""
        return self._log_mass(y, f, self.scale[..., None])

    def derivatives(self, y: Tensor, f: Tensor) -> Derivatives:
        """Return g = (a - b)/c, the derivative of g in f, and that of the derivative.

        a and b are the normal densities at the lower and the upper end over the mass between.
        """
        c = self.scale[..., None]
        low, high = self._ends(y, f, c)
        mass = log_ndtr_difference(low, high)
        a, b = ((log_normal(x, torch.ones_like(x)) - mass).exp() for x in (low, high))
        first = (a - b) / c
        # In f, low and high fall at the rate 1/c, and a rises at the rate a (low/c - first).
        up, down = a * (low / c - first), b * (high / c - first)
        second = (up - down) / c
        bent = [
            w * (x / c - first) - d / c**2 - d * second
            for w, x, d in ((up, low, a), (down, high, b))
        ]
        return Derivatives(first, second, (bent[0] - bent[1]) / c)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return a difference of two probit convolutions: the scale becomes sqrt(scale^2 + var)."""
        return self._log_mass(y, at.mean, (self.scale.square()[..., None] + at.var).sqrt())

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log p(y | f) of each row, f ~ N(mean, var)."""
        return expect(lambda f: self.log_prob(y, f), *at)

    def log_probs(self, at: Moments) -> Tensor:
        """Return log P(y = k) for every level, (..., N, K)."""
        levels = torch.arange(self.thresholds.shape[-1] + 1, device=at.mean.device)
        y = levels.reshape(-1, *(1,) * at.mean.dim()).expand(-1, *at.mean.shape)
        return self.log_marginal(y, at).movedim(0, -1)

    def _log_mass(self, y: Tensor, f: Tensor, scale: Tensor) -> Tensor:
        return log_ndtr_difference(*self._ends(y, f, scale))

    def _ends(self, y: Tensor, f: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Return (t_y - f)/scale and (t_y+1 - f)/scale."""
        last = self.thresholds.shape[-1]
        low = (_pick(self.thresholds, (y - 1).clamp(min=0)) - f) / scale
        high = (_pick(self.thresholds, y.clamp(max=last - 1)) - f) / scale
        bottom = high.detach().clamp(max=0) - _FAR
        top = low.detach().clamp(min=0) + _FAR
        return torch.where(y == 0, bottom, low), torch.where(y == last, top, high)


def _pick(edges: Tensor, y: Tensor) -> Tensor:
    """edges[..., y], the leading axes of the two broadcast."""
    lead = torch.broadcast_shapes(edges.shape[:-1], y.shape[:-1])
    index = y.long().expand(*lead, y.shape[-1])
    return edges.expand(*lead, edges.shape[-1]).gather(-1, index)


def log_ndtr_difference(low: Tensor, high: Tensor) -> Tensor:
    """Return log(Phi(high) - Phi(low)), low < high, exact in both tails.

    Mirrored so that the interval leans to the left, where log Phi keeps all its digits.
    """
    right = low + high > 0
    a, b = torch.where(right, -high, low), torch.where(right, -low, high)
    top = log_ndtr(b)
    return top + torch.log(-torch.expm1(log_ndtr(a) - top))
