"""Targets so far from all others that they are likely to be errors, such as -9999 for missing."""

import numpy as np

from .frames import Array

FAR = 1000.0  # times as far from the median as nine in ten of the values
MOST = 5  # most values that a message names


class OutlyingTarget(UserWarning):
    """A target lies so far from all others that it is likely to be an error."""


def far_rows(y: Array, least: float = 0.0) -> Array:
    """Return the rows of y (N,) that lie `FAR` times as far from the median as most others.

    The yardstick is the distance that nine in ten of the values stay within. If they are all
    equal, it is the median itself, or `least` if that is larger, or what the others differ by.
    """
    median = float(np.median(y))
    distance = np.abs(y - median)
    yardstick = float(np.quantile(distance, 0.9))
    if yardstick == 0 and distance.any():
        yardstick = max(least, abs(median)) or float(np.median(distance[distance > 0]))
    return np.flatnonzero(distance > FAR * yardstick)


def describe(y: Array, form: str, least: float = 0.0, first: int = 0) -> str:
    """Return a message about the outlying values of y (N,); empty if there are none.

    Args:
        y: the targets.
        form: how to name a value, a format string for its row and the value.
        least: as in `far_rows`.
        first: number of the first row.
    """
    rows = far_rows(y, least)
    if not len(rows):
        return ""
    some = ", ".join(form.format(row + first, y[row]) for row in rows[:MOST])
    more = f" and {len(rows) - MOST} more" if len(rows) > MOST else ""
    each = "this value" if len(rows) == 1 else "these values"
    return (
        f"Far from all other targets: {some}{more}. If {each} stand{'s' if len(rows) == 1 else ''} "
        "for a missing one or for an error, drop such rows: one of them can ruin the model. If "
        "large values are to be expected, fit the logarithm of the target."
    )


def describe_all(y: Array, name: str = "y", least: float = 0.0) -> list[str]:
    """Return one message per target that has outlying values.

    Args:
        y: the targets, (N,) or (N, K).
        name: what they are called in the message.
        least: as in `far_rows`.
    """
    columns = y[:, None] if y.ndim == 1 else y
    places = ["{}"] if y.ndim == 1 else [f"{{}}, {k}" for k in range(y.shape[1])]
    found = [
        describe(column, f"{name}[{place}] = {{:g}}", least)
        for column, place in zip(columns.T, places, strict=True)
    ]
    return [text for text in found if text]
