"""Type-II maximum likelihood of the linear-Gaussian model, from its eigenvalues alone."""

import torch
from torch import Tensor

_ROUNDING = 1e-14  # what a residual sum of squares cannot be told from zero by, relative


def log_evidence(
    rho: Tensor, values: Tensor, along: Tensor, square: Tensor, count: Tensor
) -> Tensor:
    """max over s of log p(y | rho, s), rho = alpha s^2 the ridge, up to a constant.

    log p = -1/2 [N log s^2 + sum_i log(1 + l_i/rho) + Q(rho)/s^2], so s^2 = Q/N.
    """
    residual = residual_square(rho, values, along, square)
    return -0.5 * (count * residual.log() + torch.log1p(values / rho[..., None]).sum(-1))


def residual_square(rho: Tensor, values: Tensor, along: Tensor, square: Tensor) -> Tensor:
    """Q(rho) = y'y - sum_i c_i^2/(l_i + rho), never below what rounding leaves of it."""
    explained = (along.square() / (values + rho[..., None])).sum(-1)
    return torch.maximum(square - explained, _ROUNDING * square)


def slope(rho: Tensor, values: Tensor, along: Tensor, square: Tensor, count: Tensor) -> Tensor:
    """d log_evidence / d log rho."""
    shrunk = values + rho[..., None]
    less = (along / shrunk).square().sum(-1) * rho
    residual = residual_square(rho, values, along, square)
    return 0.5 * ((values / shrunk).sum(-1) - count * less / residual)


def maximise_evidence(
    values: Tensor, along: Tensor, square: Tensor, count: Tensor
) -> tuple[Tensor, Tensor]:
    """alpha and noise of greatest evidence: the best of a grid over the ridge, then bisection.

    Args:
        values: eigenvalues l_i of psi'psi, (..., H), broadcast over outputs.
        along: psi'y in the eigenbasis, c_i, (..., K, H).
        square: y'y, (..., K).
        count: N.
    """
    sums = (values, along, square, count)
    tiny = torch.finfo(values.dtype).tiny
    top = values.amax(-1).clamp(min=tiny).log().expand(square.shape)
    grid = torch.linspace(-60.0, 14.0, 400, dtype=top.dtype, device=top.device)
    reached = torch.stack([log_evidence((top + x).exp(), *sums) for x in grid])
    middle, step = top + grid[reached.argmax(0)], grid[1] - grid[0]
    low, high = middle - step, middle + step
    for _ in range(60):
        centre = (low + high) / 2
        rising = slope(centre.exp(), *sums) > 0
        low, high = torch.where(rising, centre, low), torch.where(rising, high, centre)
    rho = ((low + high) / 2).exp()
    s2 = (residual_square(rho, values, along, square) / count).clamp(min=tiny)
    return rho / s2, s2.sqrt()
