"""Stacks of networks: a body and a head, their held-out scores, and some of their replicates."""

import copy
from collections.abc import Callable, Sequence
from typing import Protocol, TypeGuard, cast

import torch
from torch import Tensor, nn

from .._core.local_rng import Draws
from ..beliefs.sums import RowSums
from ..heads.head import Head
from ..heads.seen import SeenRows
from ..predictive.protocol import Predictive
from .batches import Rows
from .bodies import Stacked
from .dropout import Dropout


class TrainableHead(Protocol):
    """What training needs of a head; `scroll.Head` has it."""

    @property
    def batches(self) -> bool:
        """True if the head can train on a part of the rows at a time."""

    def loss(self, psi: Tensor, y: Tensor, *, total: int, weight: Tensor | None = None) -> Tensor:
        """Return the loss per training row, one number per replicate."""

    def condition(self, psi: Tensor, y: Tensor) -> object:
        """Compute the belief that depends on all training rows."""

    def __call__(self, psi: Tensor) -> Predictive:
        """Return the predictive distribution of each row."""


class Network(nn.Module):
    """A body and a head, or a stack of them.

    Parameters have a first axis of replicates; so do the buffers of a module that has
    `replicates`. What a forward pass changes in a buffer is not kept.

    Args:
        body: turns inputs (R, N, ...) into features (R, N, H).
        head: a `scroll.Head`, or any module that is a `TrainableHead`.
    """

    def __init__(self, body: nn.Module, head: nn.Module):
        super().__init__()
        self.body, self.head = body, head

    @property
    def trainable(self) -> TrainableHead:
        """The head, as training sees it."""
        return cast(TrainableHead, self.head)

    def forward(self, x: Tensor) -> Predictive:
        """Return the predictive distribution of each row of x (R, N, ...)."""
        return self.trainable(self.body(x))

    def loss(
        self,
        rows: Rows,
        total: int,
        decay: float = 0.0,
        rest: Callable[[Tensor], RowSums] | None = None,
    ) -> Tensor:
        """Return the head's loss on all `total` rows plus decay |theta|^2, (R,).

        Args:
            rows: all rows, or a batch of them.
            total: number of rows in the whole training set.
            decay: weight of the squared norm of the body's parameters.
            rest: returns the sums over the other rows, given the features of these.
        """
        psi: Tensor = self.body(rows.x)
        if rest is None:  # not every head takes weights
            weight = {} if rows.weight is None else {"weight": rows.weight}
            data = total * self.trainable.loss(psi, rows.y, total=total, **weight)
        else:
            head = cast(Head, self.head)
            data = total * head.loss(psi, rows.y, total, rows.weight, rest=rest(psi))
        if not decay:
            return data
        return data + decay * sum(w.square().flatten(1).sum(-1) for w in self.body.parameters())

    def condition(self, rows: Rows) -> None:
        """Give a bound head its training rows; a free one needs none."""
        if not self.trainable.batches or _needs_rest(self.head):
            self.trainable.condition(self.body(rows.x), rows.y)

    @torch.no_grad()
    def seen(self, rows: Rows) -> SeenRows | None:
        """Return the present features of all training rows, if the loss of a batch needs them."""
        return SeenRows(self.head, self.body(rows.x), rows.y) if _needs_rest(self.head) else None


def _needs_rest(head: nn.Module) -> TypeGuard[Head]:
    """True if the loss of a batch needs sums over the other rows."""
    return isinstance(head, Head) and head.needs_rest


HeldOutScore = Callable[[Network, Rows], Tensor]  # to be minimised on held-out rows, (R,)


def held_out_nll(network: Network, rows: Rows) -> Tensor:
    """Return the mean of -log p(y_n) over held-out rows, (R,), weighted if they have weights."""
    score: Tensor = network(rows.x).log_prob(rows.y)
    score = score.flatten(2).sum(-1) if score.dim() > 2 else score
    return -(score if rows.weight is None else score * rows.weight).mean(-1)


