"""Routes: where does the belief come from? Parameters, the posterior, or both (Def. routing)."""

import torch
from torch import Tensor

from .._core.linalg import diagonal, eye_like, inverse_root, matvec
from ..beliefs.belief import Belief
from ..beliefs.covariances import Diag, Full, Sum
from ..beliefs.problem import Problem
from ..factors.factor import Moments
from .parts import (
    EARLIER_BELIEFS,
    ONE_BELIEF,
    REMOVABLE_POINTS,
    UNSEEN_BATCH,
    Filtered,
    Route,
)


def _free(p: Problem) -> Belief:
    """q is a variable of the objective, selected by the score itself."""
    if p.free is None:
        raise ValueError(
            "`free` must be a belief on this route, but got None. Give the problem one, or use "
            "the `conjugate` route, which computes it."
        )
    return p.free


def _conjugate(p: Problem) -> Belief[Full]:
    """p(w | psi, y) = N(S psi'y/s^2, S), S = (psi'psi/s^2 + alpha I)^-1 (Eq. R1)."""
    return _bound(p, p.psi, p.centred())


def _conjugate_diag(p: Problem) -> Belief[Diag]:
    """The same mean, S projected onto the diagonal family: S_dd = 1/A_dd (Cor. binding_map)."""
    precision, shift = sites(p, p.psi, p.centred())
    kept = diagonal(precision) + p.alpha[..., None]
    return Belief(posterior(p.alpha, precision, shift).mean, Diag(1 / kept))


def _hybrid(p: Problem) -> Belief[Sum]:
    """N(mean, A^-1 + S+): the posterior, with a free covariance added."""
    return _spread(_conjugate(p), p)


def _block_hybrid(p: Problem) -> Belief[Sum]:
    """The same posterior of the rows outside the batch alone: it has seen no row of the batch."""
    return _spread(_bound(p, p.psi[..., :0, :], p.centred()[..., :0]), p)


def _spread(bound: Belief[Full], p: Problem) -> Belief[Sum]:
    if p.added is None:
        raise ValueError(
            "`added` must be a covariance on the hybrid route, but got None. Give the problem "
            "one, or use the `conjugate` route, which adds nothing."
        )
    return Belief(bound.mean, Sum(bound.cov, p.added))


def _bound(p: Problem, psi: Tensor, y: Tensor) -> Belief[Full]:
    """Return the posterior of some rows of the batch and of those outside it."""
    precision, shift = sites(p, psi, y)
    if p.rest is not None:
        more, push = p.rest.sites(p.noise_var("conjugate"), p.offset)
        precision, shift = precision + more, shift + push
    return posterior(p.alpha, precision, shift)


def _filtered_diag(p: Problem) -> Filtered:
    """Assumed-density filter: one Kalman step per point, the covariance cut to its diagonal."""
    s2 = p.noise_var("filtered_diag")
    psi, y = p.psi, p.centred()
    lead = torch.broadcast_shapes(y.shape[:-1], psi.shape[:-2], p.alpha.shape)
    var = (1 / p.alpha)[..., None].expand(*lead, psi.shape[-1])
    mean, means, variances = torch.zeros_like(var), [], []
    for n in range(y.shape[-1]):
        x = psi[..., n, :]
        reach = var * x
        m, v = (mean * x).sum(-1), (reach * x).sum(-1)
        gain = reach / (v[..., None] + s2)
        mean = mean + gain * (y[..., n] - m)[..., None]
        var = var - gain * reach
        means.append(m)
        variances.append(v)
    return Filtered(mean, Diag(var), Moments(torch.stack(means, -1), torch.stack(variances, -1)))


def sites(p: Problem, psi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return precision psi'psi/s^2 and shift psi'y/s^2 of the sites of these points."""
    s2 = p.noise_var("conjugate")
    return psi.mT @ psi / s2[..., None], matvec(psi.mT, y) / s2


def posterior(alpha: Tensor, precision: Tensor, shift: Tensor) -> Belief[Full]:
    """Return N(A^-1 shift, A^-1), A = precision + alpha I."""
    root = inverse_root(precision + alpha[..., None, None] * eye_like(precision))
    return Belief((root @ (root.mT @ shift[..., None]))[..., 0], Full(root))


free = Route(
    _free,
    gives={ONE_BELIEF},
    needs_belief=True,
    reason="a free variance may exceed the noise, and then taking a point out diverges",
)
conjugate = Route(
    _conjugate,
    gives={ONE_BELIEF, REMOVABLE_POINTS, EARLIER_BELIEFS},
    needs_every_row=True,
    needs_gaussian=True,
)
batch_conjugate = Route(
    _conjugate,
    gives={ONE_BELIEF, REMOVABLE_POINTS},
    needs_every_row=True,
    needs_rest=True,
    needs_gaussian=True,
    reason="the rows outside the batch have no order",
    name="batch_conjugate",
)
conjugate_diag = Route(
    _conjugate_diag,
    gives={ONE_BELIEF, REMOVABLE_POINTS},
    needs_every_row=True,
    needs_gaussian=True,
    diagonal=True,
    reason="the filter of its sequence is the route `filtered_diag`",
)
hybrid = Route(
    _hybrid,
    gives={REMOVABLE_POINTS},
    needs_added=True,
    needs_every_row=True,
    needs_gaussian=True,
    reason="only held-out residuals can tell which covariance to add",
)
batch_hybrid = Route(
    _hybrid,
    gives={REMOVABLE_POINTS},
    needs_added=True,
    needs_every_row=True,
    needs_rest=True,
    needs_gaussian=True,
    reason="only held-out residuals can tell which covariance to add",
    name="batch_hybrid",
)
block_hybrid = Route(
    _block_hybrid,
    gives={UNSEEN_BATCH},
    needs_added=True,
    needs_every_row=True,
    needs_rest=True,
    needs_gaussian=True,
    reason="it has seen the rows outside the batch alone",
)
prequential = Route(
    _hybrid,
    gives={EARLIER_BELIEFS},
    needs_added=True,
    needs_every_row=True,
    needs_gaussian=True,
    reason="each point is scored by the points before it",
    name="prequential",
)
filtered_diag = Route(
    _filtered_diag,
    gives={EARLIER_BELIEFS},
    needs_every_row=True,
    needs_gaussian=True,
    diagonal=True,
    reason="a filter scores each point before it sees it",
)
ROUTES = (
    free,
    conjugate,
    batch_conjugate,
    conjugate_diag,
    hybrid,
    batch_hybrid,
    block_hybrid,
    prequential,
    filtered_diag,
)
