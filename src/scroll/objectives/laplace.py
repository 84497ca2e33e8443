"""Posteriors of factors that are not Gaussian: Laplace's, and leave-one-out by one Newton step.

w* is the maximum of sum_n log p(y_n | w.psi_n) - alpha/2 |w|^2. With slope g_n = d log p / df and
curvature W_n = -d^2 log p / df^2 at f_n = w*.psi_n,

    A = sum_n W_n psi_n psi_n' + alpha I,    v_n = psi_n' A^-1 psi_n    (Laplace)
    f_n - g_n v_n/(1 - W_n v_n),             v_n/(1 - W_n v_n)          (without row n)

The second line is one Newton step from w* on the objective of the other rows. For a Gaussian factor
both lines are exact: Eq. R1 and Lem. shared_loo.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .._core.checks import may_hold
from .._core.linalg import eye_like, half_log_det, inverse_root, matvec
from ..beliefs.belief import Belief
from ..beliefs.covariances import Full, Sum
from ..beliefs.problem import Problem
from ..factors import derivatives
from ..factors.factor import Moments
from .parts import ONE_BELIEF, Cavity, Route

REMOVABLE_SITES = "a Laplace posterior, out of which a Newton step takes each point"
STEPS = 50  # of Newton's method, at most
CLOSE = 1e-3  # share of the rounding error of the log joint that a further step may gain
SHARES = 20  # of a step that overshoots: 1, 1/4, 1/16, ...
BLOCK = 256  # rows that are left out at a time, for the correction of second order


class Expansion(NamedTuple):
    """log p(y_n | f_n) about w.psi_n, to third order, (..., N) each.

    Attributes:
        f: w.psi_n and the offset.
        slope: the first derivative.
        curvature: minus the second derivative.
        third: the third derivative.
    """

    f: Tensor
    slope: Tensor
    curvature: Tensor
    third: Tensor


def expansion(p: Problem, w: Tensor) -> Expansion:
    """Return the expansion of each row's log density about weights w, (..., H)."""
    f = matvec(p.psi, w) + p.offset
    first, second, third = derivatives(p.factor, p.y, f)
    return Expansion(f, first, -second, third)


def covariance_root(p: Problem, curvature: Tensor) -> Tensor:
    """Return the lower L, L L' = A^-1, A = sum_n W_n psi_n psi_n' + alpha I, (..., H, H)."""
    precision = (curvature[..., None] * p.psi).mT @ p.psi
    return inverse_root(precision + p.alpha[..., None, None] * eye_like(precision))


def log_joint(p: Problem, w: Tensor) -> Tensor:
    """Return sum_n log p(y_n | w.psi_n) - alpha/2 |w|^2, (...)."""
    score = p.factor.log_prob(p.y, matvec(p.psi, w) + p.offset).sum(-1)
    return score - 0.5 * p.alpha * w.square().sum(-1)


def log_evidence(p: Problem, belief: Belief[Full]) -> Tensor:
    """Return Laplace's log p(y) = log joint(w*) + H/2 log alpha - 1/2 log |A|, (...)."""
    h = p.psi.shape[-1]
    log_det = half_log_det(belief.cov.scale)
    return log_joint(p, belief.mean) + 0.5 * h * p.alpha.log() + log_det


@torch.no_grad()
def mode(p: Problem, start: Tensor | None = None) -> Tensor:
    """Return w* by Newton's method, (..., H); of a step that overshoots, a share is taken.

    Args:
        p: the problem; its factor must be log-concave in f.
        start: weights to start from; zero by default.
    """
    lead = torch.broadcast_shapes(p.y.shape[:-1], p.psi.shape[:-2], p.alpha.shape)
    w = p.psi.new_zeros(*lead, p.psi.shape[-1]) if start is None else start
    shares = 0.25 ** torch.arange(SHARES, dtype=w.dtype, device=w.device)
    shares = shares.reshape(-1, *(1,) * w.dim())
    eps = torch.finfo(w.dtype).eps
    for _ in range(STEPS):
        at = expansion(p, w)
        step, gradient = _newton(p, w, at)
        reached = log_joint(p, w + shares * step)
        now = reached[-1].abs() * eps * 8
        reached = torch.cat([reached[:1] + now, reached[1:]]).nan_to_num(-torch.inf)
        best = reached.argmax(0)
        w = w + shares[best].reshape(*lead, 1) * step
        gain = (gradient * step).sum(-1)  # Newton's decrement: twice what the step should gain
        if _found(gain, CLOSE * eps * (1 + reached.amax(0).abs())):
            break
    return w


