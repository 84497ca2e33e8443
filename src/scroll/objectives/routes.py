"""Route: where does the belief come from? Parameters, the posterior, or both (Def. routing)."""

import torch
from torch import Tensor

from .._core.linalg import diagonal, eye_like, inverse_root, matvec
from .._core.value import value
from ..beliefs.belief import Belief
from ..beliefs.covariances import Diag, Full, Sum
from ..beliefs.problem import Problem
from ..factors.factor import Moments


def free(p: Problem) -> Belief:
    """q is a variable of the objective, selected by the score itself."""
    if p.free is None:
        raise ValueError(
            "`free` must be a belief on this route, but got None. Give the problem one, or use "
            "the `conjugate` route, which computes it."
        )
    return p.free


def conjugate(p: Problem) -> Belief:
    """p(w | psi, y) = N(S psi'y/s^2, S), S = (psi'psi/s^2 + alpha I)^-1 (Eq. R1)."""
    return posterior(p.alpha, *sites(p, p.psi, p.centred()))


def conjugate_diag(p: Problem) -> Belief:
    """The same mean, S projected onto the diagonal family: S_dd = 1/A_dd (Cor. binding_map)."""
    precision, shift = sites(p, p.psi, p.centred())
    kept = diagonal(precision) + p.alpha[..., None]
    return Belief(posterior(p.alpha, precision, shift).mean, Diag(1 / kept))


def hybrid(p: Problem) -> Belief:
    """N(mean, A^-1 + S+): the posterior, with a free covariance added."""
    bound = conjugate(p)
    if p.added is None:
        raise ValueError(
            "`added` must be a covariance on the hybrid route, but got None. Give the problem "
            "one, or use the `conjugate` route, which adds nothing."
        )
    return Belief(bound.mean, Sum(bound.cov, p.added))


@value
class Filtered:
    """The belief after all points, and what it predicted of each before seeing it."""

    mean: Tensor
    cov: Diag
    path: Moments

    def project(self, psi: Tensor) -> Moments:
        return Belief(self.mean, self.cov).project(psi)


def filtered_diag(p: Problem) -> Filtered:
    """Assumed-density filter: a Kalman step a point, the covariance cut to its diagonal."""
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
    """Precision psi'psi/s^2 and shift psi'y/s^2 that these points bring."""
    s2 = p.noise_var("conjugate")
    return psi.mT @ psi / s2[..., None], matvec(psi.mT, y) / s2


def posterior(alpha: Tensor, precision: Tensor, shift: Tensor) -> Belief:
    """N(A^-1 shift, A^-1), A = precision + alpha I."""
    root = inverse_root(precision + alpha[..., None, None] * eye_like(precision))
    return Belief((root @ (root.mT @ shift[..., None]))[..., 0], Full(root))
