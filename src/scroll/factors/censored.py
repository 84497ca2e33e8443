"""Censored numbers: a target is known exactly, or only to lie in an interval."""

from math import log, sqrt

import torch
from torch import Tensor
from torch.special import erfcx, log_ndtr

from .._core.linalg import LOG_2PI, log_normal
from .._core.quadrature import expect
from .._core.value import value
from .factor import Moments

_FAR = 40.0  # deviations beyond which a tail is empty in every precision
_NARROW = 0.5  # of width (1 + |middle|), in deviations: below it a difference would lose digits
# Gauss-Legendre of order 5 on (-1, 1), exact to rounding where narrow: x and -x, halved weights
_NODES = (0.0, 0.538469310105683091, 0.906179845938663993)
_WEIGHTS = (0.284444444444444444, 0.478628670499366468, 0.236926885056189088)


@value
class CensoredGaussian:
    """t ~ N(f, noise^2), of which y = (low, high) is known: low <= t <= high, y (..., N, 2).

    - exact: low = high
    - right-censored: high = inf
    - left-censored: low = -inf
    - interval-censored: low < high, both finite

    The density of t scores exact rows, the probability of the interval scores the others.

    Attributes:
        noise: standard deviation, (...).
    """

    noise: Tensor

    @property
    def var(self) -> Tensor:
        """The noise variance, (..., 1)."""
        return self.noise.square()[..., None]

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log N(t; f, noise^2), or log[Phi((high - f)/noise) - Phi((low - f)/noise)]."""
        return log_known(y, f, self.var)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return the same under N(mean, noise^2 + var) (Eq. gauss_conv, probit_conv)."""
        return log_known(y, at.mean, self.var + at.var)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log p(y | f) of each row, f ~ N(mean, var); by quadrature if censored.

        Accurate to 1e-9 up to sqrt(var) = 20 noise, and to 1e-6 up to 100 noise.
        """
        low, high = y.unbind(-1)
        exact = low == high
        known = log_normal(torch.where(exact, low, at.mean) - at.mean, self.var)
        known = known - 0.5 * at.var / self.var
        std = self.noise[..., None]
        inside = expect(lambda f: log_mass(low, high, f, std), *at, order=361, reach=9.0)
        return torch.where(exact, known, inside)

    def distance(self, y: Tensor, f: Tensor) -> Tensor:
        """Return how far f is from the interval, zero inside."""
        low, high = y.unbind(-1)
        return (low - f).clamp(min=0) + (f - high).clamp(min=0)


def log_known(y: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """Return the log density of exact rows, the log probability of the interval of the others.

    Args:
        y: low and high, (..., N, 2).
        mean: of the normal, (..., N).
        var: its variance.
    """
    low, high = y.unbind(-1)
    exact = low == high
    density = log_normal(torch.where(exact, low, mean) - mean, var)
    return torch.where(exact, density, log_mass(low, high, mean, var.sqrt()))


def log_mass(low: Tensor, high: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return log P(low < t < high), t ~ N(mean, std^2), low < high; ends may be infinite.

    All digits are kept in both tails and for narrow intervals, and gradients are finite. Where
    low = high, the result is a finite number without meaning.
    """
    bounded = low.isfinite() & high.isfinite() & (low < high)
    width = torch.where(bounded, high - low, 1.0)
    middle = (torch.where(bounded, low + width / 2, mean) - mean) / std
    narrow = bounded & (width * (1 + middle.abs()) < _NARROW * std)
    # An empty tail stands for an open end, and for the lower one of rows that are not used here.
    open_low, open_high = low.isneginf() | narrow | (low >= high), high.isposinf()
    a = (torch.where(open_low, mean, low) - mean) / std
    b = (torch.where(open_high, mean, high) - mean) / std
    bottom, top = 2 * b.detach().clamp(max=0) - _FAR, 2 * a.detach().clamp(min=0) + _FAR
    a, b = torch.where(open_low, bottom, a), torch.where(open_high, top, b)
    wide = _log_difference(a, b, torch.where(bounded & ~narrow, width / std, b - a))
    width, middle = torch.where(narrow, width, 1.0), torch.where(narrow, middle, 0.0)
    return torch.where(narrow, _narrow_log_mass(width, middle, std), wide)


def _log_difference(low: Tensor, high: Tensor, width: Tensor) -> Tensor:
    """log(Phi(high) - Phi(low)), mirrored so that the interval leans to the left.

    In the tail, log Phi(low)/Phi(high) is -width |low + high|/2 and a difference of small numbers.
    """
    right = low + high > 0
    a, b = torch.where(right, -high, low), torch.where(right, -low, high)
    tail = _log_erfcx(a) - _log_erfcx(b) - 0.5 * width * (a + b).abs()
    ratio = torch.where(b < 0, tail, _log_ndtr(a) - _log_ndtr(b))
    return _log_ndtr(b) + torch.log(-torch.expm1(ratio))


def _log_ndtr(x: Tensor) -> Tensor:
    """log Phi(x); torch's own gradient is a difference of squares in the tail."""
    tail = _log_erfcx(x) - 0.5 * x.square() - log(2)
    return torch.where(x < 0, tail, log_ndtr(x.clamp(min=0)))


def _log_erfcx(x: Tensor) -> Tensor:
    """log(2 Phi(x)) + x^2/2 for x <= 0."""
    return erfcx(x.clamp(max=0) * -sqrt(0.5)).log()


def _narrow_log_mass(width: Tensor, middle: Tensor, std: Tensor) -> Tensor:
    """The integral of the density about the middle: no difference of large numbers."""
    half = 0.5 * width / std
    total: Tensor | float = 0.0
    for x, weight in zip(_NODES, _WEIGHTS, strict=True):  # of x and -x
        t = half * x
        total = total + weight * torch.cosh(middle * t) * torch.exp(-0.5 * t.square())
    density = -0.5 * (middle.square() + LOG_2PI)
    return width.log() - std.log() + density + torch.as_tensor(total).log()
