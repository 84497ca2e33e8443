"""Expectations under a one-dimensional Gaussian, f ~ N(mean, var).

Two rules for log E[g]. The belief-centred rule is Gauss-Hermite on the Gaussian itself; its
error has the bound of Lemma gh_error. The mode-centred rule sits where the integrand is,
which may be many widths away from the Gaussian, and is the accurate one.

The nodes are a new first axis, so a factor's own parameters broadcast as they always do.
"""

from collections.abc import Callable
from math import inf, lgamma, pi, sqrt

import torch
from torch import Tensor

from .checks import may_hold, require
from .linalg import LOG_2PI

Fn = Callable[[Tensor], Tensor]
Derivatives = Callable[[Tensor], tuple[Tensor, Tensor]]
_STEPS = 60  # of the search for a mode, at most
_NEAR = 0.02  # widths: nodes need not sit exactly at the mode


def hermite(order: int) -> tuple[Tensor, Tensor]:
    """Gauss-Hermite nodes and log weights: eigenvalues of the Jacobi matrix (Golub-Welsch)."""
    off = torch.arange(1, order, dtype=torch.float64).sqrt()
    jacobi = torch.diag_embed(off, 1) + torch.diag_embed(off, -1)
    x, vectors = torch.linalg.eigh(jacobi)
    return x, 2 * vectors[0].abs().log()


def _trapezoid(order: int, reach: float) -> tuple[Tensor, Tensor]:
    """Uniform nodes under the standard normal: exponentially accurate for analytic g."""
    z = torch.linspace(-reach, reach, order, dtype=torch.float64)
    return z, torch.exp(-z.square() / 2) * (2 * reach / (order - 1) / sqrt(2 * pi))


def _sinh(order: int) -> tuple[Tensor, Tensor]:
    """Nodes x = sinh(t), t uniform, and log(dx/dt): both Gaussian and exponential tails fall
    off double-exponentially in t, and |t| <= 4.8 spans 60 widths. The default of 321 resolves
    exp(-exp f) under a standard deviation of 5."""
    t = torch.linspace(-4.8, 4.8, order, dtype=torch.float64)
    return t.sinh(), (t.cosh() * (9.6 / (order - 1))).log()


