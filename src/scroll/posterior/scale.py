"""One scale for all predictive variances, by the leave-one-out CRPS in closed form."""

from math import log, pi, sqrt

import torch
from torch import Tensor

from .._core.checks import require

HALVINGS = 80  # of the bracket


def mean_crps(residual: Tensor, std: Tensor) -> Tensor:
    """Return the mean over rows of std [z (2 Phi(z) - 1) + 2 N(z; 0, 1) - 1/sqrt(pi)], z = r/std.

    It is the CRPS of N(0, std^2) at the residual r, both (..., N).
    """
    z = residual / std
    density = (-z.square() / 2).exp() / sqrt(2 * pi)
    return (std * (z * torch.erf(z / sqrt(2)) + 2 * density - 1 / sqrt(pi))).mean(-1)


@torch.no_grad()
def loo_crps_scale(residual: Tensor, std: Tensor) -> Tensor:
    """Return the factor t on all standard deviations of least mean CRPS, (...).

    d/dt mean CRPS(N(0, t^2 std^2), r) = mean std [2 N(r/(t std); 0, 1) - 1/sqrt(pi)] rises with t,
    so that its one root is the minimum.

    Args:
        residual: leave-one-out residuals, of a posterior r_n/(1 - h_n), (..., N).
        std: their predictive standard deviations, s/sqrt(1 - h_n), (..., N).
    """
    moves = bool((residual != 0).any(-1).all())
    require(moves, "residual", "differ from zero in some row", "only zeros")

    def rising(t: Tensor) -> Tensor:
        density = (-(residual / (t[..., None] * std)).square() / 2).exp() / sqrt(2 * pi)
        return (std * (2 * density - 1 / sqrt(pi))).sum(-1) > 0

    # 2 N(z; 0, 1) exceeds 1/sqrt(pi) where z^2 < log 2: beyond `high` in every row.
    high = (residual / std).abs().amax(-1) / sqrt(log(2))
    low = torch.zeros_like(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        up = rising(middle)
        low, high = torch.where(up, low, middle), torch.where(up, middle, high)
    return (low + high) / 2
