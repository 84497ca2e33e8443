"""A thousand classes train without a tensor of rows x classes x features."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from scroll import ClassificationHead

B, H, K = 32, 64, 1000


class Largest(TorchDispatchMode):
    """The most elements of any tensor made within, on the way forth and back."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, tuple | list) else (out,):
            if isinstance(t, torch.Tensor):
                self.elements = max(self.elements, t.numel())
        return out


def largest(covariance):
    head = ClassificationHead(H, K, covariance=covariance)
    adam = torch.optim.Adam(head.parameters())
    psi, y = torch.randn(B, H, requires_grad=True), torch.randint(K, (B,))
    with Largest() as seen:
        head.loss(psi, y, total=10 * B).backward()
        adam.step()
    assert all(p.grad.isfinite().all() for p in head.parameters())
    return seen.elements


@pytest.mark.parametrize("covariance", ["none", "diag", "lowrank"])
def test_the_largest_tensor_is_of_classes_by_rank_squared(covariance):
    """K R^2 for the Gram matrices of R = 16 shared directions, K H for everything else."""
    assert largest(covariance) <= K * (16**2 if covariance == "lowrank" else H)


def test_a_full_covariance_makes_one():
    """So that the measure can fail."""
    head = ClassificationHead(H, 5)
    with Largest() as seen:
        head.loss(torch.randn(B, H), torch.randint(5, (B,)), total=B).backward()
    assert seen.elements >= B * 5 * H
