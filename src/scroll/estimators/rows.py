"""Rows before training: weights as counts, an order that does not depend on how they came, and a
part held out."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import must

Array = NDArray[Any]


class Split(NamedTuple):
    """Which rows to train on, how often or how much each counts, and which are held out."""

    train: Array
    held: Array
    weight: Array | None  # of the training rows, of mean one
    held_weight: Array | None
    fold: Array | None = None  # of each training row, where every one is held out once


def split(
    codes: Array,
    y: Array,
    weight: Array | None,
    fraction: float,
    seed: int,
    labels: bool,
    folds: int = 0,
) -> Split:
    """A split that sees the rows as a set: shuffled or repeated rows give the same model.

    Equal rows are held out together or not at all, so that none is tested on its own copy. Whole
    weights are counts, as if the row stood there so often; others weigh its score. With `folds`
    no part is held out, and each row has the number of one of them.
    """
    rows = np.arange(len(codes))
    if weight is not None and not (weight > 0).all():  # as if they were not there
        there = weight > 0
        found = split(codes[there], y[there], weight[there], fraction, seed, labels, folds)
        train = rows[there][found.train]
        same = found.held is found.train  # too few to hold any out: callers ask for it so
        return found._replace(train=train, held=train if same else rows[there][found.held])
    if weight is not None:
        kept = weight
        if np.array_equal(kept, np.round(kept)) and kept.sum() <= 10 * len(kept) + 100:
            rows, weight = np.repeat(rows, kept.astype(int)), None
    marks = _marks(codes, y)[rows]
    rows = rows[np.argsort(marks, kind="stable")]
    _, group = np.unique(np.sort(marks), return_inverse=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(group.max() + 1)[group]  # of the groups
    if folds:
        mixed = rng.permutation(len(rows))
        rows, order = rows[mixed], order[mixed]
        found = Split(rows, rows[:0], _mean_one(weight, rows), None)
        return found._replace(fold=_folds(order, y[rows], folds))
    held = _held(order, y[rows] if labels else None, fraction) if fraction else order < 0
    train = rows[~held][rng.permutation((~held).sum())]
    later = rows[held] if held.any() else train
    return Split(train, later, _mean_one(weight, train), _mean_one(weight, later))


def _held(order: Array, labels: Array | None, fraction: float) -> Array:
    """The first groups of each class, or of all, up to a share of its rows; one, if there are
    three. A group that is too large for that stays with the training rows."""
    held = np.zeros(len(order), bool)
    for label in [None] if labels is None else np.unique(labels):
        (mine,) = np.nonzero(order >= 0 if label is None else labels == label)
        groups, sizes = np.unique(order[mine], return_counts=True)
        room = min(round(fraction * len(mine)), len(mine) - 2)
        taken = groups[np.cumsum(sizes) <= room]
        held[mine] = np.isin(order[mine], taken)
    groups, sizes = np.unique(order, return_counts=True)
    if not held.any() and len(groups) > 2:
        held = order == groups[sizes.argmin()]
    return held


def _folds(order: Array, labels: Array, folds: int) -> Array:
    """A fold for each row, equal ones together, each class in equal shares."""
    fold = np.zeros(len(order), np.int64)
    for label in np.unique(labels):
        (mine,) = np.nonzero(labels == label)
        _, group, sizes = np.unique(order[mine], return_inverse=True, return_counts=True)
        middle = np.cumsum(sizes) - sizes / 2
        fold[mine] = (middle * folds / len(mine)).astype(np.int64)[group]
    return fold


def weighed(rows: Split, by: Array) -> Split:
    """A split whose weights are times those of its rows' classes, `by` (N,)."""
    both: list[Array | None] = []
    for weight, some in ((rows.weight, rows.train), (rows.held_weight, rows.held)):
        new = by[some] * (1.0 if weight is None else weight)
        both.append(new / new.mean() if len(new) else None)
    return rows._replace(weight=both[0], held_weight=both[1])


def _mean_one(weight: Array | None, rows: Array) -> Array | None:
    if weight is None:
        return None
    mine = weight[rows]
    return mine / mine.mean()


def _marks(codes: Array, y: Array) -> Array:
    """A number for each row, from its content alone; of a target its rank, which has no unit."""
    mark = np.zeros(len(codes), np.uint64)
    ranks = [np.unique(part, return_inverse=True)[1] for part in y.reshape(len(y), -1).T]
    columns = [*codes.T, *ranks]
    with np.errstate(over="ignore"):
        for column in columns:
            bits = np.ascontiguousarray(column, np.float64).view(np.uint64)
            mark = (mark ^ bits ^ (bits >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
            mark ^= mark >> np.uint64(32)
    return mark


def pair(eval_set: Any) -> Any:
    """One pair (X, y), also where it comes in a list, as boosting libraries have it."""
    if eval_set is None:
        return None
    if isinstance(eval_set, list) and len(eval_set) == 1:
        (eval_set,) = eval_set
    must(
        isinstance(eval_set, tuple | list) and len(eval_set) == 2,
        "eval_set",
        "be one pair (X, y)",
        type(eval_set).__name__,
    )
    return tuple(eval_set)
