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

from .checks import must
from .linalg import LOG_2PI

Fn = Callable[[Tensor], Tensor]


def _hermite(order: int) -> tuple[Tensor, Tensor]:
    """Gauss-Hermite nodes and log weights: eigenvalues of the Jacobi matrix (Golub-Welsch)."""
    off = torch.arange(1, order, dtype=torch.float64).sqrt()
    jacobi = torch.diag_embed(off, 1) + torch.diag_embed(off, -1)
    x, vectors = torch.linalg.eigh(jacobi)
    return x, 2 * vectors[0].abs().log()


def _trapezoid(order: int) -> tuple[Tensor, Tensor]:
    """Uniform nodes under the standard normal: exponentially accurate for analytic g."""
    z = torch.linspace(-14, 14, order, dtype=torch.float64)  # holds exp(f) up to a deviation of 5
    return z, torch.exp(-z.square() / 2) * (28 / (order - 1) / sqrt(2 * pi))


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
    """Nodes and log weights over a line, in widths of what is integrated."""
    return _rule(_sinh(order), like)


def expect(g: Fn, mean: Tensor, var: Tensor, order: int = 281) -> Tensor:
    """E[g(f)]."""
    z, w = _rule(_trapezoid(order), mean)
    return (g(mean + _std(var) * z) * w).sum(0)


def log_expect(log_g: Fn, mean: Tensor, var: Tensor, order: int = 32) -> Tensor:
    """log E[g(f)], belief-centred, by `order` Gauss-Hermite nodes (Lemma gh_error)."""
    z, log_w = _rule(_hermite(order), mean)
    return (log_g(mean + _std(var) * z) + log_w).logsumexp(0)


def log_error_bound(order: int, var: Tensor, log_derivative: float) -> Tensor:
    """log of the bound m!/(2m)! v^m M_2m on |Z - Z_m|, M_2m = sup |d^2m g| (Lemma gh_error)."""
    return lgamma(order + 1) - lgamma(2 * order + 1) + order * var.log() + log_derivative


def log_expect_at_mode(log_g: Fn, mean: Tensor, var: Tensor, order: int = 321) -> Tensor:
    """log E[g(f)], mode-centred, where g(f) N(f; mean, var) has one mode (g log-concave).

    In z = (f - mean)/std the integral does not depend on where the nodes sit, so no
    gradient flows through them.
    """
    std = _std(var)
    mode, width = _mode(log_g, mean.detach(), std.detach())
    x, log_w = sinh_rule(mean, order)
    z = mode + width * x
    with torch.no_grad():  # nodes far out carry nothing, but may overflow on the way back
        rough = log_g(mean + std * z) - 0.5 * z.square()
        peak = rough.amax(0)
        empty = ~(rough >= peak - 80)
        z = torch.where(empty, mode, z)
    log_f = log_g(mean + std * z) - 0.5 * z.square() - peak + log_w
    return log_f.masked_fill(empty, -inf).logsumexp(0) + peak + width.log() - 0.5 * LOG_2PI


def _std(var: Tensor) -> Tensor:
    """sqrt(var), whose gradient at a message without width (psi = 0) is zero, not infinite."""
    return var.clamp(min=torch.finfo(var.dtype).tiny).sqrt()


@torch.no_grad()
def _mode(log_g: Fn, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
    """Mode and Laplace width of g(mean + std z) N(z; 0, 1): Newton kept inside a bracket."""
    must(
        not torch.is_inference_mode_enabled(),
        "torch.inference_mode",
        "be off for logit, counts and user factors, whose mode is found by derivatives",
        "on",
        "Use torch.no_grad().",
        RuntimeError,
    )

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
