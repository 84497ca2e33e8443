"""Validate the arguments of `fit` and `predict` with scikit-learn's public functions."""

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils import check_array, check_random_state, validation

from .._core.checks import must, refusal
from .._core.versions import SKLEARN, require

require("scikit-learn", sklearn.__version__, SKLEARN, "the estimators")

Array = NDArray[Any]

HUGE = 1e100  # weights beyond which a sum of their squares overflows
ALONE = 1e-9  # share of the largest weight that the others need together


def check_columns(estimator: Any, X: Any, reset: bool) -> None:
    """Record the number and names of the columns of X, or compare them with the recorded ones."""
    validation.validate_data(estimator, X, reset=reset, skip_check_array=True)


@contextmanager
def one_line(name: str, what: str) -> Iterator[None]:
    """Raise the errors of other libraries within the block as one line in the house form."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        words = " ".join(str(error).split()).rstrip(".")
        if len(words) > 300:  # the values that it quotes stand in the middle
            words = f"{words[:130]} ... {words[-160:]}"
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise refusal(name, what, f"others ({words})", error=kind) from error


def check_table(estimator: Any, X: Any, text: bool) -> Array:
    """Return X as an array (N, D) of numbers, or of objects if it holds text; gaps are NaN."""
    with one_line("X", "be a table of numbers and text, rows by columns"):
        found: Array = check_array(
            X,
            dtype=None if text else "numeric",
            ensure_all_finite=False,
            estimator=estimator,
            input_name="X",
        )
    return found


def check_target(estimator: Any, y: Any) -> Array:
    """Return y (N,) or (N, K) as an array of finite values, in the dtype it came in."""
    with one_line("y", "hold finite numbers"):
        found: Array = check_array(
            y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator
        )
    return found


def check_held_out(held: Any, y: Array) -> None:
    """The targets of an `eval_set` have as many columns as those of training."""
    want = f"hold targets of shape {('N', *y.shape[1:])}, as y".replace("'", "")
    must(held.shape[1:] == y.shape[1:], "eval_set", want, f"shape {held.shape}")


def check_seed(random_state: Any) -> int:
    """Return a seed: the given one, or one that the given generator draws."""
    with one_line("random_state", "be None, an integer from 0 to 2**32 - 1 or a RandomState"):
        return int(check_random_state(random_state).randint(2**31 - 1))


def check_weights(sample_weight: Any, rows: Any) -> Array:
    """Return one finite weight of at least 0 per row; a single number stands for all rows."""
    if isinstance(sample_weight, Real):
        sample_weight = np.full(len(rows), sample_weight)
    with one_line("sample_weight", "hold finite numbers"):
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
