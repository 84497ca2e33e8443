"""Type-II maximum likelihood of the linear-Gaussian model, from its eigenvalues alone."""

from typing import NamedTuple

import torch
from torch import Tensor

_ROUNDING = 1e-14  # relative size below which a residual sum of squares is rounding error
_ULPS = 8  # rounding error of each eigenvalue, in units in the last place of the largest


class Spectrum(NamedTuple):
    """The targets' energy y'y along the eigenvectors of psi'psi, and outside their span.

    Attributes:
        values: eigenvalues l_i, (..., K, H); zero in directions that the data never took.
        energy: c_i^2/l_i with c = psi'y in the eigenbasis, (..., K, H).
        rest: y'y - sum of energy, (..., K).
        least: residuals below this are rounding error, (..., K).
        rows: N.
    """

    values: Tensor
    energy: Tensor
    rest: Tensor
    least: Tensor
    rows: Tensor

    def residual(self, rho: Tensor) -> Tensor:
        """Return Q(rho) = y'y - sum_i c_i^2/(l_i + rho), computed without cancellation."""
        left = (self.energy / (1 + self.values / rho[..., None])).sum(-1)
        return torch.maximum(self.rest + left, self.least)

    def log_evidence(self, rho: Tensor) -> Tensor:
        """Return max over s of log p(y | rho, s), rho = alpha s^2 the ridge, up to a constant.

        log p = -1/2 [N log s^2 + sum_i log(1 + l_i/rho) + Q(rho)/s^2], so s^2 = Q/N.
        """
        volume = torch.log1p(self.values / rho[..., None]).sum(-1)
        return -0.5 * (self.rows * self.residual(rho).log() + volume)

    def slope(self, rho: Tensor) -> Tensor:
        """Return d log_evidence / d log rho."""
        seen = self.values / (self.values + rho[..., None])
        less = (self.energy * seen * (1 - seen)).sum(-1)
        return 0.5 * (seen.sum(-1) - self.rows * less / self.residual(rho))


def spectrum(values: Tensor, along: Tensor, square: Tensor, count: Tensor) -> Spectrum:
    """Return what the evidence depends on; arguments as for `maximise_evidence`.

    The energy outside the span of the eigenvectors is a difference, which rounding may make zero
    or negative. With as many directions as rows it is exactly zero. Otherwise it is set to at
    least its rounding error, so that the noise is never estimated as zero.
    """
    seen = values > 0
    values = values.expand(along.shape)
    energy = torch.where(seen, along.square() / torch.where(seen, values, 1), 0)
    off = _ULPS * torch.finfo(values.dtype).eps * values.amax(-1, keepdim=True)
    doubt = (energy * (off / torch.where(seen, values, 1)).clamp(max=1)).sum(-1)
    rest = square - energy.sum(-1)
    fits = (seen.sum(-1) >= count) & (rest <= doubt)
    rest = torch.where(fits, 0, torch.maximum(rest, doubt))
    return Spectrum(values, energy, rest, _ROUNDING * square, count)


def maximise_evidence(
    values: Tensor, along: Tensor, square: Tensor, count: Tensor
) -> tuple[Tensor, Tensor]:
    """Return alpha and noise, (..., K), of greatest evidence.

    The best ridge of a grid is refined by bisection.

    Args:
        values: eigenvalues l_i of psi'psi, (..., H), broadcast over outputs.
        along: psi'y in the eigenbasis, c_i, (..., K, H).
        square: y'y, (..., K).
        count: N.
    """
    of = spectrum(values, along, square, count)
    tiny = torch.finfo(values.dtype).tiny
    top = of.values.amax(-1).clamp(min=tiny).log()
    grid = torch.linspace(-60.0, 14.0, 400, dtype=top.dtype, device=top.device)
    reached = torch.stack([of.log_evidence((top + x).exp()) for x in grid])
    middle, step = top + grid[reached.argmax(0)], grid[1] - grid[0]
    low, high = middle - step, middle + step
    for _ in range(60):
        centre = (low + high) / 2
        rising = of.slope(centre.exp()) > 0
        low, high = torch.where(rising, centre, low), torch.where(rising, high, centre)
    rho = ((low + high) / 2).exp()
    s2 = (of.residual(rho) / count).clamp(min=tiny)
    return rho / s2, s2.sqrt()
