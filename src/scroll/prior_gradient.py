"""The gradient of the prior term, found now and then and added at every step."""

from typing import Any

import torch
from torch import Tensor, nn

from .checks import must, whole
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

    Under DistributedDataParallel every rank does the same, and the prior counts once. A
    checkpoint may hold it: `save(path, step, ..., prior=prior)`.

    Args:
        head: of a method that trains on a part of the rows.
        total: number of rows in the whole training set.
    """

    def __init__(self, head: Head, total: int):
        must(isinstance(head, Head), "head", "be a scroll head", type(head).__name__)
        must(whole(total) is not None, "total", "be the number of training rows", repr(total))
        if not head.batches:
            head.prior_loss(total)  # which says why there is none
        self.head, self.total = head, total
        self.parameters: list[nn.Parameter] = [p for p in head.parameters() if p.requires_grad]
        must(self.parameters, "head", "have parameters that learn", "none")
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
        must(self.kept, "find", "be called before `add`", "no call", "Call it at the first step.")
        for p, kept in zip(self.parameters, self.kept, strict=True):
            if p.grad is None:
                p.grad = kept.clone()
            else:
                p.grad.add_(kept)

    def state_dict(self) -> dict[str, Any]:
        """What was found last, for a checkpoint."""
        return {"kept": list(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with what a checkpoint holds."""
        sizes = [tuple(kept.shape) for kept in state["kept"]]
        want = [tuple(p.shape) for p in self.parameters]
        must(sizes in ([], want), "state", f"hold tensors of shapes {want}", sizes)
        like = self.parameters
        self.kept = [kept.to(p, copy=True) for kept, p in zip(state["kept"], like, strict=False)]
