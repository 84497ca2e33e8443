"""Real targets: exact, or censored."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from ..._core.checks import require
from ...heads.head import Head
from ...predictive import TargetMap
from ...predictive.arguments import as_tensor
from ...tables.censoring import bounds
from ...tables.frames import Array
from ..arguments import check_target, one_line
from .task import Units, required

FEWEST = 5  # distinct exact targets by which censored ones are scaled
FARTHEST = 1e8  # standard deviations from the mean, at which training clips a target


@dataclass(frozen=True, eq=False)
class RealTask:
    """Real targets, one or several: mapped, standardised, with Gaussian noise.

    Attributes:
        map: the monotone map that they are trained in; None for none.
    """

    map: TargetMap | None = None
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

    def mapped(self, y: Array) -> Array:
        """Return the targets in the units of the map."""
        return y if self.map is None else self.map.forward(as_tensor("y", y)).numpy()

    def units(self, y: Array, scaled: bool) -> Units:
        """Return the mean and the standard deviation of y; without `scaled` a scale of one.

        The scale of a target that is constant up to rounding is a millionth of its size.
        """
        z = self.mapped(y)
        shift, spread = z.mean(0), z.std(0)
        least = 1e-6 * np.maximum(np.abs(shift), 1e-300 if np.any(shift) else 1.0)
        constant = spread <= 1e-12 * np.abs(shift)
        scale = np.where(constant, least, spread)
        return Units(shift, scale if scaled else np.where(constant, least, 1.0))

    def encode(self, y: Array, units: Units, seed: int) -> Tensor:
        """Return (g(y) - shift) / scale, clipped so that squares are finite in single precision.

        Nothing can be learned from a constant target but its value: standard normal noise stands
        in for it, of unit spread in the scale of a millionth.
        """
        unit = (self.mapped(y) - units.shift) / units.scale
        still = (y == y[:1]).all(0) & (np.abs(unit) < 1e-3).all(0)
        if np.any(still):
            unit = np.where(still, np.random.default_rng(seed).normal(size=unit.shape), unit)
        return torch.from_numpy(unit.clip(-FARTHEST, FARTHEST)).float()

    def start(self, head: Head, y: Tensor) -> None:
        """Leave the head as it is: a standardised target needs no other start."""

    def numbers(self, y: Tensor) -> Tensor:
        """Return the targets as they are."""
        return y

    def decode(self, values: Tensor) -> Array:
        """Return float64 numbers."""
        return values.double().numpy()


@dataclass(frozen=True, eq=False)
class CensoredTask:
    """A real target of which some rows are known to lie in an interval only.

    Attributes:
        map: the monotone map that it is trained in; None for none.
    """

    map: TargetMap | None = None
    likelihood: str = "censored"
    levels: None = None
    class_weight: None = None

    def read(self, y: ArrayLike) -> Array:
        """Return exact targets as pairs (low, high), (N, 2); `bounds` reads censored ones."""
        return bounds(y)

    def n_outputs(self, y: Array) -> int:
        """Return 1."""
        return 1

    def mapped(self, y: Array) -> Array:
        """Return the ends in the units of the map; open ends stay open."""
        with np.errstate(divide="ignore", invalid="ignore"):
            z = RealTask(self.map).mapped(y)
        z[..., 0] = np.where(np.isnan(z[..., 0]), -np.inf, z[..., 0])
        z[..., 1] = np.where(np.isposinf(y[..., 1]) | np.isnan(z[..., 1]), np.inf, z[..., 1])
        return z

    def units(self, y: Array, scaled: bool) -> Units:
        """Return the mean and the standard deviation of the rows with two finite ends.

        If these have fewer than five values, one finite end of each row stands in for them.
        """
        z = self.mapped(y)
        known = z[np.isfinite(z).all(1)].mean(1)
        if len(np.unique(known)) < FEWEST:
            known = np.where(np.isfinite(z[:, 0]), z[:, 0], z[:, 1])
        return RealTask().units(known, scaled)

    def encode(self, y: Array, units: Units, seed: int) -> Tensor:
        """Return the ends in these units, (N, 2), in single precision."""
        return torch.from_numpy((self.mapped(y) - units.shift) / units.scale).float()

    def start(self, head: Head, y: Tensor) -> None:
        """Leave the head as it is: a standardised target needs no other start."""

    def numbers(self, y: Tensor) -> Tensor:
        """Return one finite end of each target."""
        low, high = y.unbind(-1)
        return torch.where(low.isfinite(), low, high)

    def decode(self, values: Tensor) -> Array:
        """Return float64 numbers."""
        return values.double().numpy()
