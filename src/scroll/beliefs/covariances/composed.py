"""Covariances made of others: in other units, and sums."""

import torch
from torch import Generator, Tensor

from ..._core.linalg import log_normal_of_matrix
from ..._core.value import value
from .protocol import Bound, Spread


@value
class Scaled(Spread):
    """S = by^2 base, a covariance in other units."""

    base: Spread
    by: Tensor  # (...)

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N)."""
        return self.by.square()[..., None] * self.base.quad(psi)

    def plus(self, c: Tensor) -> "Scaled":
        """Return S + c I."""
        return Scaled(self.base.plus(c / self.by.square()), self.by)

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (...)."""
        return self.base.log_normal(x / self.by[..., None]) - x.shape[-1] * self.by.log()

    def trace(self) -> Tensor:
        """Return tr S, (...)."""
        return self.by.square() * self.base.trace()

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape."""
        return self.by[..., None] * self.base.draw(shape, generator)

    def dense(self) -> Tensor:
        """Return S as a matrix."""
        return self.by.square()[..., None, None] * self.base.dense()


@value
class Sum(Bound):
    """S = base + extra: a posterior and what was added to it (the hybrid route)."""

    base: Bound
    extra: Spread

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N)."""
        return self.base.quad(psi) + self.extra.quad(psi)

    def downdated_quad(self, psi: Tensor, precision: Tensor) -> Tensor:
        """Only the posterior has seen point n, so only it gives the point back."""
        return self.base.downdated_quad(psi, precision) + self.extra.quad(psi)

    def plus(self, c: Tensor) -> "Sum":
        """Return S + c I."""
        return Sum(self.base, self.extra.plus(c))

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (...)."""
        return log_normal_of_matrix(x, self.dense())

    def trace(self) -> Tensor:
        """Return tr S, (...)."""
        return self.base.trace() + self.extra.trace()

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape."""
        return self.base.draw(shape, generator) + self.extra.draw(shape, generator)

    def dense(self) -> Tensor:
        """Return S as a matrix."""
        return self.base.dense() + self.extra.dense()
