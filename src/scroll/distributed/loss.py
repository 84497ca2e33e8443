"""More than one process: each rank has some of the rows, all have one loss and one posterior.

Without a process group all of it works for one.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from hashlib import blake2b
from typing import Any
from zlib import crc32

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._core.checks import must, refusal, tensor, whole
from ..factors import Confined
from ..heads.checks import require_weights
from ..heads.head import Head
from ..objectives.objective import spread_power
from ..posterior.data import Batches, batches, has_intercept
from ..posterior.posterior import Posterior, bind, check_refit
from ..posterior.statistics import Statistics, statistics_of
from .consensus import Group, agree, caught, ranks

LOOK = 1000  # rows, or values, that are enough to know a batch by
FEW = 8  # values: rows that hold fewer may be alike on two ranks by chance


def total(rows: int, group: Group = None) -> int:
    """N of the loss: the rows of all ranks together, of which this one has some."""
    found, want = whole(rows, 0), "be a number of rows, zero or more"
    return agree({}, found or 0, None if found is not None else refusal("rows", want, rows), group)


class Loss(nn.Module):
    """A body and a head whose forward is their loss, as DistributedDataParallel wants it.

    The mean over ranks, which is what becomes of their gradients, is the head's loss on all rows
    of the step: a rank counts by its rows, and may have none of them; the prior counts once.

    Args:
        body: gives the features of x.
        head: of a method that trains on a part of the rows.
        total: rows in the whole training set, `total(len(shard))`.
        group: the ranks that share it, as for DistributedDataParallel.
        prior: False leaves the prior term out, for `scroll.PriorGradient` on every rank.
    """

    def __init__(
        self, body: nn.Module, head: Head, total: int, group: Group = None, prior: bool = True
    ):
        super().__init__()
        self.body, self.head, self.group, self.prior = body, head, group, prior
        self.total = whole(total) or total
        self.begun = False
        sizes = [(k, p.shape, p.dtype, p.requires_grad) for k, p in self.named_parameters()]
        brief = f"{len(sizes)} tensors, digest {crc32(repr(sizes).encode()):08x}"
        what = {**_kind(head), "total": total, "prior": prior, "parameters": brief}
        agree(what, 0, caught(self._check), group)

    def _check(self) -> None:
        check_refit(self.head)
        must(
            self.head.batches or ranks(self.group) == 1,
            "method",
            "train on a part of the rows where each rank has a part",
            repr(self.head.method),
            "Use method 'scroll', and scroll.distributed.refit afterwards.",
        )
        must(
            whole(self.total) is not None,
            "total",
            "be the number of training rows on all ranks",
            repr(self.total),
            "Pass total=scroll.distributed.total(len(shard)).",
        )

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """This rank's part of the loss, one number a replicate; x (..., N, ...) may be empty."""
        at = len(self.head.replicates)
        n = _count(x, at)
        if n == 0:  # others wait for its gradients, the prior's alone; a body may divide by |x|
            x, y, weight = _stand_in(x, at, 1), _stand_in(y, at, 0), None
        seen: list[Tensor] = []
        wrong = caught(lambda: seen.append(self._seen(x, y, weight, n)))
        kinds = {"x": _rows(x, at, long=True), "y": _rows(y, at)}
        given = None if n == 0 else weight is not None
        own = 0 if wrong or self.begun or not self.training else _digest(at, x, y, weight)
        rows = agree({**kinds, "weight": given}, n, wrong, self.group, own)
        self.begun = self.begun or self.training
        must(rows > 0, "x", "hold a row on some rank", "none")
        must(
            rows <= self.total,
            "total",
            f"be at least the {rows} rows that the ranks have in this step",
            self.total,
            "Pass total=scroll.distributed.total(len(shard)).",
        )
        share = ranks(self.group) * n / rows
        (psi,) = seen
        if share != 1:
            ones = self.head.log_alpha.new_full(psi.shape[:-1], share)
            weight = ones if weight is None else weight * share
        if self.head.beta and ranks(self.group) > 1:
            loss = self._evened(psi, y, weight, n, rows)
        else:
            loss = self.head.loss(psi, y, self.total, weight, self.prior)
        # the ranks wait for a gradient of everything: of alpha without a prior, of MAP's noise
        return loss + 0 * sum(p.sum() for p in self.head.parameters() if p.requires_grad)

    def _evened(self, psi: Tensor, y: Tensor, weight: Tensor | None, n: int, rows: int) -> Tensor:
        """`Head.loss` for beta > 0, with V^beta of unit mean over the rows of all ranks."""
        head, objective = self.head, self.head.objective
        with torch.autocast(psi.device.type, enabled=False):
            p = head.problem(psi, y)
            power = spread_power(p, objective.cavity(objective.route(p), p), head.beta)
            sums = power.sum(-1, keepdim=True) * min(n, 1)
            dist.all_reduce(sums, group=self.group)
            each = power * (rows / sums)
            each = each if weight is None else each * weight.to(each.dtype).unsqueeze(-2)
            prior_weight = head.prior_weight if self.prior else 0.0
            return objective.loss(p, self.total, 0.0, prior_weight, each).sum(-1) / self.total

    def _seen(self, x: Tensor, y: Tensor, weight: Tensor | None, n: int) -> Tensor:
        """Features that the head takes, with targets and weights that it takes."""
        tensor("x", x)
        tensor("y", y)
        with nullcontext() if n else _at_rest(self.body):
            psi: Tensor = self.body(x)
        self.head.features(psi)
        self.head.likelihood.encode(y, psi.shape[:-1])
        if weight is not None:
            require_weights(weight, psi, self.head.batches, self.head.method)
        return psi


