"""From sufficient statistics to hyperparameters and the posterior over the weights (Eq. R1)."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.special import ndtri

from .._core.checks import invalid, require
from ..beliefs.belief import Belief
from ..beliefs.covariances import Spectral
from ..factors import Gaussian
from ..heads.head import Head
from ..heads.likelihoods import GaussReg
from .data import has_bias, has_intercept
from .evidence import maximise_evidence
from .statistics import Statistics

# "evidence", "head", or alpha and noise themselves, (..., K) each
Hyper = str | tuple[Tensor, Tensor]


class Eigen(NamedTuple):
    """Statistics in the eigenbasis of psi'psi.

    Attributes:
        values: eigenvalues, (..., 1, H); zero in directions that the data never took.
        basis: eigenvectors as columns, (..., 1, H, H).
        along: psi'y in this basis, (..., K, H).
    """

    values: Tensor
    basis: Tensor
    along: Tensor


def target_shift(head: Head, statistics: Statistics, hyper: Hyper) -> Tensor:
    """Return the mean of the targets if the head's bias is untrained, else zero, (..., K).

    The prior of the constant's weight is that of all weights, about the bias. A trained bias is
    near the targets; an untrained one, still zero, need not be.
    """
    zero = torch.zeros_like(statistics.square)
    if head.bias is None or hyper == "head" or not has_bias(head):
        return zero
    mean = statistics.cross[..., -1] / statistics.count
    return torch.where(head.bias.detach() == 0, mean, zero)


def eigen(statistics: Statistics) -> Eigen:
    """Return the statistics in the eigenbasis of psi'psi.

    Eigenvalues within rounding of zero are set to zero.
    """
    values, basis = torch.linalg.eigh(statistics.gram)
    values, basis = values.unsqueeze(-2), basis.unsqueeze(-3)
    along = (statistics.cross.unsqueeze(-2) @ basis).squeeze(-2)
    require(bool((values[..., -1] > 0).all()), "psi", "not be zero in every row", "only zeros")
    rounding = torch.finfo(values.dtype).eps * values.shape[-1] * values[..., -1:]
    unseen = values <= rounding
    return Eigen(values.masked_fill(unseen, 0), basis, along.masked_fill(unseen, 0))


def weights_given(at: Eigen, alpha: Tensor, noise: Tensor) -> Belief[Spectral]:
    """Return N(mean, A^-1), A = psi'psi/s^2 + alpha I, mean = A^-1 psi'y/s^2."""
    s2 = noise.square()[..., None]
    var = 1 / (at.values / s2 + alpha[..., None])
    mean = ((at.along * var / s2).unsqueeze(-2) @ at.basis.mT).squeeze(-2)
    return Belief(mean, Spectral(at.basis, var))


def hyperparameters(
    head: Head, statistics: Statistics, shifted: Statistics, at: Eigen, hyper: Hyper
) -> tuple[Tensor, Tensor]:
    """Return alpha and noise, (..., K).

    Args:
        head: the head, which has both for `hyper="head"`.
        statistics: of the targets.
        shifted: of the targets minus their shift.
        at: `shifted` in its eigenbasis.
        hyper: "evidence" maximises the evidence, "head" takes the head's, a pair is returned.
    """
    if isinstance(hyper, tuple):
        return hyper
    if hyper == "head":
        factor = head.likelihood.factor()
        if not isinstance(factor, Gaussian):
            raise invalid("hyper", "be 'evidence' for a head without Gaussian noise", hyper)
        return head.log_alpha.detach().double().exp(), factor.noise.detach().double()
    flat = constant_outputs(head, statistics)
    alpha, noise = maximise_evidence(at.values, at.along, shifted.square, shifted.count)
    if bool(flat.any()):
        return filled(alpha, noise, flat, shifted.count)
    return alpha, noise


def constant_outputs(head: Head, statistics: Statistics) -> Tensor:
    """Return which outputs have equal targets in all rows, (..., K), such as absent classes.

    A real target must vary: the noise of a constant is zero.
    """
    spread = statistics.square
    if has_intercept(head):
        spread = spread - statistics.cross[..., -1].square() / statistics.count
    flat = spread <= 1e-14 * statistics.square
    model = head.likelihood
    measured = isinstance(model.factor(), Gaussian) and not isinstance(model, GaussReg)
    require(
        not (measured and bool(flat.any())),
        "y",
        "differ from row to row",
        "targets without any spread",
        "If large numbers differ only a little, subtract their mean first.",
    )
    return flat


def filled(alpha: Tensor, noise: Tensor, flat: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return alpha and noise with values for the constant outputs, which have no evidence.

    A class without rows has target -1 everywhere. Its noise is set so that its probability is
    1/(N + 2), the rule of succession. The precision is the geometric mean of the other outputs'.
    """
    noise = torch.where(flat, -1 / ndtri(1 / (count + 2)), noise)
    others = alpha.log().masked_fill(flat, 0).sum(-1, keepdim=True)
    others = (others / (~flat).sum(-1, keepdim=True).clamp(min=1)).exp()
    return torch.where(flat, others, alpha), noise
