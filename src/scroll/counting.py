"""Distribution functions of counts whose log rate is Gaussian.

P(y <= k | f) falls from one to zero as f crosses a threshold X that is itself random: of a
Poisson, the log of a Gamma(k + 1) variable; of a negative binomial, log r - logit of a
Beta(r, k + 1) one. Where the belief is wider than X, P(y <= k) = E Phi((X - mean)/std) is the
smooth integral; where it is narrower, E P(y <= k | f) is.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.special import gammaincc, ndtr

from .beliefs import Moments
from .factors import NegativeBinomial, Poisson
from .quadrature import expect, sinh_rule

Counting = Poisson | NegativeBinomial


def count_cdf(factor: Counting, k: Tensor, at: Moments) -> Tensor:
    """P(y <= k), k = 0, 1, ... (..., N)."""
    width = (1 / (k + 1) + _extra(factor)).sqrt()  # of X, about
    wide = at.var.sqrt() > width
    over_f = expect(lambda f: _given_f(factor, k, f), *at)
    over_x = _over_threshold(factor, k, at, width)
    return torch.where(wide, over_x, over_f).clamp(0, 1)


def _extra(factor: Counting) -> Tensor | float:
    return 1 / factor.concentration[..., None] if isinstance(factor, NegativeBinomial) else 0.0


def _over_threshold(factor: Counting, k: Tensor, at: Moments, width: Tensor) -> Tensor:
    """E Phi((X - mean)/std), the nodes spread about the mode of X."""
    nodes, log_w = sinh_rule(k)
    if isinstance(factor, Poisson):
        x = (k + 1).log() + width * nodes
        log_p = (k + 1) * x - x.exp()
    else:
        r = factor.concentration[..., None]
        u = (r / (k + 1)).log() + width * nodes  # logit of the Beta variable
        x = r.log() - u
        log_p = r * logsigmoid(u) + (k + 1) * logsigmoid(-u)
    weight = (log_p + log_w).softmax(0)  # its normaliser is known, but this one cannot drift
    return (weight * ndtr((x - at.mean) / at.var.sqrt())).sum(0)


def _given_f(factor: Counting, k: Tensor, f: Tensor) -> Tensor:
    """P(y <= k | f)."""
    if isinstance(factor, Poisson):
        return gammaincc(k + 1, f.exp())
    from scipy.special import betainc  # torch has no incomplete beta function

    r = factor.concentration[..., None]
    sides = torch.broadcast_tensors(r, k + 1, torch.sigmoid(r.log() - f))
    return torch.as_tensor(betainc(*(t.detach().cpu().numpy() for t in sides))).to(f)
