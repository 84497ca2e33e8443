"""Cavities: which data may the belief that scores point n have seen? (Def. cavity)"""

import torch
from torch.linalg import solve_triangular

from .._core.linalg import cholesky, diagonal, eye_like, matvec
from ..beliefs.belief import Belief
from ..beliefs.covariances import Diag, Sum
from ..beliefs.problem import Problem
from ..factors.factor import Moments
from .parts import EARLIER_BELIEFS, ONE_BELIEF, REMOVABLE_POINTS, Cavity, Filtered
from .routes import conjugate, posterior, sites

BLOCK = 256  # rows whose Cholesky factor `sequential` holds at a time


def _shared(belief: Belief | Filtered, p: Problem) -> Moments:
    """All of them: one belief for every point."""
    at = belief.project(p.psi)
    return Moments(at.mean + p.offset, at.var)


def _leave_one_out(belief: Belief, p: Problem) -> Moments:
    """All but n: residual r_n/(1 - h_n), variance without n's site (Lem. shared_loo)."""
    cov = belief.cov
    if not hasattr(cov, "downdated_quad"):
        raise TypeError(
            "`belief` must be one that a point can be taken out of for `leave_one_out`, but got "
            f"covariance `{type(cov).__name__}`. Use route `conjugate`, `conjugate_diag` or "
            "`hybrid`."
        )
    s2 = p.noise_var("leave_one_out")
    at = _exact(belief, p).project(p.psi)
    h = at.var / s2  # leverage
    mean = (at.mean - h * p.centred()) / (1 - h)
    return Moments(mean + p.offset, cov.downdated_quad(p.psi, 1 / s2))


def _sequential(belief: Belief | Filtered, p: Problem) -> Moments:
    """Only 1..n-1 (Eq. T11seq).

    Row n of a Cholesky factor is the regression of point n on the points before it; blocks
    keep that factor small, so memory grows with N and not with its square.
    """
    if isinstance(belief, Filtered):
        return Moments(belief.path.mean + p.offset, belief.path.var)
    s2 = p.noise_var("sequential")
    precision, shift = sites(p, p.psi[..., :0, :], p.centred()[..., :0])
    means, variances = [], []
    for start in range(0, p.y.shape[-1], BLOCK):
        block = slice(start, start + BLOCK)
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
    """Return the exact posterior behind a belief: a diagonal covariance has lost it."""
    if isinstance(belief.cov, Sum):
        return Belief(belief.mean, belief.cov.base)
    return conjugate(p) if isinstance(belief.cov, Diag) else belief


shared = Cavity(_shared, needs=ONE_BELIEF)
leave_one_out = Cavity(
    _leave_one_out, needs=REMOVABLE_POINTS, contains_prior=True, needs_gaussian=True
)
sequential = Cavity(_sequential, needs=EARLIER_BELIEFS, contains_prior=True, needs_gaussian=True)
CAVITIES = (shared, leave_one_out, sequential)
