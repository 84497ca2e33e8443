"""What a covariance offers: to an objective, to a density, and to a posterior."""

from typing import Protocol

import torch
from torch import Generator, Tensor

from ..._core.linalg import matvec


class Covariance(Protocol):
    """S, positive semidefinite. A covariance of your own may inherit `project` from here."""

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N, H) -> (..., N)."""

    def project(self, mean: Tensor, psi: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean . psi_n and psi_n' S psi_n, (..., N) each."""
        return matvec(psi, mean), self.quad(psi)

    def plus(self, c: Tensor) -> "Covariance":
        """Return S + c I, c (...)."""

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (..., H) -> (...)."""

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape, whose last axes are (..., H)."""


class Spread(Covariance, Protocol):
    """S > 0: it has a density and an inverse."""

    def plus(self, c: Tensor) -> "Spread":
        """Return S + c I, c (...)."""

    def trace(self) -> Tensor:
        """Return tr S, (...)."""

    def dense(self) -> Tensor:
        """Return S as a matrix, (..., H, H)."""


class Bound(Spread, Protocol):
    """S of a posterior, from which the site of one point can be taken out again."""

    def downdated_quad(self, psi: Tensor, precision: Tensor) -> Tensor:
        """Return psi_n' S_(-n) psi_n, S_(-n) without point n's site of `precision` (..., 1)."""
