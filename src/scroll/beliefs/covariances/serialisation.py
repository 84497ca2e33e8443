"""A covariance as named tensors and a kind, to be stored in a file, and back."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TypeVar

from torch import Tensor

from ..._core.checks import one_of
from .composed import Scaled, Sum
from .diagonals import Diag, Isotropic, LowRank, Point
from .matrices import Full, FullPlus, Spectral
from .protocol import Covariance

KINDS: dict[str, type[Covariance]] = {
    "diag": Diag,
    "full": Full,
    "full-plus": FullPlus,
    "isotropic": Isotropic,
    "lowrank": LowRank,
    "none": Point,
    "scaled": Scaled,
    "spectral": Spectral,
    "sum": Sum,
}


T = TypeVar("T")


def state(cov: Covariance) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return what a covariance is and the tensors that it holds.

    Args:
        cov: one of the covariances of this package.

    Returns:
        The kind of the covariance under "" and of those inside it under their names, such as
        `{"": "scaled", "base": "lowrank"}`; and the tensors by name, such as `{"by": ...,
        "base.var": ..., "base.factor": ..., "base.load": ...}`.
    """
    names = {cls: kind for kind, cls in KINDS.items()}
    one_of("cov", type(cov).__name__, [cls.__name__ for cls in names])
    kinds, tensors = {"": names[type(cov)]}, {}
    for field in fields(cov):  # type: ignore[arg-type]
        held = getattr(cov, field.name)
        if isinstance(held, Tensor):
            tensors[field.name] = held
            continue
        inner, more = state(held)
        kinds |= {_joined(field.name, name): kind for name, kind in inner.items()}
        tensors |= {_joined(field.name, name): tensor for name, tensor in more.items()}
    return kinds, tensors


def from_state(kinds: Mapping[str, str], tensors: Mapping[str, Tensor]) -> Covariance:
    """Return the covariance of a `state`."""
    one_of("kind", kinds[""], KINDS)
    cls = KINDS[kinds[""]]
    held: dict[str, Tensor | Covariance] = {}
    for field in fields(cls):  # type: ignore[arg-type]
        inside = field.name in kinds
        held[field.name] = (
            from_state(_below(field.name, kinds), _below(field.name, tensors))
            if inside
            else tensors[field.name]
        )
    return cls(**held)


def _joined(name: str, inner: str) -> str:
    return f"{name}.{inner}" if inner else name


def _below(name: str, entries: Mapping[str, T]) -> dict[str, T]:
    """Return the entries under a name, with the rest of theirs."""
    lead = f"{name}."
    found = {
        key.removeprefix(lead): entry for key, entry in entries.items() if key.startswith(lead)
    }
    return found | ({"": entries[name]} if name in entries else {})
