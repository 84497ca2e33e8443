"""Which rows are held out: a split by seed, weights as counts, equal rows held out together.

Two kinds of tables have rows with equal inputs:

- Repeated records: measurements that were entered twice, oversampled or weighted. A held-out row
  whose copy is trained on says nothing about new rows, so copies must be held out together.
- Cells: a table of a few categories or integers, in which many rows share their inputs and differ
  in their target by chance. New rows come from the same cells. Held out together, a cell would be
  judged by networks that never saw it, so its rows are held out one by one.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..tables.frames import Array


class Split(NamedTuple):
    """Row numbers to train on and row numbers held out, with their weights.

    Attributes:
        train: training rows, each repeated by its count.
        held: held-out rows; the very array `train` if there are too few rows to hold any out.
        weight: of the training rows, of mean one; None if all weigh the same.
        held_weight: of the held-out rows, of mean one; None if all weigh the same.
        fold: of each training row, if every row is held out once.
        ratio: mean weight of the held-out rows divided by that of the training rows.
    """

    train: Array
    held: Array
    weight: Array | None
    held_weight: Array | None
    fold: Array | None = None
    ratio: float = 1.0


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
        weight: of each row, or None. Integers are counts: the row is repeated so many times.
            Others multiply the row's score.
        fraction: of the rows to hold out; 0 holds none out.
        seed: of the split.
        labels: whether y holds labels; each class is then held out by its share.
        folds: if positive, hold out no part, but assign each row to one of so many folds.
        numeric: which columns hold numbers rather than categories, (D,); all by default.
    """
    if weight is not None and not (weight > 0).all():  # rows of weight 0 count as absent
        there = np.flatnonzero(weight > 0)
        some = codes[there], y[there], weight[there]
        return _renumbered(split(*some, fraction, seed, labels, folds, numeric), there)
    rows, weight = _repeated(weight, len(codes))
    largest = len(rows) * (0.5 / folds if folds else fraction / 2)
    rows, group = _grouped(codes, y, rows, largest, numeric)
    rng = np.random.default_rng(seed)
    order = rng.permutation(group.max() + 1)[group]  # of the groups
    if folds:
        return _in_folds(rows, order, y if labels else None, weight, folds, rng)
    held = _held(order, y[rows] if labels else None, fraction) if fraction else order < 0
    return _in_two(rows, held, weight, rng)


def sixty_twenty_twenty(rows: Sequence[int], seed: int) -> tuple[list[int], list[int], list[int]]:
    """Split row numbers at random into 60 % to train, 20 % to validate and 20 % to test.

    It is the split of the paper's tables, made by scikit-learn.

    Args:
        rows: the row numbers.
        seed: of the split.
    """
    from sklearn.model_selection import train_test_split

    rest, test = train_test_split(rows, test_size=0.2, random_state=seed)
    train, validation = train_test_split(rest, test_size=0.25, random_state=seed)
    return train, validation, test


def _renumbered(found: Split, rows: Array) -> Split:
    """Return a split of some rows with the numbers that they have in the table."""
    train = rows[found.train]
    same = found.held is found.train
    return found._replace(train=train, held=train if same else rows[found.held])


def _repeated(weight: Array | None, n_rows: int) -> tuple[Array, Array | None]:
    """Return row numbers, repeated if the weights are counts, and the weights that remain."""
    rows = np.arange(n_rows)
    if weight is None:
        return rows, None
    counts = np.array_equal(weight, np.round(weight)) and weight.sum() <= 10 * n_rows + 100
    return (np.repeat(rows, weight.astype(int)), None) if counts else (rows, weight)


def _grouped(
    codes: Array, y: Array, rows: Array, largest: float, numeric: Array | None
) -> tuple[Array, Array]:
    """Return the rows sorted by their values, and the group of each."""
    inputs = ranks(codes.T, len(codes))
    records = ranks([inputs, *y.reshape(len(y), -1).T], len(y))
    rows = rows[np.argsort(records[rows], kind="stable")]
    which = range(codes.shape[1]) if numeric is None else np.flatnonzero(numeric)
    columns = [codes[:, j] for j in which]
    return rows, held_out_together(inputs[rows], records[rows], columns, largest)


def _in_folds(
    rows: Array,
    order: Array,
    labels: Array | None,
    weight: Array | None,
    folds: int,
    rng: np.random.Generator,
) -> Split:
    """Return all rows as training rows, shuffled, each with its fold."""
    shuffled = rng.permutation(len(rows))
    rows, order = rows[shuffled], order[shuffled]
    fold = _folds(order, None if labels is None else labels[rows], folds)
    return Split(rows, rows[:0], mean_one(weight, rows), None, fold)


