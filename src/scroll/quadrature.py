"""Expectations under a one-dimensional Gaussian, f ~ N(mean, var).

Two rules for log E[g]. The belief-centred rule is Gauss-Hermite on the Gaussian itself; its
error has the bound of Lemma gh_error. The mode-centred rule sits where the integrand is,
which may be many widths away from the Gaussian, and is the accurate one.

The nodes are a new first axis, so a factor's own parameters broadcast as they always do.
"""

from collections.abc import Callable
from functools import cache
from math import inf, lgamma, pi, sqrt

import numpy as np
import torch
from torch import Tensor

from .linalg import LOG_2PI

Fn = Callable[[Tensor], Tensor]


@cache
def _hermite(order: int) -> tuple[Tensor, Tensor]:
    """Gauss-Hermite nodes and log weights, in float64: cast late, never early."""
    x, w = np.polynomial.hermite_e.hermegauss(order)
    return torch.from_numpy(x), torch.from_numpy(np.log(w / w.sum()))


@cache
def _trapezoid(order: int) -> tuple[Tensor, Tensor]:
    """Uniform nodes under the standard normal: exponentially accurate for analytic g."""
    z = np.linspace(-14, 14, order)  # also holds exp(f) for a standard deviation of 5
    w = np.exp(-(z**2) / 2) / sqrt(2 * pi) * (z[1] - z[0])
    return torch.from_numpy(z), torch.from_numpy(w)


@cache
def _sinh(order: int) -> tuple[Tensor, Tensor]:
    """Nodes x = sinh(t), t uniform, and log(dx/dt): both Gaussian and exponential tails fall
    off double-exponentially in t, and |t| <= 4.8 spans 60 widths. The default of 321 resolves
    exp(-exp f) under a standard deviation of 5."""
    t = np.linspace(-4.8, 4.8, order)
    return torch.from_numpy(np.sinh(t)), torch.from_numpy(np.log(np.cosh(t) * (t[1] - t[0])))


_RULES = {"hermite": _hermite, "trapezoid": _trapezoid, "sinh": _sinh}


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _table(rule: str, order: int) -> tuple[Tensor, Tensor]:
    return _RULES[rule](order)


def _rule(rule: str, order: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights as a first axis over the axes of `like`."""
    x, w = _table(rule, order)
    shape = (order,) + (1,) * like.dim()
    return x.to(like).reshape(shape), w.to(like).reshape(shape)


def expect(g: Fn, mean: Tensor, var: Tensor, order: int = 281) -> Tensor:
    """E[g(f)]."""
    z, w = _rule("trapezoid", order, mean)
    return (g(mean + var.sqrt() * z) * w).sum(0)


def log_expect(log_g: Fn, mean: Tensor, var: Tensor, order: int = 32) -> Tensor:
    """log E[g(f)], belief-centred, by `order` Gauss-Hermite nodes (Lemma gh_error)."""
    z, log_w = _rule("hermite", order, mean)
    return (log_g(mean + var.sqrt() * z) + log_w).logsumexp(0)


def log_error_bound(order: int, var: Tensor, log_derivative: float) -> Tensor:
    """log of the bound m!/(2m)! v^m M_2m on |Z - Z_m|, M_2m = sup |d^2m g| (Lemma gh_error)."""
    return lgamma(order + 1) - lgamma(2 * order + 1) + order * var.log() + log_derivative


def log_expect_at_mode(log_g: Fn, mean: Tensor, var: Tensor, order: int = 321) -> Tensor:
    """log E[g(f)], mode-centred, where g(f) N(f; mean, var) has one mode (g log-concave).

    In z = (f - mean)/std the integral does not depend on where the nodes sit, so no
    gradient flows through them, and var = 0 is no special case.
    """
    std = var.sqrt()
    mode, width = _mode(log_g, mean.detach(), std.detach())
    x, log_w = _rule("sinh", order, mean)
    z = mode + width * x
    with torch.no_grad():  # nodes far out carry nothing, but may overflow on the way back
        rough = log_g(mean + std * z) - 0.5 * z.square()
        empty = ~(rough > rough.amax(0) - 80)
        z = torch.where(empty, mode, z)
    log_f = log_g(mean + std * z) - 0.5 * z.square() + log_w
    return log_f.masked_fill(empty, -inf).logsumexp(0) + width.log() - 0.5 * LOG_2PI


@torch.no_grad()
def _mode(log_g: Fn, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
    """Mode and Laplace width of g(mean + std z) N(z; 0, 1): Newton kept inside a bracket."""

    @torch.enable_grad()
    def derivatives(z: Tensor) -> tuple[Tensor, Tensor]:
        z = z.detach().requires_grad_()
        log_f = log_g(mean + std * z) - 0.5 * z.square()
        (s,) = torch.autograd.grad(log_f.sum(), z, create_graph=True)
        (c,) = torch.autograd.grad(s.sum(), z)
        return s.detach(), c

    z = torch.zeros_like(mean)
    far = derivatives(z)[0].sign()  # the mode lies this way; double until it is behind
    while bool((ahead := derivatives(far)[0] * far > 0).any()):
        far = torch.where(ahead, 2 * far, far)
    low, high = far.clamp(max=0), far.clamp(min=0)
    for _ in range(200):
        s, c = derivatives(z)
        low, high = torch.where(s > 0, z, low), torch.where(s < 0, z, high)
        newton = z - s / c
        inside = (c < 0) & (newton >= low) & (newton <= high)
        step = torch.where(inside, newton, (low + high) / 2)
        done = (step - z).abs() <= 1e-3 * (1 + z.abs())  # nodes need not sit exactly there
        z = step
        if bool(done.all()):
            break
    c = derivatives(z)[1]
    return z, torch.where(c < 0, (-c).rsqrt(), 1.0)
