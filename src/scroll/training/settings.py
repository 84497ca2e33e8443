"""Settings of training: steps, step size, evaluation and stopping."""

from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.checks import not_negative, one_of, positive_int


@dataclass(frozen=True)
class Settings:
    """How a stack is trained.

    Args:
        steps: largest number of Adam steps.
        lr: step size; a tensor (R,) gives one per replicate.
        decay: weight of |theta|^2 of the body against the sum over the data.
        every: steps between two evaluations on the held-out rows.
        patience: evaluations without a better score after which a replicate stops.
        patience_share: also wait for this share of the steps that the best score took.
        batch: rows per step; None is all of them.
        schedule: "constant", or "one-cycle": the step size grows over the first tenth of the steps
            and falls to zero, along cosines, over the rest.
        weight_decay: that of AdamW, on the body's parameters; the head has a prior instead.
        average: evaluate and keep the moving average of the parameters over about this many
            steps; 1 is the parameters themselves.
        compile: fuse the loss by torch.compile. It pays on a CPU for long runs of few rows; a
            GPU replays a captured graph instead.
    """

    steps: int = 10_000
    lr: float | Tensor = 0.03
    decay: float = 0.01
    every: int = 5
    patience: int = 100
    patience_share: float = 0.0
    batch: int | None = None
    schedule: str = "constant"
    weight_decay: float = 0.0
    average: int = 1
    compile: bool = False

    def __post_init__(self) -> None:
        one_of("schedule", self.schedule, ("constant", "one-cycle"))
        for name in ("steps", "every", "patience", "average"):
            positive_int(name, getattr(self, name))
        for name in ("lr", "decay", "weight_decay", "patience_share"):
            not_negative(name, getattr(self, name))
        if self.batch is not None:
            positive_int("batch", self.batch)


def step_factors(settings: Settings, like: Tensor) -> Tensor:
    """Return the factors on the step size, one per step; the last applies to all further steps.

    Args:
        settings: the schedule and the number of steps.
        like: a tensor of the wanted precision, on the wanted device.
    """
    if settings.schedule == "constant":
        return torch.ones(1).to(like)
    done = torch.arange(settings.steps, dtype=like.dtype, device=like.device) / settings.steps
    up, down = done / 0.1, (done - 0.1) / 0.9
    rising = 0.52 - 0.48 * (torch.pi * up).cos()  # from 1/25
    return torch.where(done < 0.1, rising, 0.5 + 0.5 * (torch.pi * down).cos())
