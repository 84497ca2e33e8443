"""Quantiles of counts in a graph: by operations that ONNX runtimes have in float64."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..factors import NegativeBinomial
from ..predictive import Count

NODES = 130, 70  # on either side of a rule's centre
SPACING = 0.1  # of the nodes under a count's distribution function, in asinh: 1e-6
NARROWEST = 3e-4  # belief that the nodes resolve, in widths of the threshold


def quantiles(members: Sequence[Count], mean: Tensor, std: Tensor, q: Tensor) -> Tensor:
    """The least count whose distribution function reaches q, (N, Q).

    Between the bounds that the mean and deviation of any y set (Cantelli): geometric halves while
    they are far apart, then arithmetic ones.
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


def latent(members: Sequence[Count]) -> tuple[Tensor, Tensor, Tensor | None]:
    """Mean and deviation of f, (M, N, 1, 1), and the concentration of a negative binomial."""
    mean = torch.stack([m.latent_mean for m in members]).double()
    std = torch.stack([m.latent_var for m in members]).double().sqrt()
    factors = [m.factor for m in members]
    each = [f.concentration for f in factors if isinstance(f, NegativeBinomial)]
    r = torch.stack(each).double().reshape(-1, 1, 1, 1) if each else None
    return mean[..., None, None], std[..., None, None], r


def cdf(mean: Tensor, std: Tensor, r: Tensor | None, k: Tensor) -> Tensor:
    """P(y <= k) = E Phi((X - mean)/std), X the random threshold of `scroll.counting`, (M, N, Q).

    Phi has a step at the mean, as wide as the belief, and the density of X a peak at its mode. A
    rule stands thick around either; each counts where it is the denser, smoothly.
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
    mine = torch.where(of_step, by_step, by_peak)
    other = torch.where(of_step, by_peak, by_step)
    if r is None:
        log_p = a * x - x.exp()
    else:
        log_p = r * _log_sigmoid(r.log() - x) + a * _log_sigmoid(x - r.log())
    # dx/dt is the square root of exp(mine); the fourth power keeps a rule out of the other's peak
    weight = (log_p + mine / 2 + _log_sigmoid(4 * (other - mine))).softmax(-1)
    return (weight * torch.special.ndtr((x - mean) / std)).sum(-1)


def _log_sigmoid(u: Tensor) -> Tensor:
    """In double precision: as ONNX has it, its tail ends where a float32 does."""
    return u.clamp(max=0) - (1 + (-u.abs()).exp()).log()
