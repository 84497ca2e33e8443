"""The rows of a fit: a table's codes and targets, split, weighted and encoded."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .._core.checks import require
from ..fitting.split import Split, mean_one, split, weighed
from ..fitting.stacks import Data
from ..tables.columns import TableSchema
from ..tables.encoder import Encoder
from ..tables.frames import Array
from .arguments import Parameters, check_held_out, check_weights
from .tasks import Task

CROSSFIT_ROWS = 50_000  # up to so many rows each member holds out a fold of its own


class Sample(NamedTuple):
    """Rows of a table: codes (N, D) and targets as `Task.read` returns them."""

    codes: Array
    y: Array


def split_rows(
    given: Parameters,
    task: Task,
    schema: TableSchema,
    rows: Sample,
    weight: ArrayLike | None,
    members: int,
    seed: int,
    own: bool,
) -> Split:
    """Hold out rows, or none if the user has held-out rows of their own; weigh the classes."""
    codes, y = rows
    checked = None if weight is None else check_weights(weight, len(codes))
    two = checked is None or bool((checked > 0).sum() > 1)
    require(two, "sample_weight", "be positive for two rows", "fewer")
    fraction = 0.0 if own else given.validation_fraction
    present = len(codes) if checked is None else int((checked > 0).sum())
    folds = 0 if own or given.recipe == "paper" else n_folds(present, members)
    if checked is not None and given.recipe == "fast":
        checked = checked / checked.mean()  # repeated rows would look noise-free to the evidence
    numeric = np.array([column.kind == "numeric" for column in schema.columns])
    labels = task.levels is not None
    parts = split(codes, y, checked, fraction, seed, labels, folds, numeric)
    return parts if task.class_weight is None else weighed(parts, task.class_weight[y])


def n_folds(n_rows: int, members: int) -> int:
    """Return the number of cross-fitting folds; 0 if all members hold out the same rows."""
    return members if members > 1 and 2 * members <= n_rows <= CROSSFIT_ROWS else 0


def encoder_of(schema: TableSchema, codes: Array) -> Encoder:
    """Return the encoder of the training rows."""
    encoder = Encoder.of(schema, codes)
    want = "have a column of numbers, or of categories that come more than once"
    remedy = "Add one: a column of row names cannot predict new rows."
    require(encoder.plain, "X", want, "none", remedy)
    return encoder


def encoded_data(
    rows: Sample,
    held: Sample | None,
    parts: Split,
    class_weight: Array | None,
    seed: int,
    encoded: Callable[[Sample, int], tuple[Tensor, Tensor]],
) -> Data:
    """Encode the rows to train on and the rows held out."""
    x, y = encoded(Sample(rows.codes[parts.train], rows.y[parts.train]), seed)
    later, held_weight = Sample(rows.codes[parts.held], rows.y[parts.held]), parts.held_weight
    if held is not None:
        later, held_weight = held, _own_weight(held, rows, class_weight)
    held_x, held_y = encoded(later, seed + 1)
    same = parts.held is parts.train
    return Data(
        x,
        y,
        _on(x, parts.weight),
        held_x,
        held_y,
        _on(x, held_weight),
        own=held is not None or same,
        seen=held is None and same,
        fold=None if parts.fold is None else torch.from_numpy(parts.fold).to(x.device),
        ratio=parts.ratio,
    )


def _own_weight(held: Sample, rows: Sample, class_weight: Array | None) -> Array | None:
    """Check the user's own held-out rows; return their weights.

    They are weighted by class as the training rows are, so that both have the same score.
    """
    check_held_out(held.y, rows.y)
    if class_weight is None:
        return None
    weighs = bool(class_weight[held.y].any())
    require(weighs, "eval_set", "hold a class of positive weight", "none")
    return mean_one(class_weight, held.y)


def _on(like: Tensor, weight: Array | None) -> Tensor | None:
    """Return weights in single precision, on the device of `like`."""
    return None if weight is None else torch.from_numpy(weight).float().to(like.device)
