"""Covariances that hold a matrix."""

import torch
from torch import Generator, Tensor
from torch.linalg import solve_triangular

from ..._core.linalg import (
    LOG_2PI,
    eye_like,
    half_log_det,
    last_and_square,
    log_normal_of_matrix,
    row_square,
    standard_normal,
)
from ..._core.value import value
from .diagonals import Diag, Isotropic
from .protocol import Bound, Spread


@value
class Full(Bound):
    """S = scale scale'."""

    scale: Tensor  # (..., H, H), lower triangular

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N)."""
        return row_square(psi @ self.scale)

    def project(self, mean: Tensor, psi: Tensor) -> tuple[Tensor, Tensor]:
        """mean . psi_n and psi_n' S psi_n by one product: the features are read once."""
        lead = torch.broadcast_shapes(mean.shape[:-1], self.scale.shape[:-2])
        parts = (self.scale, mean[..., None])
        both = psi @ torch.cat([t.expand(*lead, *t.shape[-2:]) for t in parts], -1)
        return last_and_square(both)

    def downdated_quad(self, psi: Tensor, precision: Tensor) -> Tensor:
        """psi_n' (S^-1 - precision psi_n psi_n')^-1 psi_n (Sherman-Morrison)."""
        v = self.quad(psi)
        return v / (1 - v * precision)

    def plus(self, c: Tensor) -> "FullPlus":
        """Return S + c I."""
        return FullPlus(self.scale, c)

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (...)."""
        white = solve_triangular(self.scale, x[..., None], upper=False)[..., 0]
        log_det = half_log_det(self.scale)
        return -0.5 * (white.square().sum(-1) + x.shape[-1] * LOG_2PI) - log_det

    def trace(self) -> Tensor:
        """Return tr S, (...)."""
        return self.scale.square().sum((-2, -1))

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape."""
        return (self.scale @ standard_normal(shape, self.scale, generator)[..., None])[..., 0]

    def dense(self) -> Tensor:
        """Return S as a matrix."""
        return self.scale @ self.scale.mT


@value
class FullPlus(Spread):
    """S = scale scale' + c I, factorised only when a density is computed."""

    scale: Tensor  # (..., H, H), lower triangular
    c: Tensor  # (...)

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N)."""
        return Full(self.scale).quad(psi) + Isotropic(self.c).quad(psi)

    def project(self, mean: Tensor, psi: Tensor) -> tuple[Tensor, Tensor]:
        """mean . psi_n and psi_n' S psi_n."""
        at, spread = Full(self.scale).project(mean, psi)
        return at, spread + Isotropic(self.c).quad(psi)

    def plus(self, c: Tensor) -> "FullPlus":
        """Return S + c I."""
        return FullPlus(self.scale, self.c + c)

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (...)."""
        return log_normal_of_matrix(x, self.dense())

    def trace(self) -> Tensor:
        """Return tr S, (...)."""
        return Full(self.scale).trace() + self.scale.shape[-1] * self.c

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape."""
        return Full(self.scale).draw(shape, generator) + Isotropic(self.c).draw(shape, generator)

    def dense(self) -> Tensor:
        """Return S as a matrix."""
        return Full(self.scale).dense() + self.c[..., None, None] * eye_like(self.scale)


@value
class Spectral(Bound):
    """S = basis diag(var) basis', basis orthogonal: many outputs share one eigenbasis."""

    basis: Tensor  # (..., H, H), columns
    var: Tensor  # (..., H)

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N)."""
        return Diag(self.var).quad(psi @ self.basis)

    def downdated_quad(self, psi: Tensor, precision: Tensor) -> Tensor:
        """Return psi_n' S_(-n) psi_n, S_(-n) without point n's site."""
        v = self.quad(psi)
        return v / (1 - v * precision)

    def plus(self, c: Tensor) -> "Spectral":
        """Return S + c I."""
        return Spectral(self.basis, self.var + c[..., None])

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (...)."""
        return Diag(self.var).log_normal((x[..., None, :] @ self.basis)[..., 0, :])

    def trace(self) -> Tensor:
        """Return tr S, (...)."""
        return self.var.sum(-1)

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape."""
        along = Diag(self.var).draw(shape, generator)
        return (along[..., None, :] @ self.basis.mT)[..., 0, :]

    def dense(self) -> Tensor:
        """Return S as a matrix."""
        return (self.basis * self.var[..., None, :]) @ self.basis.mT
