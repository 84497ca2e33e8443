"""Rows before training: weights as counts, and which rows are held out."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tables.duplicates import held_out_together, ranks

Array = NDArray[Any]


class Split(NamedTuple):
    """Which rows to train on, how often or how much each counts, and which are held out."""

    train: Array
    held: Array
    weight: Array | None  # of the training rows, of mean one
    held_weight: Array | None
    fold: Array | None = None  # of each training row, where every one is held out once
    ratio: float = 1.0  # mean weight of the held-out rows by that of the training rows


def split(
    codes: Array,
    y: Array,
    weight: Array | None,
    fraction: float,
    seed: int,
    labels: bool,
    folds: int = 0,
    numeric: Array | None = None,
) -> Split:
    """Split the rows as a set: their order, units and precision do not change the split.

    Args:
        codes: the inputs, (N, D).
        y: the targets, (N,) or (N, K).
        weight: of each row. Whole weights are counts, as if the row were repeated so often; others
            multiply its score.
        fraction: of the rows to hold out; 0 holds none out.
        seed: of the split.
        labels: whether y holds labels; each class is then held out by its share.
        folds: if positive, hold out no part, but give each row one of so many folds.
        numeric: which columns hold numbers rather than categories, (D,); all by default.

    Which rows with equal inputs stay together, `duplicates` decides.
    """
    rows = np.arange(len(codes))
    if weight is not None and not (weight > 0).all():  # as if they were not there
        there = weight > 0
        found = split(codes[there], y[there], weight[there], fraction, seed, labels, folds, numeric)
        train = rows[there][found.train]
        same = found.held is found.train  # too few to hold any out: callers ask for it so
        return found._replace(train=train, held=train if same else rows[there][found.held])
    if weight is not None:
        kept = weight
        if np.array_equal(kept, np.round(kept)) and kept.sum() <= 10 * len(kept) + 100:
            rows, weight = np.repeat(rows, kept.astype(int)), None
    inputs = ranks(codes.T, len(codes))
    records = ranks([inputs, *y.reshape(len(y), -1).T], len(y))
    rows = rows[np.argsort(records[rows], kind="stable")]
    largest = len(rows) * (0.5 / folds if folds else fraction / 2)
    which = range(codes.shape[1]) if numeric is None else np.flatnonzero(numeric)
    columns = [codes[:, j] for j in which]
    group = held_out_together(inputs[rows], records[rows], columns, largest)
    rng = np.random.default_rng(seed)
    order = rng.permutation(group.max() + 1)[group]  # of the groups
    if folds:
        mixed = rng.permutation(len(rows))
        rows, order = rows[mixed], order[mixed]
        found = Split(rows, rows[:0], mean_one(weight, rows), None)
        return found._replace(fold=_folds(order, y[rows], folds))
    held = _held(order, y[rows] if labels else None, fraction) if fraction else order < 0
    train = rows[~held][rng.permutation((~held).sum())]
    later = rows[held] if held.any() else train
    ratio = 1.0 if weight is None else float(weight[later].mean() / weight[train].mean())
    return Split(train, later, mean_one(weight, train), mean_one(weight, later), ratio=ratio)


def _held(order: Array, labels: Array | None, fraction: float) -> Array:
    """Return which rows are held out: the first groups of each class, or of all, up to a share.

    A group that is too large for that stays with the training rows. One group is held out in any
    case, if there are three.
    """
    held = np.zeros(len(order), bool)
    stratum = np.zeros(len(order)) if labels is None else _majority(order, labels)
    for label in np.unique(stratum):
        (mine,) = np.nonzero(stratum == label)
        groups, sizes = np.unique(order[mine], return_counts=True)
        room = min(round(fraction * len(mine)), len(mine) - 2)
        taken = groups[np.cumsum(sizes) <= room]
        held[mine] = np.isin(order[mine], taken)
    groups, sizes = np.unique(order, return_counts=True)
    if not held.any() and len(groups) > 2:
        held = order == groups[sizes.argmin()]
    return held


def _folds(order: Array, labels: Array, folds: int) -> Array:
    """Return the fold of each row: groups together, each class in equal shares."""
    fold, stratum = np.zeros(len(order), np.int64), _majority(order, labels)
    for label in np.unique(stratum):
        (mine,) = np.nonzero(stratum == label)
        _, group, sizes = np.unique(order[mine], return_inverse=True, return_counts=True)
        middle = np.cumsum(sizes) - sizes / 2
        fold[mine] = (middle * folds / len(mine)).astype(np.int64)[group]
    return fold


def _majority(group: Array, labels: Array) -> Array:
    """Return the most frequent label of each row's group, (N,)."""
    found, label = np.unique(labels, return_inverse=True)
    pairs, counts = np.unique(group * len(found) + label, return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")]
    most = np.zeros(group.max() + 1, np.int64)
    most[pairs // len(found)] = pairs % len(found)  # the last one stands, the most frequent
    return most[group]


def weighed(rows: Split, by: Array) -> Split:
    """Return a split whose weights are multiplied by those of its rows' classes, `by` (N,)."""
    both: list[Array | None] = []
    means = []
    for weight, some in ((rows.weight, rows.train), (rows.held_weight, rows.held)):
        new = by[some] * (1.0 if weight is None else weight)
        means.append(float(new.mean()) if len(new) else 1.0)
        both.append(new / means[-1] if len(new) else None)
    ratio = rows.ratio * means[1] / means[0]
    return rows._replace(weight=both[0], held_weight=both[1], ratio=ratio)


def mean_one(weight: Array | None, rows: Array) -> Array | None:
    """Return the weights of some rows, divided by their mean."""
    if weight is None:
        return None
    mine = weight[rows]
    return mine / mine.mean()


def sixty_twenty_twenty(rows: Sequence[int], seed: int) -> tuple[list[int], list[int], list[int]]:
    """Split row numbers at random into 60 % to train, 20 % to validate and 20 % to test.

    It is the split of the paper's tables, made by scikit-learn.
    """
    from sklearn.model_selection import train_test_split

    rest, test = train_test_split(rows, test_size=0.2, random_state=seed)
    train, validation = train_test_split(rest, test_size=0.25, random_state=seed)
    return train, validation, test
