"""The gradient of the prior term, computed every few steps and added at every step."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .._core.checks import as_integer, require
from .head import Head


class PriorGradient:
    """Makes a full covariance cheap to train: its prior term dominates the cost of the loss.

    The term is the same for every batch and changes slowly, so its gradient is recomputed every
    k steps and reused in between. It is added at every step, so that an optimiser with running
    averages, such as Adam, sees almost the gradients of the full loss.

        prior = PriorGradient(head, total=len(dataset))
        for i, (x, y) in enumerate(batches):
            optimiser.zero_grad()
            head.loss(body(x), y, total=len(dataset), prior=False).backward()
            if i % 16 == 0:
                prior.find()
            prior.add()
            optimiser.step()

    Under DistributedDataParallel every rank does the same, and the prior counts once. A
    checkpoint can hold it: `save(path, step, ..., prior=prior)`.

    Args:
        head: a head that trains on mini-batches.
        total: number of rows in the whole training set.
    """

    def __init__(self, head: Head, total: int):
        require(isinstance(head, Head), "head", "be a scroll head", type(head).__name__)
        require(
            as_integer(total) is not None, "total", "be the number of training rows", repr(total)
        )
        if head.objective.bound:
            head.prior_loss(total)  # raises the error that says why there is none
        require(
            any(p.requires_grad for p in head.parameters()),
            "head",
            "have parameters that learn",
            "none",
        )
        self.head, self.total = head, total
        self.kept: list[Tensor] = []  # one per parameter, made by `find`; zero for frozen ones

    def find(self) -> None:
        """Compute the gradient at the present parameters."""
        every = [*self.head.parameters()]
        learn = [p for p in every if p.requires_grad]
        self._follow()
        with torch.enable_grad():
            loss: Tensor = self.head.prior_loss(self.total).sum()
            fresh = iter(torch.autograd.grad(loss, learn, allow_unused=True) if learn else ())
        for kept, p in zip(self.kept, every, strict=True):
            new = next(fresh) if p.requires_grad else None
            kept.zero_() if new is None else kept.copy_(new)

    def add(self) -> None:
        """Add the last computed gradient to the parameters' gradients, before the optimiser's step.

        With a `torch.amp.GradScaler`, call it after `scaler.unscale_(optimiser)`: it is not scaled.
        """
        require(
            self.kept, "find", "be called before `add`", "no call", "Call it at the first step."
        )
        self._follow()
        for p, kept in zip(self.head.parameters(), self.kept, strict=True):
            if not p.requires_grad:
                continue
            if p.grad is None:
                p.grad = kept.clone()
            else:
                p.grad.add_(kept)

    def _follow(self) -> None:
        """Move the kept gradients to the present device and precision of the parameters."""
        every = [*self.head.parameters()]
        if not self.kept:
            self.kept = [torch.zeros_like(p) for p in every]
        self.kept = [kept.to(p) for kept, p in zip(self.kept, every, strict=True)]

    def state_dict(self) -> dict[str, list[Tensor]]:
        """Return the last computed gradient, for a checkpoint."""
        return {"kept": list(self.kept)}

    def load_state_dict(self, state: Mapping[str, Sequence[Tensor]]) -> None:
        """Take over the gradient of a checkpoint."""
        given = state.get("kept")
        want = [tuple(p.shape) for p in self.head.parameters()]
        sizes = None if given is None else [tuple(kept.shape) for kept in given]
        require(sizes in ([], want), "state", f"hold tensors of shapes {want}", sizes)
        like = self.head.parameters()
        self.kept = [kept.to(p, copy=True) for kept, p in zip(given or (), like, strict=False)]
