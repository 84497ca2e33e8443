"""Cavity: which data may the belief that scores point n have seen? (Def. cavity)"""

import torch
from torch.linalg import solve_triangular

from .._core.linalg import cholesky, diagonal, eye_like, matvec
from ..beliefs.belief import Belief
from ..beliefs.covariances import Diag, Sum
from ..beliefs.problem import Problem
from ..factors.factor import Moments
from .routes import Filtered, conjugate, posterior, sites

_BLOCK = 256


def shared(belief: Belief | Filtered, p: Problem) -> Moments:
    """All of it: one belief for every point."""
    at = belief.project(p.psi)
    return Moments(at.mean + p.offset, at.var)


def leave_one_out(belief: Belief, p: Problem) -> Moments:
    """All but n: residual r_n/(1 - h_n), variance without n's site (Lem. shared_loo)."""
    cov = belief.cov
    if not hasattr(cov, "downdated_quad"):
        raise TypeError(
            f"`belief` must be bound to the posterior for `leave_one_out`, but got a free "
            f"`{type(cov).__name__}`. Use the `conjugate`, `conjugate_diag` or `hybrid` route."
        )
    s2 = p.noise_var("leave_one_out")
    at = _exact(belief, p).project(p.psi)
    h = at.var / s2  # leverage
    mean = (at.mean - h * p.centred()) / (1 - h)
    return Moments(mean + p.offset, cov.downdated_quad(p.psi, 1 / s2))


def sequential(belief: Belief | Filtered, p: Problem) -> Moments:
    """Only 1..n-1 (Eq. T11seq).

    Row n of a Cholesky factor is the regression of point n on the points before it; blocks
    keep that factor small, so memory grows with N and not with its square.
    """
    if isinstance(belief, Filtered):
        return Moments(belief.path.mean + p.offset, belief.path.var)
    s2 = p.noise_var("sequential")
    precision, shift = sites(p, p.psi[..., :0, :], p.centred()[..., :0])
    means, variances = [], []
    for start in range(0, p.y.shape[-1], _BLOCK):
        block = slice(start, start + _BLOCK)
        psi, y = p.psi[..., block, :], p.centred()[..., block]
        before = posterior(p.alpha, precision, shift)
        spread = psi @ before.cov.scale
        lower = cholesky(spread @ spread.mT + s2[..., None] * eye_like(y))
        std = diagonal(lower)
        residual = y - matvec(psi, before.mean)
        white = solve_triangular(lower, residual[..., None], upper=False)[..., 0]
        means.append(y - std * white)
        variances.append(std.square() - s2)
        more, push = sites(p, psi, y)
        precision, shift = precision + more, shift + push
    return Moments(torch.cat(means, -1) + p.offset, torch.cat(variances, -1))


def _exact(belief: Belief, p: Problem) -> Belief:
    """The exact posterior behind a bound belief: only a diagonal one has lost it."""
    if isinstance(belief.cov, Sum):
        return Belief(belief.mean, belief.cov.base)
    return conjugate(p) if isinstance(belief.cov, Diag) else belief
