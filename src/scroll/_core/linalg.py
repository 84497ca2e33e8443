"""Every factorisation and solve, under one numerical policy.

No jitter is ever added. A matrix that is not positive definite gives NaN for itself and
leaves the other replicates of its stack alone.
"""

from math import log, nan, pi
from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable
from torch.linalg import cholesky_ex, solve_triangular
from torch.nn.functional import layer_norm

LOG_2PI = log(2 * pi)
_Tensors = tuple[Tensor, ...]


class _Context(Protocol):
    """What torch keeps of a function between its two passes."""

    @property
    def saved_tensors(self) -> _Tensors: ...

    def save_for_backward(self, *tensors: Tensor) -> None: ...

    def mark_non_differentiable(self, *tensors: Tensor) -> None: ...


def eye_like(x: Tensor) -> Tensor:
    """Return the identity of the size of the last axis of `x`."""
    return torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def diagonal(a: Tensor) -> Tensor:
    """Return a_ii, (..., H, H) -> (..., H).

    It is a slice, because torch's compiler warns about `torch.diagonal`.
    """
    return a.flatten(-2)[..., :: a.shape[-1] + 1]


def matvec(psi: Tensor, w: Tensor) -> Tensor:
    """Return psi_n . w, (..., N, H) and (..., H) to (..., N).

    Features that are shared by the last leading axis, (..., 1, N, H) against (..., K, H),
    take one matrix product instead of K matrix-vector products.
    """
    if psi.dim() > 2 and psi.shape[-3] == 1 and w.dim() > 1:
        return w @ psi.squeeze(-3).mT
    return (psi @ w[..., None])[..., 0]


def cholesky(a: Tensor) -> Tensor:
    """Return the lower L with L L' = a, NaN where there is none."""
    lower, info = cholesky_ex(a)
    return lower.masked_fill((info != 0)[..., None, None], nan)


def inverse_root(a: Tensor) -> Tensor:
    """Return the lower L with L L' = a^-1, through the Cholesky factor of `a` read backwards."""
    upper = cholesky(a.flip(-2, -1)).flip(-2, -1)  # a = upper upper'
    return solve_triangular(upper, eye_like(a), upper=True).mT


def half_log_det(lower: Tensor) -> Tensor:
    """Return 1/2 log det(L L') of a triangular L."""
    return diagonal(lower).abs().log().sum(-1)


def _inverse(lower: Tensor) -> Tensor:
    """(L L')^-1: by LAPACK's routine, but on a GPU by what a graph can capture."""
    if not lower.is_cuda:
        return torch.cholesky_inverse(lower)
    root = solve_triangular(lower, eye_like(lower), upper=False)
    return root.mT @ root


class _LogDetQuad(torch.autograd.Function):
    """log det A and b'A^-1 b. Their gradients are A^-1 and -zz', 2z, z = A^-1 b: known as soon
    as the values are, and several times cheaper than the way back through a Cholesky factor."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        lower = cholesky(a)
        inverse = _inverse(lower)
        z = (inverse * b[..., None, :]).sum(-1)
        return 2 * half_log_det(lower), (b * z).sum(-1), inverse, z

    @staticmethod
    def setup_context(
        ctx: _Context, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]
    ) -> None:
        _, _, inverse, z = output
        ctx.mark_non_differentiable(inverse, z)
        ctx.save_for_backward(inverse, z)

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor, Tensor]:
        (inverse, z), (by_det, by_quad) = ctx.saved_tensors, grads[:2]
        along = by_quad[..., None] * z
        return by_det[..., None, None] * inverse - along[..., None] * z[..., None, :], 2 * along


def log_det_and_quad(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return log det A and b'A^-1 b, A (..., H, H) positive definite, b (..., H).

    Once differentiable.
    """
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-1])
    a, b = a.expand(*lead, *a.shape[-2:]), b.expand(*lead, b.shape[-1])
    log_det, quad, _, _ = _LogDetQuad.apply(a, b)
    return log_det, quad


class _RowSquare(torch.autograd.Function):
    """|x_n|^2, with one pass over x on the way back instead of autograd's three."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return (x * x).sum(-1)

    @staticmethod
    def setup_context(
        ctx: _Context, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]
    ) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: _Context, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return x * (2 * grad)[..., None]


def row_square(x: Tensor) -> Tensor:
    """Return |x_n|^2, (..., N, H) -> (..., N)."""
    return _RowSquare.apply(x)


class _LastAndSquare(torch.autograd.Function):
    """The last entry of each row, and the square of the others; one pass on the way back."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        rest = x[..., :-1]
        return x[..., -1].clone(), (rest * rest).sum(-1)

    @staticmethod
    def setup_context(
        ctx: _Context, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]
    ) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: _Context, last: Tensor, square: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        grad = x * (2 * square)[..., None]
        grad[..., -1] = last
        return grad


def last_and_square(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return x_n,H+1 and sum_h x_nh^2 over the others, (..., N, H + 1) -> (..., N) each."""
    return _LastAndSquare.apply(x)


class Standardised(torch.autograd.Function):
    """Each row minus its mean, over its deviation: LayerNorm without gain. Sums over short rows
    are products with a vector of ones, which a GPU does several times faster than its own
    kernel for long rows."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        centred = x - _row_mean(x)
        inverse = (_row_mean(centred * centred) + eps).rsqrt()
        return centred * inverse, inverse

    @staticmethod
    def setup_context(
        ctx: _Context, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]
    ) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        y, inverse = ctx.saved_tensors
        return (grad - _row_mean(grad) - y * _row_mean(grad * y)) * inverse, None


def _row_mean(x: Tensor) -> Tensor:
    """(..., N, H) -> (..., N, 1)."""
    h = x.shape[-1]
    return x @ x.new_full((h, 1), 1 / h)


def standardised(x: Tensor, eps: float = 1e-5) -> Tensor:
    """Return LayerNorm without gain or shift, (..., N, H); on a GPU once differentiable."""
    return Standardised.apply(x, eps)[0] if x.is_cuda else layer_norm(x, x.shape[-1:], eps=eps)


def log_normal(x: Tensor, var: Tensor) -> Tensor:
    """Return log N(x; 0, var), elementwise."""
    return -0.5 * (x.square() / var + var.log() + LOG_2PI)


def log_normal_of_matrix(x: Tensor, cov: Tensor) -> Tensor:
    """Return log N(x; 0, cov), x (..., H) and cov (..., H, H)."""
    log_det, quad = log_det_and_quad(cov, x)
    return -0.5 * (quad + log_det + x.shape[-1] * LOG_2PI)


def standard_normal(
    shape: torch.Size | tuple[int, ...], like: Tensor, generator: Generator | None
) -> Tensor:
    """Draw standard normal numbers of a shape, in the dtype and on the device of `like`."""
    return torch.randn(shape, dtype=like.dtype, device=like.device, generator=generator)
