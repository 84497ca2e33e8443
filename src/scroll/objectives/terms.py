"""Scores of the points and prior terms: the two sums that a loss is made of."""

from math import log, log1p

import torch
from torch import Tensor

from .._core.linalg import log_normal
from ..beliefs.belief import Belief
from ..beliefs.covariances import Spread
from ..beliefs.problem import Problem
from ..factors import Moments
from .parts import PriorTerm, Score

LAPSE, WIDE = 0.01, 10.0  # share of lapses, and the factor on their standard deviations

# Scores: log of the mean, or mean of the log?


def _log_marginal(p: Problem, at: Moments) -> Tensor:
    """log Z_n = log E[p(y_n | f)]."""
    return p.factor.log_marginal(p.y, at)


def _expected_log(p: Problem, at: Moments) -> Tensor:
    """E[log p(y_n | f)]."""
    return p.factor.expected_log(p.y, at)


def _lapsing(p: Problem, at: Moments) -> Tensor:
    """log [(1 - e) N(y_n; m_n, V_n) + e N(y_n; m_n, w^2 V_n)], V_n = noise^2 + v_n.

    It is the score of a predictive in which a share e of the rows has w times the error: an
    outlier then has a bounded influence on training.
    """
    return log_lapsing(p.y - at.mean, p.noise_var("lapsing") + at.var)


def log_lapsing(residual: Tensor, var: Tensor) -> Tensor:
    """Return the log density of residuals of which a hundredth has ten times the deviation."""
    plain, wide = log_normal(residual, var), log_normal(residual, WIDE**2 * var)
    return torch.logaddexp(plain + log1p(-LAPSE), wide + log(LAPSE))


def _squared_error(p: Problem, at: Moments) -> Tensor:
    """-(y_n - m_n)^2, the score of MAP-type references, whose noise is fitted afterwards."""
    return -(p.y - at.mean).square()


log_marginal = Score(_log_marginal)
expected_log = Score(_expected_log)
lapsing = Score(_lapsing, needs_gaussian=True)
squared_error = Score(_squared_error, needs_gaussian=True)


# Prior terms.


def _log_evidence(belief: Belief, p: Problem) -> Tensor:
    """log Z_w."""
    return belief.log_evidence(p.alpha)


def _minus_kl(belief: Belief[Spread], p: Problem) -> Tensor:
    """-KL(q || p)."""
    return -belief.kl(p.alpha)


def _minus_kl_wishart(belief: Belief[Spread], p: Problem) -> Tensor:
    """-KL(q || p) plus a Wishart-type log prior of the noise precision, as in VBLL."""
    s2 = p.noise_var("minus_kl_wishart")[..., 0]
    return _minus_kl(belief, p) - 1.5 * s2.log() - 0.5 * 1e-2 / s2


def _ridge(belief: Belief, p: Problem) -> Tensor:
    """-alpha |mean|^2: weight decay with alpha as its coefficient lambda."""
    return -p.alpha * belief.mean.square().sum(-1)


def _none(belief: Belief, p: Problem) -> Tensor:
    """Zero, for a cavity that already contains the prior."""
    return torch.zeros_like(p.alpha)


log_evidence = PriorTerm(_log_evidence, unbounded_alpha=True)
minus_kl = PriorTerm(_minus_kl)
minus_kl_wishart = PriorTerm(_minus_kl_wishart, needs_gaussian=True)
ridge = PriorTerm(_ridge)
none = PriorTerm(_none, counts_prior=False, zero=True)
