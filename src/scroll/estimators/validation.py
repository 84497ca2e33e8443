"""Validate the arguments of `fit` and `predict` with scikit-learn's public functions."""

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..checks import must

Array = NDArray[Any]

HUGE = 1e100  # weights beyond which a sum of their squares overflows
ALONE = 1e-9  # share of the largest weight that the others need together


def check_columns(estimator: Any, X: Any, reset: bool) -> None:
    """Record the number and names of the columns of X, or compare them with the recorded ones."""
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def check_target(estimator: Any, y: Any) -> Array:
    """Return y (N,) or (N, K) as an array of finite values, in the dtype it came in."""
    found: Array = check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator)
    return found


def check_weights(sample_weight: Any, rows: Any) -> Array:
    """Return one finite weight of at least 0 per row; a single number stands for all rows."""
    if isinstance(sample_weight, Real):
        sample_weight = np.full(len(rows), sample_weight)
    weight: Array = check_array(
        sample_weight,
        ensure_2d=False,
        dtype=np.float64,
        order="C",
        input_name="sample_weight",
    )
    shape = (len(rows),)
    must(weight.shape == shape, "sample_weight", f"have shape {shape}", weight.shape)
    low = int(weight.argmin())
    positive = bool(weight[low] >= 0)
    must(positive, "sample_weight", "be zero or positive", f"{weight[low]:g} in row {low}")
    must(bool(weight.any()), "sample_weight", "be positive for two rows", "zero for all rows")
    top = int(weight.argmax())
    if weight[top] > HUGE:  # no counts of rows; their sum may overflow
        weight = weight / weight[top]
    others = float(np.delete(weight, top).sum())
    must(
        others == 0 or others > ALONE * weight[top],
        "sample_weight",
        "leave more than one row a say",
        f"{float(np.asarray(sample_weight)[top]):g} in row {top}, beside which all others vanish",
        "Lower it, or drop the others.",
    )
    return weight
