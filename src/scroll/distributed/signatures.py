"""Short descriptions of heads and rows, by which ranks find out whether theirs fit together."""

from hashlib import blake2b

import torch
from torch import Tensor

from ..factors import Confined
from ..heads.head import Head
from ..posterior.data import has_intercept

DIGEST_ROWS = 1000  # rows, or values, that identify a batch
FEW_VALUES = 8  # rows with fewer different values may be equal on two ranks by chance

_SETTINGS = ("in_features", "replicates", "method", "covariance", "beta", "prior_weight")
_PARTS = ("latents", "likelihood", "dtype", "floor", "objective")


def describe_head(head: object) -> dict[str, object]:
    """Return what the heads of all ranks must have in common, by name; None if it is no head."""
    if not isinstance(head, Head):
        return dict.fromkeys((*_SETTINGS, *_PARTS))
    model, floor = head.likelihood, getattr(head.family, "floor", None)
    factor = model.factor()
    factor = factor.base if isinstance(factor, Confined) else factor
    names = (type(model).__name__, type(factor).__name__, has_intercept(head))
    of = head.objective
    objective = [of.route.name, of.cavity.name, of.score.name, of.prior.name, of.learns_alpha]
    found = (model.latents, names, head.log_alpha.dtype, floor, objective)
    settings = {name: getattr(head, name) for name in _SETTINGS}
    return {**settings, **dict(zip(_PARTS, found, strict=True))}


def describe_rows(t: object, axis: int, padded: bool = False) -> str | None:
    """Return dtype and shape of the rows of a tensor, however many there are.

    Args:
        t: a tensor; anything else gives None.
        axis: the axis of the rows.
        padded: rows may differ in size from rank to rank; only their number of axes counts.
    """
    if not isinstance(t, Tensor):
        return None
    each = tuple(t.shape[axis + 1 :])
    return f"{t.dtype}, each of {f'{len(each)} axes' if padded else f'shape {each}'}"


def n_rows(x: object, axis: int) -> int:
    """Return the number of rows of a tensor; 0 for anything else."""
    return x.shape[axis] if isinstance(x, Tensor) and x.dim() > axis else 0


def digest(axis: int, *parts: Tensor | None) -> int:
    """Return a number that identifies rows; 0 for a single row or for few different values.

    Args:
        axis: the axis of the rows.
        parts: tensors with as many rows each, or None.
    """
    given = [t.detach().resolve_conj() for t in parts if t is not None]
    n = n_rows(given[0], axis)
    if n < 2 or any(t.layout != torch.strided for t in given):
        return 0
    first = [t.narrow(axis, 0, min(n, DIGEST_ROWS)).flatten().cpu() for t in given]
    values = {value for t in first for value in t[:: 1 + t.numel() // DIGEST_ROWS].tolist()}
    if len(values) < FEW_VALUES:
        return 0
    raw = b"".join(t.contiguous().view(torch.uint8).numpy().tobytes() for t in first)
    return int.from_bytes(blake2b(raw + str(n).encode(), digest_size=7).digest(), "big")
