"""Immutable tensor values that vmap, compile and export can see through."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from torch import Tensor
from typing_extensions import dataclass_transform

from .versions import TORCH, require_version

require_version("torch", torch.__version__, TORCH, "scroll")

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def value(cls: type[T]) -> type[T]:
    """Make a frozen dataclass, registered as a pytree. It is compared by identity."""
    cls = dataclass(frozen=True, eq=False)(cls)
    torch.export.register_dataclass(cls)
    return cls


def map_tensors(function: Callable[..., Tensor], first: T, *others: T) -> T:
    """Apply a function to the tensors of one value, or to matching tensors of several.

    Args:
        function: takes one tensor per value and returns a tensor.
        first: a value, tuple or tensor. What it holds besides tensors is kept.
        *others: values of the same structure.

    Returns:
        A value of the structure of `first`.
    """
    found: object = first
    if isinstance(first, Tensor):
        found = function(first, *others)
    elif isinstance(first, tuple):
        items = [map_tensors(function, *each) for each in zip(first, *others, strict=True)]
        found = type(first)(*items) if hasattr(first, "_fields") else tuple(items)
    elif hasattr(first, "__dataclass_fields__"):  # PyTorch 2.11 does not compile is_dataclass
        every = (first, *others)
        names = [f.name for f in fields(first)]  # type: ignore[arg-type]
        found = type(first)(
            **{name: map_tensors(function, *(getattr(x, name) for x in every)) for name in names}
        )
    return found  # type: ignore[return-value]


def cast(x: T, to: torch.dtype | torch.device | str) -> T:
    """Return a value with its floating-point tensors in another precision or on a device.

    Args:
        x: a value, tuple or tensor.
        to: the precision or device.
    """
    return map_tensors(lambda t: t.to(to) if t.is_floating_point() else t, x)
