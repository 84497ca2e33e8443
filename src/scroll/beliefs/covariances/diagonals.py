"""Covariances without a matrix: diagonal, low rank, isotropic, none."""

import torch
from torch import Generator, Tensor

from ..._core import linalg
from ..._core.linalg import (
    LOG_2PI,
    eye_like,
    log_det_and_quad,
    matvec,
    row_square,
    standard_normal,
)
from ..._core.value import value
from .protocol import Bound, Covariance, Spread


@value
class Diag(Bound):
    """S = diag(var)."""

    var: Tensor  # (..., H)

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N)."""
        return matvec(psi.square(), self.var)

    def downdated_quad(self, psi: Tensor, precision: Tensor) -> Tensor:
        """The same for a diagonal S: each coordinate's precision gives back its own share."""
        square = psi.square()
        left = 1 / self.var[..., None, :] - precision[..., None] * square
        return (square / left).sum(-1)

    def plus(self, c: Tensor) -> "Diag":
        """Return S + c I."""
        return Diag(self.var + c[..., None])

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (...)."""
        return linalg.log_normal(x, self.var).sum(-1)

    def trace(self) -> Tensor:
        """Return tr S, (...)."""
        return self.var.sum(-1)

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape."""
        return self.var.sqrt() * standard_normal(shape, self.var, generator)

    def dense(self) -> Tensor:
        """Return S as a matrix."""
        return self.var.diag_embed()


@value
class LowRank(Spread):
    """S = diag(var) + factor' diag(load^2) factor; outputs may share directions (..., 1, R, H)."""

    var: Tensor  # (..., H)
    factor: Tensor  # (..., R, H), directions
    load: Tensor  # (..., R), deviation along each

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N)."""
        return Diag(self.var).quad(psi) + Diag(self.load.square()).quad(psi @ self.factor.mT)

    def plus(self, c: Tensor) -> "LowRank":
        """Return S + c I."""
        return LowRank(Diag(self.var).plus(c).var, self.factor, self.load)

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (...)."""
        # Woodbury: the density under diag(var), corrected in the R directions. Products of two
        # directions turn their Gram matrices under every output's 1/var into one product.
        pairs = (self.factor[..., :, None, :] * self.factor[..., None, :, :]).flatten(-3, -2)
        gram = matvec(pairs, 1 / self.var).unflatten(-1, (self.load.shape[-1], -1))
        core = self.load[..., :, None] * gram * self.load[..., None, :]
        side = self.load * matvec(self.factor, x / self.var)
        log_det, gain = log_det_and_quad(core + eye_like(core), side)
        return Diag(self.var).log_normal(x) + 0.5 * (gain - log_det)

    def trace(self) -> Tensor:
        """Return tr S, (...)."""
        return self.var.sum(-1) + (self.load.square() * self.factor.square().sum(-1)).sum(-1)

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape."""
        eps = standard_normal(torch.Size((*shape[:-1], self.load.shape[-1])), self.load, generator)
        spread = ((self.load * eps)[..., None, :] @ self.factor)[..., 0, :]
        return Diag(self.var).draw(shape, generator) + spread

    def dense(self) -> Tensor:
        """Return S as a matrix."""
        scaled = self.load[..., None] * self.factor
        return self.var.diag_embed() + scaled.mT @ scaled


@value
class Isotropic(Covariance):
    """S = c I; the prior's covariance is I/alpha."""

    c: Tensor  # (...)

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N)."""
        return self.c[..., None] * row_square(psi)

    def plus(self, c: Tensor) -> "Isotropic":
        """Return S + c I."""
        return Isotropic(self.c + c)

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (...)."""
        h = x.shape[-1]
        return -0.5 * (x.square().sum(-1) / self.c + h * (self.c.log() + LOG_2PI))

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape."""
        return self.c.sqrt()[..., None] * standard_normal(shape, self.c, generator)


@value
class Point(Covariance):
    """S = 0: a point mass, which makes MAP."""

    def quad(self, psi: Tensor) -> Tensor:
        """Return psi_n' S psi_n, (..., N)."""
        return psi.new_zeros(psi.shape[:-1])

    def plus(self, c: Tensor) -> Isotropic:
        """Return S + c I."""
        return Isotropic(c)

    def log_normal(self, x: Tensor) -> Tensor:
        """Return log N(x; 0, S), (...)."""
        raise ValueError(
            "`cov` must have a density, but got `Point`, a point mass. Use the prior term "
            "`log_evidence` or `ridge`, or a covariance: `Full`, `Diag` or `LowRank`."
        )

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Return draws of N(0, S), of the given shape."""
        return torch.zeros(())
