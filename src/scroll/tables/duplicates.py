"""Which rows of a table have equal inputs, and which of them must be held out together.

Two kinds of tables have rows with equal inputs:

- Repeated records: measurements that were entered twice, oversampled or weighted. A held-out row
  whose copy is trained on says nothing about new rows, so copies must be held out together.
- Cells: a table of a few categories or integers, in which many rows share their inputs and differ
  in their target by chance. New rows come from the same cells. Held out together, a cell would be
  judged by networks that never saw it, so its rows are held out one by one.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
