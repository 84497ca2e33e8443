"""What a predictive is worth on held-out data.

Rows are the last axis, (..., N); of several outputs (N, K), give one at a time. Labels are 0..K-1.
"""

from collections.abc import Callable
from math import pi, sqrt
from typing import Any, Protocol

import torch
from torch import Generator, Tensor
from torch.special import ndtr

from .._core.checks import labels, must, positive_int, refusal
from .._core.value import cast
from .normal import Count, CountMixture, Mixture, Normal, Ordered

LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))
BLOCKS = 256  # terms of a sum over counts, on each side of y


class Predictive(Protocol):
    """A predictive of a real y."""

    @property
    def mean(self) -> Tensor:
        """E y."""

    def log_prob(self, y: Tensor) -> Tensor:
        """log p(y)."""

    def cdf(self, y: Tensor) -> Tensor:
        """P(. <= y)."""


class Labels(Protocol):
    """A predictive of a label."""

    @property
    def probs(self) -> Tensor:
        """P(y = k), (..., N, K)."""


def nll(predictive: Predictive, y: Tensor) -> Tensor:
    """Mean of -log p(y_n), with its 1/2 log 2 pi."""
    return -predictive.log_prob(_rows(predictive, y)).mean(-1)


def rmse(predictive: Predictive, y: Tensor) -> Tensor:
    """Root mean square of y_n - E y_n."""
    return (_rows(predictive, y) - predictive.mean).square().mean(-1).sqrt()


def coverage(predictive: Predictive, y: Tensor, level: float) -> Tensor:
    """Share of y_n inside their central interval of the given level."""
    inside = (2 * predictive.cdf(_rows(predictive, y)) - 1).abs() <= level
    return inside.to(predictive.mean.dtype).mean(-1)


def calibration_error(predictive: Predictive, y: Tensor) -> Tensor:
    """Mean over 19 levels of |nominal - empirical| coverage of central intervals."""
    gaps = [(coverage(predictive, y, level) - level).abs() for level in LEVELS]
    return torch.stack(gaps).mean(0)


def crps(predictive: Any, y: Tensor) -> Tensor:
    """Mean of int (F(t) - 1[t >= y_n])^2 dt, exact for normals, their mixtures, and counts.

    Of counts so large that more than 256 terms stand on one side of y, blocks of terms are summed
    by their middle one.
    """
    y = _rows(predictive, y)
    if isinstance(predictive, Normal):
        p = predictive
        predictive = Mixture(Normal(p.mean[None], p.noise_var[None], p.belief_var[None]))
    if isinstance(predictive, Mixture):
        return _crps_normals(predictive.parts, y).mean(-1)
    if isinstance(predictive, Count | CountMixture):
        return _crps_counts(predictive, y).mean(-1)
    want = "be a normal, a mixture of normals or a count"
    raise refusal("predictive", want, type(predictive).__name__, error=TypeError)


def brier(predictive: Labels, y: Tensor) -> Tensor:
    """Mean of sum_k (p_nk - 1[y_n = k])^2, between 0 and 2."""
    probs, y = _labelled(predictive, y)
    hit = torch.zeros_like(probs).scatter(-1, y[..., None], 1.0)
    return (probs - hit).square().sum(-1).mean(-1)


def accuracy(predictive: Labels, y: Tensor) -> Tensor:
    """Share of rows whose most probable label is y_n, the first of equals."""
    probs, y = _labelled(predictive, y)
    return (probs.argmax(-1) == y).to(probs).mean(-1)


def ece(predictive: Labels, y: Tensor, bins: int = 10) -> Tensor:
    """sum_b N_b/N |accuracy_b - confidence_b| over equal bins of the greatest probability.

    A bin holds its lower edge, as torchmetrics has it, and the last holds 1.
    """
    positive_int("bins", bins)
    top, gap = _confidence(predictive, y)
    edges = torch.linspace(0, 1, bins + 1, dtype=top.dtype, device=top.device)[1:-1]
    return _binned(gap, torch.bucketize(top, edges, right=True), bins)


