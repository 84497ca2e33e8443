"""Ranks that must say the same: what one finds wrong is an error on every one of them.

Whoever raised alone would leave the others waiting.
"""

from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

import torch
import torch.distributed as dist

from .._core.checks import refusal

Group = dist.ProcessGroup | None  # None is all ranks


def ranks(group: Group = None) -> int:
    """How many processes there are."""
    return dist.get_world_size(group) if dist.is_available() and dist.is_initialized() else 1


def agree(
    what: Mapping[str, object],
    rows: int = 0,
    wrong: Exception | None = None,
    group: Group = None,
    own: int = 0,
) -> int:
    """The rows of all ranks, once all of them say the same; else an error on every rank.

    Args:
        what: to compare, by name; None goes with anything.
        rows: that this rank has.
        wrong: what this rank would raise by itself.
        group: the ranks that call this.
        own: to be on this rank only; 0 goes with anything.
    """
    size = ranks(group)
    if size == 1:
        if wrong is not None:
            raise wrong
        return rows
    marks = [0 if x is None else 1 + crc32(str(x).encode()) for x in what.values()]
    mine = torch.tensor([rows, wrong is not None, own, *marks], device=_device(group))
    every = [torch.empty_like(mine) for _ in range(size)]
    try:
        dist.all_gather(every, mine, group=group)
    except RuntimeError as error:
        text = "another rank has stopped; its own message says why"
        raise RuntimeError(f"{text}. Start the run again, from its last checkpoint.") from error
    counts, bad, owns, *columns = torch.stack(every, 1).tolist()
    if any(bad) or any(len(set(column) - {0}) > 1 for column in columns):
        raise _fault(what, wrong, group)
    if twins := [str(rank) for rank, one in enumerate(owns) if one and owns.count(one) > 1]:
        got = f"the very same on ranks {' and '.join(twins)}"
        remedy = "Give each rank its own part: torch.utils.data.DistributedSampler."
        raise refusal("rows", "differ from rank to rank", got, remedy)
    return int(sum(counts))


def _fault(what: Mapping[str, object], wrong: Exception | None, group: Group) -> Exception:
    """What to raise on this rank: the first difference, else its own error, else another's."""
    told: list[Any] = [None] * ranks(group)
    mine = {name: None if x is None else str(x) for name, x in what.items()}
    dist.all_gather_object(told, (mine, None if wrong is None else str(wrong)), group=group)
    for name in what:
        said = [(rank, one[name]) for rank, (one, _) in enumerate(told) if one[name] is not None]
        if len({x for _, x in said}) > 1:
            got = ", ".join(f"{x} on rank {rank}" for rank, x in said)
            remedy = "Give every rank the same model, and rows of one kind."
            return refusal(name, "be the same on every rank", got, remedy)
    if wrong is not None:
        return wrong
    return ValueError(next(f"on rank {rank}: {e}" for rank, (_, e) in enumerate(told) if e))


def caught(run: Callable[[], object]) -> Exception | None:
    """What `run` raises, to be raised when all ranks know of it."""
    try:
        run()
    except Exception as error:
        return error
    return None


def _device(group: Group) -> str:
    """Where a backend wants its tensors."""
    return "cuda" if dist.get_backend(group) == "nccl" else "cpu"
