"""The baselines for labels: heads with a softmax, trained on the same stacked loop as ours."""

from math import log

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from scroll.beliefs import Belief
from scroll.beliefs.covariances import Full
from scroll.factors import Moments
from scroll.predictive import Categorical

from .baselines import Lead

DRAWS = 64


class Softmax(nn.Module):
    """A linear map and a softmax: mean_n -log p(y_n) + weight |w|^2."""

    batches = True
    weight: Tensor

    def __init__(self, in_features: int, classes: int, replicates: Lead = ()):
        super().__init__()
        self.replicates = replicates
        uniform = torch.empty(*replicates, classes, in_features).uniform_(-1, 1)
        self.linear = nn.Parameter(uniform * in_features**-0.5)
        self.register_buffer("weight", torch.zeros(replicates))

    def forward(self, psi: Tensor) -> Categorical:
        """Return the predictive distribution of each row of psi (..., N, H)."""
        return Categorical((psi @ self.linear.mT).log_softmax(-1))

    def loss(self, psi: Tensor, y: Tensor, total: int) -> Tensor:
        """Return the mean loss per row, (...)."""
        each = cross_entropy((psi @ self.linear.mT).movedim(-1, 1), y, reduction="none")
        return each.mean(-1) + self.weight * self.linear.square().sum((-2, -1))


class VariationalSoftmax(nn.Module):
    """VBLL's discriminative classification as in the package `vbll`: parameters, start, bound.

    mean_n [m_y - logsumexp(m + v/2)] - weight (KL + Wishart term), to be maximised. The
    predictive is a mean over draws of the logits; here every row has the same draws.
    """

    batches = True
    weight: Tensor
    draws: Tensor

    def __init__(self, in_features: int, classes: int, replicates: Lead = ()):
        super().__init__()
        h, lead, self.replicates = in_features, (*replicates, classes), replicates
        self.log_noise = nn.Parameter(torch.randn(lead) - 1)
        self.mean = nn.Parameter(torch.randn(*lead, h) * (2 / h) ** 0.5)
        self.log_diag = nn.Parameter(1e-3 * torch.randn(*lead, h) - log(h))
        self.lower = nn.Parameter(1e-3 * torch.randn(*lead, h, h) / h)
        self.register_buffer("weight", torch.zeros(replicates))
        self.register_buffer("draws", normal_draws(classes)[None])

    def belief(self) -> Belief:
        """q(w) with S = L L', L with exp(log_diag) on its diagonal."""
        return Belief(self.mean, Full(self._root()))

    def _root(self) -> Tensor:
        return self.lower.tril(-1) + self.log_diag.exp().diag_embed()

    def message(self, psi: Tensor) -> Moments:
        """Return means and variances of the logits, noise included, (..., N, K)."""
        at = self.belief().project(psi.unsqueeze(-3))
        var = at.var + (2 * self.log_noise).exp()[..., None]
        return Moments(at.mean.mT, var.mT)

    def forward(self, psi: Tensor) -> Categorical:
        """Return the predictive distribution of each row of psi (..., N, H)."""
        return averaged(self.message(psi), self.draws[0])

    def loss(self, psi: Tensor, y: Tensor, total: int) -> Tensor:
        """Return the mean loss per row, (...)."""
        at = self.message(psi)
        linear = at.mean.gather(-1, y[..., None])[..., 0]
        bound = (linear - (at.mean + at.var / 2).logsumexp(-1)).mean(-1)
        return -bound - self.weight * (self._wishart() - self._kl())

    def _kl(self) -> Tensor:
        """KL to N(0, 2/H), up to a constant."""
        h, prior = self.mean.shape[-1], 2 / self.mean.shape[-1]
        trace = self._root().square().sum((-2, -1))
        log_det = 2 * self.log_diag.sum(-1)
        each = (self.mean.square().sum(-1) + trace) / prior - log_det
        return (each + h * log(prior)).sum(-1) / 2

    def _wishart(self) -> Tensor:
        """The log density of a Wishart prior on the noise: scale one, K + 1 degrees of freedom."""
        precision = (-2 * self.log_noise).exp()
        dof = (self.mean.shape[-2] + 2) / 2
        return dof * precision.log().sum(-1) - precision.sum(-1) / 2


def laplace(head: Softmax, psi: Tensor, precision: Tensor | float) -> Tensor:
    """Return the variances of a diagonal Laplace posterior about a trained head, (..., K, H).

    They are one over the diagonal of sum_n (diag p - p p') x psi psi', plus the prior precision.

    Args:
        head: trained.
        psi: features of the training rows.
        precision: of the prior.
    """
    p = head(psi).probs
    curve: Tensor = (p * (1 - p)).mT @ psi.square()
    return 1 / (curve + precision)


def spread(head: Softmax, variances: Tensor, psi: Tensor) -> Categorical:
    """Return the predictive of weights with these variances about those of the head."""
    at = Moments(psi @ head.linear.mT, psi.square() @ variances.mT)
    return averaged(at, normal_draws(at.mean.shape[-1]))


def averaged(logits: Moments, draws: Tensor) -> Categorical:
    """E softmax(f) of f ~ N(mean, var), (..., N, K), over the same draws (S, K) for every row."""
    z = draws.to(logits.mean).reshape(-1, *(1 for _ in logits.mean.shape[:-1]), draws.shape[-1])
    each = (logits.mean + logits.var.sqrt() * z).log_softmax(-1)
    return Categorical(each.logsumexp(0).log_softmax(-1))


def normal_draws(classes: int) -> Tensor:
    """Return fixed quasi-random standard normal vectors, (DRAWS, K)."""
    sobol = torch.quasirandom.SobolEngine(classes, scramble=True, seed=0)
    inside = sobol.draw(DRAWS, dtype=torch.float64).clamp(1e-6, 1 - 1e-6)
    return torch.special.ndtri(inside)
