"""What the compared methods share: rows, five folds, and predictions as distributions."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from scroll.predictive import Categorical, Distribution, Normal
from scroll_paper.data import datasets, protocol

Fitted = Callable[[np.ndarray], Distribution]  # new rows -> a predictive distribution
Index = np.ndarray


class Rows(NamedTuple):
    """Rows of a table with their targets; labels are integers 0..K-1."""

    x: np.ndarray
    y: np.ndarray


def split(name: str, seed: int) -> tuple[Rows, Rows]:
    """Return training and test rows: 80/20, the 60 and 20 % of the paper's splits together."""
    table = datasets.load(name)
    x, y = np.asarray(table.x, np.float64), np.asarray(table.y, np.float64)
    y = y.astype(np.int64) if table.classes else y
    parts = protocol.split(range(len(y)), seed)
    together = [*parts.train, *parts.val]
    return Rows(x[together], y[together]), Rows(x[parts.test], y[parts.test])


def folds(y: np.ndarray, seed: int) -> list[tuple[Index, Index]]:
    """Return training and held-out row numbers of five shuffled folds, stratified by label."""
    from sklearn.model_selection import KFold, StratifiedKFold

    kind = KFold if y.dtype.kind == "f" else StratifiedKFold
    return list(kind(5, shuffle=True, random_state=seed).split(np.zeros((len(y), 1)), y))


def threads() -> int:
    """Return the number of threads of every method: OMP_NUM_THREADS, or else the cores."""
    return torch.get_num_threads()


def normal(mean: np.ndarray, std: np.ndarray) -> Normal:
    """Return N(mean, std^2) for arrays."""
    centre, spread = (torch.from_numpy(np.asarray(a, np.float64)) for a in (mean, std))
    return Normal(centre, spread.square(), torch.zeros_like(centre))


def categorical(probabilities: np.ndarray) -> Categorical:
    """Return the distribution of labels; probabilities below 1e-15 are raised to it."""
    found = torch.from_numpy(np.asarray(probabilities, np.float64)).clamp(min=1e-15)
    return Categorical(found.log().log_softmax(-1))


def one_width(
    members: Callable[[np.ndarray], np.ndarray], rows: Rows, held_out: list[Index]
) -> Fitted:
    """Return N(mean of the members, s^2), where s^2 is the mean square of held-out residuals.

    Each row's residual is that of the one member that did not train on it. The held-out rows also
    chose when the member stops, so s is slightly too small; the mean of five members is better
    than each, so s is slightly too large.

    Args:
        members: takes rows and returns the predictions of the five members, (5, N).
        rows: the training rows.
        held_out: for each member, the rows that it did not train on.
    """
    squares = [(rows.y[held] - members(rows.x[held])[k]) ** 2 for k, held in enumerate(held_out)]
    std = np.sqrt(np.concatenate(squares).mean())

    def predict(x: np.ndarray) -> Normal:
        mean = members(x).mean(0)
        return normal(mean, np.full_like(mean, std))

    return predict
