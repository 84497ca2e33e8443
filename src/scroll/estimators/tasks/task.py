"""The task of an estimator: how targets are read, trained on and given back to the user.

A target is a real number, a count or a class label. Each kind is one value with the same
operations, so that fitting and predicting never ask which kind they have.
"""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ...heads.head import Head
from ...predictive import TargetMap
from ...predictive.arguments import as_tensor
from ...tables.frames import Array


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

    @property
    def map(self) -> TargetMap | None:
        """The monotone map that a real target is trained in; None for none."""

    def read(self, y: ArrayLike) -> Array:
        """Check the user's targets; return numbers, (N,) or (N, K), or class indices, (N,)."""

    def n_outputs(self, y: Array) -> int:
        """Return the number of targets or classes."""

    def units(self, y: Array, scaled: bool) -> Units:
        """Return the units to train in; `scaled` asks for a target of unit spread."""

    def encode(self, y: Array, units: Units, seed: int) -> Tensor:
        """Return the targets to train on, in these units; `seed` is for a constant target."""

    def start(self, head: Head, y: Tensor) -> None:
        """Set the initial parameters of a head from the targets `y` that it is trained on."""

    def numbers(self, y: Tensor) -> Tensor:
        """Return real numbers that stand for targets to train on, (N,) or (N, K)."""

    def decode(self, values: Tensor) -> Array:
        """Return predicted values as the user's: numbers, integers or labels."""


def required(estimator: str) -> ValueError:
    """Return the error for a missing y, in the words that scikit-learn's checks look for."""
    return ValueError(
        f"This {estimator} estimator requires y to be passed, but the target y is None."
    )


def unit_costs(task: Task, units: Units, y: Array) -> Tensor:
    """Return log scale - log g'(y) per row: its NLL minus that in the units of training.

    Censored rows have a probability, which has no unit.
    """
    at = as_tensor("y", y).double()
    if task.likelihood not in ("gaussian", "censored"):
        return torch.zeros(len(at), dtype=torch.float64)
    exact = torch.ones(len(at), dtype=torch.bool)
    if task.likelihood == "censored":
        exact, at = at[:, 0] == at[:, 1], at[:, 0]
    slope = torch.zeros_like(at) if task.map is None else task.map.log_slope(at)
    cost = torch.as_tensor(np.log(units.scale)) - slope
    return torch.where(exact, cost if cost.dim() == 1 else cost.sum(-1), 0.0)
