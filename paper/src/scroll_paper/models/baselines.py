"""The baselines for regression, trained on the same stacked loop as our heads."""

from math import log

import torch
from torch import Tensor, nn

from scroll.beliefs import Belief, Problem
from scroll.beliefs.covariances import Full
from scroll.factors import Gaussian
from scroll.heads import Head
from scroll.objectives import METHODS
from scroll.objectives.routes import conjugate
from scroll.predictive import Normal
from scroll.training.batches import Rows
from scroll.training.network import Network

Lead = tuple[int, ...]


class Constant(nn.Module):
    """The mean predictor: N(mean, var) of the training targets, for every x."""

    batches = False
    mean: Tensor
    var: Tensor

    def __init__(self, replicates: Lead = ()):
        super().__init__()
        self.replicates = replicates
        self.register_buffer("mean", torch.zeros(replicates))
        self.register_buffer("var", torch.ones(replicates))

    def forward(self, x: Tensor) -> Normal:
        """Return the predictive distribution of each row of x (..., N, D)."""
        mean, var = (t[..., None].expand(x.shape[:-1]) for t in (self.mean, self.var))
        return Normal(mean, var, torch.zeros_like(mean))

    def loss(self, x: Tensor, y: Tensor, total: int) -> Tensor:
        """Return zeros: there is nothing to train."""
        return torch.zeros_like(self.mean)

    def condition(self, x: Tensor, y: Tensor) -> "Constant":
        """Set the mean and variance to those of the targets."""
        self.mean, self.var = y.mean(-1), y.var(-1, correction=0)
        return self


class MeanVariance(nn.Module):
    """MVN: two linear heads, mean and log variance, under the beta-NLL.

    loss = mean_n V_n^beta [r_n^2/V_n + log V_n]/2 + weight (|w_mean|^2 + |w_log_var|^2)

    Args:
        in_features: H.
        replicates: networks that are trained together.
        beta: 0 is the NLL; 1 gives rows of large variance the same weight as all others.
        unit: scale the weights V_n^beta to mean one, which a deep body needs at a large rate.
        offsets: whether the mean and the log variance learn an offset.
    """

    batches = True
    weight: Tensor

    def __init__(
        self,
        in_features: int,
        replicates: Lead = (),
        beta: float = 0.5,
        unit: bool = False,
        offsets: tuple[bool, bool] = (True, True),
    ):
        super().__init__()
        self.beta, self.replicates, self.unit = beta, replicates, unit
        uniform = torch.empty(*replicates, 2, in_features).uniform_(-1, 1)
        self.linear = nn.Parameter(uniform * in_features**-0.5)
        self.offset = nn.Parameter(torch.zeros(*replicates, 2))
        self.offsets = offsets
        self.register_buffer("weight", torch.zeros(replicates))

    def forward(self, psi: Tensor) -> Normal:
        """Return the predictive distribution of each row of psi (..., N, H)."""
        mean, log_var = (
            out + offset[..., None] if learned else out
            for out, offset, learned in zip(
                (psi @ self.linear.mT).unbind(-1), self.offset.unbind(-1), self.offsets, strict=True
            )
        )
        # Beyond this it overflows, and one such row would make a deep body NaN for good.
        return Normal(mean, log_var.clamp(-20, 20).exp(), torch.zeros_like(mean))

    def loss(self, psi: Tensor, y: Tensor, total: int) -> Tensor:
        """Return the mean loss per row, (...)."""
        at = self(psi)
        each = 0.5 * ((y - at.mean).square() / at.noise_var + at.noise_var.log())
        weight = at.noise_var.detach() ** self.beta
        if self.unit:
            weight = weight / weight.mean(-1, keepdim=True)
        score = (each * weight).mean(-1)
        return score + self.weight * self.linear.square().sum((-2, -1))


