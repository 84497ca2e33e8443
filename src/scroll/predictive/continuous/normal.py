"""Predictives of a real number: a normal, and the mixture of several components."""

from math import log, pi, sqrt
from typing import ClassVar, Generic

import torch
from torch import Generator, Tensor
from torch.special import ndtr, ndtri
from typing_extensions import TypeVar

from ..._core.linalg import log_normal
from ..._core.value import cast, map_tensors, value
from ..arguments import n_draws, randn, rows
from ..protocol import Numeric
from ..summaries import summary
from .kernels import GAUSS, Gauss, LocationScale
from .panels import crps_integral


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
    def scale(self) -> Tensor:
        """The standard deviation."""
        return self.stddev

    @property
    def kernel(self) -> Gauss:
        """The standard normal distribution."""
        return GAUSS

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

    def widened(self, factor: float | Tensor) -> "Normal":
        """Return the normal with its standard deviations multiplied by `factor`."""
        return Normal(self.mean, self.noise_var * factor**2, self.belief_var * factor**2)

    def mixture(self) -> "Normal | Mixture":
        """Return the equal mixture of the members (M, ...), in float64; of one, that one."""
        parts = cast(self, torch.float64)
        return Mixture(parts) if len(parts.mean) > 1 else map_tensors(lambda t: t[0], parts)

    def __repr__(self) -> str:
        return summary("Normal", self.mean.shape, mean=self.mean, stddev=self.stddev)


C = TypeVar("C", bound=LocationScale, default=Normal, covariant=True)


@value
class Mixture(Numeric, Generic[C]):
    """y ~ sum_m w_m p_m, p_m = N(mean_m, var_m) or another location-scale distribution.

    Attributes:
        parts: the components along the first axis, (M, ...), such as the members of an ensemble.
        weights: w, (M,), which sum to 1; None for 1/M each.
    """

    discrete: ClassVar[bool] = False

    parts: C
    weights: Tensor | None = None

    @property
    def mean(self) -> Tensor:
        """The weighted mean of the components."""
        return self.average(self.parts.mean)

    @property
    def variance(self) -> Tensor:
        """The components' mean variance, and the variance of their means."""
        return self.collapsed().variance

    @property
    def members(self) -> tuple[C, ...]:
        """The components, whatever their weights are."""
        each = range(len(self.parts.mean))
        return tuple(map_tensors(lambda t, m=m: t[m], self.parts) for m in each)

    def collapsed(self) -> Normal:
        """Return the normal of the same mean and variance; where members differ, belief_var
        grows."""
        p, mean = self.parts, self.mean
        noise, belief = p.variance, torch.zeros_like(p.mean)
        if isinstance(p, Normal):
            noise, belief = p.noise_var, p.belief_var
        apart = self.average((p.mean - mean).square())
        return Normal(mean, self.average(noise), self.average(belief) + apart)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) of each row."""
        y, mean, scale = self._placed(y)
        each = self.parts.kernel.log_pdf((y - mean) / scale) - scale.log()
        if self.weights is None:
            return each.logsumexp(0) - log(len(each))
        return (each + _first(self.weights.log(), each)).logsumexp(0)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(. <= y) of each row."""
        y, mean, scale = self._placed(y)
        return self.average(self.parts.kernel.cdf((y - mean) / scale))

    def icdf(self, q: Tensor) -> Tensor:
        """Return the y whose cdf is q, by bisection between the components' own quantiles."""
        q, mean, scale = self._placed(q)
        each = mean + scale * self.parts.kernel.icdf(q)
        low, high = each.amin(0), each.amax(0)
        for _ in range(100):  # halves every bracket to rounding
            middle = (low + high) / 2
            below = self.cdf(middle) < q
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def crps(self, y: Tensor) -> Tensor:
        """Return int (F(t) - 1[t >= y])^2 dt of each row.

        Normals: E |Y - y| - E |Y - Y'| / 2, which is the same. Others: by quadrature, to 1e-9.
        """
        y, mean, scale = self._placed(y)
        kernel = self.parts.kernel
        if not isinstance(kernel, Gauss):
            wide = kernel.reach * scale
            ends = (mean - wide).amin(0), (mean + wide).amax(0)
            return crps_integral(self.cdf, y, ends, mean, kernel.radius * scale)
        mean, variance = self.parts.mean, self.parts.variance
        apart = [
            self.average(_distance(mean - m, variance + v))
            for m, v in zip(mean, variance, strict=True)
        ]
        near = self.average(_distance(y - beside(mean, y), beside(variance, y)))
        return near - self.average(torch.stack(apart)) / 2

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n draws of y per row, (n, ...)."""
        p = self.parts
        shape, device = (n_draws(n), *p.mean.shape[1:]), p.mean.device
        if self.weights is None:
            member = torch.randint(len(p.mean), shape, generator=generator, device=device)
        else:
            level = torch.rand(shape, dtype=torch.float64, generator=generator, device=device)
            edges = self.weights.double().cumsum(0)[:-1]
            member = torch.bucketize(level, edges, right=True)
        mean, scale = p.mean.gather(0, member), p.scale.gather(0, member)
        return mean + scale * p.kernel.draws(shape, p.mean, generator)

    def in_units(self, shift: Tensor, scale: Tensor) -> "Mixture[C]":
        """Return the distribution of shift + scale y."""
        return Mixture(self.parts.in_units(shift, scale), self.weights)

    def average(self, each: Tensor) -> Tensor:
        """Return sum_m w_m x_m, of the first axis."""
        if self.weights is None:
            return each.mean(0)
        return (_first(self.weights, each) * each).sum(0)

    def _placed(self, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return y, a number or (draws in front) one per row, and mean and scale to go with it."""
        y = rows(y, self.parts.mean[0])
        return y, beside(self.parts.mean, y), beside(self.parts.scale, y)

    def __repr__(self) -> str:
        members = f"{len(self.parts.mean)} members"
        shape = self.parts.mean.shape[1:]
        return summary("Mixture", shape, members, mean=self.mean, stddev=self.stddev)


def beside(each: Tensor, y: Tensor) -> Tensor:
    """Return components (M, ...) with axes of length one after the first for the draws of y."""
    lead = max(y.dim() - each.dim() + 1, 0)
    return each.reshape(len(each), *(1,) * lead, *each.shape[1:])


def _first(weights: Tensor, each: Tensor) -> Tensor:
    """Return weights (M,) to go with components (M, ...)."""
    return weights.to(each).reshape(-1, *(1,) * (each.dim() - 1))


def _distance(mean: Tensor, variance: Tensor) -> Tensor:
    """E |Z| for Z ~ N(mean, variance)."""
    std = variance.sqrt()
    z = mean / std
    return std * (z * (2 * ndtr(z) - 1) + sqrt(2 / pi) * (-z.square() / 2).exp())
