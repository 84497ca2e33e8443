"""Predictives of labels 0..K-1: unordered classes, and ordered levels."""

from typing import ClassVar

import torch
from torch import Generator, Tensor

from .._core.checks import labels
from .._core.value import value
from .arguments import as_tensor, n_draws, rows
from .protocol import Labels, Numeric
from .summaries import summary


@value
class Categorical(Labels):
    """P(y = k) = probs[..., k], y = 0..K-1. Moments are those of the one-hot vector.

    Attributes:
        log_probs: (..., N, K), normalised.
    """

    ordered: ClassVar[bool] = False

    log_probs: Tensor

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """p (1 - p) of each label."""
        return self.probs * (1 - self.probs)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log P(y) of each row, y an integer label."""
        shape = self.log_probs.shape
        y = labels(as_tensor("y", y).to(self.log_probs.device), shape[:-1], shape[-1])
        return self.log_probs.gather(-1, y[..., None])[..., 0]

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n labels per row, (n, ...)."""
        lead = self.log_probs.shape[:-1]
        if n_draws(n) == 0 or lead.numel() == 0:  # torch draws at least one
            return torch.empty((n, *lead), dtype=torch.long, device=self.log_probs.device)
        flat = self.probs.flatten(0, -2)
        draws = torch.multinomial(flat, n, replacement=True, generator=generator)
        return draws.mT.unflatten(-1, lead)

    def recalibrated(self, power: float, lapse: float, rates: Tensor) -> "Categorical":
        """Return (1 - lapse) p^power, normalised, plus lapse times `rates` (K,)."""
        return Categorical(_recalibrated(self.log_probs, power, lapse, rates))

    def mixture(self, weights: Tensor | None = None) -> "Categorical":
        """Return the mixture of the members (M, ...), in float64; weights (M,), or all equal."""
        return Categorical(_averaged(self.log_probs, weights))

    def __repr__(self) -> str:
        shape, top = self.log_probs.shape, self.log_probs.amax(-1).exp()
        return summary("Categorical", shape[:-1], f"{shape[-1]} classes", largest_probability=top)


@value
class Ordered(Labels, Numeric):
    """P(y = k) = probs[..., k] for ordered levels: also a distribution function and quantiles.

    Attributes:
        log_probs: (..., N, K), normalised.
    """

    log_probs: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean of the level's number."""
        return self.probs @ self._levels

    @property
    def variance(self) -> Tensor:
        """The variance of the level's number."""
        return (self.probs * (self._levels - self.mean[..., None]).square()).sum(-1)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log P(y) of each row, y the integer number of a level."""
        return Categorical(self.log_probs).log_prob(y)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(level <= y) of each row."""
        y = rows(y, self.log_probs[..., 0])
        return (self.probs * (self._levels <= y[..., None])).sum(-1)

    def icdf(self, q: Tensor) -> Tensor:
        """Return the least level whose cdf reaches q."""
        short = self.probs.cumsum(-1) < rows(q, self.log_probs[..., 0])[..., None]
        return short[..., :-1].sum(-1)

    def crps(self, y: Tensor) -> Tensor:
        """Return sum_k (P(. <= k) - 1[y <= k])^2 of each row, the ranked probability score."""
        reached = self._levels[:-1] >= y[..., None]
        return (self.probs.cumsum(-1)[..., :-1] - reached.to(self.probs)).square().sum(-1)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n levels per row, (n, ...)."""
        return Categorical(self.log_probs).sample(n, generator)

    def recalibrated(self, power: float, lapse: float, rates: Tensor) -> "Ordered":
        """Return (1 - lapse) p^power, normalised, plus lapse times `rates` (K,)."""
        return Ordered(_recalibrated(self.log_probs, power, lapse, rates))

    def mixture(self, weights: Tensor | None = None) -> "Ordered":
        """Return the mixture of the members (M, ...), in float64; weights (M,), or all equal."""
        return Ordered(_averaged(self.log_probs, weights))

    def __repr__(self) -> str:
        *shape, k = self.log_probs.shape
        return summary("Ordered", tuple(shape), f"{k} levels", mean=self.mean, stddev=self.stddev)

    @property
    def _levels(self) -> Tensor:
        k = self.log_probs.shape[-1]
        return torch.arange(k, dtype=self.log_probs.dtype, device=self.log_probs.device)


def _averaged(log_probs: Tensor, weights: Tensor | None) -> Tensor:
    """log of the mean of probabilities over the first axis, normalised, in float64."""
    each = log_probs.double()
    if weights is not None:
        each = each + weights.to(each).log().reshape(-1, *(1 for _ in each.shape[1:]))
    mean = each.logsumexp(0)
    return mean - mean.logsumexp(-1, keepdim=True)


def _recalibrated(log_probs: Tensor, power: float, lapse: float, rates: Tensor) -> Tensor:
    probs = (power * log_probs).softmax(-1)
    return ((1 - lapse) * probs + lapse * rates).log()
