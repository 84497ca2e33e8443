"""Integrals over the line by Gauss-Legendre panels, whose lengths follow the integrand.

A panel is at most 0.6 of the distance to the nearest point, in the complex plane, at which the
integrand is not smooth. Ten nodes are then exact to about 1e-13, whatever the widths and distances
of the components are.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from .kernels import Kernel

Fn = Callable[[Tensor], Tensor]
NODES = 10  # of a panel
STEP = 0.6  # length of a panel, in distances to the nearest centre
_NARROWEST = 1e-12  # width of a centre, in lengths of the whole integral
_SIGMOID = (0.0, 2.5, 6.0, 13.0, 24.0, 42.0)  # edges of panels that follow the sigmoid function


@lru_cache
def _legendre() -> tuple[list[float], list[float]]:
    """Nodes and weights on [0, 1]: eigenvalues of the Jacobi matrix (Golub-Welsch)."""
    k = torch.arange(1, NODES, dtype=torch.float64, device="cpu")
    off = k / (4 * k.square() - 1).sqrt()
    x, vectors = torch.linalg.eigh(torch.diag_embed(off, 1) + torch.diag_embed(off, -1))
    return ((1 + x) / 2).tolist(), vectors[0].square().tolist()


_NODES, _WEIGHTS = _legendre()


def _rule(like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights as a first axis over the axes of `like`."""
    shape = (-1, *(1,) * like.dim())
    return tuple(  # type: ignore[return-value]
        torch.tensor(each, dtype=like.dtype, device=like.device).reshape(shape)
        for each in (_NODES, _WEIGHTS)
    )


def integral(f: Fn, start: Tensor, end: Tensor, centre: Tensor, width: Tensor) -> Tensor:
    """Return |int f(t) dt| between `start` and `end` of each row.

    Args:
        f: the integrand, of nodes in front of the rows, (nodes, ..., N).
        start: (..., N).
        end: (..., N), on either side of `start`.
        centre: where f changes, (K, ..., N).
        width: in what length it changes there, (K, ..., N).
    """
    (x, w), sign = _rule(start), (end - start).sign()
    width = torch.maximum(width, _NARROWEST * (end - start).abs())
    t, total = start, torch.zeros_like(start)
    while bool(((left := (end - t).abs()) > 0).any()):  # ends at NaN
        distance = ((t - centre).square() + width.square()).sqrt().amin(0)
        length = torch.minimum(STEP * distance, left)
        total = total + length * (w * f(t + sign * length * x)).sum(0)
        t = torch.where(length == left, end, t + sign * length)
    return total


def _beyond(f: Fn, start: Tensor, origin: Tensor) -> Tensor:
    """int f(t) dt from `start` to infinity, on its side of `origin`: t = origin + distance / x."""
    x, w = _rule(start)
    distance = start - origin
    return (w * f(origin + distance / x) / x.square()).sum(0) * distance.abs()


def crps_integral(
    cdf: Fn,
    y: Tensor,
    ends: tuple[Tensor, Tensor],
    centre: Tensor,
    width: Tensor,
    slope: Fn | None = None,
) -> Tensor:
    """Return int_{-inf}^y F(t)^2 dt + int_y^inf (1 - F(t))^2 dt of each row, to 1e-9.

    Args:
        cdf: F of any continuous predictive.
        y: (..., N).
        ends: where the panels end on either side, both (..., N); one more reaches to infinity.
        centre: where F changes, (K, ..., N): the means of its components.
        width: in what length it changes there, (K, ..., N).
        slope: a factor of dt, which must vanish beyond the ends.
    """
    factor = slope or torch.ones_like
    below = lambda t: cdf(t).square() * factor(t)
    above = lambda t: (1 - cdf(t)).square() * factor(t)
    low, high = torch.minimum(y, ends[0]), torch.maximum(y, ends[1])
    y = y.expand_as(low)
    total = integral(below, y, low, centre, width) + integral(above, y, high, centre, width)
    if slope is None:
        middle = (ends[0] + ends[1]) / 2
        total = total + _beyond(below, low, middle) + _beyond(above, high, middle)
    return total


def sigmoid_moments(kernel: Kernel, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance of sigmoid(mean + scale X), X of the kernel; for graphs, too.

    The panels are between edges that follow the kernel and edges that follow the sigmoid.
    """
    inner, outer = (_mirrored(edges, mean) for edges in (kernel.edges, _SIGMOID))
    points = torch.cat(
        [inner.expand(*mean.shape, -1), (outer - mean[..., None]) / scale[..., None]], -1
    )
    last = points.abs().amax(-1, keepdim=True)
    points = torch.cat([-last, points, last], -1).sort(-1).values
    at, (x, w) = mean.sigmoid(), _rule(points)
    rare = kernel.cdf(-last[..., 0])  # out there, the sigmoid is 0 or 1
    first, second = rare * (1 - 2 * at), rare * (at.square() + (1 - at).square())
    panels = points.shape[-1] - 1
    size = panels if torch.compiler.is_compiling() else 1  # a short graph, or little memory
    for k in range(0, panels, size):
        start, end = points[..., k : k + size], points[..., k + 1 : k + size + 1]
        t = start + (end - start) * x
        share = w * (end - start) * kernel.log_pdf(t).exp()
        change = (mean[..., None] + scale[..., None] * t).sigmoid() - at[..., None]
        first = first + (share * change).sum((0, -1))
        second = second + (share * change.square()).sum((0, -1))
    return at + first, second - first.square()


def _mirrored(edges: Sequence[float], like: Tensor) -> Tensor:
    """Edges on both sides of zero."""
    both = [-e for e in reversed(edges[1:])] + list(edges)
    return torch.tensor(both, dtype=like.dtype, device=like.device)
