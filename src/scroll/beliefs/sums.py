"""Sums over rows: all that the posterior of the other rows needs."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.linalg import matvec
from .._core.value import map_tensors, value


@value
class RowSums:
    """Sums over some rows, which the sites of these rows depend on.

    Attributes:
        gram: sum of psi psi', (..., 1, H, H).
        cross: sum of y psi, (..., K, H).
        total: sum of psi, (..., 1, H).
    """

    gram: Tensor
    cross: Tensor
    total: Tensor

    def plus(self, other: RowSums) -> RowSums:
        """Return the sums over these rows and those of `other`."""
        return map_tensors(torch.add, self, other)

    def minus(self, other: RowSums) -> RowSums:
        """Return the sums over these rows without those of `other`, which are among them."""
        return map_tensors(torch.sub, self, other)

    def sites(self, s2: Tensor, offset: Tensor | float) -> tuple[Tensor, Tensor]:
        """Return precision and shift of the sites of these rows, (..., K, H, H) and (..., K, H).

        Args:
            s2: noise variance, (..., K, 1).
            offset: subtracted from the targets, (..., K, 1).
        """
        return self.gram / s2[..., None], (self.cross - offset * self.total) / s2


def row_sums(psi: Tensor, y: Tensor) -> RowSums:
    """Return the sums over rows, in float64.

    Args:
        psi: features, (..., 1, N, H).
        y: targets, (..., K, N).
    """
    psi, y = psi.double(), y.double()
    return RowSums(psi.mT @ psi, matvec(psi.mT, y), psi.sum(-2))
