"""The loss over ranks: each rank has some of the rows, all minimise one loss.

Without a process group everything works for a single process.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from zlib import crc32

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._core.checks import as_integer, invalid, require, tensor
from ..heads.checks import require_weights
from ..heads.head import Head
from ..objectives.objective import spread_power
from ..posterior.posterior import check_refit
from .consensus import Group, agree, caught, ranks
from .signatures import describe_head, describe_rows, digest, n_rows


def total(rows: int, group: Group = None) -> int:
    """Return the number of rows of all ranks, N of the loss.

    Args:
        rows: number of rows of this rank.
        group: the ranks that take part; None is all.
    """
    found, want = as_integer(rows, 0), "be a number of rows, zero or more"
    return agree({}, found or 0, None if found is not None else invalid("rows", want, rows), group)


class Loss(nn.Module):
    """A body and a head whose forward is their loss, as DistributedDataParallel needs it.

    DistributedDataParallel averages the gradients over ranks. This average is the gradient of
    the head's loss on all rows of the step: each rank counts by its number of rows, which may be
    zero, and the prior counts once.

    Args:
        body: turns x into features.
        head: of a method that trains on a part of the rows.
        total: number of rows in the whole training set, `total(len(shard))`.
        group: the ranks that share it, as for DistributedDataParallel.
        prior: False leaves the prior term out, for `scroll.PriorGradient` on every rank.
    """

    def __init__(
        self, body: nn.Module, head: Head, total: int, group: Group = None, prior: bool = True
    ):
        super().__init__()
        self.body, self.head, self.group, self.prior = body, head, group, prior
        self.total = as_integer(total) or total
        self.begun = False
        sizes = [(k, p.shape, p.dtype, p.requires_grad) for k, p in self.named_parameters()]
        brief = f"{len(sizes)} tensors, digest {crc32(repr(sizes).encode()):08x}"
        what = {**describe_head(head), "total": total, "prior": prior, "parameters": brief}
        agree(what, 0, caught(self._check), group)

    def _check(self) -> None:
        check_refit(self.head)
        require(
            not self.head.objective.bound or ranks(self.group) == 1,
            "method",
            "train on a part of the rows where each rank has a part",
            repr(self.head.method),
            "Use method 'scroll', and scroll.distributed.refit afterwards.",
        )
        require(
            as_integer(self.total) is not None,
            "total",
            "be the number of training rows on all ranks",
            repr(self.total),
            "Pass total=scroll.distributed.total(len(shard)).",
        )

    def forward(self, x: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return this rank's part of the loss, one number per replicate.

        Args:
            x: inputs of the body, (..., N, ...); N may be zero.
            y: targets or labels, (..., N) or (..., N, K).
            weight: of each row's score, (..., N), of mean one over the whole training set.
        """
        n = n_rows(x, len(self.head.replicates))
        if n == 0:  # the other ranks wait for the gradients of this one: those of the prior
            axis = len(self.head.replicates)
            x, y, weight = _one_row(x, axis, 1), _one_row(y, axis, 0), None
        psi, rows = self._agreed(x, y, weight, n)
        share = ranks(self.group) * n / rows
        if share != 1:
            ones = self.head.log_alpha.new_full(psi.shape[:-1], share)
            weight = ones if weight is None else weight * share
        if self.head.beta and ranks(self.group) > 1:
            loss = self._reweighted(psi, y, weight, n, rows)
        else:
            loss = self.head.loss(psi, y, self.total, weight, self.prior)
        # Ranks wait for the gradient of every parameter: of alpha without a prior, of MAP's noise.
        return loss + 0 * sum(p.sum() for p in self.head.parameters() if p.requires_grad)

    def _agreed(self, x: Tensor, y: Tensor, weight: Tensor | None, n: int) -> tuple[Tensor, int]:
        """Return this rank's features and the number of rows of all ranks in this step.

        An error on one rank, or rows of different kinds, is an error on every rank.
        """
        axis = len(self.head.replicates)
        found: list[Tensor] = []
        error = caught(lambda: found.append(self._features(x, y, weight, n)))
        kinds = {"x": describe_rows(x, axis, padded=True), "y": describe_rows(y, axis)}
        given = None if n == 0 else weight is not None
        own = 0 if error or self.begun or not self.training else digest(axis, x, y, weight)
        rows = agree({**kinds, "weight": given}, n, error, self.group, own)
        self.begun = self.begun or self.training
        require(rows > 0, "x", "hold a row on some rank", "none")
        require(
            rows <= self.total,
            "total",
            f"be at least the {rows} rows that the ranks have in this step",
            self.total,
            "Pass total=scroll.distributed.total(len(shard)).",
        )
        (psi,) = found
        return psi, rows

    def _reweighted(
        self, psi: Tensor, y: Tensor, weight: Tensor | None, n: int, rows: int
    ) -> Tensor:
        """Return `Head.loss` for beta > 0, with V^beta of mean one over the rows of all ranks."""
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

    def _features(self, x: Tensor, y: Tensor, weight: Tensor | None, n: int) -> Tensor:
        """Return the features of x; check them, the targets and the weights."""
        tensor("x", x)
        tensor("y", y)
        with nullcontext() if n else _in_eval(self.body):
            psi: Tensor = self.body(x)
        self.head.features(psi)
        self.head.likelihood.encode(y, psi.shape[:-1])
        if weight is not None:
            require_weights(weight, psi, not self.head.objective.bound, self.head.method)
        return psi


@contextmanager
def _in_eval(body: nn.Module) -> Iterator[None]:
    """Put a body into eval mode, so that a placeholder row does not enter running statistics.

    Layers that synchronise over ranks stay in training mode: the other ranks wait for them.
    """
    changed = [m for m in body.modules() if m.training and not isinstance(m, nn.SyncBatchNorm)]
    for module in changed:
        module.training = False
    try:
        yield
    finally:
        for module in changed:
            module.training = True


def _one_row(t: Tensor, axis: int, number: int) -> Tensor:
    """Return one placeholder row instead of none; a body may divide by |x|, so x is not zero.

    Anything but a tensor is returned as it is: a later check refuses it.
    """
    if not isinstance(t, Tensor):
        return t
    shape = (*t.shape[:axis], 1, *t.shape[axis + 1 :])
    return t.new_full(shape, number if t.is_floating_point() else 0)  # 0 is a valid index