def adaptive_ece(predictive: Labels, y: Tensor, bins: int = 10) -> Tensor:
    """`ece` over bins of as many rows each, by rank of the greatest probability.

    Equal probabilities share the bin of the first of them, so the order of rows does not matter.
    """
    positive_int("bins", bins)
    top, gap = _confidence(predictive, y)
    below = torch.searchsorted(top.sort(-1).values, top)
    return _binned(gap, below * bins // top.shape[-1], bins)


def ranked_probability_score(predictive: Labels, y: Tensor) -> Tensor:
    """Mean of sum_k (P(. <= k) - 1[y_n <= k])^2 over ordered labels, between 0 and K - 1."""
    probs, y = _labelled(predictive, y)
    reached = torch.arange(probs.shape[-1] - 1, device=y.device) >= y[..., None]
    return (probs.cumsum(-1)[..., :-1] - reached.to(probs)).square().sum(-1).mean(-1)


def pit(predictive: Any, y: Tensor, generator: Generator | None = None) -> Tensor:
    """u_n = F(y_n), uniform if calibrated, (..., N).

    Of counts and ordered labels it is uniform between F(y_n - 1) and F(y_n), drawn from
    `generator`.
    """
    if isinstance(predictive, Ordered):
        _labelled(predictive, y)
    low, high = step(predictive, y)
    if low is high:
        return high
    u = torch.rand(high.shape, dtype=high.dtype, device=high.device, generator=generator)
    return low + u * (high - low)


def step(predictive: Any, y: Tensor) -> tuple[Tensor, Tensor]:
    """P(. < y_n) and P(. <= y_n), (..., N): one tensor where y is real."""
    must(
        hasattr(predictive, "cdf"),
        "predictive",
        "have a distribution function",
        type(predictive).__name__,
        "That takes real numbers, counts or ordered labels.",
        TypeError,
    )
    # a sum of probabilities may pass 1 by rounding
    high = predictive.cdf(_rows(predictive, y)).clamp(0, 1)
    if isinstance(predictive, Count | CountMixture | Ordered):
        return predictive.cdf(y - 1).clamp(0, 1), high
    return high, high


def _confidence(predictive: Labels, y: Tensor) -> tuple[Tensor, Tensor]:
    """The greatest probability, and by how much it falls short of 1[it was right]."""
    probs, y = _labelled(predictive, y)
    top, guess = probs.max(-1)
    return top.contiguous(), (guess == y).to(top) - top


def _binned(gap: Tensor, where: Tensor, bins: int) -> Tensor:
    """sum_b |sum of the gaps in bin b| / N."""
    each = [(gap * (where == b)).mean(-1).abs() for b in range(bins)]
    return torch.stack(each).sum(0)


def _crps_normals(parts: Normal, y: Tensor) -> Tensor:
    """E |Y - y| - E |Y - Y'| / 2 of a mixture of normals (M, ..., N)."""
    near = _distance(y - parts.mean, parts.variance).mean(0)
    apart = [
        _distance(parts.mean - mean, parts.variance + variance).mean(0)
        for mean, variance in zip(parts.mean, parts.variance, strict=True)
    ]
    return near - torch.stack(apart).mean(0) / 2


def _distance(mean: Tensor, variance: Tensor) -> Tensor:
    """E |Z| for Z ~ N(mean, variance)."""
    std = variance.sqrt()
    z = mean / std
    return std * (z * (2 * ndtr(z) - 1) + sqrt(2 / pi) * (-z.square() / 2).exp())


def _crps_counts(predictive: Count | CountMixture, y: Tensor) -> Tensor:
    """sum_{k < y} F(k)^2 + sum_{k >= y} (1 - F(k))^2; beyond F = 1 - 1e-6 nothing is left."""
    if isinstance(predictive, Count):
        predictive = CountMixture((predictive,))
    p, y = CountMixture(tuple(cast(part, torch.float64) for part in predictive.parts)), y.double()
    top = torch.maximum(p.icdf(torch.as_tensor(1 - 1e-6)), y)
    below = _sum(lambda k: p.cdf(k).square(), torch.zeros_like(y), y)
    return below + _sum(lambda k: (1 - p.cdf(k)).square(), y, top - y + 1)


def _sum(f: Callable[[Tensor], Tensor], first: Tensor, count: Tensor) -> Tensor:
    """sum of f(k) over `count` integers from `first` on, in at most BLOCKS blocks."""
    step, total = (count / BLOCKS).ceil().clamp(min=1), torch.zeros_like(first)
    for j in range(int((count / step).ceil().max())):
        width = torch.minimum(count - j * step, step).clamp(min=0)
        middle = first + j * step + ((width - 1) / 2).floor().clamp(min=0)
        total = total + width * f(middle)
    return total


def _labelled(predictive: Labels, y: Tensor) -> tuple[Tensor, Tensor]:
    probs = predictive.probs
    return probs, labels(y, probs.shape[:-1], probs.shape[-1])


def _rows(predictive: Predictive, y: Tensor) -> Tensor:
    shape = predictive.mean.shape
    must(y.shape == shape, "y", f"have the shape {tuple(shape)} of the predictive", tuple(y.shape))
    return y
