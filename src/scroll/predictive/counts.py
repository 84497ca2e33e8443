"""Predictives of counts: one belief about the log rate, or a mixture of several."""

from math import log

import torch
from torch import Generator, Tensor

from .._core.checks import counts, must
from .._core.value import cast, value
from ..factors import NegativeBinomial, Poisson
from ..factors.count_cdf import count_cdf, search
from ..factors.factor import Moments
from .arguments import Levels, interval, quantile, randn, rows
from .summaries import summary

_LARGE = 2.0**40  # rates from which a Poisson count is normal to all digits of a float


@value
class Count:
    """y | f of a count factor with rate exp f, f ~ N(latent_mean, latent_var)."""

    factor: Poisson | NegativeBinomial
    latent_mean: Tensor  # (..., N)
    latent_var: Tensor

    @property
    def mean(self) -> Tensor:
        """E exp f."""
        return (self.latent_mean + self.latent_var / 2).exp()

    @property
    def variance(self) -> Tensor:
        """mean + mean^2 (exp(v) (1 + 1/r) - 1), with 1/r = 0 for the Poisson factor."""
        return self.mean + self.mean.square() * self._excess

    @property
    def stddev(self) -> Tensor:
        """sqrt(variance), without the square of the mean, which is the first to overflow."""
        root = self.mean.sqrt()
        return root * (1 + self.mean * self._excess).sqrt()

    @property
    def _excess(self) -> Tensor:
        excess = torch.expm1(self.latent_var)
        if isinstance(self.factor, NegativeBinomial):
            excess = excess + self.latent_var.exp() / self.factor.concentration[..., None]
        return excess

    def log_prob(self, y: Tensor) -> Tensor:
        y = rows(y, self.latent_mean)
        counts(y, 2.0**53)  # beyond it a float cannot tell a count from the next
        return self.factor.log_marginal(y, self._at)

    def cdf(self, y: Tensor) -> Tensor:
        """P(count <= y)."""
        k = rows(y, self.latent_mean).floor()
        return torch.where(k < 0, 0.0, count_cdf(self.factor, k.clamp(min=0), self._at))

    def icdf(self, q: Tensor) -> Tensor:
        """The least count whose cdf reaches q."""
        return CountMixture((self,)).icdf(q)

    def quantile(self, q: Levels) -> Tensor:
        return quantile(self.icdf, q, self.latent_mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n counts per row, (n, ...)."""
        noise = randn(self.latent_mean, n, generator)
        rate = (self.latent_mean + self.latent_var.sqrt() * noise).exp()
        if isinstance(self.factor, NegativeBinomial):
            r = self.factor.concentration[..., None].expand_as(rate)
            rate = rate * torch._standard_gamma(r, generator) / r
        drawn = torch.poisson(rate.clamp(max=_LARGE), generator)
        large = rate > _LARGE
        if not bool(large.any()):
            return drawn
        noise = torch.randn(rate.shape, dtype=rate.dtype, device=rate.device, generator=generator)
        return torch.where(large, (rate + rate.sqrt() * noise).round(), drawn)

    @property
    def _at(self) -> Moments:
        return Moments(self.latent_mean, self.latent_var)

    def __repr__(self) -> str:
        factor, shape = f"factor {type(self.factor).__name__}", self.latent_mean.shape
        return summary("Count", shape, factor, mean=self.mean, stddev=self.stddev)


@value
class CountMixture:
    """y ~ 1/M sum_m of count predictives."""

    parts: tuple[Count, ...]

    @property
    def mean(self) -> Tensor:
        return self._over("mean").mean(0)

    @property
    def variance(self) -> Tensor:
        return self._over("variance").mean(0) + self._over("mean").var(0, unbiased=False)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def log_prob(self, y: Tensor) -> Tensor:
        each = torch.stack([part.log_prob(y) for part in self.parts])
        return each.logsumexp(0) - log(len(each))

    def cdf(self, y: Tensor) -> Tensor:
        return torch.stack([part.cdf(y) for part in self.parts]).mean(0)

    def icdf(self, q: Tensor) -> Tensor:
        """The least count whose cdf reaches q, in float64."""
        exact = CountMixture(tuple(cast(part, torch.float64) for part in self.parts))
        mean = exact.mean
        level = rows(q, mean).expand_as(mean)
        below = bool((level < 1 - 1e-12).all())
        must(below, "q", "be below 1: counts have no greatest", level.max().item())
        found = search(exact.cdf, mean, exact.stddev, level)
        return found.to(self.parts[0].latent_mean.dtype)

    def quantile(self, q: Levels) -> Tensor:
        return quantile(self.icdf, q, self.parts[0].latent_mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n counts per row, (n, ...)."""
        each = torch.stack([part.sample(n, generator) for part in self.parts])
        shape, device = each.shape[1:], each.device
        who = torch.randint(len(self.parts), shape, generator=generator, device=device)
        return each.gather(0, who[None])[0]

    def _over(self, name: str) -> Tensor:
        return torch.stack([getattr(part, name) for part in self.parts])

    def __repr__(self) -> str:
        members, shape = f"{len(self.parts)} members", self.parts[0].latent_mean.shape
        return summary("CountMixture", shape, members, mean=self.mean, stddev=self.stddev)
