"""What a predictive is worth on held-out data.

Rows are the last axis, (..., N); of several outputs (N, K), give one at a time.
"""

from typing import Protocol

import torch
from torch import Tensor

from .checks import must

LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))


class Predictive(Protocol):
    """A predictive of a real y."""

    @property
    def mean(self) -> Tensor:
        """E y."""

    def log_prob(self, y: Tensor) -> Tensor:
        """log p(y)."""

    def cdf(self, y: Tensor) -> Tensor:
        """P(. <= y)."""


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


def _rows(predictive: Predictive, y: Tensor) -> Tensor:
    shape = predictive.mean.shape
    must(y.shape == shape, "y", f"have the shape {tuple(shape)} of the predictive", tuple(y.shape))
    return y
