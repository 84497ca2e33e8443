"""Two layers of belief: Gaussian beliefs over the weights of the last two layers.

The belief below is diagonal. Its moments are propagated to the features, and the belief of the
last layer is scored on them: Def. fsc with two weight layers, in which the factor of a
deterministic activation contributes nothing (Prop. deterministic).
"""

import torch
from torch import Tensor, nn

from scroll.beliefs import Belief, Problem
from scroll.beliefs.covariances import Diag
from scroll.beliefs.families import DiagFamily
from scroll.factors.factor import Moments
from scroll.heads import Head
from scroll.objectives import Cavity, Objective
from scroll.predictive import Predictive
from scroll.training.bodies import MLP

from .activations import bent, normalised, rectified

PENALTY = 0.01  # of the protocol on a body's weights: N(0, I/alpha) with alpha twice as much
START = 0.1  # standard deviations of both beliefs at the start


def projected(belief: Belief, at: Moments) -> Moments:
    """Return the moments of f_n = w . psi_n, w and psi_n independent, units uncorrelated.

    E f = mu . m and Var f = m' S m + sum_h v_h (mu_h^2 + S_hh), psi_h of mean m_h and variance v_h.

    Args:
        belief: of w, (..., H).
        at: moments of the features, (..., N, H) each.
    """
    mean, var = belief.project(at.mean)
    units = torch.eye(at.mean.shape[-1], dtype=at.mean.dtype, device=at.mean.device)
    second = belief.mean.square() + belief.cov.quad(units)  # E w_h^2
    return Moments(mean, var + (at.var @ second[..., None])[..., 0])


def _uncertain(belief: Belief, p: Problem) -> Moments:
    """All rows, one belief for every point; features are (..., N, 2H), means before variances."""
    at = projected(belief, Moments(*p.psi.chunk(2, -1)))
    return Moments(at.mean + p.offset, at.var)


uncertain = Cavity(_uncertain)
TWO_LAYERS = Objective(cavity=uncertain)


class BeliefLayer(nn.Module):
    """A hidden layer whose weights have a diagonal Gaussian belief, N(W, diag V).

    The pre-activations of a row x are independent normals of mean x W and variance x^2 V. ReLU is
    propagated in closed form, tanh by quadrature, LayerNorm with expected statistics
    (`normalised`).

    Args:
        layer: the hidden layer; its weights become the means.
        learns_alpha: whether to learn the prior precision, from one. Otherwise it is that of the
            protocol's penalty on the weights of a body.
        std: standard deviation of each weight at the start.
    """

    def __init__(self, layer: MLP, learns_alpha: bool = False, std: float = START):
        super().__init__()
        (mean,) = layer.weights
        *lead, inputs, width = mean.shape
        self.layer, self.replicates = layer, layer.replicates
        self.family = DiagFamily((*lead, inputs * width), std, 0.0, 0)
        alpha = torch.full(lead, 1.0 if learns_alpha else 2 * PENALTY)
        self.log_alpha = nn.Parameter(alpha.log(), requires_grad=learns_alpha)

    def belief(self) -> Belief[Diag]:
        """Return the belief over all weights, (..., inputs * width)."""
        return Belief(self.layer.weights[0].flatten(-2), Diag(self.family.log_var.exp()))

    def log_evidence(self) -> Tensor:
        """Return log Z_w of this layer, (...)."""
        return self.belief().log_evidence(self.log_alpha.exp())

    def forward(self, x: Tensor) -> Moments:
        """Return the mean and variance of each unit for inputs x (..., N, inputs)."""
        mean = self.layer.weights[0]
        var = self.family.log_var.exp().view_as(mean)
        return self.activated(Moments(x @ mean, x.square() @ var))

    def activated(self, at: Moments) -> Moments:
        """Return the moments of units from those of their pre-activations, (..., N, width)."""
        kind = self.layer.architecture
        if kind == "mixed":
            at = _chosen(self.layer.bent, bent(*at), rectified(*at))
            return _chosen(self.layer.normed, normalised(at), at)
        at = bent(*at) if kind.startswith("tanh") else rectified(*at)
        return normalised(at) if kind.endswith("LN") else at


def _chosen(which: Tensor, first: Moments, second: Moments) -> Moments:
    """Return the moments of one network or the other, replicate by replicate."""
    pairs = zip(first, second, strict=True)
    return Moments(*(torch.where(which, one, other) for one, other in pairs))


class TwoBeliefs(nn.Module):
    """A last layer on a hidden layer, with a Gaussian belief over the weights of each.

    loss = -log Z_below - log Z_w - sum_n log Z_n, where q(f_n) is the normal distribution with
    the two moments of f_n under both beliefs.

    Args:
        below: the hidden layer.
        last: the last layer, a head with the method "scroll".
    """

    batches = True

    def __init__(self, below: BeliefLayer, last: Head):
        super().__init__()
        self.below, self.last, self.replicates = below, last, below.replicates

    def loss(self, x: Tensor, y: Tensor, total: int) -> Tensor:
        """Return the loss per training row, one number per replicate; see `Head.loss`."""
        at = self.below(x)
        problem = self.last.problem(at.mean, y)
        problem = problem._replace(psi=torch.cat(at, -1).unsqueeze(-3))
        losses = TWO_LAYERS.loss(problem, total).sum(-1)
        return (losses - self.below.log_evidence()) / total

    def message(self, x: Tensor) -> Moments:
        """Return q(f), the means and variances of the latents, (..., K, N)."""
        at = self.below(x)
        problem = self.last.problem(at.mean, torch.zeros_like(at.mean[..., 0]))
        problem = problem._replace(psi=torch.cat(at, -1).unsqueeze(-3))
        return TWO_LAYERS.cavity(self.last.belief(), problem)

    def forward(self, x: Tensor) -> Predictive:
        """Return the predictive distribution of each row of x (..., N, inputs)."""
        return self.last.likelihood.predict(self.message(x))