def _rule(table: tuple[Tensor, Tensor], like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights as a first axis over the axes of `like`; float64 until here."""
    x, w = (t.to(like).reshape(-1, *(1,) * like.dim()) for t in table)
    return x, w


def sinh_rule(like: Tensor, order: int = 321) -> tuple[Tensor, Tensor]:
    """Return nodes and log weights over a line, in widths of what is integrated."""
    return _rule(_sinh(order), like)


def nodes(mean: Tensor, var: Tensor, order: int, reach: float) -> tuple[Tensor, Tensor]:
    """Return `order` nodes of f up to `reach` deviations away, and their weights."""
    z, w = _rule(_trapezoid(order, reach), mean)
    return mean + _std(var) * z, w


def expect(g: Fn, mean: Tensor, var: Tensor, order: int = 281, reach: float = 14.0) -> Tensor:
    """Return E[g(f)], by `order` nodes up to `reach` deviations away.

    A reach of 14 suffices for exp(f) up to a standard deviation of 5.
    """
    f, w = nodes(mean, var, order, reach)
    return (g(f) * w).sum(0)


def log_expect(log_g: Fn, mean: Tensor, var: Tensor, order: int = 32) -> Tensor:
    """Return log E[g(f)], belief-centred, by `order` Gauss-Hermite nodes (Lemma gh_error)."""
    z, log_w = _rule(hermite(order), mean)
    return (log_g(mean + _std(var) * z) + log_w).logsumexp(0)


def log_error_bound(order: int, var: Tensor, log_derivative: float) -> Tensor:
    """Return log m!/(2m)! v^m sup |d^2m g|, m = order: it bounds log |Z - Z_m| (gh_error)."""
    return lgamma(order + 1) - lgamma(2 * order + 1) + order * var.log() + log_derivative


def log_expect_at_mode(
    log_g: Fn, mean: Tensor, var: Tensor, order: int = 321, derivatives: Derivatives | None = None
) -> Tensor:
    """Return log E[g(f)], mode-centred, where g(f) N(f; mean, var) has one mode (g log-concave).

    In z = (f - mean)/std the integral does not depend on where the nodes sit, so no
    gradient flows through them. `derivatives` gives the first two of log g; without it they are
    found by differentiation, which takes ten times as long.
    """
    std = _std(var)
    mode, width = _mode(derivatives or _differentiated(log_g), mean.detach(), std.detach())
    x, log_w = sinh_rule(mean, order)
    centre, step = mean + std * mode, width * x  # apart: narrow steps about a large mode stay exact
    kernel = -0.5 * (mode + step).square()
    with torch.no_grad():  # nodes far out carry nothing, but may overflow on the way back
        rough = log_g(centre + std * step) + kernel
        peak = rough.amax(0)
        empty = ~(rough >= peak - 80)
        step = step.masked_fill(empty, 0)
    log_f = log_g(centre + std * step) + kernel - peak + log_w
    return log_f.masked_fill(empty, -inf).logsumexp(0) + peak + width.log() - 0.5 * LOG_2PI


def _std(var: Tensor) -> Tensor:
    """sqrt(var), whose gradient at a message without width (psi = 0) is zero, not infinite."""
    return var.clamp(min=torch.finfo(var.dtype).tiny).sqrt()


@torch.no_grad()
def _mode(derivatives: Derivatives, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
    """Mode and Laplace width of g(mean + std z) N(z; 0, 1): Newton kept inside a bracket.

    For log-concave g the mode lies between zero and the slope at zero. Newton steps that gain
    less than a digit give way to halving the bracket in asinh z. Rows stay where they are once
    found, so no Python branch depends on them but the early end.
    """
    most, eps = torch.finfo(mean.dtype).max ** 0.5, torch.finfo(mean.dtype).eps
    z = torch.zeros_like(mean)
    s, c = _in_z(derivatives, mean, std, z)
    low, high = s.clamp(-most, 0), s.clamp(0, most)
    found, before = torch.zeros_like(z, dtype=torch.bool), torch.full_like(z, inf)
    for _ in range(_STEPS):
        newton = z - s / c
        good = (c < 0) & (newton >= low) & (newton <= high) & (s.abs() <= 0.1 * before)
        step = torch.where(good, newton, ((low.asinh() + high.asinh()) / 2).sinh())
        step, before = torch.where(found, z, step), s.abs()
        width = torch.where(c < 0, (-c).rsqrt(), 1.0)
        found = found | ((step - z).abs() <= torch.maximum(_NEAR * width, 4 * eps * z.abs()))
        z = step
        if not may_hold(~found.all()):
            break
        s, c = _in_z(derivatives, mean, std, z)
        low, high = torch.where(s > 0, z, low), torch.where(s < 0, z, high)
    return z, width


def _in_z(derivatives: Derivatives, mean: Tensor, std: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """First and second derivative of log g(mean + std z) - z^2/2 in z."""
    slope, curve = derivatives(mean + std * z)
    return std * slope - z, std.square() * curve - 1


def _differentiated(log_g: Fn) -> Derivatives:
    """The first two derivatives of log g, elementwise, by torch.func: vmap sees through it."""
    require(
        not torch.is_inference_mode_enabled(),
        "torch.inference_mode",
        "be off for a wide logit and user factors, whose mode is found by derivatives",
        "on",
        "Use torch.no_grad().",
        RuntimeError,
    )

    def slope(f: Tensor) -> tuple[Tensor, Tensor]:
        first = torch.func.grad(lambda f: log_g(f).sum())(f)
        return first.sum(), first

    def both(f: Tensor) -> tuple[Tensor, Tensor]:
        second, first = torch.func.grad(slope, has_aux=True)(f)
        return first.detach(), second.detach()

    return both
