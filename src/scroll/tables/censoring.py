"""Censored targets of a table as intervals."""

import numpy as np

from .._core.checks import invalid, require
from .frames import Array

KINDS = "-1 (left-censored), 0 (exact) or 1 (right-censored)"


def bounds(y: object, censored: object = None) -> Array:
    """Return the least and the largest value that each target may have, float64, (N, 2).

    Args:
        y: one number per row; or intervals: an array (N, 2), or a tuple of two columns, of low and
            high, equal for exact targets and infinite at an open end.
        censored: -1 where the target is at most y, 0 where it is y, 1 where it is at least y (False
            and True are 0 and 1). None for exact targets and for intervals.
    """
    target = _pairs(y)
    if target.ndim == 2:
        remedy = "An infinite end marks a censored target."
        require(censored is None, "censored", "be None for intervals", "an array", remedy)
        pairs = target
    else:
        kind = np.zeros(len(target)) if censored is None else _kinds(censored, len(target))
        _refuse("y", "be finite", ~np.isfinite(target), target, "Drop such rows.")
        pairs = np.stack(
            [np.where(kind < 0, -np.inf, target), np.where(kind > 0, np.inf, target)], -1
        )
    return _checked(pairs)


def _pairs(y: object) -> Array:
    """Return numbers (N,), or pairs (N, 2)."""
    if isinstance(y, tuple) and len(y) == 2 and all(np.ndim(end) == 1 for end in y):
        low, high = (_numbers("y", end) for end in y)
        got = f"{len(low)} and {len(high)}"
        require(len(low) == len(high), "y", "have as many low as high ends", got)
        return np.stack([low, high], -1)
    target = _numbers("y", y)
    if target.ndim == 2 and target.shape[1] == 1:
        return target[:, 0]
    fits = target.ndim == 1 or (target.ndim == 2 and target.shape[1] == 2)
    require(fits, "y", "hold one number or one pair (low, high) per row", f"shape {target.shape}")
    return target


def _kinds(censored: object, n: int) -> Array:
    """Return -1, 0 or 1 per row."""
    kind = _numbers("censored", censored)
    require(kind.shape == (n,), "censored", f"hold one value for each of {n} rows", kind.shape)
    _refuse("censored", f"be {KINDS}", ~np.isin(kind, (-1, 0, 1)), kind)
    return kind


def _checked(pairs: Array) -> Array:
    """Return pairs that are intervals with a finite end."""
    low, high = pairs.T
    open_end = "An open end is -inf or inf."
    _refuse("y", "not be NaN", np.isnan(low) | np.isnan(high), pairs, open_end)
    _refuse("y", "have low <= high", low > high, pairs)
    free = ~(np.isfinite(low) | np.isfinite(high))
    _refuse("y", "have a finite end in every row", free, pairs, "Drop rows without one.")
    return pairs


def require_known(pairs: Array) -> Array:
    """Return the pairs to fit to; at least two of them have two finite ends."""
    known = int(np.isfinite(pairs).all(1).sum())
    want = "have at least two rows that are exact or have two finite ends"
    require(known >= 2, "y", want, f"{known} of {len(pairs)}", "Targets give the unit of scale.")
    return pairs


def _refuse(name: str, what: str, bad: Array, values: Array, remedy: str = "") -> None:
    """Raise an error that names the first bad row."""
    if bad.any():
        row = int(bad.argmax())
        value = ", ".join(f"{x:g}" for x in np.atleast_1d(values[row]))
        value = f"({value})" if values.ndim == 2 else value
        raise invalid(name, what, f"{value} in row {row}", remedy)


def _numbers(name: str, x: object) -> Array:
    """Return float64 numbers."""
    try:
        return np.asarray(x, np.float64)
    except (TypeError, ValueError) as error:
        got = f"a {type(x).__name__} of {getattr(x, 'dtype', 'other things')}"
        raise invalid(name, "hold numbers", got, error=TypeError) from error
