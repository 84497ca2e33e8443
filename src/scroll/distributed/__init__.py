"""More than one process: loss and posterior over ranks, and checkpoints of a run."""

from .loss import Loss, refit, statistics, total

__all__ = ["Loss", "refit", "statistics", "total"]
