"""Every factorisation and solve, under one numerical policy.

No jitter is ever added. A matrix that is not positive definite gives NaN for itself and
leaves the other replicates of its stack alone.
"""

from math import log, nan, pi

import torch
from torch import Tensor
from torch.linalg import cholesky_ex, solve_triangular

LOG_2PI = log(2 * pi)


def eye_like(x: Tensor) -> Tensor:
    """The identity of the size of the last axis of `x`."""
    return torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def matvec(psi: Tensor, w: Tensor) -> Tensor:
    """psi_n . w, (..., N, H) and (..., H) to (..., N).

    Features that are shared by the last leading axis, (..., 1, N, H) against (..., K, H),
    take one matrix product instead of K matrix-vector products.
    """
    if psi.dim() > 2 and psi.shape[-3] == 1 and w.dim() > 1:
        return w @ psi.squeeze(-3).mT
    return (psi @ w[..., None])[..., 0]


def cholesky(a: Tensor) -> Tensor:
    """Lower L with L L' = a, NaN where there is none."""
    lower, info = cholesky_ex(a)
    return lower.masked_fill((info != 0)[..., None, None], nan)


def inverse_root(a: Tensor) -> Tensor:
    """Lower L with L L' = a^-1, through the Cholesky factor of `a` read backwards."""
    upper = cholesky(a.flip(-2, -1)).flip(-2, -1)  # a = upper upper'
    return solve_triangular(upper, eye_like(a), upper=True).mT


def half_log_det(lower: Tensor) -> Tensor:
    """1/2 log det(L L') of a triangular L."""
    return lower.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1)


def log_normal(x: Tensor, var: Tensor) -> Tensor:
    """log N(x; 0, var), elementwise."""
    return -0.5 * (x.square() / var + var.log() + LOG_2PI)
