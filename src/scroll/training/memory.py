"""How much memory a stack takes, and how much there is."""

import os
from typing import Any

import torch
from torch import Tensor

from .._core.checks import unchecked
from .batches import Rows
from .loop import Network


def footprint(network: Network, rows: Rows, batch: int | None = None) -> int:
    """Bytes that one replicate takes in training, measured on a stack of one.

    What autograd keeps of a step counts twice, for the gradients of it; parameters count with
    their gradients, Adam's two moments, the checkpoint and a copy on the way.
    """
    kept: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    some = Rows(rows.x[:, :batch], rows.y[:, :batch])
    with unchecked(), torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        network.loss(some, rows.y.shape[1], 0.0)
    held = sum(map(_bytes, network.parameters()))
    data = sum(_bytes(part) for part in rows if part is not None)
    return 2 * sum(kept.values()) + 6 * held + 2 * data


def available(device: torch.device) -> int:
    """Bytes that are free on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def stack_size(each: int, rows: int, device: torch.device) -> int:
    """How many replicates to train at once: what fits, and on a CPU what stays in its cache."""
    fits = max(1, int(0.6 * available(device)) // each)
    return fits if device.type == "cuda" else min(fits, max(1, CACHED_ROWS // rows))


CACHED_ROWS = 12_000  # measured: beyond it a step is bound by memory, below it by overhead


def _bytes(x: Any) -> int:
    return int(x.numel() * x.element_size())
