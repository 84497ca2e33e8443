"""The posterior over ranks: each rank has some of the rows, all return the same posterior."""

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from .._core.checks import require
from ..heads.head import Head
from ..posterior.data import Batch, Batches, batches
from ..posterior.posterior import Posterior, bind, check_refit
from ..posterior.statistics import Statistics, statistics_of
from .consensus import Group, agree, caught, ranks
from .signatures import describe_head, digest, n_rows


def refit(
    head: Head,
    features: Tensor | Batches,
    y: Tensor | None = None,
    *,
    hyper: str = "evidence",
    group: Group = None,
) -> Posterior:
    """Return `scroll.refit` on the rows of all ranks, the same posterior on every rank.

    The covariance of a hybrid is fitted afterwards, by `add` with the same rows on every rank.

    Args:
        head: the trained head, the same on every rank.
        features: this rank's features (..., N, H), or batches (psi, y) or (psi, y, weight).
        y: this rank's targets, when `features` is a tensor.
        hyper: "evidence" fits alpha and noise to these features; "head" takes the head's.
        group: the ranks that take part; None is all.
    """
    return bind(head, statistics(head, features, y, hyper=hyper, group=group), hyper)


def statistics(
    head: Head,
    features: Tensor | Batches,
    y: Tensor | None = None,
    *,
    hyper: str = "evidence",
    group: Group = None,
) -> Statistics:
    """Return the sums over the rows of all ranks, for `Posterior.absorb`; arguments of `refit`."""
    types: dict[str, int] = {}
    found: list[Statistics] = []

    def read() -> None:
        check_refit(head, hyper)
        found.append(statistics_of(head, _noted(head, features, y, types)))

    error = caught(read)
    what = {"hyper": hyper, "dtype of psi": " and ".join(sorted(types)) or None}
    agree({**describe_head(head), **what}, 0, error, group, next(iter(types.values()), 0))
    _require_same_parameters(head, group)
    (own,) = found
    flat = torch.cat([t.flatten() for t in _tensors(own)])
    if ranks(group) > 1:
        dist.all_reduce(flat, group=group)
    require(bool(flat[-1] > 0), "features", "give at least one batch on some rank", "none")
    pieces = flat.split([t.numel() for t in _tensors(own)])
    return Statistics(*(f.view_as(t) for f, t in zip(pieces, _tensors(own), strict=True)))


def _tensors(sums: Statistics) -> tuple[Tensor, ...]:
    return sums.gram, sums.cross, sums.square, sums.count


def _noted(
    head: Head, features: Tensor | Batches, y: Tensor | None, types: dict[str, int]
) -> Iterator[Batch]:
    """Yield the batches; record each dtype of features, with the digest of its first batch."""
    axis = len(head.replicates)
    for batch in batches(features, y):
        yield batch
        kind = str(batch[0].dtype)  # the head has checked it by now
        if kind not in types and n_rows(batch[0], axis):
            types[kind] = digest(axis, *batch)


def _require_same_parameters(head: Head, group: Group) -> None:
    """Raise an error unless the ranks' heads are equal.

    Rounding is tolerated: different machines may have trained them.
    """
    if ranks(group) == 1:
        return
    values = torch.cat([p.detach().double().flatten() for p in head.parameters()])
    ends = torch.stack([values, -values])
    dist.all_reduce(ends, dist.ReduceOp.MAX, group=group)
    apart = float((ends[0] + ends[1]).max())
    require(
        bool(torch.isclose(ends[0], -ends[1], 1e-4, 1e-4).all()),
        "head",
        "have the same parameters on every rank",
        f"some that are {apart:.3g} apart",
        "Train it under DistributedDataParallel, or load one checkpoint on every rank.",
    )
