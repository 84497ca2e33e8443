"""Counts as targets: plain, or with more zeros than a rate explains."""

from dataclasses import dataclass
from math import log
from typing import cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..._core.checks import LARGE_COUNTS, LARGEST_COUNT, invalid, require
from ...factors import NegativeBinomial, ZeroInflated
from ...heads.head import Head
from ...heads.likelihoods import CountLikelihood
from ...tables.frames import Array
from .numbers import RealTask
from .task import Units


@dataclass(frozen=True, eq=False)
class CountTask:
    """Counts 0, 1, 2, ..., one target: "poisson", "negbinomial", "zip" or "zinb"."""

    likelihood: str
    levels: None = None
    class_weight: None = None
    map: None = None

    def read(self, y: ArrayLike) -> Array:
        """Return counts as float64, (N,)."""
        target = RealTask().read(y)
        require(target.ndim == 1, "y", "be one column of counts", f"shape {target.shape}")
        check_counts(target)
        return target

    def n_outputs(self, y: Array) -> int:
        """Return 1."""
        return 1

    def units(self, y: Array, scaled: bool) -> Units:
        """Return the units of counts, which are never rescaled."""
        return Units()

    def encode(self, y: Array, units: Units, seed: int) -> Tensor:
        """Return the counts in single precision."""
        return torch.from_numpy(y.astype(np.float32))

    def start(self, head: Head, y: Tensor) -> None:
        """Start at the rate, dispersion and share of extra zeros of the counts without inputs."""
        likelihood, pi = cast(CountLikelihood, head.likelihood), 0.0
        if likelihood.logit_inflation is not None:
            pi = extra_zeros(y)
            likelihood.logit_inflation.fill_(log(pi / (1 - pi)))
        rate, concentration = _base_moments(y, pi)
        if head.bias is not None:
            head.bias.fill_(log(rate))
        if likelihood.log_concentration is not None:
            likelihood.log_concentration.fill_(log(concentration))

    def numbers(self, y: Tensor) -> Tensor:
        """Return log(1 + y), of unit spread."""
        z = y.log1p()
        return (z - z.mean()) / z.std().clamp(min=1e-6)

    def decode(self, values: Tensor) -> Array:
        """Return integers."""
        return as_integers(values.double().numpy())


def extra_zeros(y: Tensor) -> float:
    """Return the probability pi of an extra zero that is most likely for counts (N,) alone.

    The other counts are negative binomial: rates that differ by inputs look like dispersion.
    """
    y = y.double().flatten()
    value, times = y.unique(return_counts=True)
    most = (float((y == 0).sum()) + 0.5) / (len(y) + 1)

    def log_likelihood(pi: float) -> float:
        rate, concentration = _base_moments(y, pi)
        logit, f = value.new_tensor(log(pi / (1 - pi))), torch.full_like(value, log(rate))
        factor = ZeroInflated(NegativeBinomial(value.new_tensor(concentration)), logit)
        return float((factor.log_prob(value, f) * times).sum())

    return max((max(0.02 * share * most, 2e-3) for share in range(1, 50)), key=log_likelihood)


def _base_moments(y: Tensor, pi: float) -> tuple[float, float]:
    """The rate and the concentration that counts (N,) have besides a share pi of extra zeros.

    E y = (1 - pi) rate, var y = (1 - pi) (rate + rate^2 / concentration + pi rate^2).
    """
    rate = float(y.mean()) / (1 - pi)
    more = float(y.var()) / (1 - pi) - pi * rate**2 - rate
    concentration = rate**2 / max(more, 1e-3 * rate**2, 1e-9)
    return max(rate, 1e-3), min(max(concentration, 0.01), 1e3)


def check_counts(y: Array, name: str = "y", first: int = 0, where: str = "") -> None:
    """Raise an error unless y (N,) holds counts.

    Args:
        y: the counts.
        name: what they are called in the message.
        first: number of the first row in the message.
        where: words behind the row number in the message.
    """
    bad = ~((y >= 0) & (y == np.round(y)))
    if bad.any():
        got = f"{y[bad.argmax()]:g} in row {bad.argmax() + first}{where}"
        raise invalid(name, "hold counts 0, 1, 2, ...", got, "Measurements are 'gaussian'.")
    large = y > LARGEST_COUNT
    if large.any():
        got = f"{y[large.argmax()]:g} in row {large.argmax() + first}{where}"
        raise invalid(name, f"hold counts up to {LARGEST_COUNT:g}", got, LARGE_COUNTS)


def as_integers(counts: Array) -> Array:
    """Return counts as integers; as floats if one is too large for a float to be exact."""
    return counts.astype(np.int64) if bool((counts < 2.0**53).all()) else counts
