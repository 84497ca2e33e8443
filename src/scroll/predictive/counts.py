"""Predictives of counts: one belief about the log rate, or a mixture of several."""

from collections.abc import Callable
from math import log
from typing import ClassVar

import torch
from torch import Generator, Tensor

from .._core.checks import counts, require
from .._core.value import cast, map_tensors, value
from ..factors import Moments, NegativeBinomial, Poisson, ZeroInflated
from .arguments import randn, rows
from .count_cdf import cdf_from_zero, count_cdf, search
from .protocol import Numeric
from .summaries import summary

_LARGE = 2.0**40  # rates from which a Poisson count is normal to all digits of a float
_FIRST = 4096  # terms of a sum over counts that are summed one by one
_BLOCKS = 256  # terms of the rest of the sum, on each side of y
_CHUNK = 2048  # rows at a time


@value
class Count(Numeric):
    """y | f of a count factor with rate exp f, f ~ N(latent_mean, latent_var).

    Attributes:
        factor: p(y | f).
        latent_mean: mean of the log rate, (..., N).
        latent_var: variance of the log rate.
    """

    discrete: ClassVar[bool] = True

    factor: Poisson | NegativeBinomial | ZeroInflated
    latent_mean: Tensor
    latent_var: Tensor

    @property
    def mean(self) -> Tensor:
        """E exp f; times 1 - pi if the factor is inflated by zeros."""
        rate = (self.latent_mean + self.latent_var / 2).exp()
        if isinstance(self.factor, ZeroInflated):
            rate = rate * (-self.factor.logit).sigmoid()[..., None]
        return rate

    @property
    def variance(self) -> Tensor:
        """mean + mean^2 e, e = exp(v) (1 + 1/r) - 1, with 1/r = 0 for the Poisson factor.

        Zero inflation makes it (e + pi)/(1 - pi).
        """
        return self.mean + self.mean.square() * self._excess

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance, without mean^2, which is the first to overflow."""
        root = self.mean.sqrt()
        return root * (1 + self.mean * self._excess).sqrt()

    @property
    def _excess(self) -> Tensor:
        excess = torch.expm1(self.latent_var)
        if isinstance(self._base, NegativeBinomial):
            excess = excess + self.latent_var.exp() / self._base.concentration[..., None]
        if isinstance(self.factor, ZeroInflated):
            logit = self.factor.logit[..., None]
            excess = (excess + logit.sigmoid()) / (-logit).sigmoid()
        return excess

    @property
    def _base(self) -> Poisson | NegativeBinomial:
        """The factor without its inflation."""
        return self.factor.base if isinstance(self.factor, ZeroInflated) else self.factor

    @property
    def members(self) -> tuple["Count"]:
        """The counts that are mixed: this one."""
        return (self,)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log P(y) of each row."""
        y = rows(y, self.latent_mean)
        counts(y, 2.0**53)  # beyond it a float cannot tell a count from the next
        return self.factor.log_marginal(y, self._at)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(count <= y) of each row."""
        k = rows(y, self.latent_mean).floor()
        return torch.where(k < 0, 0.0, count_cdf(self.factor, k.clamp(min=0), self._at))

    def icdf(self, q: Tensor) -> Tensor:
        """Return the least count whose cdf reaches q."""
        return CountMixture((self,)).icdf(q)

    def crps(self, y: Tensor) -> Tensor:
        """Return sum_k (F(k) - 1[k >= y])^2 of each row: see `CountMixture.crps`."""
        return CountMixture((self,)).crps(y)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n counts per row, (n, ...)."""
        noise = randn(self.latent_mean, n, generator)
        rate = (self.latent_mean + self.latent_var.sqrt() * noise).exp()
        if isinstance(self._base, NegativeBinomial):
            r = self._base.concentration[..., None].expand_as(rate)
            rate = rate * torch._standard_gamma(r, generator) / r
        if isinstance(self.factor, ZeroInflated):
            extra = self.factor.logit.sigmoid()[..., None].expand_as(rate)
            rate = rate.masked_fill(torch.bernoulli(extra, generator=generator).bool(), 0)
        drawn = torch.poisson(rate.clamp(max=_LARGE), generator)
        large = rate > _LARGE
        if not bool(large.any()):
            return drawn
        noise = torch.randn(rate.shape, dtype=rate.dtype, device=rate.device, generator=generator)
        return torch.where(large, (rate + rate.sqrt() * noise).round(), drawn)

    def mixture(self) -> "Count | CountMixture":
        """Return the equal mixture of the members (M, ...); of one, that one."""
        each = [map_tensors(lambda t, m=m: t[m], self) for m in range(len(self.latent_mean))]
        return each[0] if len(each) == 1 else CountMixture(tuple(each))

    @property
    def _at(self) -> Moments:
        return Moments(self.latent_mean, self.latent_var)

    def __repr__(self) -> str:
        factor, shape = f"factor {type(self.factor).__name__}", self.latent_mean.shape
        return summary("Count", shape, factor, mean=self.mean, stddev=self.stddev)


