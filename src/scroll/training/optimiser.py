"""Adam over a stack: one step size per replicate, and divergence that does not spread."""

import torch
from torch import Tensor, nn


class FlatParameters:
    """The trained parameters of a stack as one matrix, one row per replicate.

    The module's parameters become views of it, so that an update takes a few operations
    however many parameters there are.

    Args:
        module: the stack.
        count: number of replicates R.
        like: a tensor of the precision and device to use if there are no parameters.
    """

    def __init__(self, module: nn.Module, count: int, like: Tensor):
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        rows = [p.detach().reshape(count, -1) for p in self.parameters]
        self.values = torch.cat(rows, 1) if rows else like.new_zeros(count, 0)
        self.assign(self.values)

    def spread(self, each: list[float]) -> Tensor:
        """Return one number per parameter tensor as a vector over all their entries, (P,)."""
        sizes = [p[0].numel() for p in self.parameters]
        return torch.cat(
            [
                self.values.new_full((size,), number)
                for size, number in zip(sizes, each, strict=True)
            ]
            or [self.values.new_zeros(0)]
        )

    def assign(self, values: Tensor) -> None:
        """Make the module's parameters views of `values`, (R, P)."""
        sizes = [p[0].numel() for p in self.parameters]
        for p, part in zip(self.parameters, values.split(sizes, 1), strict=True):
            p.data = part.view(p.shape)

    def grad(self, losses: Tensor) -> Tensor:
        """Return d sum(losses) / d values, (R, P)."""
        if not self.parameters:
            return torch.zeros_like(self.values)
        grads = torch.autograd.grad(losses.sum(), self.parameters, materialize_grads=True)
        return torch.cat([g.reshape(len(self.values), -1) for g in grads], 1)


class Adam:
    """Adam with one step size per replicate. A replicate with a non-finite gradient stops moving.

    All of its state is tensors, so that a step can be captured and replayed.

    Args:
        flat: the parameters that it moves, (R, P).
        lr: step size of each replicate, (R,).
        penalty: penalty * values is added to the gradient: a quadratic penalty, (P,).
        shrink: each step of size lr also subtracts lr * shrink * values, as AdamW does, (P,).
        factors: on the step size, one per step, (steps,); the last applies to further steps.
    """

    def __init__(
        self, flat: FlatParameters, lr: Tensor, penalty: Tensor, shrink: Tensor, factors: Tensor
    ):
        self.flat, self.lr, self.penalty, self.shrink = flat, lr, penalty, shrink
        self.factors = factors
        self.first, self.second = torch.zeros_like(flat.values), torch.zeros_like(flat.values)
        self.shrinks = bool(shrink.any())
        self.sound = torch.ones_like(lr, dtype=torch.bool)
        self.count = torch.zeros((), dtype=torch.long, device=lr.device)
        self.rates = torch.tensor([0.9, 0.999], dtype=torch.float64, device=lr.device)
        self.left = torch.ones_like(self.rates)  # rates^count

    def step(self, losses: Tensor) -> None:
        """Take one step down the sum of the losses, (R,)."""
        grad = self.flat.grad(losses)
        with torch.no_grad():
            self.count += 1
            self.left *= self.rates
            slow, fast = (1 - self.left).unbind()
            grad = torch.addcmul(grad, self.flat.values, self.penalty)
            # A sum is finite if every term is, unless it overflows, which no step survives.
            self.sound &= grad.sum(1).isfinite()
            grad = torch.where(self.sound[:, None], grad, 0)
            self.first.lerp_(grad, 0.1)
            self.second.mul_(0.999).addcmul_(grad, grad, value=0.001)
            root = self.second.sqrt().div_(fast.sqrt().to(self.lr)).add_(1e-8)
            # Not self.factors[...], which would wait for the device.
            now = self.factors.gather(0, (self.count[None] - 1).clamp(max=len(self.factors) - 1))
            size = torch.where(self.sound, self.lr * now, 0)[:, None]
            if self.shrinks:
                self.flat.values.mul_(1 - size * self.shrink)
            self.flat.values.sub_(size / slow.to(self.lr) * self.first / root)

    def take(self, flat: FlatParameters, keep: Tensor) -> "Adam":
        """Return the optimiser of some of the replicates, whose parameters `flat` holds."""
        less = Adam(flat, self.lr[keep], self.penalty, self.shrink, self.factors)
        less.first, less.second = self.first[keep], self.second[keep]
        less.sound, less.count, less.left = self.sound[keep], self.count, self.left
        return less
