"""Scores of a point and terms of the prior: the two sums that a loss is made of."""

import torch
from torch import Tensor

from ..beliefs.belief import Belief
from ..beliefs.problem import Problem
from ..factors import Moments

# Score: log of the mean, or mean of the log?


def log_marginal(p: Problem, at: Moments) -> Tensor:
    """log Z_n = log E[p(y_n | f)]."""
    return p.factor.log_marginal(p.y, at)


def expected_log(p: Problem, at: Moments) -> Tensor:
    """E[log p(y_n | f)]."""
    return p.factor.expected_log(p.y, at)


def squared_error(p: Problem, at: Moments) -> Tensor:
    """-(y_n - m_n)^2, the score of MAP-type references, whose noise is fitted afterwards."""
    return -(p.y - at.mean).square()


# Prior term.


def log_evidence(belief: Belief, p: Problem) -> Tensor:
    """log Z_w."""
    return belief.log_evidence(p.alpha)


def minus_kl(belief: Belief, p: Problem) -> Tensor:
    """-KL(q || p)."""
    return -belief.kl(p.alpha)


def minus_kl_wishart(belief: Belief, p: Problem) -> Tensor:
    """-KL(q || p) and a Wishart-type prior on the noise precision, as VBLL has them."""
    s2 = p.noise_var("minus_kl_wishart")[..., 0]
    return minus_kl(belief, p) - 1.5 * s2.log() - 0.5 * 1e-2 / s2


def ridge(belief: Belief, p: Problem) -> Tensor:
    """-alpha |mean|^2: weight decay with lambda in the place of alpha."""
    return -p.alpha * belief.mean.square().sum(-1)


def none(belief: Belief, p: Problem) -> Tensor:
    """Nothing: the cavity already starts from the prior."""
    return torch.zeros_like(p.alpha)