@value
class CountMixture(Numeric):
    """y ~ 1/M sum_m of count predictives.

    Attributes:
        parts: the members of an ensemble.
    """

    discrete: ClassVar[bool] = True

    parts: tuple[Count, ...]

    @property
    def mean(self) -> Tensor:
        """The mean over the members."""
        return self._means.mean(0)

    @property
    def variance(self) -> Tensor:
        """The members' mean variance, and the variance of their means."""
        variances = torch.stack([part.variance for part in self.parts])
        return variances.mean(0) + self._means.var(0, unbiased=False)

    @property
    def members(self) -> tuple[Count, ...]:
        """The counts that are mixed."""
        return self.parts

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log P(y) of each row."""
        each = torch.stack([part.log_prob(y) for part in self.parts])
        return each.logsumexp(0) - log(len(each))

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(count <= y) of each row."""
        return torch.stack([part.cdf(y) for part in self.parts]).mean(0)

    def icdf(self, q: Tensor) -> Tensor:
        """Return the least count whose cdf reaches q, found in float64."""
        exact = cast(self, torch.float64)
        mean = exact.mean
        level = rows(q, mean).expand_as(mean)
        below = bool((level < 1 - 1e-12).all())
        require(below, "q", "be below 1: counts have no greatest", level.max().item())
        found = search(exact.cdf, mean, exact.stddev, level)
        return found.to(self.parts[0].latent_mean.dtype)

    def crps(self, y: Tensor) -> Tensor:
        """Return sum_{k < y} F(k)^2 + sum_{k >= y} (1 - F(k))^2 of each row, in float64.

        The tail beyond F = 1 - 1e-6 is left out. Terms are summed one by one up to k = 4095, then
        in at most 256 blocks on each side of y, each by its middle term.
        """
        p = cast(self, torch.float64)
        shape = torch.broadcast_shapes(p.parts[0].latent_mean.shape, y.shape)
        each = zip(_chunks(p, shape), y.double().expand(shape).split(_CHUNK, -1), strict=True)
        return torch.cat([_crps(some, target) for some, target in each], -1)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n counts per row, (n, ...)."""
        each = torch.stack([part.sample(n, generator) for part in self.parts])
        shape, device = each.shape[1:], each.device
        member = torch.randint(len(self.parts), shape, generator=generator, device=device)
        return each.gather(0, member[None])[0]

    @property
    def _means(self) -> Tensor:
        return torch.stack([part.mean for part in self.parts])

    def __repr__(self) -> str:
        members, shape = f"{len(self.parts)} members", self.parts[0].latent_mean.shape
        return summary("CountMixture", shape, members, mean=self.mean, stddev=self.stddev)


def _chunks(p: CountMixture, shape: torch.Size) -> list[CountMixture]:
    """Return the mixture of some rows at a time."""
    means, variances = (
        [part_rows.expand(shape).split(_CHUNK, -1) for part_rows in tensors]
        for tensors in zip(*((part.latent_mean, part.latent_var) for part in p.parts), strict=True)
    )
    return [
        CountMixture(
            tuple(
                Count(part.factor, mean[i], var[i])
                for part, mean, var in zip(p.parts, means, variances, strict=True)
            )
        )
        for i in range(len(means[0]))
    ]


def _crps(p: CountMixture, y: Tensor) -> Tensor:
    """Return the sum of (F(k) - 1[k >= y])^2 up to F = 1 - 1e-6, in float64."""
    top = torch.maximum(p.icdf(torch.as_tensor(1 - 1e-6)), y)
    terms = int(top.max().clamp(max=_FIRST - 1)) + 1 if top.numel() else 0
    total = torch.zeros_like(top)
    ladders = (cdf_from_zero(part.factor, part._at, terms) for part in p.parts)
    for k, each in enumerate(zip(*ladders, strict=True)):
        at_k = torch.stack(each).mean(0)
        total = total + torch.where(y <= k, 1 - at_k, at_k).square() * (top >= k)
    first = torch.full_like(top, terms)
    total = total + _sum(lambda k: p.cdf(k).square(), first, (y - first).clamp(min=0))
    start = torch.maximum(first, y)
    return total + _sum(lambda k: (1 - p.cdf(k)).square(), start, (top - start + 1).clamp(min=0))


def _sum(f: Callable[[Tensor], Tensor], first: Tensor, count: Tensor) -> Tensor:
    """sum of f(k) over `count` integers from `first` on, in at most _BLOCKS blocks."""
    step, total = (count / _BLOCKS).ceil().clamp(min=1), torch.zeros_like(first)
    for j in range(int((count / step).ceil().max())):
        width = torch.minimum(count - j * step, step).clamp(min=0)
        middle = first + j * step + ((width - 1) / 2).floor().clamp(min=0)
        total = total + width * f(middle)
    return total
