"""The protocol of the tables: splits, scaling, metrics (one file, one convention)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from scroll.predictive.metrics import accuracy, brier, calibration_error, ece, nll, rmse
from scroll.training.batches import Rows

from .datasets import Table


class Folds(NamedTuple):
    """Training, validation and test rows, one set a seed; perhaps rows from elsewhere."""

    train: Rows
    val: Rows
    test: Rows
    foreign: Rows | None = None

    def take(self, which: Tensor) -> "Folds":
        """Those of the seeds at these places, one a replicate."""
        return Folds(*(rows and rows.take(which) for rows in self))  # type: ignore[arg-type]


def folds(
    table: Table,
    seeds: Sequence[int],
    device: str | torch.device = "cpu",
    unit_rows: bool = False,
    even_rows: bool = False,
    foreign: Table | None = None,
) -> Folds:
    """60/20/20 by each seed; inputs standardised and the target centred on the training rows.

    Columns that never vary are dropped. The target keeps its unit. Labels stay as they are, and
    their rows are in double precision.

    Args:
        table: the data.
        seeds: of the splits.
        device: where to put them.
        unit_rows: scale each standardised row to length one, as for embeddings.
        even_rows: divide them all by sqrt(D), so that they are of length one on average and
            keep what tells one length from another.
        foreign: another table of the same features, standardised by these training rows.
    """
    from sklearn.model_selection import train_test_split

    x, y = torch.as_tensor(table.x), torch.as_tensor(table.y)
    varies = (x != x[0]).any(0)
    n, other = len(y), [] if foreign is None else [foreign]
    x = torch.cat([x, *(torch.as_tensor(t.x) for t in other)])[:, varies]
    y = torch.cat([y, *(torch.as_tensor(t.y) for t in other)])
    parts: list[list[Rows]] = [[], [], [], *([] for _ in other)]
    for seed in seeds:
        rest, test = train_test_split(range(n), test_size=0.2, random_state=seed)
        fold, held = train_test_split(rest, test_size=0.25, random_state=seed)
        std = x[fold].std(0, correction=0)
        inputs = (x - x[fold].mean(0)) / torch.where(std > 0, std, 1)
        if unit_rows:
            inputs = inputs / inputs.norm(dim=-1, keepdim=True)
        if even_rows:
            inputs = inputs / inputs.shape[-1] ** 0.5
        target = y.long() if table.classes else (y - y[fold].mean()).float()
        inputs = inputs.double() if table.classes else inputs.float()
        for part, index in zip(parts, (fold, held, test, range(n, len(y))), strict=False):
            part.append(Rows(inputs[index], target[index]))
    return Folds(*(_stacked(part, device) for part in parts))


def _stacked(part: Sequence[Rows], device: str | torch.device) -> Rows:
    return Rows(*(torch.stack(t).to(device) for t in zip(*(r[:2] for r in part), strict=True)))


def metrics(predictive: Any, y: Tensor) -> dict[str, Tensor]:
    """NLL, RMSE and calibration error in the units of the data, each (R,).

    Of labels NLL, calibration error over ten equal bins of confidence, Brier score, accuracy.
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