class Variational(nn.Module):
    """VBLL as in the package `vbll`: its parameters, its start and its weight on the KL.

    Only the noise starts at one; the package draws it between 1e-4 and 1e4.
    """

    batches = True
    weight: Tensor

    def __init__(self, in_features: int, replicates: Lead = ()):
        super().__init__()
        h, lead = in_features, replicates
        self.replicates = replicates
        self.log_noise = nn.Parameter(torch.zeros(*lead, 1))
        self.mean = nn.Parameter(torch.randn(*lead, 1, h))
        self.log_diag = nn.Parameter(torch.randn(*lead, 1, h) - 0.5 * log(h))
        self.lower = nn.Parameter(torch.randn(*lead, 1, h, h) / h)
        self.register_buffer("weight", torch.zeros(replicates))

    def forward(self, psi: Tensor) -> Normal:
        """Return the predictive distribution of each row of psi (..., N, H)."""
        at = self.belief().project(psi.unsqueeze(-3))
        noise = self.log_noise.exp().square()[..., None].expand_as(at.mean)
        return Normal(at.mean.squeeze(-2), noise.squeeze(-2), at.var.squeeze(-2))

    def belief(self) -> Belief:
        """q(w) with S = L L', L with exp(log_diag) on its diagonal."""
        return Belief(self.mean, Full(self.lower.tril(-1) + self.log_diag.exp().diag_embed()))

    def loss(self, psi: Tensor, y: Tensor, total: int) -> Tensor:
        """mean_n -E log p(y_n) + weight (KL + Wishart term), (...)."""
        alpha = torch.full_like(self.log_noise, psi.shape[-1])  # its prior variance is 1/H
        factor = Gaussian(self.log_noise.exp())
        problem = Problem(psi.unsqueeze(-3), y.unsqueeze(-2), factor, alpha, free=self.belief())
        weight = self.weight[..., None] * total
        loss = METHODS["vbll-full"].loss(problem, total, prior_weight=weight)
        return loss.squeeze(-1) / total


class Decoupled(nn.Module):
    """PPGPR with decoupled regularisation: a free belief, log E p, and a KL with its own weight.

    loss = mean_n -log Z_n + weight KL(q || p) / N; a weight of one is the method "kl".

    Args:
        head: a head of the method "kl".
    """

    batches = True
    weight: Tensor

    def __init__(self, head: Head):
        super().__init__()
        self.head, self.replicates = head, head.replicates
        self.register_buffer("weight", torch.ones(head.replicates))

    def forward(self, psi: Tensor) -> Normal:
        """Return the predictive distribution of each row of psi (..., N, H)."""
        found: Normal = self.head(psi)
        return found

    def loss(self, psi: Tensor, y: Tensor, total: int) -> Tensor:
        """Return the mean loss per row, (...)."""
        problem = self.head.problem(psi, y)
        losses = self.head.objective.loss(problem, total, prior_weight=self.weight[..., None])
        return losses.sum(-1) / total


def bayesian_head(network: Network) -> Head:
    """Return the head of a network, which must be one of SCROLL's."""
    assert isinstance(network.head, Head)
    return network.head


def laplace(network: Network, rows: Rows) -> Belief:
    """N(w_MAP, (Psi'Psi / s^2 + alpha I)^-1), alpha = penalty / s^2: Laplace about a MAP network.

    sum_n r_n^2 + penalty |w|^2 is 2 s^2 times the negative log joint of noise s and precision
    alpha. Its curvature is that of the conjugate posterior; the mean stays at the MAP estimate.
    """
    head = bayesian_head(network)
    problem = head.problem(network.body(rows.x), rows.y)
    assert isinstance(problem.factor, Gaussian)
    assert head.mean is not None
    s2 = problem.factor.var.squeeze(-1)
    precise = METHODS["closed-full"].precise(problem._replace(alpha=problem.alpha / s2))
    return Belief(head.mean, Full(conjugate(precise).cov.scale.to(head.mean.dtype)))
