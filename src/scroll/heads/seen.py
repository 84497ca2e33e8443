"""The training rows as they were last seen: sums over the rows outside a batch."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from .._core.checks import require
from ..beliefs.sums import RowSums, row_sums
from .head import Head


class SeenRows:
    """Keeps the features that each training row had when it was last in a batch.

    A belief that is bound to all rows needs, besides the batch, only sums over the other rows.
    Their features are as old as the last epoch at most, and carry no gradient.

        seen = SeenRows(head, body(x), y)
        for index in batches:
            psi = body(x[index])
            loss = head.loss(psi, y[index], total=len(y), rest=seen.swap(index, psi))

    The sums over all rows change by those of the batch, in float64: O(B H^2) per step.

    Args:
        head: a head of a method that needs the sums.
        psi: features of all training rows, (..., N, H).
        y: their targets or labels.
    """

    def __init__(self, head: Head, psi: Tensor, y: Tensor):
        require(
            head.needs_rest,
            "head",
            "have a method that reads sums over other rows",
            repr(head.method),
            "Method 'block-hybrid' does.",
        )
        with torch.no_grad():
            problem = head.problem(psi, y)
            self.psi, self.targets = problem.psi.detach().clone(), problem.y
            self.sums = row_sums(self.psi, self.targets)

    @torch.no_grad()
    def swap(self, index: Tensor, psi: Tensor) -> RowSums:
        """Return the sums over all rows but some, then remember new features of these.

        Args:
            index: which rows, (..., B), each at most once.
            psi: their present features, (..., B, H).
        """
        along = index[..., None, :, None].expand(*index.shape[:-1], 1, -1, psi.shape[-1])
        rows = index[..., None, :].expand(*self.targets.shape[:-1], -1)
        y, now = self.targets.gather(-1, rows), psi.to(self.psi.dtype).unsqueeze(-3)
        rest = self.sums.minus(row_sums(self.psi.gather(-2, along), y))
        self.psi.scatter_(-2, along, now)
        every = rest.plus(row_sums(now, y))
        for kept, new in zip(_tensors(self.sums), _tensors(every), strict=True):
            kept.copy_(new)  # in place, as a captured step reads the same tensors
        return rest

    def take(self, keep: Tensor) -> SeenRows:
        """Return the rows of some replicates.

        Args:
            keep: which replicates, boolean, (R,).
        """
        less = copy.copy(self)
        less.psi, less.targets = self.psi[keep], self.targets[keep]
        less.sums = RowSums(*(t[keep] for t in _tensors(self.sums)))
        return less


def _tensors(sums: RowSums) -> tuple[Tensor, Tensor, Tensor]:
    return sums.gram, sums.cross, sums.total
