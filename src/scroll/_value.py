"""Immutable tensor values that vmap, compile and export can see through."""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

import torch
from typing_extensions import dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def value(cls: type[T]) -> type[T]:
    """A frozen dataclass, registered as a pytree. Compared by identity: it holds tensors."""
    cls = dataclass(frozen=True, eq=False)(cls)
    torch.export.register_dataclass(cls)
    return cls


def cast(x: Any, dtype: torch.dtype) -> Any:
    """A value, named tuple or tensor, with its floating-point tensors in `dtype`."""
    if isinstance(x, torch.Tensor):
        return x.to(dtype) if x.is_floating_point() else x
    if isinstance(x, tuple):
        return type(x)(*(cast(item, dtype) for item in x))
    if is_dataclass(x) and not isinstance(x, type):
        return type(x)(**{f.name: cast(getattr(x, f.name), dtype) for f in fields(x)})
    return x