def refit(
    head: Head,
    features: Tensor | Batches,
    y: Tensor | None = None,
    *,
    hyper: str = "evidence",
    group: Group = None,
) -> Posterior:
    """`scroll.refit` on the rows of all ranks, of which this one gives some or none.

    The same posterior on every rank. A hybrid's covariance is fitted afterwards, by `add` with
    the same rows on every rank.
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
    """The sums over the rows of all ranks; `Posterior.absorb` adds them to a posterior's."""
    types: dict[str, int] = {}
    found: list[Statistics] = []

    def read() -> None:
        check_refit(head, hyper)
        found.append(statistics_of(head, _noted(head, features, y, types)))

    wrong = caught(read)
    what = {"hyper": hyper, "dtype of psi": " and ".join(sorted(types)) or None}
    agree({**_kind(head), **what}, 0, wrong, group, next(iter(types.values()), 0))
    _same(head, group)
    (mine,) = found
    flat = torch.cat([t.flatten() for t in _parts(mine)])
    if ranks(group) > 1:
        dist.all_reduce(flat, group=group)
    must(bool(flat[-1] > 0), "features", "give at least one batch on some rank", "none")
    pieces = flat.split([t.numel() for t in _parts(mine)])
    whole = (f.view_as(t) for f, t in zip(pieces, _parts(mine), strict=True))
    return Statistics(*whole)


def _parts(sums: Statistics) -> tuple[Tensor, ...]:
    return sums.gram, sums.cross, sums.square, sums.count


def _noted(
    head: Head, features: Tensor | Batches, y: Tensor | None, types: dict[str, int]
) -> Iterator[tuple[Tensor, ...]]:
    """The batches; `types` hears of what precision they are, and the digest of its first one."""
    at = len(head.replicates)
    for batch in batches(features, y):
        yield batch
        kind = str(batch[0].dtype)  # the head has found it sound
        if kind not in types and _count(batch[0], at):
            types[kind] = _digest(at, *batch)


def _same(head: Head, group: Group) -> None:
    """The ranks' heads are one; within rounding, as unlike machines may have trained them."""
    if ranks(group) == 1:
        return
    values = torch.cat([p.detach().double().flatten() for p in head.parameters()])
    ends = torch.stack([values, -values])
    dist.all_reduce(ends, dist.ReduceOp.MAX, group=group)
    apart = float((ends[0] + ends[1]).max())
    must(
        bool(torch.isclose(ends[0], -ends[1], 1e-4, 1e-4).all()),
        "head",
        "have the same parameters on every rank",
        f"some that are {apart:.3g} apart",
        "Train it under DistributedDataParallel, or load one checkpoint on every rank.",
    )


def _kind(head: Head) -> dict[str, object]:
    """What the ranks' heads must have in common; of no head there is nothing."""
    plain = ("in_features", "replicates", "method", "covariance", "beta", "prior_weight")
    others = ("latents", "likelihood", "dtype", "floor", "objective")
    if not isinstance(head, Head):
        return dict.fromkeys((*plain, *others))
    model, floor = head.likelihood, getattr(head.family, "floor", None)
    factor = model.factor()
    factor = factor.base if isinstance(factor, Confined) else factor
    names = (type(model).__name__, type(factor).__name__, has_intercept(head))
    # its parts by name: two processes hold the same function at different addresses
    parts = [getattr(part, "name", "") for part in vars(head.objective).values()]
    found = (model.latents, names, head.log_alpha.dtype, floor, parts)
    return {**{k: vars(head)[k] for k in plain}, **dict(zip(others, found, strict=True))}


@contextmanager
def _at_rest(body: nn.Module) -> Iterator[None]:
    """A row that stands for none leaves no trace in what a body counts as it trains.

    But for layers that count over ranks, whose others would wait.
    """
    still = [m for m in body.modules() if m.training and not isinstance(m, nn.SyncBatchNorm)]
    for module in still:
        module.training = False
    try:
        yield
    finally:
        for module in still:
            module.training = True


def _count(x: object, at: int) -> int:
    """The rows of x; none of what is no tensor."""
    return x.shape[at] if isinstance(x, Tensor) and x.dim() > at else 0


def _digest(at: int, *parts: Tensor | None) -> int:
    """By what to know rows of these parts; 0 where there is one row only, or few values."""
    given = [t.detach().resolve_conj() for t in parts if t is not None]
    n = _count(given[0], at)
    if n < 2 or any(t.layout != torch.strided for t in given):
        return 0
    first = [t.narrow(at, 0, min(n, LOOK)).flatten().cpu() for t in given]
    values = {value for t in first for value in t[:: 1 + t.numel() // LOOK].tolist()}
    if len(values) < FEW:
        return 0
    raw = b"".join(t.contiguous().view(torch.uint8).numpy().tobytes() for t in first)
    return int.from_bytes(blake2b(raw + str(n).encode(), digest_size=7).digest(), "big")


def _rows(t: object, at: int, long: bool = False) -> str | None:
    """What rows are like, however many there are; `long` ones may be padded as a rank needs."""
    if not isinstance(t, Tensor):
        return None
    each = tuple(t.shape[at + 1 :])
    return f"{t.dtype}, each of {f'{len(each)} axes' if long else f'shape {each}'}"


def _stand_in(t: Any, at: int, number: int) -> Any:
    """One row where there was none; what is no tensor is left to be refused."""
    if not isinstance(t, Tensor):
        return t
    shape = (*t.shape[:at], 1, *t.shape[at + 1 :])
    return t.new_full(shape, number if t.is_floating_point() else 0)  # zero is an index
