"""The members of an ensemble as one predictive: the exact mixture of theirs."""

from collections.abc import Sequence
from math import log
from typing import Any

import torch
from torch import Generator, Tensor

from ._value import cast, value
from .checks import must
from .factors import NegativeBinomial
from .predictive import Categorical, Count, Levels, Mixture, Normal, Ordered, _interval, _quantile


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
        """The least count whose cdf reaches q, by bisection between those of the members."""
        exact = CountMixture(tuple(cast(part, torch.float64) for part in self.parts))
        each = torch.stack([part.icdf(q) for part in exact.parts]).double()
        low, high = each.amin(0) - 1, each.amax(0)
        level = torch.as_tensor(q).to(high).expand_as(high)
        while bool((high - low > 1).any()):
            middle = ((low + high) / 2).floor()
            reached = exact.cdf(middle) >= level
            between = (middle > low) & (middle < high)
            high = torch.where(between & reached, middle, high)
            low = torch.where(between & ~reached, middle, low)
        return high.to(self.parts[0].latent_mean.dtype)

    def quantile(self, q: Levels) -> Tensor:
        return _quantile(self.icdf, q, self.parts[0].latent_mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        return _interval(self.quantile, coverage)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """n counts a row, (n, ...)."""
        each = torch.stack([part.sample(n, generator) for part in self.parts])
        shape, device = each.shape[1:], each.device
        who = torch.randint(len(self.parts), shape, generator=generator, device=device)
        return each.gather(0, who[None])[0]

    def _over(self, name: str) -> Tensor:
        return torch.stack([getattr(part, name) for part in self.parts])


def blend(stacks: Sequence[Any], shift: Tensor, scale: Tensor) -> Any:
    """One predictive of the members of all stacks, each (M, ...), all equally likely.

    A real y is in units of shift + scale y.
    """
    parts = stacks[0]
    if isinstance(parts, Normal):
        parts = cast(_together(stacks, "mean", "noise_var", "belief_var"), torch.float64)
        square = scale.square()
        normal = Normal(
            shift + scale * parts.mean, square * parts.noise_var, square * parts.belief_var
        )
        if len(normal.mean) > 1:
            return Mixture(normal)
        return Normal(normal.mean[0], normal.noise_var[0], normal.belief_var[0])
    if isinstance(parts, Count):
        each = tuple(_member(s, m) for s in stacks for m in range(len(s.latent_mean)))
        return each[0] if len(each) == 1 else CountMixture(each)
    must(
        isinstance(parts, Categorical | Ordered),
        "likelihood",
        "be one that an ensemble can mix",
        type(parts).__name__,
        error=TypeError,
    )
    parts = _together(stacks, "log_probs")
    mean = parts.log_probs.double().logsumexp(0)
    return type(parts)(mean - mean.logsumexp(-1, keepdim=True))


def lapsed(p: Any, power: float, share: float, rates: Tensor) -> Any:
    """The predictive of labels to some power, but for a share that is drawn by `rates` (K,)."""
    probs = (power * p.log_probs).softmax(-1)
    return type(p)(((1 - share) * probs + share * rates).log())


def _together(stacks: Sequence[Any], *names: str) -> Any:
    return type(stacks[0])(*(torch.cat([getattr(s, name) for s in stacks]) for name in names))


def _member(parts: Count, m: int) -> Count:
    factor = parts.factor
    if isinstance(factor, NegativeBinomial):
        factor = NegativeBinomial(factor.concentration[m])
    return Count(factor, parts.latent_mean[m], parts.latent_var[m])
