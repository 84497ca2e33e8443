"""Covariances of beliefs over last-layer weights: S as a value.

Leading `...` axes are independent replicates; several outputs are one more such axis, against
which the features broadcast.
"""

from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.linalg import solve_triangular

from .._core import linalg
from .._core.linalg import (
    LOG_2PI,
    eye_like,
    half_log_det,
    last_and_square,
    log_det_and_quad,
    matvec,
    row_square,
)
from .._core.value import value


class Covariance(Protocol):
    """S: what an objective asks of it, and draws."""

    def quad(self, psi: Tensor) -> Tensor:
        """psi_n' S psi_n, (..., N, H) -> (..., N)."""

    def plus(self, c: Tensor) -> "Covariance":
        """S + c I, c (...)."""

    def log_normal(self, x: Tensor) -> Tensor:
        """log N(x; 0, S), (..., H) -> (...)."""

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        """Draws of N(0, S), of the given shape, whose last axes are (..., H)."""


class Spread(Covariance, Protocol):
    """S > 0: it has a density and an inverse."""

    def plus(self, c: Tensor) -> "Spread":
        """S + c I."""

    def trace(self) -> Tensor:
        """tr S."""

    def dense(self) -> Tensor:
        """S as a matrix."""


class Bound(Spread, Protocol):
    """S of a posterior, from which the site of one point can be taken out again."""

    def downdated_quad(self, psi: Tensor, precision: Tensor) -> Tensor:
        """psi_n' S_(-n) psi_n, S_(-n) without point n's site; precision (..., 1) of a site."""


@value
class Full:
    """S = scale scale'."""

    scale: Tensor  # (..., H, H), lower triangular

    def quad(self, psi: Tensor) -> Tensor:
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
        return FullPlus(self.scale, c)

    def log_normal(self, x: Tensor) -> Tensor:
        white = solve_triangular(self.scale, x[..., None], upper=False)[..., 0]
        log_det = half_log_det(self.scale)
        return -0.5 * (white.square().sum(-1) + x.shape[-1] * LOG_2PI) - log_det

    def trace(self) -> Tensor:
        return self.scale.square().sum((-2, -1))

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        return (self.scale @ _noise(self.scale, shape, generator)[..., None])[..., 0]

    def dense(self) -> Tensor:
        return self.scale @ self.scale.mT


@value
class Spectral:
    """S = basis diag(var) basis', basis orthogonal: many outputs share one eigenbasis."""

    basis: Tensor  # (..., H, H), columns
    var: Tensor  # (..., H)

    def quad(self, psi: Tensor) -> Tensor:
        return Diag(self.var).quad(psi @ self.basis)

    def downdated_quad(self, psi: Tensor, precision: Tensor) -> Tensor:
        v = self.quad(psi)
        return v / (1 - v * precision)

    def plus(self, c: Tensor) -> "Spectral":
        return Spectral(self.basis, self.var + c[..., None])

    def log_normal(self, x: Tensor) -> Tensor:
        return Diag(self.var).log_normal((x[..., None, :] @ self.basis)[..., 0, :])

    def trace(self) -> Tensor:
        return self.var.sum(-1)

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        along = Diag(self.var).draw(shape, generator)
        return (along[..., None, :] @ self.basis.mT)[..., 0, :]

    def dense(self) -> Tensor:
        return (self.basis * self.var[..., None, :]) @ self.basis.mT


@value
class FullPlus:
    """S = scale scale' + c I, factorised only where a density is asked for."""

    scale: Tensor  # (..., H, H), lower triangular
    c: Tensor  # (...)

    def quad(self, psi: Tensor) -> Tensor:
        return Full(self.scale).quad(psi) + Isotropic(self.c).quad(psi)

    def project(self, mean: Tensor, psi: Tensor) -> tuple[Tensor, Tensor]:
        """mean . psi_n and psi_n' S psi_n."""
        at, spread = Full(self.scale).project(mean, psi)
        return at, spread + Isotropic(self.c).quad(psi)

    def plus(self, c: Tensor) -> "FullPlus":
        return FullPlus(self.scale, self.c + c)

    def log_normal(self, x: Tensor) -> Tensor:
        return _log_normal_of(self.dense(), x)

    def trace(self) -> Tensor:
        return Full(self.scale).trace() + self.scale.shape[-1] * self.c

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        return Full(self.scale).draw(shape, generator) + Isotropic(self.c).draw(shape, generator)

    def dense(self) -> Tensor:
        return Full(self.scale).dense() + self.c[..., None, None] * eye_like(self.scale)


@value
class Diag:
    """S = diag(var)."""

    var: Tensor  # (..., H)

    def quad(self, psi: Tensor) -> Tensor:
        return matvec(psi.square(), self.var)

    def downdated_quad(self, psi: Tensor, precision: Tensor) -> Tensor:
        """The same for a diagonal S: each coordinate's precision gives back its own share."""
        square = psi.square()
        left = 1 / self.var[..., None, :] - precision[..., None] * square
        return (square / left).sum(-1)

    def plus(self, c: Tensor) -> "Diag":
        return Diag(self.var + c[..., None])

    def log_normal(self, x: Tensor) -> Tensor:
        return linalg.log_normal(x, self.var).sum(-1)

    def trace(self) -> Tensor:
        return self.var.sum(-1)

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        return self.var.sqrt() * _noise(self.var, shape, generator)

    def dense(self) -> Tensor:
        return self.var.diag_embed()


