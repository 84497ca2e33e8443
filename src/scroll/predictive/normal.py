"""Predictives of a real number: a normal, and the equal mixture of several."""

from math import log, pi, sqrt
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.special import ndtr, ndtri

from .._core.linalg import log_normal
from .._core.value import cast, map_tensors, value
from .arguments import n_draws, randn, rows
from .protocol import Numeric
from .summaries import summary


@value
class Normal(Numeric):
    """y ~ N(mean, noise_var + belief_var).

    Attributes:
        mean: (..., N), or (..., N, K) of several outputs.
        noise_var: variance of the observation factor.
        belief_var: variance of the latent function: score-trained spread on the free route,
            epistemic on a bound one.
    """

    discrete: ClassVar[bool] = False

    mean: Tensor
    noise_var: Tensor
    belief_var: Tensor

    @property
    def variance(self) -> Tensor:
        """noise_var + belief_var."""
        return self.noise_var + self.belief_var

    @property
    def members(self) -> tuple["Normal"]:
        """The normals that are mixed: this one."""
        return (self,)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) of each row."""
        return log_normal(rows(y, self.mean) - self.mean, self.variance)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(. <= y) of each row."""
        return ndtr((rows(y, self.mean) - self.mean) / self.stddev)

    def icdf(self, q: Tensor) -> Tensor:
        """Return the y whose cdf is q."""
        return self.mean + self.stddev * ndtri(rows(q, self.mean))

    def crps(self, y: Tensor) -> Tensor:
        """Return int (F(t) - 1[t >= y])^2 dt of each row."""
        return Mixture(map_tensors(lambda t: t[None], self)).crps(y)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n draws of y per row, (n, ...)."""
        return self.mean + self.stddev * randn(self.mean, n, generator)

    def in_units(self, shift: Tensor, scale: Tensor) -> "Normal":
        """Return the distribution of shift + scale y."""
        square = scale.square()
        return Normal(shift + scale * self.mean, square * self.noise_var, square * self.belief_var)

    def widened(self, factor: float) -> "Normal":
        """Return the normal with its standard deviations multiplied by `factor`."""
        return Normal(self.mean, self.noise_var * factor**2, self.belief_var * factor**2)

    def mixture(self) -> "Normal | Mixture":
        """Return the equal mixture of the members (M, ...), in float64; of one, that one."""
        parts = cast(self, torch.float64)
        return Mixture(parts) if len(parts.mean) > 1 else map_tensors(lambda t: t[0], parts)

    def __repr__(self) -> str:
        return summary("Normal", self.mean.shape, mean=self.mean, stddev=self.stddev)


@value
class Mixture(Numeric):
    """y ~ 1/M sum_m N(mean_m, var_m).

    Attributes:
        parts: the members of an ensemble along the first axis, (M, ...).
    """

    discrete: ClassVar[bool] = False

    parts: Normal

    @property
    def mean(self) -> Tensor:
        """The mean over the members."""
        return self.parts.mean.mean(0)

    @property
    def variance(self) -> Tensor:
        """The members' mean variance, and the variance of their means."""
        return self.collapsed().variance

    @property
    def members(self) -> tuple[Normal, ...]:
        """The normals that are mixed."""
        each = (self.parts.mean, self.parts.noise_var, self.parts.belief_var)
        return tuple(Normal(*parts) for parts in zip(*each, strict=True))

    def collapsed(self) -> Normal:
        """Return the normal of the same mean and variance; where members differ, belief_var
        grows."""
        p = self.parts
        apart = p.mean.var(0, unbiased=False)
        return Normal(self.mean, p.noise_var.mean(0), p.belief_var.mean(0) + apart)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) of each row."""
        each = self.parts.log_prob(rows(y, self.mean).expand_as(self.parts.mean))
        return each.logsumexp(0) - log(len(each))

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(. <= y) of each row."""
        return self.parts.cdf(rows(y, self.mean).expand_as(self.parts.mean)).mean(0)

    def icdf(self, q: Tensor) -> Tensor:
        """Return the y whose cdf is q, by bisection between the members' own quantiles."""
        q = rows(q, self.mean)
        each = self.parts.icdf(q.expand_as(self.parts.mean))
        low, high = each.amin(0), each.amax(0)
        for _ in range(100):  # halves every bracket to rounding
            middle = (low + high) / 2
            below = self.cdf(middle) < q
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def crps(self, y: Tensor) -> Tensor:
        """Return E |Y - y| - E |Y - Y'| / 2 of each row, which is int (F(t) - 1[t >= y])^2 dt."""
        mean, variance = self.parts.mean, self.parts.variance
        near = _distance(y - mean, variance).mean(0)
        apart = [
            _distance(mean - m, variance + v).mean(0) for m, v in zip(mean, variance, strict=True)
        ]
        return near - torch.stack(apart).mean(0) / 2

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n draws of y per row, (n, ...)."""
        p = self.parts
        shape, device = (n_draws(n), *self.mean.shape), p.mean.device
        member = torch.randint(len(p.mean), shape, generator=generator, device=device)
        mean, std = p.mean.gather(0, member), p.stddev.gather(0, member)
        return mean + std * randn(self.mean, n, generator)

    def in_units(self, shift: Tensor, scale: Tensor) -> "Mixture":
        """Return the distribution of shift + scale y."""
        return Mixture(self.parts.in_units(shift, scale))

    def __repr__(self) -> str:
        members = f"{len(self.parts.mean)} members"
        shape = self.parts.mean.shape[1:]
        return summary("Mixture", shape, members, mean=self.mean, stddev=self.stddev)


def _distance(mean: Tensor, variance: Tensor) -> Tensor:
    """E |Z| for Z ~ N(mean, variance)."""
    std = variance.sqrt()
    z = mean / std
    return std * (z * (2 * ndtr(z) - 1) + sqrt(2 / pi) * (-z.square() / 2).exp())
