"""Immutable tensor values that vmap, compile and export can see through."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
from typing_extensions import dataclass_transform

from .versions import TORCH, require

require("torch", torch.__version__, TORCH, "scroll")

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def value(cls: type[T]) -> type[T]:
    """A frozen dataclass, registered as a pytree. Compared by identity: it holds tensors."""
    cls = dataclass(frozen=True, eq=False)(cls)
    torch.export.register_dataclass(cls)
    return cls


def cast(x: Any, to: torch.dtype | torch.device | str) -> Any:
    """A value, tuple or tensor, with its floating-point tensors in a precision or on a device."""
    if isinstance(x, torch.Tensor):
        return x.to(to) if x.is_floating_point() else x
    if isinstance(x, tuple):
        items = (cast(item, to) for item in x)
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if hasattr(x, "__dataclass_fields__"):  # PyTorch 2.11 does not compile is_dataclass
        return type(x)(**{f.name: cast(getattr(x, f.name), to) for f in fields(x)})
    return x
