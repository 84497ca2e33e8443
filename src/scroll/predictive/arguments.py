"""Arguments of predictives, checked: targets, quantile levels, coverage, number of draws."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from .._core.checks import as_integer, invalid, require
from .._core.linalg import standard_normal

Levels = float | Sequence[float] | Tensor


def as_tensor(name: str, x: object) -> Tensor:
    """Convert a tensor, number, list, array, or pandas or polars column to a tensor.

    Read-only arrays are copied: a tensor cannot share memory that must not be written.
    """
    if isinstance(x, Tensor):
        return x
    try:
        return torch.as_tensor(_native(np.asarray(x)))  # lists by numpy: float64 keeps their digits
    except (TypeError, ValueError, RuntimeError) as error:
        got = f"a {type(x).__name__} of {getattr(x, 'dtype', 'other things')}"
        raise invalid(name, "hold numbers", got, error=TypeError) from error


def _native(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the array as torch takes it: writable, not reversed, in this machine's byte order,
    not of objects."""
    array = np.array(array.tolist()) if array.dtype.kind == "O" else array
    shared = array.flags.writeable and min(array.strides, default=0) >= 0
    return array.astype(
        array.dtype.newbyteorder("="), order="K" if shared else "C", copy=not shared
    )


def rows(y: object, like: Tensor) -> Tensor:
    """Return `y`, a number or one value per row (draws in front), in the dtype of `like`."""
    y = as_tensor("y", y).to(like)
    if y.dim() and y.shape[-like.dim() :] != like.shape:
        want = f"have the shape {tuple(like.shape)} of the predictive"
        remedy = "Use y.squeeze(-1)." if y.shape[-1] == 1 else ""
        raise invalid("y", want, tuple(y.shape), remedy)
    return y


def quantile(icdf: Callable[[Tensor], Tensor], q: Levels, like: Tensor) -> Tensor:
    """Return icdf(q); the quantiles of several levels form a last axis."""
    try:
        levels = as_tensor("q", q).to(like)
    except TypeError as error:
        raise invalid("q", "be a level, or a list of levels", repr(q), error=TypeError) from error
    require(levels.dim() < 2 and levels.numel(), "q", "be a level, or a list of levels", q)
    require(
        bool(((levels > 0) & (levels < 1)).all()),
        "q",
        "lie strictly between 0 and 1",
        levels.tolist(),
        "95 % is 0.95.",
    )
    if levels.dim() == 0:
        return icdf(levels)
    return torch.stack([icdf(level) for level in levels], -1)


def interval(quantile: Callable[[float], Tensor], coverage: float) -> tuple[Tensor, Tensor]:
    """Return the two quantiles that enclose the central `coverage`."""
    require(0 < coverage < 1, "coverage", "lie strictly between 0 and 1", coverage, "90 % is 0.9.")
    return quantile((1 - coverage) / 2), quantile((1 + coverage) / 2)


def n_draws(n: int) -> int:
    """Return `n`, a number of draws: an integer, zero or more."""
    found = as_integer(n, 0)
    if found is None:
        raise invalid("n", "be an integer, zero or more", repr(n))
    return found


def randn(like: Tensor, n: int, generator: Generator | None) -> Tensor:
    """Draw (n, *like.shape) standard normal numbers in the dtype of `like`."""
    return standard_normal((n_draws(n), *like.shape), like, generator)
