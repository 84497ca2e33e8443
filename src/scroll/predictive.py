"""What a head gives back: a distribution over y for each row.

Shapes are the user's: (..., N) for one output, (..., N, K) for several. `quantile` of Q
levels adds a last axis of Q.
"""

from collections.abc import Callable, Sequence
from math import log

import torch
from torch import Generator, Tensor
from torch.special import ndtr, ndtri

from ._value import cast, value
from .beliefs import Moments
from .checks import counts, labels, must, refusal
from .counting import count_cdf
from .factors import Factor, NegativeBinomial, Poisson
from .linalg import log_normal

Levels = float | Sequence[float] | Tensor


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
        return log_normal(_rows(y, self.mean) - self.mean, self.variance)

    def cdf(self, y: Tensor) -> Tensor:
        return ndtr((_rows(y, self.mean) - self.mean) / self.stddev)

    def icdf(self, q: Tensor) -> Tensor:
        return self.mean + self.stddev * ndtri(_rows(q, self.mean))

    def quantile(self, q: Levels) -> Tensor:
        return _quantile(self.icdf, q, self.mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return _interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n draws a row, (n, ...)."""
        return self.mean + self.stddev * _randn(self.mean, n, generator)


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
        each = self.parts.log_prob(_rows(y, self.mean).expand_as(self.parts.mean))
        return each.logsumexp(0) - log(len(each))

    def cdf(self, y: Tensor) -> Tensor:
        return self.parts.cdf(_rows(y, self.mean).expand_as(self.parts.mean)).mean(0)

    def icdf(self, q: Tensor) -> Tensor:
        """By bisection between the least and the greatest quantile of a member."""
        q = _rows(q, self.mean)
        each = self.parts.icdf(q.expand_as(self.parts.mean))
        low, high = each.amin(0), each.amax(0)
        for _ in range(100):  # halves every bracket to rounding
            middle = (low + high) / 2
            below = self.cdf(middle) < q
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def quantile(self, q: Levels) -> Tensor:
        return _quantile(self.icdf, q, self.mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return _interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n draws a row, (n, ...)."""
        p = self.parts
        shape, device = (n, *self.mean.shape), p.mean.device
        who = torch.randint(len(p.mean), shape, generator=generator, device=device)
        mean, std = p.mean.gather(0, who), p.stddev.gather(0, who)
        return mean + std * _randn(self.mean, n, generator)


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
        y = labels(y, self.log_probs.shape[:-1], self.log_probs.shape[-1])
        return self.log_probs.gather(-1, y[..., None])[..., 0]

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n labels a row, (n, ...)."""
        flat = self.probs.flatten(0, -2)
        draws = torch.multinomial(flat, n, replacement=True, generator=generator)
        return draws.mT.unflatten(-1, self.log_probs.shape[:-1])


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
        y = _rows(y, self.log_probs[..., 0])
        return (self.probs * (self._levels <= y[..., None])).sum(-1)

    def icdf(self, q: Tensor) -> Tensor:
        """The least level whose cdf reaches q."""
        short = self.probs.cumsum(-1) < _rows(q, self.log_probs[..., 0])[..., None]
        return short[..., :-1].sum(-1)

    def quantile(self, q: Levels) -> Tensor:
        return _quantile(self.icdf, q, self.log_probs[..., 0])

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return _interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n levels a row, (n, ...)."""
        return Categorical(self.log_probs).sample(n, generator)

    @property
    def _levels(self) -> Tensor:
        k = self.log_probs.shape[-1]
        return torch.arange(k, dtype=self.log_probs.dtype, device=self.log_probs.device)


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
        excess = torch.expm1(self.latent_var)
        if isinstance(self.factor, NegativeBinomial):
            excess = excess + self.latent_var.exp() / self.factor.concentration[..., None]
        return self.mean + self.mean.square() * excess

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def log_prob(self, y: Tensor) -> Tensor:
        y = _rows(y, self.latent_mean)
        counts(y)
        return self.factor.log_marginal(y, self._at)

    def cdf(self, y: Tensor) -> Tensor:
        """P(count <= y)."""
        k = _rows(y, self.latent_mean).floor()
        return torch.where(k < 0, 0.0, count_cdf(self.factor, k.clamp(min=0), self._at))

    def icdf(self, q: Tensor) -> Tensor:
        """The least count whose cdf reaches q, by doubling and bisection, in float64."""
        at, factor = cast(self._at, torch.float64), cast(self.factor, torch.float64)
        q = _rows(q, at.mean).expand_as(at.mean)
        must(
            bool((q < 1 - 1e-12).all()), "q", "be below 1: counts have no greatest", q.max().item()
        )
        high = torch.ones_like(q)
        while bool((short := count_cdf(factor, high, at) < q).any()):
            high = torch.where(short, 2 * high, high)
        low = -torch.ones_like(q)  # cdf(low) < q <= cdf(high)
        while True:
            middle = ((low + high) / 2).floor()
            between = (middle > low) & (middle < high)
            if not bool(between.any()):
                return high.to(self.latent_mean.dtype)
            reached = count_cdf(factor, middle.clamp(min=0), at) >= q
            high = torch.where(between & reached, middle, high)
            low = torch.where(between & ~reached, middle, low)

    def quantile(self, q: Levels) -> Tensor:
        return _quantile(self.icdf, q, self.latent_mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return _interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n counts a row, (n, ...)."""
        noise = _randn(self.latent_mean, n, generator)
        rate = (self.latent_mean + self.latent_var.sqrt() * noise).exp()
        if isinstance(self.factor, NegativeBinomial):
            r = self.factor.concentration[..., None].expand_as(rate)
            rate = rate * torch._standard_gamma(r, generator) / r
        return torch.poisson(rate, generator)

    @property
    def _at(self) -> Moments:
        return Moments(self.latent_mean, self.latent_var)


@value
class Implied:
    """The predictive of a user's own factor: its density, and the latent f behind it."""

    factor: Factor
    latent_mean: Tensor  # (..., N)
    latent_var: Tensor

    def log_prob(self, y: Tensor) -> Tensor:
        y = _rows(y, self.latent_mean)
        return self.factor.log_marginal(y, Moments(self.latent_mean, self.latent_var))

    def sample_latent(self, n: int, generator: Generator | None = None) -> Tensor:
        """n draws of f a row, (n, ...)."""
        noise = _randn(self.latent_mean, n, generator)
        return self.latent_mean + self.latent_var.sqrt() * noise


def _rows(y: Tensor | float, like: Tensor) -> Tensor:
    """`y`, a number or of the shape of the rows (draws in front), as `like` is."""
    y = torch.as_tensor(y).to(like)
    if y.dim() and y.shape[-like.dim() :] != like.shape:
        want = f"have the shape {tuple(like.shape)} of the predictive"
        remedy = "Use y.squeeze(-1)." if y.shape[-1] == 1 else ""
        raise refusal("y", want, tuple(y.shape), remedy)
    return y


def _quantile(icdf: Callable[[Tensor], Tensor], q: Levels, like: Tensor) -> Tensor:
    try:
        levels = torch.as_tensor(q, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise refusal("q", "be a level, or a list of levels", repr(q), error=TypeError) from error
    must(levels.dim() < 2 and levels.numel(), "q", "be a level, or a list of levels", q)
    must(
        bool(((levels > 0) & (levels < 1)).all()),
        "q",
        "lie strictly between 0 and 1",
        levels.tolist(),
        "95 % is 0.95.",
    )
    if levels.dim() == 0:
        return icdf(levels)
    return torch.stack([icdf(level) for level in levels], -1)


def _interval(quantile: Callable[[float], Tensor], coverage: float) -> tuple[Tensor, Tensor]:
    must(0 < coverage < 1, "coverage", "lie strictly between 0 and 1", coverage, "90 % is 0.9.")
    return quantile((1 - coverage) / 2), quantile((1 + coverage) / 2)


def _randn(like: Tensor, n: int, generator: Generator | None) -> Tensor:
    return torch.randn((n, *like.shape), dtype=like.dtype, device=like.device, generator=generator)
