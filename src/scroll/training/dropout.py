"""Dropout whose masks follow from the seed of each replicate."""

import torch
from torch import Tensor, nn

from .._core.checks import axes, require
from .._core.counter_rng import bits, kept

POOL_CALLS, POOL_PLACES = 20, 2**15  # calls that a pool of masks serves; places to start


class Dropout(nn.Module):
    """Drop each activation with probability p in training, by the seed of its replicate.

    Args:
        p: the probability.
        replicates: leading axes, as those of the body.
        pooled: draw a pool of masks every few calls, and take each mask from a random place in
            it: several times as fast on a CPU. Otherwise each number has a draw of its own, the
            same on every device.
    """

    seeds: Tensor
    calls: Tensor

    def __init__(self, p: float, replicates: tuple[int, ...] = (), pooled: bool = False):
        super().__init__()
        require(0 <= p < 1, "p", "lie in [0, 1)", p)
        self.p, self.replicates, self.pooled = p, axes(replicates), pooled
        self.register_buffer("seeds", torch.zeros(replicates, dtype=torch.long))
        self.register_buffer("calls", torch.zeros(replicates, dtype=torch.long))
        self._pool: tuple[int, Tensor] | None = None  # its number, and the masks

    def forward(self, x: Tensor) -> Tensor:
        """Return x (..., N, H) with a share p set to zero and the rest scaled up; x in eval."""
        if not self.training or not self.p:
            return x
        self.calls += 1
        if self.pooled and x.device.type == "cpu" and not torch.compiler.is_compiling():
            return x * self._from_pool(x)
        rows = torch.arange(x.shape[-2], device=x.device)[:, None]
        units = torch.arange(x.shape[-1], device=x.device)
        each = (s[..., None, None] for s in (self.seeds, self.calls))
        return x * kept(self.p, *each, rows, units) / (1 - self.p)

    def _from_pool(self, x: Tensor) -> Tensor:
        """Return masks of the shape of x: 0, or 1 / (1 - p)."""
        call = int(self.calls.flatten()[0])
        number, place = call // POOL_CALLS, int(bits(call)) % POOL_PLACES
        size = x.shape[-2:].numel()
        old = self._pool
        shape = (*self.replicates, POOL_PLACES + size)
        if old is None or old[0] != number or old[1].shape != shape or old[1].dtype != x.dtype:
            old = self._pool = number, self._drawn(number, shape, x.dtype)
        return old[1][..., place : place + size].view(x.shape)

    def _drawn(self, number: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        pool = torch.empty(shape, dtype=dtype)
        for row, seed in zip(pool.view(-1, shape[-1]), self.seeds.flatten().tolist(), strict=True):
            row.uniform_(generator=torch.Generator().manual_seed(int(bits(seed, number))))
        return (pool >= self.p).to(dtype) / (1 - self.p)
