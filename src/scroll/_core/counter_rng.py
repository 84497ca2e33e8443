"""Counter-based random numbers: functions of (seed, step, row), without generator state.

A number drawn for (seed, step, row) is the same on every device, in every stack and whatever was
drawn before, so a replicate trains the same alone and in a stack.
"""

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF
_FACTOR = 0x45D9F3B  # below 2^31, so that a product with a word stays within int64


def bits(*words: Tensor | int) -> Tensor:
    """Return 32 random bits, as int64, for each tuple of integers; tensors broadcast."""
    state: Tensor | int = 0
    for word in words:
        state = _mix((state * _FACTOR + word) & _WORD)
    return torch.as_tensor(state)


def permutation(seeds: Tensor, epoch: int, n: int) -> Tensor:
    """Return an order of n rows for each seed, (R,) -> (R, n)."""
    keys = bits(seeds[:, None], epoch, torch.arange(n, device=seeds.device))
    return keys.sort(dim=-1, stable=True).indices


def kept(p: float, *words: Tensor | int) -> Tensor:
    """Return True for each tuple of integers that survives a dropout with probability p."""
    return bits(*words) >= int(p * 2**32)


def _mix(x: Tensor | int) -> Tensor | int:
    for _ in range(2):
        x = (((x >> 16) ^ x) * _FACTOR) & _WORD
    return (x >> 16) ^ x
