"""Paired t-tests over seeds, by the rules of the paper; lower is better."""

import math
from collections.abc import Hashable, Mapping
from typing import Literal, TypeVar

import numpy as np

Row = TypeVar("Row", bound=Hashable)
Values = Mapping[int, float]  # by seed


def marks(rows: Mapping[Row, Values], level: float = 0.05) -> dict[Row, str]:
    """Return the mark of each row of one column: "best" (the least mean), "tied" with it, or "".

    A row is tied if a one-sided test, H1: mean > best mean, does not reject at `level`. Rows with
    values that are not finite get no mark; a tie needs at least two seeds to compare.
    """
    sound = [row for row, values in rows.items() if values and _finite(values)]
    if not sound:
        return dict.fromkeys(rows, "")
    best = min(sound, key=lambda row: float(np.mean(list(rows[row].values()))))
    tied = [row for row in sound if p_value(rows[row], rows[best], "greater") >= level]
    return {row: "best" if row == best else "tied" if row in tied else "" for row in rows}


def changed(a: Values, b: Values, level: float = 0.05) -> bool:
    """Return True if a two-sided test at `level` separates `a` from `b`; False without a test."""
    return p_value(a, b, "two-sided") < level


def p_value(a: Values, b: Values, alternative: Literal["greater", "two-sided"]) -> float:
    """Return the p-value of a paired t-test, H1: E a > E b or E a != E b; NaN without a test.

    Pairs are the common seeds. There is no test with fewer than two or non-finite values.
    """
    seeds = sorted(a.keys() & b.keys())
    x, y = (np.array([values[seed] for seed in seeds], float) for values in (a, b))
    if len(seeds) < 2 or not np.isfinite([x, y]).all():
        return math.nan
    difference = x - y
    rounding = 64 * np.finfo(float).eps * np.abs([x, y]).max()
    if np.ptp(difference) <= rounding:  # t is 0/0 or infinite, and rounding must not decide
        shift = float(difference.mean())
        differs = shift > rounding if alternative == "greater" else abs(shift) > rounding
        return 0.0 if differs else 1.0

    from scipy.stats import ttest_rel

    return float(ttest_rel(x, y, alternative=alternative).pvalue)


def _finite(values: Values) -> bool:
    return all(map(math.isfinite, values.values()))
