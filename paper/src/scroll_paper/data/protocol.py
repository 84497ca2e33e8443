"""The protocol of the tables: one split, one scaling, one set of metrics."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from scroll.fitting.split import sixty_twenty_twenty
from scroll.predictive.metrics import accuracy, brier, calibration_error, ece, nll, rmse
from scroll.training.batches import Rows

from .datasets import Data


class Split(NamedTuple):
    """The row numbers of a 60/20/20 split."""

    train: list[int]
    val: list[int]
    test: list[int]


def split(rows: Sequence[int], seed: int) -> Split:
    """Split row numbers 60/20/20 at random, as the paper does."""
    return Split(*sixty_twenty_twenty(rows, seed))


class Folds(NamedTuple):
    """Training, validation and test rows of each seed, and out-of-distribution rows if any."""

    train: Rows
    val: Rows
    test: Rows
    foreign: Rows | None = None

    def take(self, which: Tensor) -> "Folds":
        """Return the folds of the seeds at these places, one per replicate."""
        foreign = self.foreign and self.foreign.take(which)
        return Folds(self.train.take(which), self.val.take(which), self.test.take(which), foreign)


def folds(
    data: Data,
    seeds: Sequence[int],
    device: str | torch.device = "cpu",
    unit_rows: bool = False,
    even_rows: bool = False,
    foreign: Data | None = None,
) -> Folds:
    """Split 60/20/20 by each seed; standardise inputs and centre targets on the training rows.

    Columns that never vary are dropped. The target keeps its unit. Labels stay as they are, and
    their rows are in double precision.

    Args:
        data: the data set.
        seeds: of the splits.
        device: where to put the rows.
        unit_rows: scale each standardised row to length one, as for embeddings.
        even_rows: divide all rows by sqrt(D): they have length one on average and keep their
            different lengths.
        foreign: out-of-distribution rows of the same features, standardised in the same way.
    """
    x, y = torch.as_tensor(data.x), torch.as_tensor(data.y)
    varies = (x != x[0]).any(0)
    n, other = len(y), [] if foreign is None else [foreign]
    x = torch.cat([x, *(torch.as_tensor(t.x) for t in other)])[:, varies]
    y = torch.cat([y, *(torch.as_tensor(t.y) for t in other)])
    parts: list[list[Rows]] = [[], [], [], *([] for _ in other)]
    for seed in seeds:
        chosen = split(range(n), seed)
        inputs = _scaled(x, chosen.train, unit_rows, even_rows)
        target = y.long() if data.classes else (y - y[chosen.train].mean()).float()
        inputs = inputs.double() if data.classes else inputs.float()
        for part, index in zip(parts, (*chosen, range(n, len(y))), strict=False):
            part.append(Rows(inputs[index], target[index]))
    return Folds(*(_stacked(part, device) for part in parts))


def _scaled(x: Tensor, train: list[int], unit_rows: bool, even_rows: bool) -> Tensor:
    std = x[train].std(0, correction=0)
    inputs = (x - x[train].mean(0)) / torch.where(std > 0, std, 1)
    if unit_rows:
        inputs = inputs / inputs.norm(dim=-1, keepdim=True)
    return inputs / inputs.shape[-1] ** 0.5 if even_rows else inputs


def _stacked(part: Sequence[Rows], device: str | torch.device) -> Rows:
    return Rows(*(torch.stack(t).to(device) for t in zip(*(r[:2] for r in part), strict=True)))


def metrics(predictive: Any, y: Tensor) -> dict[str, Tensor]:
    """Return NLL, RMSE and calibration error in the units of the data, each (R,).

    For labels, return NLL, calibration error over ten equal bins of confidence, Brier score and
    accuracy.
    """
    if not y.is_floating_point():
        return {
            "nll": -predictive.log_prob(y).mean(-1),
            "ece": ece(predictive, y),
            "brier": brier(predictive, y),
            "accuracy": accuracy(predictive, y),
        }
    return {
        "nll": nll(predictive, y),
        "rmse": rmse(predictive, y),
        "caliberr": calibration_error(predictive, y),
    }