def _found(gain: Tensor, least: Tensor) -> bool:
    """Return whether no replicate gains more; a captured CUDA graph cannot ask, and goes on."""
    if gain.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    return not may_hold((gain > least).any())


def _newton(p: Problem, w: Tensor, at: Expansion) -> tuple[Tensor, Tensor]:
    """Return the Newton step from w and the gradient of the log joint there, (..., H) each."""
    gradient = matvec(p.psi.mT, at.slope) - p.alpha[..., None] * w
    root = covariance_root(p, at.curvature)
    return (root @ (root.mT @ gradient[..., None]))[..., 0], gradient


def _laplace(p: Problem) -> Belief[Full]:
    """N(w*, A^-1), w* the mode and A the curvature there (Laplace).

    The gradient flows through one Newton step from the mode: there the step is zero and its
    derivative that of the mode (the implicit function theorem).
    """
    return laplace_about(p, mode(p))


def laplace_about(p: Problem, w: Tensor) -> Belief[Full]:
    """Return N(w*, A^-1), one Newton step from weights w that are within rounding of the mode."""
    w = w.detach()
    at = expansion(p, w)
    root = covariance_root(p, at.curvature).detach()
    gradient = matvec(p.psi.mT, at.slope) - p.alpha[..., None] * w
    mean = w + (root @ (root.mT @ gradient[..., None]))[..., 0]
    return Belief(mean, Full(covariance_root(p, expansion(p, mean).curvature)))


def _laplace_hybrid(p: Problem) -> Belief[Sum]:
    """N(w*, A^-1 + S+): Laplace's posterior, with a free covariance added."""
    bound = _laplace(p)
    if p.added is None:
        raise ValueError(
            "`added` must be a covariance on the laplace_hybrid route, but got None. Give the "
            "problem one, or use the `laplace` route, which adds nothing."
        )
    return Belief(bound.mean, Sum(bound.cov, p.added))


def _newton_leave_one_out(belief: Belief[Full | Sum], p: Problem) -> Moments:
    """All but n: f_n - g_n v_n/(1 - W_n v_n) and v_n/(1 - W_n v_n), one Newton step from w*."""
    at, cov = expansion(p, belief.mean), belief.cov
    if not isinstance(cov, Sum):
        var = cov.downdated_quad(p.psi, at.curvature)
        return Moments(at.f - at.slope * var, var)
    var = cov.base.downdated_quad(p.psi, at.curvature)
    return Moments(at.f - at.slope * var, var + cov.extra.quad(p.psi))


def second_order(belief: Belief[Full], p: Problem) -> Moments:
    """Return the moments without row n to second order in its slope, with c_nm = psi_n' A_(-n)^-1
    psi_m and T_n = sum_{m != n} third_m c_nm^3:

        f_n - g_n c_nn + g_n^2 T_n / 2,    c_nn - g_n T_n

    They follow how the curvature of the other rows changes when row n is left out. The cost grows
    with N^2.
    """
    at = expansion(p, belief.mean)
    psi, scale = p.psi, belief.cov.scale
    first = belief.cov.downdated_quad(psi, at.curvature)
    white = psi @ scale
    own = white.square().sum(-1)
    sums = []
    for start in range(0, psi.shape[-2], BLOCK):
        some = slice(start, start + BLOCK)
        cross = white[..., some, :] @ white.mT / (1 - at.curvature * own)[..., some, None]
        sums.append(matvec(cross**3, at.third))
    t = torch.cat(sums, -1) - at.third * first**3
    mean = at.f - at.slope * first + 0.5 * at.slope.square() * t
    return Moments(mean, first - at.slope * t)


laplace = Route(
    _laplace,
    gives={ONE_BELIEF, REMOVABLE_SITES},
    needs_every_row=True,
    reason="its sites change with the data, and only a Newton step takes one out",
)
laplace_hybrid = Route(
    _laplace_hybrid,
    gives={REMOVABLE_SITES},
    needs_added=True,
    needs_every_row=True,
    reason="only held-out rows can tell which covariance to add",
)
newton_leave_one_out = Cavity(_newton_leave_one_out, needs=REMOVABLE_SITES, contains_prior=True)
