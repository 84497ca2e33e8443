"""Functions drawn from a posterior over last-layer weights."""

from typing import NamedTuple

import torch
from torch import Tensor

from .._core.checks import require, tensor


class Functions(NamedTuple):
    """n draws of the latent function, f(psi) = weight . psi + bias.

    Attributes:
        weight: (n, ..., K, H).
        bias: (n, ..., K).
    """

    weight: Tensor
    bias: Tensor

    def __call__(self, psi: Tensor) -> Tensor:
        """Return f of psi (..., N, H): (n, ..., N), or (n, ..., N, K) for several outputs."""
        h = self.weight.shape[-1]
        tensor("psi", psi)
        fits = psi.dim() > 1 and psi.shape[-1] == h
        require(fits, "psi", f"have shape (..., N, {h})", tuple(psi.shape), "Pass body(x), not x.")
        with torch.autocast(psi.device.type, enabled=False):
            f = self.weight @ psi.to(self.weight.dtype).mT + self.bias[..., None]
        return f.squeeze(-2) if f.shape[-2] == 1 else f.mT