def _in_two(rows: Array, held: Array, weight: Array | None, rng: np.random.Generator) -> Split:
    """Return the rows that are not held out, shuffled, and those that are."""
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
        (members,) = np.nonzero(stratum == label)
        groups, sizes = np.unique(order[members], return_counts=True)
        room = min(round(fraction * len(members)), len(members) - 2)
        taken = groups[np.cumsum(sizes) <= room]
        held[members] = np.isin(order[members], taken)
    groups, sizes = np.unique(order, return_counts=True)
    if not held.any() and len(groups) > 2:
        held = order == groups[sizes.argmin()]
    return held


def _folds(order: Array, labels: Array | None, folds: int) -> Array:
    """Return the fold of each row: groups together, each class in equal shares."""
    found = np.zeros(len(order), np.int64)
    stratum = np.zeros(len(order)) if labels is None else _majority(order, labels)
    for label in np.unique(stratum):
        (members,) = np.nonzero(stratum == label)
        _, group, sizes = np.unique(order[members], return_inverse=True, return_counts=True)
        middle = np.cumsum(sizes) - sizes / 2
        found[members] = (middle * folds / len(members)).astype(np.int64)[group]
    if np.bincount(found, minlength=folds).all():
        return found
    # classes of a few rows left the same folds out: deal the groups one by one, class by class
    by_class = order[np.lexsort((order, stratum))]
    dealt = by_class[np.sort(np.unique(by_class, return_index=True)[1])]
    turn = np.empty(order.max() + 1, np.int64)
    turn[dealt] = np.arange(len(dealt)) % folds
    return turn[order]


def _majority(group: Array, labels: Array) -> Array:
    """Return the most frequent label of each row's group, (N,)."""
    found, label = np.unique(labels, return_inverse=True)
    pairs, counts = np.unique(group * len(found) + label, return_counts=True)
    pairs = pairs[np.argsort(counts, kind="stable")]
    most = np.zeros(group.max() + 1, np.int64)
    most[pairs // len(found)] = pairs % len(found)  # the last one stands, the most frequent
    return most[group]


def weighed(rows: Split, by: Array) -> Split:
    """Return a split whose weights are multiplied by further weights of the rows, `by` (N,)."""
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
    some = weight[rows]
    return some / some.mean()


def ranks(columns: Iterable[Array], n_rows: int) -> Array:
    """Return the lexicographic rank of each row, (N,); equal rows share a rank.

    Ranks depend on the order of values only, not on their unit, offset or precision. NaN is the
    greatest value. Later columns are read only while they can still tell rows apart.
    """
    rank = np.zeros(n_rows, np.int64)
    for column in columns:
        values = np.unique(column, return_inverse=True)[1].reshape(-1)
        rank = np.unique(rank * (values.max() + 1) + values, return_inverse=True)[1].reshape(-1)
        if rank.max() + 1 == n_rows:
            break
    return rank


def held_out_together(
    inputs: Array, records: Array, columns: Sequence[Array], largest: float
) -> Array:
    """Return the group of each row, (N,) from 0; rows of one group are held out together.

    Args:
        inputs: rank of each row's inputs.
        records: rank of each row's inputs and target.
        columns: the numeric columns.
        largest: rows per group, at most; a larger group is held out row by row.
    """
    sizes = np.bincount(inputs)[inputs]
    alone = sizes > largest
    if _are_cells(inputs, records, columns, sizes > 1):
        alone[:] = True
    label = np.where(alone, inputs.max() + 1 + np.arange(len(inputs)), inputs)
    group: Array = np.unique(label, return_inverse=True)[1].reshape(-1)
    return group


def _are_cells(inputs: Array, records: Array, columns: Sequence[Array], copied: Array) -> bool:
    """Return whether equal inputs are the rule, and are cells rather than repeated records.

    Copies are repeated records if most of them agree in their target, too, and one numeric column
    alone tells at least half of the distinct rows apart, as a measurement does.
    """
    if 2 * copied.sum() <= len(inputs):
        return False
    distinct = np.unique(records, return_index=True)[1]
    targets = np.bincount(inputs[distinct])[inputs[copied]]  # distinct ones among a row's copies
    if 2 * (targets > 1).sum() >= len(targets):
        return True
    return not any(2 * len(np.unique(column)) > inputs.max() for column in columns)
