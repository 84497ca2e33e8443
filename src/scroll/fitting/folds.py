"""Which rows each member learns from, which rows it is judged by, and out-of-fold predictions.

Cross-fitting: every row is held out by one member and learned from by all others, so that no row is
lost and every row is judged by a network that did not see it. Above a number of rows, or with rows
of the user's own to judge by, all members hold out the same rows.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar
from typing import cast as typed

import torch
from torch import Tensor

from .._core.value import cast, map_tensors
from ..predictive import Distribution, Normal, Stack, Survival
from ..predictive.censored import Continuous
from ..predictive.mixture import member
from ..training.batches import Rows
from .out_of_fold import row_scores
from .stacks import Data, shared_rows

P = TypeVar("P")


class Folds(NamedTuple):
    """The rows of each member of a stack.

    Attributes:
        rows: rows to learn from, (M, N, ...); shorter parts end with rows of weight zero.
        held: rows held out, (M, L, ...), likewise.
        number: of each held-out row among the judged rows, (M, L); -1 for padding.
        y: targets of the judged rows, (J,) or (J, K).
        weight: their weights, of mean one, or None.
        crossed: whether every row is judged by one member; otherwise by all of them.
        ratio: mean weight of each member's held-out rows divided by that of its rows, (M, 1).
    """

    rows: Rows
    held: Rows
    number: Tensor
    y: Tensor
    weight: Tensor | None
    crossed: bool
    ratio: Tensor | float = 1.0

    def judged(self, held: Tensor) -> Tensor:
        """Return what members say of their held-out rows (M, L, ...) by judged row, (C, J, ...).

        C is 1 when cross-fitting: each row has one member that did not see it.
        """
        if not self.crossed:
            return held
        there = self.number >= 0
        found = held.new_empty(len(self.y), *held.shape[2:])
        found[self.number[there]] = held[there]
        return found[None]

    def predictive(self, stack: P) -> P:
        """Return the predictives of the judged rows, (C, J, ...), of those of held-out rows."""
        return map_tensors(self.judged, stack)

    def score(self, log_p: Tensor) -> Tensor:
        """Return the mean of log p (..., J), by the weights of the rows."""
        return (log_p if self.weight is None else log_p * self.weight).mean(-1)

    def by_member(self, values: Tensor) -> Tensor:
        """Return the mean over each member's held-out rows of values of judged rows (J,), (M,)."""
        each, weight = values[self.number.clamp(min=0)], self.held.weight
        return (each if weight is None else each * weight).mean(-1)

    def cpu(self) -> "Folds":
        """Return the same on the CPU."""
        return map_tensors(lambda t: t.cpu(), self)


class Judged(NamedTuple):
    """Predictives of held-out rows by the chosen bodies.

    Attributes:
        folds: which rows they are.
        predicted: of each body, (M, L, ...), in the units of training.
        ood: out-of-distribution score of each held-out row, (M, L).
    """

    folds: Folds
    predicted: list[Stack]
    ood: Tensor

    @torch.no_grad()
    def scores(
        self, finish: Callable[[list[Stack]], Distribution], y: Tensor, width: float
    ) -> Tensor:
        """Return `row_scores` of the judged rows, (J, columns).

        Args:
            finish: calibrates and mixes members, and returns their units to the user's.
            y: targets of the judged rows in the user's units.
            width: factor on the standard deviations of a real target.
        """
        number, ood = self.folds.number.cpu(), self.ood.cpu()
        stacks = [_widened(cast(to_cpu(p), torch.float64), width) for p in self.predicted]
        censored = isinstance(self.predicted[0], Survival)

        def scores_of(some: list[Stack], y: Tensor, ood: Tensor) -> Tensor:
            p = finish(some)
            return row_scores(Survival(typed(Continuous, p)) if censored else p, y, ood)

        if not self.folds.crossed:
            return scores_of(stacks, y, ood.mean(0))
        found: list[Tensor] = []
        for m, rows in enumerate(number):
            one = [member(stack, slice(m, m + 1)) for stack in stacks]
            found.append(scores_of(one, y[rows.clamp(min=0)], ood[m])[rows >= 0])
        order = torch.cat([rows[rows >= 0] for rows in number]).argsort()
        return torch.cat(found)[order]


def _widened(p: Stack, width: float) -> Stack:
    """Return predictives of exact targets; of numbers with standard deviations times `width`."""
    exact = typed(Normal, p.base) if isinstance(p, Survival) else p
    return exact.widened(width) if isinstance(exact, Normal) else exact


def to_cpu(p: P) -> P:
    """Return a predictive on the CPU."""
    return map_tensors(lambda t: t.cpu(), p)


def folds_of(data: Data, members: int) -> Folds:
    """Return the rows of each member: by the folds of the data, or the same for all.

    Args:
        data: the rows.
        members: number of members M, and of folds.
    """
    if data.fold is None:
        some = data.looked()
        rows = shared_rows(data.x, data.y, data.weight, members)
        held = shared_rows(some.held_x, some.held_y, some.held_weight, members)
        index = torch.arange(len(some.held_y), device=data.x.device).expand(members, -1)
        return Folds(rows, held, index, some.held_y, some.held_weight, crossed=False)
    rows, _, mean = _parts(data, data.fold, members, own=False)
    held, number, later = _parts(data, data.fold, members, own=True)
    return Folds(rows, held, number, data.y, data.weight, crossed=True, ratio=later / mean)


def _parts(data: Data, fold: Tensor, members: int, own: bool) -> tuple[Rows, Tensor, Tensor]:
    """Return each member's rows, of its own fold or of the others, numbers and mean weights."""
    each = [((fold == m) if own else (fold != m)).nonzero()[:, 0] for m in range(members)]
    most = max(len(some) for some in each)
    index = torch.full((members, most), -1, device=fold.device)
    for row, some in zip(index, each, strict=True):
        row[: len(some)] = some
    at = index.clamp(min=0)
    if data.weight is None and bool((index >= 0).all()):
        return Rows(data.x[at], data.y[at]), index, data.x.new_ones(members, 1)
    weight = (index >= 0).to(data.x)
    weight = weight if data.weight is None else weight * data.weight[at]
    mean = weight.mean(1, keepdim=True)
    return Rows(data.x[at], data.y[at], weight / mean), index, mean
