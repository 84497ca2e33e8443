"""The likelihood of censored numbers."""

import torch
from torch import Size, Tensor, nn

from ..._core.checks import axes, checking, finite, invalid, may_hold, shaped
from ...factors import CensoredGaussian
from ...factors.factor import Moments
from ...predictive import Normal, Survival
from .likelihood import Replicates, log_parameter, refuse_noise


class CensoredLikelihood(nn.Module):
    """t ~ N(f, noise^2), of which low <= t <= high is known.

    Args:
        noise: standard deviation at the start; it is learned.
        replicates: leading axes of independent copies.
    """

    latents = 1

    def __init__(self, noise: float = 1.0, replicates: Replicates = ()):
        super().__init__()
        self.log_noise = log_parameter("noise", noise, (*axes(replicates), 1))

    def factor(self) -> CensoredGaussian:
        """Return the factor at the present noise."""
        return CensoredGaussian(self.log_noise.exp())

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Return pairs (low, high), (..., N, 2), or exact targets (..., N), as (..., 1, N, 2).

        Intervals that the head's precision cannot tell from a point become exact.
        """
        if y.shape == rows:
            finite("y", y)
            y = torch.stack([y, y], -1)
        shaped(y, Size((*rows, 2)))
        _require_intervals(y)
        return y.to(self.log_noise.dtype).unsqueeze(-3)

    def regress(self, y: Tensor, rows: Size) -> Tensor:
        """Return exact targets, middles of intervals and the finite ends of others, (..., 1, N)."""
        low, high = self.encode(y, rows).unbind(-1)
        low, high = torch.where(low.isfinite(), low, high), torch.where(high.isfinite(), high, low)
        return low + (high - low) / 2

    def predict(self, at: Moments, noise: Tensor | None = None) -> Survival:
        """Return N(mean, noise^2 + var) of each row, which takes censored targets, too."""
        refuse_noise(noise)
        noise_var = self.log_noise.exp().square()[..., None].expand_as(at.mean)
        parts = (at.mean, noise_var, at.var.expand_as(at.mean))
        return Survival(Normal(*(part[..., 0, :] for part in parts)))


def _require_intervals(y: Tensor) -> None:
    """Refuse pairs (..., 2) with NaN, with low > high, or without a finite end."""
    if not checking():
        return
    low, high = y.unbind(-1)
    bad = ~((low <= high) & (low.isfinite() | high.isfinite()))
    if not may_hold(~bad.any()):
        first = bad.nonzero()[0].tolist()
        got = f"({low[bad][0]:g}, {high[bad][0]:g}) at index {first}"
        want = "hold pairs low <= high with a finite end"
        raise invalid("y", want, got, "Exact targets have low = high; an open end is infinite.")
