"""Training rows, and the batches of a stack: all rows at once, or drawn by one seed each."""

import copy
from typing import NamedTuple

import torch
from torch import Tensor

from .._core import counter_rng


class Rows(NamedTuple):
    """Inputs and targets, one set per replicate.

    Attributes:
        x: inputs, (R, N, ...).
        y: targets or labels, (R, N) or (R, N, K).
        weight: of each row, (R, N), of mean one; None is one each.
    """

    x: Tensor
    y: Tensor
    weight: Tensor | None = None

    def take(self, keep: Tensor) -> "Rows":
        """Return the rows of some replicates; rows that all replicates share stay shared."""
        weight = None if self.weight is None else _taken(self.weight, keep)
        return Rows(_taken(self.x, keep), _taken(self.y, keep), weight)


class Feed:
    """The next few batches of every replicate, in tensors that stay the same.

    The batches of the coming steps are drawn into `queue` beforehand, so that the steps
    themselves are always the same program on the same tensors.

    Args:
        rows: all training rows.
        batch: rows per step; None, or as many as there are, is all of them.
        seeds: one per replicate, (R,).
        steps: how many steps to draw at once.
    """

    def __init__(self, rows: Rows, batch: int | None, seeds: Tensor, steps: int):
        n = rows.y.shape[1]
        self.rows, self.seeds, self.steps = rows, seeds, steps
        self.batch = None if batch is None or batch >= n else batch
        self.order, self.epoch = seeds.new_empty(len(seeds), 0), 0
        if self.batch is not None:
            self.queue = seeds.new_zeros(len(seeds), steps * self.batch)

    def refill(self) -> None:
        """Draw the batches of the next `steps` steps; an incomplete last batch is left out."""
        if self.batch is None:
            return
        n, size = self.rows.y.shape[1], self.queue.shape[1]
        while self.order.shape[1] < size:
            more = counter_rng.permutation(self.seeds, self.epoch, n)[:, : n - n % self.batch]
            self.order, self.epoch = torch.cat([self.order, more], 1), self.epoch + 1
        self.queue.copy_(self.order[:, :size])
        self.order = self.order[:, size:]

    def part(self, step: int) -> Rows:
        """Return the batch of one of these steps."""
        if self.batch is None:
            return self.rows
        some = self.index(step)
        each = torch.arange(len(some), device=some.device)[:, None]
        x, y, weight = self.rows
        return Rows(x[each, some], y[each, some], None if weight is None else weight[each, some])

    def index(self, step: int) -> Tensor:
        """Return which rows are the batch of one of these steps, (R, B)."""
        assert self.batch is not None
        return self.queue[:, step * self.batch : (step + 1) * self.batch]

    def take(self, keep: Tensor) -> "Feed":
        """Return the feed of some of the replicates."""
        less = copy.copy(self)
        less.rows, less.seeds, less.order = self.rows.take(keep), self.seeds[keep], self.order[keep]
        if self.batch is not None:
            less.queue = self.queue[keep]
        return less


def _taken(x: Tensor, keep: Tensor) -> Tensor:
    if x.stride(0) == 0 or len(x) == 1:  # expanded, or a single set of rows
        count = int(keep.sum()) if keep.dtype == torch.bool else len(keep)
        return x[:1].expand(count, *x.shape[1:])
    return x[keep]
