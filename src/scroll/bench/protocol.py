"""The protocol of the tables: splits, scaling, metrics (one file, one convention)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..feeding import Rows
from ..metrics import accuracy, brier, calibration_error, ece, nll, rmse
from .datasets import Table


class Folds(NamedTuple):
    """Training, validation and test rows, one set a seed."""

    train: Rows
    val: Rows
    test: Rows

    def take(self, which: Tensor) -> "Folds":
        """Those of the seeds at these places, one a replicate."""
        return Folds(*(rows.take(which) for rows in self))


def folds(
    table: Table, seeds: Sequence[int], device: str | torch.device = "cpu", unit_rows: bool = False
) -> Folds:
    """60/20/20 by each seed; inputs standardised and the target centred on the training rows.

    Columns that never vary are dropped. The target keeps its unit. Labels stay as they are, and
    their rows are in double precision.

    Args:
        table: the data.
        seeds: of the splits.
        device: where to put them.
        unit_rows: scale each standardised row to length one, as for embeddings.
    """
    from sklearn.model_selection import train_test_split

    x, y = torch.as_tensor(table.x), torch.as_tensor(table.y)
    x = x[:, (x != x[0]).any(0)]
    parts: list[list[Rows]] = [[], [], []]
    for seed in seeds:
        rest, test = train_test_split(range(len(y)), test_size=0.2, random_state=seed)
        fold, held = train_test_split(rest, test_size=0.25, random_state=seed)
        std = x[fold].std(0, correction=0)
        inputs = (x - x[fold].mean(0)) / torch.where(std > 0, std, 1)
        if unit_rows:
            inputs = inputs / inputs.norm(dim=-1, keepdim=True)
        target = y.long() if table.classes else (y - y[fold].mean()).float()
        inputs = inputs.double() if table.classes else inputs.float()
        for part, index in zip(parts, (fold, held, test), strict=True):
            part.append(Rows(inputs[index], target[index]))
    return Folds(
        *(
            Rows(
                *(torch.stack(t).to(device) for t in zip(*(rows[:2] for rows in part), strict=True))
            )
            for part in parts
        )
    )


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
