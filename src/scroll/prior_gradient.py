"""The gradient of the prior term, found now and then and added at every step."""

from typing import Any

import torch
from torch import Tensor, nn

from .checks import must
from .head import Head


class PriorGradient:
    """Makes a full covariance cheap to train: its prior term is the dear part of its loss.

    The term is the same for every batch and changes slowly, so its gradient may be some steps
    old. It is added at every step, so that an optimiser with a memory, such as Adam, sees what
    it would see if it were found anew each time.

        prior = PriorGradient(head, total=len(dataset))
        for i, (x, y) in enumerate(batches):
            optimiser.zero_grad()
            head.loss(body(x), y, total=len(dataset), prior=False).backward()
            if i % 16 == 0:
                prior.find()
            prior.add()
            optimiser.step()

    Under DistributedDataParallel every rank does the same, and the prior counts once.

    Args:
        head: of a method that trains on a part of the rows.
        total: number of rows in the whole training set.
    """

    def __init__(self, head: Head, total: int):
        self.head, self.total = head, total
        self.parameters: list[nn.Parameter] = [p for p in head.parameters() if p.requires_grad]
        self.kept: list[Tensor] = []  # made where the parameters are by then

    def find(self) -> None:
        """Find the gradient where the head is now."""
        self.kept = self.kept or [torch.zeros_like(p) for p in self.parameters]
        with torch.enable_grad(), torch.autocast(self.kept[0].device.type, enabled=False):
            loss: Tensor = self.head.prior_loss(self.total).sum()
            fresh: Any = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        for kept, new in zip(self.kept, fresh, strict=True):
            if new is not None:
                kept.copy_(new)

    def add(self) -> None:
        """Add what was found last to the gradients, before the optimiser's step."""
        told = bool(self.kept)
        must(told, "find", "be called before `add`", "no call", "Call it at the first step.")
        for p, kept in zip(self.parameters, self.kept, strict=True):
            if p.grad is None:
                p.grad = kept.clone()
            else:
                p.grad.add_(kept)
