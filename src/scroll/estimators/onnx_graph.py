"""The graph that is exported: a model with the quantiles of its predictives.

Quantiles of mixtures and of counts are found by operations that ONNX runtimes have in float64.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from ..factors import NegativeBinomial, ZeroInflated
from ..predictive import Count, CountMixture, Mapped, Mixture, Normal, Student, Survival
from ..predictive.protocol import Distribution
from .model import Model

PARTS, ROUNDS, POLISH = 16, 6, 2  # of the search for a quantile: 16^-6 of its bracket, then Newton
NODES = 130, 70  # points on either side of a quadrature rule's centre
SPACING = 0.1  # of the nodes under a count's distribution function, in asinh: 1e-6
NARROWEST = 3e-4  # belief that the nodes resolve, in widths of the threshold


class Graph(nn.Module):
    """The module that is exported: the model's summary, and its quantiles at Q levels.

    Levels above a half are mirrored, because a small tail keeps more digits than one minus it.

    Args:
        model: the fitted model.
        levels: of the quantiles; none for [].
    """

    level: Tensor
    sign: Tensor
    tail: Tensor

    def __init__(self, model: Model, levels: list[float]):
        super().__init__()
        self.model = model
        q = torch.tensor(levels, dtype=torch.float64)
        self.register_buffer("level", q)
        self.register_buffer("sign", 1 - 2 * (q > 0.5).double())
        self.register_buffer("tail", torch.minimum(q, 1 - q))
        self.tails: list[float] = self.tail.tolist()

    def forward(self, codes: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Return the outputs of the graph for codes (N, D)."""
        p = self.model.dist(codes)
        out = p.as_tensors()
        if not len(self.tail):
            return out
        if p.discrete:  # a count: labels have no levels
            counts = cast(Count | CountMixture, p).members
            return (*out, quantiles(counts, out[0], out[1], self.level))
        return (*out, self._quantiles(p))

    def _quantiles(self, p: Distribution) -> Tensor:
        """Return the quantiles of a real target, (N, Q) or (N, K, Q)."""
        if isinstance(p, Survival):
            return self._quantiles(p.base)
        if isinstance(p, Mapped):
            return p.map.inverse(self._quantiles(p.base))
        mixed = p if isinstance(p, Mixture) else None
        parts = cast(Normal | Student, p if mixed is None else mixed.parts)
        mean, scale = parts.mean[..., None] * self.sign, parts.scale[..., None]
        deviates = [parts.kernel.deviate(tail) for tail in self.tails]  # constants of the graph
        each = mean + scale * torch.tensor(deviates, dtype=mean.dtype, device=mean.device)
        found = each if mixed is None else _search(mixed, mean, scale, each, self.tail)
        return found * self.sign


def _search(p: Mixture, mean: Tensor, scale: Tensor, each: Tensor, tail: Tensor) -> Tensor:
    """Return x with sum_m w_m F((x - mean_m) / scale_m) = tail, (..., Q).

    It lies between the components' own quantiles, `each` (M, ..., Q).
    The bracket is cut into many parts at a time, so that the graph stays short.
    """
    low, high, kernel = each.amin(0), each.amax(0), p.parts.kernel
    cuts = torch.arange(1, PARTS, dtype=low.dtype, device=low.device) / PARTS
    for _ in range(ROUNDS):
        x = low[..., None] + (high - low)[..., None] * cuts
        reached = p.average(kernel.cdf((x - mean[..., None]) / scale[..., None]))
        step = (high - low) / PARTS
        low = low + step * (reached < tail[..., None]).sum(-1)
        high = low + step
    x = (low + high) / 2
    for _ in range(POLISH):
        z = (x - mean) / scale
        density = p.average(kernel.log_pdf(z).exp() / scale)
        better = x - (p.average(kernel.cdf(z)) - tail) / density
        # no density, no step; and none out of the bracket
        better = torch.where(density > 0, better, x)
        x = torch.minimum(torch.maximum(better, low), high)
    return x


