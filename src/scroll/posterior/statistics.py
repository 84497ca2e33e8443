"""The sufficient statistics of a refit: sums that more rows, or other processes, add to."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from .._core.linalg import matvec
from .._core.value import value
from ..heads.head import Head
from .data import Batches, has_intercept, is_empty, regression_rows, row_weights


@value
class Statistics:
    """Sums over the data: all that the conjugate posterior depends on.

    Attributes:
        gram: sum of psi psi', (..., H, H).
        cross: sum of y psi, (..., K, H).
        square: sum of y^2, (..., K).
        count: number of rows, (); (..., 1) if replicates have different weights.
    """

    gram: Tensor
    cross: Tensor
    square: Tensor
    count: Tensor

    def add_rows(self, psi: Tensor, y: Tensor, weight: Tensor | None = None) -> Statistics:
        """Return the statistics of these rows and of those given.

        Args:
            psi: features, (..., 1, N, H).
            y: real targets, (..., K, N).
            weight: how many times each row counts, (..., 1, N); None is once.
        """
        rows = y.shape[-1] if weight is None else _total(weight)
        if weight is not None:
            psi, y = psi * weight[..., None].sqrt(), y * weight.sqrt()
        return Statistics(
            self.gram + (psi.mT @ psi).squeeze(-3),
            self.cross + matvec(psi.mT, y),
            self.square + y.square().sum(-1),
            self.count + rows,
        )

    def shifted(self, shift: Tensor) -> Statistics:
        """Return the statistics of y - shift, shift (..., K).

        The last feature must be the constant one.
        """
        ones, total = self.gram[..., -1:, :], self.cross[..., -1]
        return Statistics(
            self.gram,
            self.cross - shift[..., None] * ones,
            self.square - shift * (2 * total - shift * self.count),
            self.count,
        )

    def merged(self, other: Statistics) -> Statistics:
        """Return the statistics of these rows and of those of `other`."""
        return Statistics(
            self.gram + other.gram,
            self.cross + other.cross,
            self.square + other.square,
            self.count + other.count,
        )


def _total(weight: Tensor) -> Tensor:
    """Return the sum of the weights (..., 1, N): (), or (..., 1) if replicates differ in it."""
    each = weight.sum(-1)
    first = each.reshape(-1)[0]
    return first if bool((each == first).all()) else each


def statistics_of(head: Head, some: Batches) -> Statistics:
    """Return the statistics of all batches, in one pass; zero if there are none.

    Args:
        head: the head that the features and labels belong to.
        some: batches (psi, y) or (psi, y, weight).
    """
    found = no_rows(head)
    for batch in some:
        if not is_empty(batch):
            found = add_batch(found, head, *batch)
    return found


def add_batch(
    statistics: Statistics, head: Head, psi: Tensor, y: Tensor, weight: Tensor | None = None
) -> Statistics:
    """Return the statistics with one batch of rows added.

    Args:
        statistics: the sums so far.
        head: the head that the features and labels belong to.
        psi: features, (..., N, H).
        y: targets or labels, (..., N) or (..., N, K).
        weight: how many times each row counts, (..., N); None is once.
    """
    return statistics.add_rows(*regression_rows(head, psi, y), row_weights(head, psi, weight))


def no_rows(head: Head) -> Statistics:
    """Return the statistics of no rows: zeros in float64 on the head's device."""
    lead = (*head.replicates, head.likelihood.latents)
    h = head.in_features + has_intercept(head)
    zeros = partial(torch.zeros, dtype=torch.float64, device=head.log_alpha.device)
    return Statistics(zeros(*lead[:-1], h, h), zeros(*lead, h), zeros(lead), zeros(()))
