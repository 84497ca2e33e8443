"""Distribution functions of counts whose log rate is Gaussian.

P(y <= k | f) falls from one to zero as f crosses a threshold X that is itself random: of a
Poisson, the log of a Gamma(k + 1) variable; of a negative binomial, log r - logit of a
Beta(r, k + 1) one. Where the belief is wider than X, P(y <= k) = E Phi((X - mean)/std) is the
smooth integral; where it is narrower, E P(y <= k | f) is.
"""

from collections.abc import Callable, Iterator
from math import ceil

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus
from torch.special import gammaincc, ndtr

from .._core.quadrature import expect, nodes, sinh_rule
from ..factors import Moments, NegativeBinomial, Poisson, ZeroInflated

Counting = Poisson | NegativeBinomial
_REACH = 9.0  # deviations of f
_PER_WIDTH = 2.0  # nodes per width of X
_FEWEST_NODES, _MOST_NODES = 61, 2000
_LEAST_LOG = -650.0  # of a probability that products start from; float64 ends near -745
_GREATEST_RATE = 1e15  # of a node: its counts are beyond those that are summed


def count_cdf(factor: Counting | ZeroInflated, k: Tensor, at: Moments) -> Tensor:
    """Return P(y <= k) of each row, k = 0, 1, ... (..., N)."""
    k = k + torch.zeros_like(at.mean)
    if isinstance(factor, ZeroInflated):
        logit = factor.logit[..., None]
        of_base = count_cdf(factor.base, k, at)
        return (logit.sigmoid() + (-logit).sigmoid() * of_base).clamp(max=1)
    width = (1 / (k + 1) + _extra(factor)).sqrt()  # of X, about
    wide = at.var.sqrt() > width
    # Each integral takes 300 nodes per row: skip the one that no row needs.
    if bool(wide.all()):
        return _over_threshold(factor, k, at, width).clamp(0, 1)
    over_f = expect(lambda f: _given_f(factor, k, f), *at, order=121, reach=_REACH)
    if bool(wide.any()):
        over_f = torch.where(wide, _over_threshold(factor, k, at, width), over_f)
    return over_f.clamp(0, 1)


def cdf_from_zero(factor: Counting | ZeroInflated, at: Moments, terms: int) -> Iterator[Tensor]:
    """Yield P(y <= k) of each row for k = 0, 1, ..., terms - 1.

    P(y = k | f) follows from P(y = k - 1 | f) by one multiplication, at every node of f; by one
    addition of logarithms if P(y = 0 | f) would underflow.
    """
    if isinstance(factor, ZeroInflated):
        pi = factor.logit.sigmoid()[..., None]
        yield from (pi + (1 - pi) * p for p in cdf_from_zero(factor.base, at, terms))
        return
    width = (1 / (torch.ones_like(at.mean) * max(terms, 1)) + _extra(factor)).sqrt()
    order = 2 * _REACH * _PER_WIDTH * (at.var.sqrt() / width).max().item() if terms else 0.0
    if order > _MOST_NODES:
        yield from (count_cdf(factor, torch.full_like(at.mean, k), at) for k in range(terms))
        return
    f, weight = nodes(at.mean, at.var, max(ceil(order), _FEWEST_NODES), _REACH)
    if isinstance(factor, Poisson):
        r, odds = None, f.exp().clamp(max=_GREATEST_RATE)
        log_p = -odds
    else:
        r = factor.concentration[..., None]
        log_p, odds = -r * softplus(f - r.log()), (f - r.log()).sigmoid()
    in_logs = bool((log_p < _LEAST_LOG).any())
    p = log_p if in_logs else log_p.exp()
    total = torch.zeros_like(p)
    for k in range(terms):
        total = total + (p.exp() if in_logs else p)
        yield (total * weight).sum(0).clamp(max=1)
        ratio = odds * ((1.0 if r is None else k + r) / (k + 1))
        p = p + ratio.log() if in_logs else p * ratio


def search(cdf: Callable[[Tensor], Tensor], mean: Tensor, std: Tensor, q: Tensor) -> Tensor:
    """Return the least count k with cdf(k) >= q, in float64, by bisection.

    Args:
        cdf: distribution function of y.
        mean: of y, (..., N).
        std: standard deviation of y. With the mean it bounds the quantile (Cantelli).
        q: level of each row.

    While the bounds are far apart, their geometric middle is tried, then the arithmetic one: about
    10 and at most 60 evaluations of the cdf, for counts of any size.
    """
    most = torch.finfo(mean.dtype).max / 4
    low = (mean - std * ((1 - q) / q).sqrt()).floor().clamp(min=0) - 1  # cdf(low) < q
    high = (mean + std * (q / (1 - q)).sqrt()).ceil().clamp(max=most)  # q <= cdf(high)
    while bool((high - low > 1 + 1e-12 * high).any()):
        far = high > 4 * low + 8
        middle = torch.where(far, (low + 1).sqrt() * (high + 1).sqrt(), low + (high - low) / 2)
        middle = torch.minimum(torch.maximum(middle.floor(), low + 1), high)
        reached = cdf(middle) >= q
        low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
    return high


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
