"""What a head gives back: a distribution over y for each row.

Shapes are the user's: (..., N) for one output, (..., N, K) for several. `quantile` of Q
levels adds a last axis of Q.
"""

from math import log

import torch
from torch import Generator, Tensor
from torch.special import ndtr, ndtri

from .._core.checks import labels
from .._core.linalg import log_normal
from .._core.value import value
from ..factors import Factor
from ..factors.factor import Moments
from .arguments import Levels, as_tensor, interval, n_draws, quantile, randn, rows
from .counts import Count, CountMixture
from .summaries import summary

__all__ = [
    "Categorical",
    "Count",
    "CountMixture",
    "Implied",
    "Levels",
    "Mixture",
    "Normal",
    "Ordered",
]


@value
class Normal:
    """y ~ N(mean, noise_var + belief_var)."""

    mean: Tensor
    noise_var: Tensor  # of the observation factor
    belief_var: Tensor  # v_n: score-trained spread on the free route, epistemic on a bound one

    @property
    def variance(self) -> Tensor:
        return self.noise_var + self.belief_var

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def log_prob(self, y: Tensor) -> Tensor:
        return log_normal(rows(y, self.mean) - self.mean, self.variance)

    def cdf(self, y: Tensor) -> Tensor:
        return ndtr((rows(y, self.mean) - self.mean) / self.stddev)

    def icdf(self, q: Tensor) -> Tensor:
        return self.mean + self.stddev * ndtri(rows(q, self.mean))

    def quantile(self, q: Levels) -> Tensor:
        return quantile(self.icdf, q, self.mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n draws per row, (n, ...)."""
        return self.mean + self.stddev * randn(self.mean, n, generator)

    def __repr__(self) -> str:
        return summary("Normal", self.mean.shape, mean=self.mean, stddev=self.stddev)


@value
class Mixture:
    """y ~ 1/M sum_m N(mean_m, var_m), the members of an ensemble along the first axis."""

    parts: Normal  # (M, ...)

    @property
    def mean(self) -> Tensor:
        return self.parts.mean.mean(0)

    @property
    def variance(self) -> Tensor:
        return self.collapsed().variance

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def collapsed(self) -> Normal:
        """The normal of the same mean and variance; where members differ, belief_var grows."""
        p = self.parts
        apart = p.mean.var(0, unbiased=False)
        return Normal(self.mean, p.noise_var.mean(0), p.belief_var.mean(0) + apart)

    def log_prob(self, y: Tensor) -> Tensor:
        each = self.parts.log_prob(rows(y, self.mean).expand_as(self.parts.mean))
        return each.logsumexp(0) - log(len(each))

    def cdf(self, y: Tensor) -> Tensor:
        return self.parts.cdf(rows(y, self.mean).expand_as(self.parts.mean)).mean(0)

    def icdf(self, q: Tensor) -> Tensor:
        """By bisection between the least and the greatest quantile of a member."""
        q = rows(q, self.mean)
        each = self.parts.icdf(q.expand_as(self.parts.mean))
        low, high = each.amin(0), each.amax(0)
        for _ in range(100):  # halves every bracket to rounding
            middle = (low + high) / 2
            below = self.cdf(middle) < q
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def quantile(self, q: Levels) -> Tensor:
        return quantile(self.icdf, q, self.mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n draws per row, (n, ...)."""
        p = self.parts
        shape, device = (n_draws(n), *self.mean.shape), p.mean.device
        who = torch.randint(len(p.mean), shape, generator=generator, device=device)
        mean, std = p.mean.gather(0, who), p.stddev.gather(0, who)
        return mean + std * randn(self.mean, n, generator)

    def __repr__(self) -> str:
        members = f"{len(self.parts.mean)} members"
        shape = self.parts.mean.shape[1:]
        return summary("Mixture", shape, members, mean=self.mean, stddev=self.stddev)


@value
class Categorical:
    """P(y = k) = probs[..., k], y = 0..K-1. Moments are those of the one-hot vector."""

    log_probs: Tensor  # (..., N, K), normalised

    @property
    def probs(self) -> Tensor:
        return self.log_probs.exp()

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def mode(self) -> Tensor:
        """The most probable label."""
        return self.log_probs.argmax(-1)

    def log_prob(self, y: Tensor) -> Tensor:
        shape = self.log_probs.shape
        y = labels(as_tensor("y", y).to(self.log_probs.device), shape[:-1], shape[-1])
        return self.log_probs.gather(-1, y[..., None])[..., 0]

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n labels per row, (n, ...)."""
        lead = self.log_probs.shape[:-1]
        if n_draws(n) == 0 or lead.numel() == 0:  # torch draws at least one
            return torch.empty((n, *lead), dtype=torch.long, device=self.log_probs.device)
        flat = self.probs.flatten(0, -2)
        draws = torch.multinomial(flat, n, replacement=True, generator=generator)
        return draws.mT.unflatten(-1, lead)

    def __repr__(self) -> str:
        shape, top = self.log_probs.shape, self.log_probs.amax(-1).exp()
        return summary("Categorical", shape[:-1], f"{shape[-1]} classes", largest_probability=top)


@value
class Ordered:
    """P(y = k) = probs[..., k] for ordered levels: also a distribution function and quantiles."""

    log_probs: Tensor  # (..., N, K), normalised

    @property
    def probs(self) -> Tensor:
        return self.log_probs.exp()

    @property
    def mean(self) -> Tensor:
        return self.probs @ self._levels

    @property
    def variance(self) -> Tensor:
        return (self.probs * (self._levels - self.mean[..., None]).square()).sum(-1)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def mode(self) -> Tensor:
        """The most probable level."""
        return self.log_probs.argmax(-1)

    def log_prob(self, y: Tensor) -> Tensor:
        return Categorical(self.log_probs).log_prob(y)

    def cdf(self, y: Tensor) -> Tensor:
        """P(level <= y)."""
        y = rows(y, self.log_probs[..., 0])
        return (self.probs * (self._levels <= y[..., None])).sum(-1)

    def icdf(self, q: Tensor) -> Tensor:
        """The least level whose cdf reaches q."""
        short = self.probs.cumsum(-1) < rows(q, self.log_probs[..., 0])[..., None]
        return short[..., :-1].sum(-1)

    def quantile(self, q: Levels) -> Tensor:
        return quantile(self.icdf, q, self.log_probs[..., 0])

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n levels per row, (n, ...)."""
        return Categorical(self.log_probs).sample(n, generator)

    def __repr__(self) -> str:
        *shape, k = self.log_probs.shape
        return summary("Ordered", tuple(shape), f"{k} levels", mean=self.mean, stddev=self.stddev)

    @property
    def _levels(self) -> Tensor:
        k = self.log_probs.shape[-1]
        return torch.arange(k, dtype=self.log_probs.dtype, device=self.log_probs.device)


@value
class Implied:
    """The predictive of a user's own factor: its density, and the latent f behind it."""

    factor: Factor
    latent_mean: Tensor  # (..., N)
    latent_var: Tensor

    def log_prob(self, y: Tensor) -> Tensor:
        y = rows(y, self.latent_mean)
        return self.factor.log_marginal(y, Moments(self.latent_mean, self.latent_var))

    def sample_latent(self, n: int, generator: Generator | None = None) -> Tensor:
        """n draws of f per row, (n, ...)."""
        noise = randn(self.latent_mean, n, generator)
        return self.latent_mean + self.latent_var.sqrt() * noise

    def __repr__(self) -> str:
        factor, std = f"factor {type(self.factor).__name__}", self.latent_var.sqrt()
        shape = self.latent_mean.shape
        return summary("Implied", shape, factor, latent_mean=self.latent_mean, latent_stddev=std)
