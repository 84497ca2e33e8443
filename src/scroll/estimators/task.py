"""The task of an estimator: how targets are read, trained on and given back to the user.

A target is a real number, a count or a class label. Each kind is one value with the same
operations, so that fitting and predicting never ask which kind they have.
"""

from dataclasses import dataclass
from math import log
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from .._core.checks import LARGE_COUNTS, LARGEST_COUNT, invalid, require
from ..heads.head import Head
from ..heads.likelihoods import CountLikelihood
from ..tables.frames import Array
from .arguments import check_target, one_line

FARTHEST = 1e8  # standard deviations from the mean, at which training clips a target


class Units(NamedTuple):
    """A target is shift + scale * (what the networks are trained on)."""

    shift: Array | float = 0.0
    scale: Array | float = 1.0


class Task(Protocol):
    """What fitting and predicting need to know about a target."""

    @property
    def likelihood(self) -> str:
        """Name of the likelihood, as in `Spec`."""

    @property
    def levels(self) -> Array | None:
        """The class labels by class index, (K,); None for numbers."""

    @property
    def class_weight(self) -> Array | None:
        """The weight of each class, (K,); None if all classes weigh the same."""

    def read(self, y: ArrayLike) -> Array:
        """Check the user's targets; return numbers, (N,) or (N, K), or class indices, (N,)."""

    def n_outputs(self, y: Array) -> int:
        """Return the number of targets or classes."""

    def n_folds(self, n_rows: int, n_members: int) -> int:
        """Return the number of cross-fitting folds; 0 if all members hold out the same rows."""

    def units(self, y: Array, scaled: bool) -> Units:
        """Return the units to train in; `scaled` asks for a target of unit spread."""

    def encode(self, y: Array, units: Units, seed: int) -> Tensor:
        """Return the targets to train on, in these units; `seed` is for a constant target."""

    def start(self, head: Head, y: Tensor) -> None:
        """Set the initial parameters of a head from the targets `y` that it is trained on."""

    def decode(self, values: Tensor) -> Array:
        """Return predicted values as the user's: numbers, integers or labels."""


@dataclass(frozen=True, eq=False)
class RealTask:
    """Real targets, one or several: standardised, with Gaussian noise."""

    likelihood: str = "gaussian"
    levels: None = None
    class_weight: None = None

    def read(self, y: ArrayLike) -> Array:
        """Return finite numbers, (N,) or (N, K)."""
        if y is None:
            raise required("ScrollRegressor")
        target = check_target(y, "ScrollRegressor")
        with one_line("y", "hold numbers"):
            target = np.asarray(target, np.float64)
        most = np.abs(target).max(initial=0.0)
        within = most < 1e150 and not 0 < most < 1e-150
        got, remedy = f"{most:g} as its largest absolute value", "Give it in other units."
        require(within, "y", "be zero or lie between 1e-150 and 1e150", got, remedy)
        if target.ndim == 2 and target.shape[1] == 1:
            return np.asarray(column_or_1d(target, warn=True))
        return target

    def n_outputs(self, y: Array) -> int:
        """Return the number of columns of y."""
        return 1 if y.ndim == 1 else y.shape[1]

    def n_folds(self, n_rows: int, n_members: int) -> int:
        """Return 0: the posterior learns from the held-out rows afterwards."""
        return 0

    def units(self, y: Array, scaled: bool) -> Units:
        """Return the mean and the standard deviation of y; without `scaled` a scale of one.

        The scale of a target that is constant up to rounding is a millionth of its size.
        """
        shift, spread = y.mean(0), y.std(0)
        least = 1e-6 * np.maximum(np.abs(shift), 1e-300 if np.any(shift) else 1.0)
        constant = spread <= 1e-12 * np.abs(shift)
        scale = np.where(constant, least, spread)
        return Units(shift, scale if scaled else np.where(constant, least, 1.0))

    def encode(self, y: Array, units: Units, seed: int) -> Tensor:
        """Return (y - shift) / scale, clipped so that squares are finite in single precision.

        Nothing can be learned from a constant target but its value: standard normal noise stands
        in for it, of unit spread in the scale of a millionth.
        """
        unit = (y - units.shift) / units.scale
        still = (y == y[:1]).all(0) & (np.abs(unit) < 1e-3).all(0)
        if np.any(still):
            unit = np.where(still, np.random.default_rng(seed).normal(size=unit.shape), unit)
        return torch.from_numpy(unit.clip(-FARTHEST, FARTHEST)).float()

    def start(self, head: Head, y: Tensor) -> None:
        """Leave the head as it is: a standardised target needs no other start."""

    def decode(self, values: Tensor) -> Array:
        """Return float64 numbers."""
        return values.double().numpy()


@dataclass(frozen=True, eq=False)
class CountTask:
    """Counts 0, 1, 2, ..., one target: "poisson" or "negbinomial"."""

    likelihood: str
    levels: None = None
    class_weight: None = None

    def read(self, y: ArrayLike) -> Array:
        """Return counts as float64, (N,)."""
        target = RealTask().read(y)
        require(target.ndim == 1, "y", "be one column of counts", f"shape {target.shape}")
        check_counts(target)
        return target

    def n_outputs(self, y: Array) -> int:
        """Return 1."""
        return 1

    def n_folds(self, n_rows: int, n_members: int) -> int:
        """Return 0: all members hold out the same rows."""
        return 0

    def units(self, y: Array, scaled: bool) -> Units:
        """Return the units of counts, which are never rescaled."""
        return Units()

    def encode(self, y: Array, units: Units, seed: int) -> Tensor:
        """Return the counts in single precision."""
        return torch.from_numpy(y.astype(np.float32))

    def start(self, head: Head, y: Tensor) -> None:
        """Start at the mean rate, and at the dispersion that the counts have without inputs.

        var y = mean + mean^2 / concentration of a negative binomial.
        """
        mean, more = float(y.mean()), float(y.var()) - float(y.mean())
        if head.bias is not None:
            head.bias.fill_(log(max(mean, 1e-3)))
        likelihood = head.likelihood
        if isinstance(likelihood, CountLikelihood) and likelihood.log_concentration is not None:
            concentration = mean**2 / max(more, 1e-3 * mean**2, 1e-9)
            likelihood.log_concentration.fill_(log(min(max(concentration, 0.01), 1e3)))

    def decode(self, values: Tensor) -> Array:
        """Return integers."""
        return as_integers(values.double().numpy())


def required(estimator: str) -> ValueError:
    """Return the error for a missing y, in the words that scikit-learn's checks look for."""
    return ValueError(
        f"This {estimator} estimator requires y to be passed, but the target y is None."
    )


def number_task(likelihood: str) -> RealTask | CountTask:
    """Return the task of a regressor by the name of its likelihood."""
    return RealTask() if likelihood == "gaussian" else CountTask(likelihood)


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