def held_out_mse(network: Network, rows: Rows) -> Tensor:
    """Return the mean of (y_n - E y_n)^2 over held-out rows, (R,)."""
    square: Tensor = (rows.y - network(rows.x).mean).square()
    return square.flatten(2).sum(-1).mean(-1) if square.dim() > 2 else square.mean(-1)


def stack(
    make: Callable[[tuple[int, ...]], Network],
    seeds: Sequence[int],
    dtype: torch.dtype | None = None,
) -> Network:
    """Return `make((R,))`; replicate r has the initial values of `make(())` with seed `seeds[r]`.

    The seeds are those of local generators: torch's global generator is not used.

    Args:
        make: makes a network with given leading axes of replicates.
        seeds: one per replicate.
        dtype: precision of the initial values; torch's default by default.
    """
    with Draws(0, dtype):
        together = make((len(seeds),))
    for r, seed in enumerate(seeds):
        with Draws(seed, dtype):
            one = make(())
        set_replicate(together, r, one)
    for module in together.modules():
        if isinstance(module, Dropout | Stacked):
            module.seeds.copy_(torch.tensor(seeds))
    return together


@torch.no_grad()
def set_replicate(together: Network, r: int, one: Network) -> None:
    """Overwrite replicate r of a stack by a network without replicates, buffers included."""
    for p, q in zip(together.parameters(), one.parameters(), strict=True):
        p[r] = q
    fixed = dict(one.named_buffers())
    for name, buffer in together.named_buffers():
        if name in fixed and buffer.shape[1:] == fixed[name].shape and buffer.dim():
            buffer[r] = fixed[name]


def take(network: Network, keep: Tensor) -> Network:
    """Return some of the replicates of a stack as a stack of their own.

    Args:
        network: the stack; it is left as it is.
        keep: which replicates, boolean, (R,).
    """
    less = copy.deepcopy(network)
    for module in less.modules():
        _set_replicates(module, int(keep.sum()))
        for name, p in _parameters(module):
            setattr(module, name, nn.Parameter(p.detach()[keep], p.requires_grad))
        for name, buffer in replicated_buffers(module, len(keep)):
            setattr(module, name, buffer[keep])
    return less


@torch.no_grad()
def join(first: Network, second: Network) -> Network:
    """Return the replicates of two stacks as one stack."""
    both = copy.deepcopy(first)
    one, two = (len(next(part.head.parameters())) for part in (first, second))
    for module, other in zip(both.modules(), second.modules(), strict=True):
        _set_replicates(module, one + two)
        for (name, p), (_, q) in zip(_parameters(module), _parameters(other), strict=True):
            setattr(module, name, nn.Parameter(torch.cat([p, q]), p.requires_grad))
        for name, buffer in replicated_buffers(other, two):
            setattr(module, name, torch.cat([module.get_buffer(name), buffer]))
    return both


@torch.no_grad()
def fill(together: Network, which: Tensor, some: Network) -> None:
    """Overwrite the parameters of replicates `which` of a stack by those of a smaller stack."""
    for p, q in zip(together.parameters(), some.parameters(), strict=True):
        p[which] = q.to(p)


def replicated_buffers(module: nn.Module, count: int) -> list[tuple[str, Tensor]]:
    """Return the module's own buffers that have a first axis of `count` replicates.

    Only a module that has `replicates` has any.
    """
    if not getattr(module, "replicates", None):
        return []
    own = module.named_buffers(recurse=False, remove_duplicate=False)
    return [(name, buffer) for name, buffer in own if buffer.shape[:1] == (count,)]


def _parameters(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return list(module.named_parameters(recurse=False, remove_duplicate=False))


def _set_replicates(module: nn.Module, count: int) -> None:
    if getattr(module, "replicates", None):
        setattr(module, "replicates", (count,))  # noqa: B010  # torch types attributes as tensors