@value
class LowRank:
    """S = diag(var) + factor' diag(load^2) factor; outputs may share directions (..., 1, R, H)."""

    var: Tensor  # (..., H)
    factor: Tensor  # (..., R, H), directions
    load: Tensor  # (..., R), deviation along each

    def quad(self, psi: Tensor) -> Tensor:
        return Diag(self.var).quad(psi) + Diag(self.load.square()).quad(psi @ self.factor.mT)

    def plus(self, c: Tensor) -> "LowRank":
        return LowRank(Diag(self.var).plus(c).var, self.factor, self.load)

    def log_normal(self, x: Tensor) -> Tensor:
        # Woodbury: the density under diag(var), corrected in the R directions. Products of two
        # directions turn their Gram matrices under every output's 1/var into one product.
        pairs = (self.factor[..., :, None, :] * self.factor[..., None, :, :]).flatten(-3, -2)
        gram = matvec(pairs, 1 / self.var).unflatten(-1, (self.load.shape[-1], -1))
        core = self.load[..., :, None] * gram * self.load[..., None, :]
        side = self.load * matvec(self.factor, x / self.var)
        log_det, gain = log_det_and_quad(core + eye_like(core), side)
        return Diag(self.var).log_normal(x) + 0.5 * (gain - log_det)

    def trace(self) -> Tensor:
        return self.var.sum(-1) + (self.load.square() * self.factor.square().sum(-1)).sum(-1)

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        eps = _noise(self.load, torch.Size((*shape[:-1], self.load.shape[-1])), generator)
        spread = ((self.load * eps)[..., None, :] @ self.factor)[..., 0, :]
        return Diag(self.var).draw(shape, generator) + spread

    def dense(self) -> Tensor:
        scaled = self.load[..., None] * self.factor
        return self.var.diag_embed() + scaled.mT @ scaled


@value
class Isotropic:
    """S = c I; the prior's covariance is I/alpha."""

    c: Tensor  # (...)

    def quad(self, psi: Tensor) -> Tensor:
        return self.c[..., None] * row_square(psi)

    def plus(self, c: Tensor) -> "Isotropic":
        return Isotropic(self.c + c)

    def log_normal(self, x: Tensor) -> Tensor:
        h = x.shape[-1]
        return -0.5 * (x.square().sum(-1) / self.c + h * (self.c.log() + LOG_2PI))

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        return self.c.sqrt()[..., None] * _noise(self.c, shape, generator)


@value
class Point:
    """S = 0: a point mass, which makes MAP."""

    def quad(self, psi: Tensor) -> Tensor:
        return psi.new_zeros(psi.shape[:-1])

    def plus(self, c: Tensor) -> Isotropic:
        return Isotropic(c)

    def log_normal(self, x: Tensor) -> Tensor:
        raise ValueError(
            "`cov` must have a density, but got `Point`, a point mass. Use the prior term "
            "`log_evidence` or `ridge`, or a covariance: `Full`, `Diag` or `LowRank`."
        )

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        return torch.zeros(())


@value
class Scaled:
    """S = by^2 base, a covariance in other units."""

    base: "Spread"
    by: Tensor  # (...)

    def quad(self, psi: Tensor) -> Tensor:
        return self.by.square()[..., None] * self.base.quad(psi)

    def plus(self, c: Tensor) -> "Scaled":
        return Scaled(self.base.plus(c / self.by.square()), self.by)

    def log_normal(self, x: Tensor) -> Tensor:
        return self.base.log_normal(x / self.by[..., None]) - x.shape[-1] * self.by.log()

    def trace(self) -> Tensor:
        return self.by.square() * self.base.trace()

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        return self.by[..., None] * self.base.draw(shape, generator)

    def dense(self) -> Tensor:
        return self.by.square()[..., None, None] * self.base.dense()


@value
class Sum:
    """S = base + extra: a posterior and what was added to it (the hybrid route)."""

    base: "Bound"
    extra: "Spread"

    def quad(self, psi: Tensor) -> Tensor:
        return self.base.quad(psi) + self.extra.quad(psi)

    def downdated_quad(self, psi: Tensor, precision: Tensor) -> Tensor:
        """Only the posterior has seen point n, so only it gives the point back."""
        return self.base.downdated_quad(psi, precision) + self.extra.quad(psi)

    def plus(self, c: Tensor) -> "Sum":
        return Sum(self.base, self.extra.plus(c))

    def log_normal(self, x: Tensor) -> Tensor:
        return _log_normal_of(self.dense(), x)

    def trace(self) -> Tensor:
        return self.base.trace() + self.extra.trace()

    def draw(self, shape: torch.Size, generator: Generator | None = None) -> Tensor:
        return self.base.draw(shape, generator) + self.extra.draw(shape, generator)

    def dense(self) -> Tensor:
        return self.base.dense() + self.extra.dense()


def _log_normal_of(cov: Tensor, x: Tensor) -> Tensor:
    log_det, quad = log_det_and_quad(cov, x)
    return -0.5 * (quad + log_det + x.shape[-1] * LOG_2PI)


def _noise(like: Tensor, shape: torch.Size, generator: Generator | None) -> Tensor:
    return torch.randn(shape, dtype=like.dtype, device=like.device, generator=generator)
