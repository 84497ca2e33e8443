"""Agreement among ranks: a problem found by one rank is an error on every rank.

A rank that raised an error alone would leave the others waiting.
"""

from collections.abc import Callable, Mapping
from zlib import crc32

import torch
import torch.distributed as dist

from .._core.checks import invalid

Group = dist.ProcessGroup | None  # None is all ranks
Report = tuple[dict[str, str | None], str | None]  # what a rank compares, and its error message


def ranks(group: Group = None) -> int:
    """Return the number of processes in a group; 1 without a process group."""
    return dist.get_world_size(group) if dist.is_available() and dist.is_initialized() else 1


def agree(
    what: Mapping[str, object],
    rows: int = 0,
    error: Exception | None = None,
    group: Group = None,
    own: int = 0,
) -> int:
    """Return the number of rows of all ranks; raise an error on every rank unless they agree.

    Args:
        what: values that must be the same on every rank, by name; None agrees with anything.
        rows: number of rows of this rank.
        error: what this rank would raise by itself.
        group: the ranks that call this.
        own: a number that must differ from rank to rank; 0 goes with anything.
    """
    size = ranks(group)
    if size == 1:
        if error is not None:
            raise error
        return rows
    marks = [0 if x is None else 1 + crc32(str(x).encode()) for x in what.values()]
    here = torch.tensor([rows, error is not None, own, *marks], device=_device(group))
    every = [torch.empty_like(here) for _ in range(size)]
    try:
        dist.all_gather(every, here, group=group)
    except RuntimeError as stopped:
        text = "another rank has stopped; its own message says why"
        raise RuntimeError(f"{text}. Start the run again, from its last checkpoint.") from stopped
    counts, bad, owns, *columns = torch.stack(every, 1).tolist()
    if any(bad) or any(len(set(column) - {0}) > 1 for column in columns):
        raise _fault(what, error, group)
    if twins := [str(rank) for rank, one in enumerate(owns) if one and owns.count(one) > 1]:
        got = f"the very same on ranks {' and '.join(twins)}"
        remedy = "Give each rank its own part: torch.utils.data.DistributedSampler."
        raise invalid("rows", "differ from rank to rank", got, remedy)
    return int(sum(counts))


def _fault(what: Mapping[str, object], error: Exception | None, group: Group) -> Exception:
    """Return the error of this rank: the first difference, else its own, else another rank's."""
    here = {name: None if x is None else str(x) for name, x in what.items()}
    reports: list[Report] = [({}, None)] * ranks(group)
    dist.all_gather_object(reports, (here, None if error is None else str(error)), group=group)
    for name in what:
        given = [(rank, one[name]) for rank, (one, _) in enumerate(reports)]
        given = [(rank, x) for rank, x in given if x is not None]
        if len({x for _, x in given}) > 1:
            got = ", ".join(f"{x} on rank {rank}" for rank, x in given)
            remedy = "Give every rank the same model, and rows of one kind."
            return invalid(name, "be the same on every rank", got, remedy)
    if error is not None:
        return error
    return ValueError(next(f"on rank {rank}: {e}" for rank, (_, e) in enumerate(reports) if e))


def caught(run: Callable[[], object]) -> Exception | None:
    """Return the error that `run` raises, to be raised when all ranks know of it; else None."""
    try:
        run()
    except Exception as error:
        return error
    return None


def _device(group: Group) -> str:
    """Return the device on which a backend needs its tensors."""
    return "cuda" if dist.get_backend(group) == "nccl" else "cpu"
