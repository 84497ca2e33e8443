"""Adam over a stack: a step size a replicate, and no accident that spreads."""

import torch
from torch import Tensor, nn


class Adam:
    """Adam with a step size a replicate. A replicate whose gradient is not finite stays put.

    All of its state is tensors, so that a step can be captured and replayed.
    """

    def __init__(self, parameters: list[nn.Parameter], lr: Tensor):
        self.parameters, self.lr = [p for p in parameters if p.requires_grad], lr
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.sound = torch.ones_like(lr, dtype=torch.bool)
        self.count = torch.zeros((), dtype=torch.float64, device=lr.device)

    def step(self, losses: Tensor) -> None:
        """One step down the sum of the losses, (R,)."""
        grads = torch.autograd.grad(losses.sum(), self.parameters, materialize_grads=True)
        with torch.no_grad():
            self.count += 1
            for g in grads:
                self.sound &= g.flatten(1).isfinite().all(-1) if g.dim() > 1 else g.isfinite()
            size = self.lr / (1 - 0.9**self.count).to(self.lr)
            root = (1 - 0.999**self.count).to(self.lr).sqrt()
            for p, g, m, v in zip(self.parameters, grads, self.first, self.second, strict=True):
                each = (-1, *(1,) * (p.dim() - 1))
                sound = self.sound.view(each)
                g = torch.where(sound, g, 0)
                m.lerp_(g, 0.1)
                v.lerp_(g.square(), 0.001)
                move = size.view(each) * m / (v.sqrt() / root + 1e-8)
                p.sub_(torch.where(sound, move, 0))

    def take(self, parameters: list[nn.Parameter], keep: Tensor) -> "Adam":
        """The same for some of the replicates, now held by `parameters`."""
        less = Adam(parameters, self.lr[keep])
        less.first, less.second = [m[keep] for m in self.first], [v[keep] for v in self.second]
        less.sound, less.count = self.sound[keep], self.count
        return less
