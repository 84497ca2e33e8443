"""Training on several processes: the loss and the posterior over ranks, and checkpoints."""

from .checkpoint import resume, save
from .consensus import ranks
from .loss import Loss, total
from .posterior import refit, statistics

__all__ = ["Loss", "ranks", "refit", "resume", "save", "statistics", "total"]
