"""Censored targets of a table as intervals."""

import numpy as np
import pandas as pd
import pytest
import torch

from scroll.tables.censoring import bounds

INF = np.inf
PAIRS = [[1.0, 1.0], [-INF, 2.0], [3.0, INF], [4.0, 4.0]]


@pytest.mark.parametrize(
    "given",
    [
        ([1, 2, 3, 4], [0, -1, 1, 0]),
        (np.arange(1, 5), np.array([0.0, -1.0, 1.0, 0.0])),
        (pd.Series([1.0, 2.0, 3.0, 4.0], index=range(7, 11)), pd.Series([0, -1, 1, 0])),
        (torch.arange(1.0, 5.0)[:, None], torch.tensor([0, -1, 1, 0])),
        (PAIRS, None),
        (pd.DataFrame(PAIRS), None),
        (([1, -INF, 3, 4], [1, 2, INF, 4]), None),
        ((pd.Series([1, -INF, 3, 4]), np.array([1, 2, INF, 4])), None),
    ],
)
def test_every_form_gives_the_same_intervals(given):
    found = bounds(*given)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, PAIRS)


def test_all_are_exact_by_default_and_booleans_mean_right_censored():
    np.testing.assert_array_equal(bounds([1, 2]), [[1, 1], [2, 2]])
    found = bounds([1, 2, 3], [False, True, False])
    np.testing.assert_array_equal(found, [[1, 1], [2, INF], [3, 3]])
    np.testing.assert_array_equal(bounds([[1, 2], [3, 3]]), [[1, 2], [3, 3]])


BAD = {
    "kind": (
        ([1, 2, 3], [0, 2, 0]),
        r"`censored` must be -1 \(left-censored\), 0 \(exact\) or 1 \(right-censored\), "
        r"but got 2 in row 1\.$",
    ),
    "missing kind": (([1, 2, 3], [0, 0, np.nan]), r"`censored` must .* got nan in row 2\.$"),
    "kinds of other rows": (
        ([1, 2, 3], [0, 0]),
        r"`censored` must hold one value for each of 3 rows, but got \(2,\)\.$",
    ),
    "text": ((["a", "b"], None), r"`y` must hold numbers, but got a list of other things\.$"),
    "infinite": (([1, INF, 2], [0, 1, 0]), r"`y` must be finite, but got inf in row 1\. Drop"),
    "NaN": (
        ([[1, 1], [2, 2], [np.nan, 3]], None),
        r"`y` must not be NaN, but got \(nan, 3\) in row 2\. An open end is -inf or inf\.$",
    ),
    "order": (
        ([[1, 1], [2, 1], [3, 3]], None),
        r"`y` must have low <= high, but got \(2, 1\) in row 1\.$",
    ),
    "free": (
        ([[1, 1], [-INF, INF], [3, 3]], None),
        r"`y` must have a finite end in every row, but got \(-inf, inf\) in row 1\. Drop",
    ),
    "twice": ((PAIRS, [0] * 4), r"`censored` must be None for intervals, but got an array\. An"),
    "three columns": (
        (np.ones((4, 3)), None),
        r"`y` must hold one number or one pair \(low, high\) per row, but got shape \(4, 3\)\.$",
    ),
    "ends": ((([1, 2], [1, 2, 3]), None), r"`y` must have as many low as high ends, but got 2 and"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_targets_are_named(what):
    given, message = BAD[what]
    with pytest.raises((ValueError, TypeError), match=rf"^{message}"):
        bounds(*given)
