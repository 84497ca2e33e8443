"""Cavities: which data may the belief that scores point n have seen? (Def. cavity)"""

import torch
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn.functional import pad

from .._core.linalg import cholesky, diagonal, eye_like, matvec
from ..beliefs.belief import Belief
from ..beliefs.covariances import Diag, Sum
from ..beliefs.problem import Problem
from ..factors.factor import Moments
from .parts import (
    EARLIER_BELIEFS,
    ONE_BELIEF,
    REMOVABLE_POINTS,
    UNSEEN_BATCH,
    Cavity,
    Filtered,
)
from .routes import conjugate, posterior

BLOCK = 64  # rows per Cholesky factor of `sequential`, at least; as many as features if more


def _shared(belief: Belief | Filtered, p: Problem) -> Moments:
    """All of them: one belief for every point."""
    at = belief.project(p.psi)
    return Moments(at.mean + p.offset, at.var)


def _leave_batch_out(belief: Belief, p: Problem) -> Moments:
    """All but the batch: one belief, which has seen none of its rows, scores each of them.

    Row by row: a joint score would take S+ for one draw of weights that all rows share.
    """
    return _shared(belief, p)


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
    """Only 1..n-1 (Eq. T11seq); an added covariance S+ has seen no point and widens them all."""
    if isinstance(belief, Filtered):
        return Moments(belief.path.mean + p.offset, belief.path.var)
    before = from_the_points_before(p, max(BLOCK, p.psi.shape[-1]))
    if isinstance(belief.cov, Sum):
        return Moments(before.mean, before.var + belief.cov.extra.quad(p.psi))
    return before


def from_the_points_before(p: Problem, size: int) -> Moments:
    """Return the moments of each f_n under the posterior of the points before it, (..., N).

    Row n of a Cholesky factor is the regression of point n on the points before it; the posterior
    of the earlier blocks takes the place of the prior, so that the factors stay small.

    Args:
        p: the problem.
        size: rows per block; it changes the cost alone.
    """
    s2, n = p.noise_var("sequential"), p.y.shape[-1]
    psi = pad(p.psi, (0, 0, 0, -n % size)).unflatten(-2, (-1, size))
    y = pad(p.centred(), (0, -n % size)).unflatten(-1, (-1, size))
    noise = s2[..., None]  # psi is (..., blocks, size, H), y is (..., blocks, size)
    precision, shift = psi.mT @ psi / noise[..., None], matvec(psi.mT, y) / noise
    before = posterior(p.alpha[..., None], _earlier(precision, -3), _earlier(shift, -2))
    spread = psi @ before.cov.scale
    lower = cholesky(spread @ spread.mT + noise[..., None] * eye_like(y))
    std = diagonal(lower)
    residual = y - matvec(psi, before.mean)
    white = solve_triangular(lower, residual[..., None], upper=False)[..., 0]
    mean, var = y - std * white, std.square() - noise
    return Moments(mean.flatten(-2)[..., :n] + p.offset, var.flatten(-2)[..., :n])


def _earlier(x: Tensor, along: int) -> Tensor:
    """Return the sums over the earlier entries along an axis."""
    zero, so_far = torch.zeros_like(x.narrow(along, 0, 1)), x.cumsum(along)
    return torch.cat([zero, so_far.narrow(along, 0, x.shape[along] - 1)], along)


def _exact(belief: Belief, p: Problem) -> Belief:
    """Return the exact posterior behind a belief: a diagonal covariance has lost it."""
    if isinstance(belief.cov, Sum):
        return Belief(belief.mean, belief.cov.base)
    return conjugate(p) if isinstance(belief.cov, Diag) else belief


shared = Cavity(_shared, needs=ONE_BELIEF)
leave_one_out = Cavity(
    _leave_one_out, needs=REMOVABLE_POINTS, contains_prior=True, needs_gaussian=True
)
leave_batch_out = Cavity(
    _leave_batch_out, needs=UNSEEN_BATCH, contains_prior=True, needs_gaussian=True
)
sequential = Cavity(_sequential, needs=EARLIER_BELIEFS, contains_prior=True, needs_gaussian=True)
CAVITIES = (shared, leave_one_out, leave_batch_out, sequential)