def quantiles(members: Sequence[Count], mean: Tensor, std: Tensor, q: Tensor) -> Tensor:
    """Return the least count whose distribution function reaches q, (N, Q).

    A bisection between the bounds that mean and standard deviation set for any y (Cantelli):
    geometric means while the bounds are far apart, then arithmetic ones.

    Args:
        members: predictives of the ensemble members.
        mean: of their mixture, (N,).
        std: of their mixture, (N,).
        q: levels, (Q,).
    """
    at, spread = mean[:, None], std[:, None]
    low = (at - spread * ((1 - q) / q).sqrt()).floor().clamp(min=0) - 1  # F(low) < q <= F(high)
    high = (at + spread * (q / (1 - q)).sqrt()).ceil()
    given = latent(members)

    def apart(low: Tensor, high: Tensor) -> Tensor:
        return (high - low > 1 + 1e-12 * high).any()

    def halved(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        middle = (low + high) / 2
        middle = torch.where(high > 4 * low + 8, ((low + 1) * (high + 1)).sqrt(), middle).floor()
        middle = torch.minimum(torch.maximum(middle, low + 1), high)
        reached = cdf(*given, middle).mean(0) >= q
        return torch.where(reached, low, middle), torch.where(reached, middle, high)

    found: Tensor = torch.while_loop(apart, halved, (low, high))[1]
    return found


def latent(members: Sequence[Count]) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Return the arguments of `cdf` but the counts."""
    mean = torch.stack([m.latent_mean for m in members]).double()
    std = torch.stack([m.latent_var for m in members]).double().sqrt()
    factors = [m.factor for m in members]
    logits = [f.logit for f in factors if isinstance(f, ZeroInflated)]
    pi = torch.stack(logits).double().sigmoid().reshape(-1, 1, 1) if logits else None
    bases = [f.base if isinstance(f, ZeroInflated) else f for f in factors]
    each = [f.concentration for f in bases if isinstance(f, NegativeBinomial)]
    r = torch.stack(each).double().reshape(-1, 1, 1, 1) if each else None
    return mean[..., None, None], std[..., None, None], r, pi


def cdf(mean: Tensor, std: Tensor, r: Tensor | None, pi: Tensor | None, k: Tensor) -> Tensor:
    """Return P(y <= k) = E Phi((X - mean)/std), X the random threshold of a count, (M, N, Q).

    Phi has a step at the mean, as wide as the belief, and the density of X a peak at its mode. One
    quadrature rule is dense around the step, one around the peak; each point is weighted by which
    rule is denser there.

    Args:
        mean: of f, (M, N, 1, 1).
        std: of f, (M, N, 1, 1).
        r: concentration of a negative binomial, (M, 1, 1, 1); None for Poisson.
        pi: probability of an extra zero, (M, 1, 1); None if the counts are not inflated.
        k: counts, (N, Q).
    """
    a = k[..., None] + 1
    mode, width = a.log(), (1 / a if r is None else 1 / a + 1 / r).sqrt()
    reach = width if r is None else width + 0.7 / r  # the tail of X falls as exp(-r x)
    std = torch.maximum(std, NARROWEST * reach)
    step, peak = (torch.arange(-n, n + 1, dtype=k.dtype, device=k.device) for n in NODES)
    node = SPACING * torch.cat([step, peak])
    of_step = torch.arange(len(node), device=k.device) < len(step)
    x = torch.where(of_step, mean + std * node.sinh(), mode + width * node.sinh())
    by_step = ((x - mean).square() + std.square()).log()
    by_peak = ((x - mode).square() + width.square()).log()
    own = torch.where(of_step, by_step, by_peak)
    other = torch.where(of_step, by_peak, by_step)
    if r is None:
        log_p = a * x - x.exp()
    else:
        log_p = r * _log_sigmoid(r.log() - x) + a * _log_sigmoid(x - r.log())
    # dx/dt is the square root of exp(own); the fourth power keeps a rule out of the other's peak
    weight = (log_p + own / 2 + _log_sigmoid(4 * (other - own))).softmax(-1)
    below = (weight * torch.special.ndtr((x - mean) / std)).sum(-1)
    return below if pi is None else pi + (1 - pi) * below


def _log_sigmoid(u: Tensor) -> Tensor:
    """Return log sigmoid in double precision; ONNX's own has the tail of a float32."""
    return u.clamp(max=0) - (1 + (-u.abs()).exp()).log()
