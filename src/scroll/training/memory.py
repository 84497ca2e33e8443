"""Memory that a stack needs, and memory that is free."""

import os
from functools import partial

import torch
from torch import Tensor

from .._core.checks import unchecked
from .batches import Rows
from .network import Network

CACHED_ROWS = 12_000  # measured: beyond it a step is bound by memory, below it by overhead


def footprint(network: Network, rows: Rows, batch: int | None = None) -> int:
    """Return the bytes that one replicate needs in training, measured on a stack of one.

    Tensors that autograd saves in a step count twice, for their gradients. Parameters count six
    times: gradients, two moments of Adam, the checkpoint and a temporary copy.

    Args:
        network: a stack of one replicate.
        rows: all training rows.
        batch: rows per step; None is all of them.
    """
    saved: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        saved[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    some = Rows(rows.x[:, :batch], rows.y[:, :batch])
    seen = None if batch is None else network.seen(rows)
    index = torch.arange(some.y.shape[1], device=some.y.device).expand(len(some.y), -1)
    rest = None if seen is None else partial(seen.swap, index)
    with unchecked(), torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        network.loss(some, rows.y.shape[1], 0.0, rest)
    parameters = sum(map(_bytes, network.parameters()))
    data = sum(_bytes(part) for part in rows if part is not None)
    kept = 0 if seen is None else 4 * _bytes(seen.psi)  # as they are, and all in float64
    return 2 * sum(saved.values()) + 6 * parameters + 2 * data + kept


def available(device: torch.device) -> int:
    """Return the number of free bytes on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def stack_size(each: int, rows: int, device: torch.device) -> int:
    """Return how many replicates to train at once: those that fit, on a CPU into its cache.

    Args:
        each: bytes per replicate.
        rows: training rows per step.
        device: where they are trained.
    """
    fits = max(1, int(0.6 * available(device)) // each)
    return fits if device.type == "cuda" else min(fits, max(1, CACHED_ROWS // rows))


def _bytes(x: Tensor) -> int:
    return int(x.numel() * x.element_size())
