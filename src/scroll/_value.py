"""Immutable tensor values that vmap, compile and export can see through."""

from dataclasses import dataclass
from typing import TypeVar

import torch
from typing_extensions import dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def value(cls: type[T]) -> type[T]:
    """A frozen dataclass, registered as a pytree. Compared by identity: it holds tensors."""
    cls = dataclass(frozen=True, eq=False)(cls)
    torch.export.register_dataclass(cls)
    return cls
