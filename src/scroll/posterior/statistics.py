"""What a refit keeps of its data: sums, which more rows, or those of other processes, add to."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from .._core.linalg import matvec
from .._core.value import value
from ..heads.head import Head
from .data import Batches, hollow, intercept, rows_of, weights_of


@value
class Statistics:
    """Sums over the data: all that the conjugate posterior depends on."""

    gram: Tensor  # (..., H, H), sum of psi psi'
    cross: Tensor  # (..., K, H), sum of y psi
    square: Tensor  # (..., K), sum of y^2
    count: Tensor  # (), rows

    def plus(self, psi: Tensor, y: Tensor, weight: Tensor | None = None) -> Statistics:
        """With rows psi (..., 1, N, H), y (..., K, N) added, each `weight` (..., 1, N) times."""
        some = y.shape[-1] if weight is None else weight.reshape(-1, weight.shape[-1])[0].sum()
        if weight is not None:
            psi, y = psi * weight[..., None].sqrt(), y * weight.sqrt()
        return Statistics(
            self.gram + (psi.mT @ psi).squeeze(-3),
            self.cross + matvec(psi.mT, y),
            self.square + y.square().sum(-1),
            self.count + some,
        )

    def less(self, shift: Tensor) -> Statistics:
        """With a number (..., K) taken from every y; the last feature must be a constant one."""
        ones, total = self.gram[..., -1:, :], self.cross[..., -1]
        return Statistics(
            self.gram,
            self.cross - shift[..., None] * ones,
            self.square - shift * (2 * total - shift * self.count),
            self.count,
        )

    def merged(self, other: Statistics) -> Statistics:
        """Those of these rows and of others."""
        return Statistics(
            self.gram + other.gram,
            self.cross + other.cross,
            self.square + other.square,
            self.count + other.count,
        )


def sums(head: Head, some: Batches) -> Statistics:
    """The sums over batches, one pass; zero where there are none."""
    statistics = empty(head)
    for batch in some:
        if not hollow(batch):
            statistics = plus(statistics, head, *batch)
    return statistics


def plus(
    statistics: Statistics, head: Head, psi: Tensor, y: Tensor, weight: Tensor | None = None
) -> Statistics:
    """The sums with a batch of rows, perhaps weighted, added."""
    return statistics.plus(*rows_of(head, psi, y), weights_of(head, psi, weight))


def empty(head: Head) -> Statistics:
    """Of no rows yet."""
    lead, h = (*head.replicates, head.likelihood.latents), head.in_features + intercept(head)
    zeros = partial(torch.zeros, dtype=torch.float64, device=head.log_alpha.device)
    return Statistics(zeros(*lead[:-1], h, h), zeros(*lead, h), zeros(lead), zeros(()))
