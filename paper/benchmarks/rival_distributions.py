"""Distributions that other libraries predict: quantiles, and log-normal mixtures."""

from itertools import product
from math import log
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.special import ndtr

from scroll.predictive import Normal, Numeric

LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))
WIDTHS = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)  # times the standard deviation of y
STRETCHES = (0.5, 1.0, 2.0, 4.0, 8.0)


class Quantiles(Numeric):
    """A distribution from quantiles at the 19 levels 0.05, 0.10, ..., 0.95.

    Quantiles that cross are sorted. The distribution function is linear between them, so the
    density is constant there. Gaps narrower than `width` are widened to it, away from the median,
    because a gap of zero has an infinite density. Beyond the outer quantiles the tails are
    exponential, with 5 % of the probability each and a scale of `stretch` times the outer gap;
    the density is continuous if `stretch` is 1.
    """

    discrete: ClassVar[bool] = False

    def __init__(self, found: np.ndarray, width: float, stretch: float):
        knots = torch.from_numpy(np.sort(np.asarray(found, np.float64), -1))
        self.gaps = knots.diff(dim=-1).clamp(min=width)
        ends = torch.cat([torch.zeros_like(knots[:, :1]), self.gaps.cumsum(-1)], -1)
        middle = knots.shape[-1] // 2
        self.knots = ends - ends[:, middle, None] + knots[:, middle, None]
        self.levels = torch.tensor(LEVELS, dtype=knots.dtype)
        self.low, self.high = stretch * self.gaps[:, 0], stretch * self.gaps[:, -1]

    @property
    def mean(self) -> Tensor:
        """The mean over the gaps and both tails."""
        centre = (self.knots[:, 1:] + self.knots[:, :-1]) / 2
        below = self.levels[0] * (self.knots[:, 0] - self.low)
        above = (1 - self.levels[-1]) * (self.knots[:, -1] + self.high)
        return (centre * self.levels.diff()).sum(-1) + below + above

    @property
    def variance(self) -> Tensor:
        """The variance over the gaps and both tails."""
        mean = self.mean
        a, b = self.knots[:, :-1] - mean[:, None], self.knots[:, 1:] - mean[:, None]
        inside = (self.levels.diff() * (a * a + a * b + b * b) / 3).sum(-1)
        below = (self.knots[:, 0] - self.low - mean).square() + self.low.square()
        above = (self.knots[:, -1] + self.high - mean).square() + self.high.square()
        return inside + self.levels[0] * below + (1 - self.levels[-1]) * above

    def _tails(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return how far y lies below and above the outer quantiles, in scales of the tails."""
        below = (self.knots[:, 0] - y).clamp(min=0) / self.low
        return below, (y - self.knots[:, -1]).clamp(min=0) / self.high

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) of each row."""
        at = torch.searchsorted(self.knots, y[:, None].contiguous())[:, 0]
        inner = (at - 1).clamp(0, self.gaps.shape[-1] - 1)[:, None]
        density = (self.levels.diff() / self.gaps).gather(-1, inner)[:, 0].log()
        below, above = self._tails(y)
        first = log(self.levels[0]) - self.low.log() - below
        last = log(1 - self.levels[-1]) - self.high.log() - above
        density = torch.where(at == 0, first, density)
        return torch.where(at == self.knots.shape[-1], last, density)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(. <= y) of each row."""
        share = ((y[:, None] - self.knots[:, :-1]) / self.gaps).clamp(0, 1)
        inside = self.levels[0] + (share * self.levels.diff()).sum(-1)
        below, above = self._tails(y)
        left = self.levels[0] * (-below).exp()
        right = 1 - (1 - self.levels[-1]) * (-above).exp()
        return torch.where(below > 0, left, torch.where(above > 0, right, inside))

    def icdf(self, q: Tensor) -> Tensor:
        """Return the y whose cdf is q."""
        q = q.expand(len(self.knots))
        share = ((q[:, None] - self.levels[:-1]) / self.levels.diff()).clamp(0, 1)
        inside = self.knots[:, 0] + (share * self.gaps).sum(-1)
        low = self.low * (q / self.levels[0]).log().clamp(max=0)
        high = self.high * ((1 - q) / (1 - self.levels[-1])).log().clamp(max=0)
        return inside + low - high

    def crps(self, y: Tensor) -> Tensor:
        """Return int (F(t) - 1[t >= y])^2 dt of each row: pieces below y, above y, and tails."""
        at = y[:, None].clamp(self.knots[:, :-1], self.knots[:, 1:])
        share = (at - self.knots[:, :-1]) / self.gaps
        a, b = self.levels[:-1], self.levels[1:]
        c = a + share * (b - a)
        left = share * self.gaps * (a * a + a * c + c * c) / 3
        a, b, c = 1 - a, 1 - b, 1 - c
        right = (1 - share) * self.gaps * (c * c + c * b + b * b) / 3
        below, above = self._tails(y)
        low = _tail(self.low, self.levels[0], below)
        return (left + right).sum(-1) + low + _tail(self.high, 1 - self.levels[-1], above)


def _tail(scale: Tensor, p: Tensor, far: Tensor) -> Tensor:
    """The integral over an exponential tail of probability p, of which y lies `far` scales out."""
    e = (-far).exp()
    return scale * (p * p / 2 * e * e + far - 2 * p * (1 - e) + p * p / 2 * (1 - e * e))


def best_conversion(found: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the width and stretch of `Quantiles` with the best NLL on held-out quantiles of y.

    On targets that repeat a few values (wine, naval) narrow gaps win where quantiles hit these
    values exactly. Compare by CRPS there.
    """
    target = torch.from_numpy(y)

    def score(choice: tuple[float, float]) -> float:
        return float(Quantiles(found, *choice).log_prob(target).mean())

    return max(product([w * float(y.std()) for w in WIDTHS], STRETCHES), key=score)


class LogNormals(Numeric):
    """An equal mixture of log-normals: log y ~ 1/M sum_m N(mean_m, var_m)."""

    discrete: ClassVar[bool] = False

    def __init__(self, parts: Normal):
        self.parts, self.log = parts, parts.mixture()

    @property
    def means(self) -> Tensor:
        """E y of each member, (M, N)."""
        return (self.parts.mean + self.parts.variance / 2).exp()

    @property
    def mean(self) -> Tensor:
        """E y."""
        return self.means.mean(0)

    @property
    def variance(self) -> Tensor:
        """Var y."""
        second = (2 * self.parts.mean + 2 * self.parts.variance).exp().mean(0)
        return second - self.mean.square()

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) of each row; -inf where y is not positive."""
        return torch.where(y > 0, self.log.log_prob(_log(y)) - _log(y), -torch.inf)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(. <= y) of each row."""
        return torch.where(y > 0, self.log.cdf(_log(y)), 0.0)

    def icdf(self, q: Tensor) -> Tensor:
        """Return the y whose cdf is q."""
        return self.log.icdf(q).exp()

    def crps(self, y: Tensor) -> Tensor:
        """Return E |Y - y| - E |Y - Y'| / 2 of each row."""
        m, v, means = self.parts.mean, self.parts.variance, self.means
        z = (_log(y) - m) / v.sqrt()
        near = means * (1 - 2 * ndtr(z - v.sqrt())) + y * (2 * ndtr(z) - 1)
        pair = (m[:, None] - m + v[:, None]) / (v[:, None] + v).sqrt()
        apart = 2 * (means[:, None] * (2 * ndtr(pair) - 1)).mean((0, 1))
        return near.mean(0) - apart / 2


def _log(y: Tensor) -> Tensor:
    return y.clamp(min=torch.finfo(y.dtype).tiny).log()
