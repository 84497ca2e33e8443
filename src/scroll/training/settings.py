"""How a stack is trained: steps, their size, when to look and when to stop."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.checks import not_negative, one_of, positive_int


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Args:
        steps: of Adam, at most.
        lr: their size; a tensor (R,) for one each.
        decay: weight of |theta|^2 of the body against the sum over the data.
        every: steps between two looks at the held-out rows.
        patience: looks without a better score after which a replicate stops.
        batch: rows a step; None is all of them.
        schedule: "constant", or "one-cycle": the step size grows over the first tenth of the steps
            and falls to nothing, along cosines, over the rest.
        weight_decay: AdamW's, on the body's parameters; the head has a prior instead.
        average: look at, and keep, the parameters' moving average over about so many steps; 1 is
            the parameters themselves.
        compile: let torch.compile fuse the loss. It pays on a CPU for long runs of few rows; a
            GPU replays a captured graph instead.
    """

    steps: int = 10_000
    lr: float | Tensor = 0.03
    decay: float = 0.01
    every: int = 5
    patience: int = 100
    batch: int | None = None
    schedule: str = "constant"
    weight_decay: float = 0.0
    average: int = 1
    compile: bool = False

    def __post_init__(self) -> None:
        one_of("schedule", self.schedule, ("constant", "one-cycle"))
        for name in ("steps", "every", "patience", "average"):
            positive_int(name, getattr(self, name))
        for name in ("lr", "decay", "weight_decay"):
            not_negative(name, getattr(self, name))
        if self.batch is not None:
            positive_int("batch", self.batch)


def pace(recipe: Recipe, like: Tensor) -> Tensor:
    """Factors of the step size, one per step, in the precision and on the device of `like`."""
    if recipe.schedule == "constant":
        return torch.ones(1).to(like)
    done = torch.arange(recipe.steps, dtype=like.dtype, device=like.device) / recipe.steps
    up, down = done / 0.1, (done - 0.1) / 0.9
    rising = 0.52 - 0.48 * (torch.pi * up).cos()  # from a 25th
    return torch.where(done < 0.1, rising, 0.5 + 0.5 * (torch.pi * down).cos())
