"""Check the arguments of the estimators: parameters, tables, targets, weights, seeds."""

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Protocol, cast

import numpy as np
import sklearn
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state, validation

from .._core.checks import invalid, not_negative, one_of, positive, positive_int, require
from .._core.versions import SKLEARN, require_version
from ..fitting.candidates import Body, check_body
from ..tables.frames import Array, TableLike

require_version("scikit-learn", sklearn.__version__, SKLEARN, "the estimators")

RECIPES = ("default", "fast", "best", "paper")
HUGE = 1e100  # weights beyond which a sum of their squares overflows
ALONE = 1e-9  # share of the largest weight that all others must reach together

RandomState = int | np.random.RandomState | None
EvalSet = tuple[TableLike, ArrayLike] | list[tuple[TableLike, ArrayLike]]


class Parameters(Protocol):
    """The parameters that both estimators share; `ScrollRegressor` documents them."""

    covariance: str
    routing: str
    n_members: int | None
    beta: float
    recipe: str
    body: Body
    max_steps: int | None
    batch_size: int | None
    learning_rate: float | None
    validation_fraction: float
    device: str
    random_state: RandomState
    verbose: int


def check_parameters(given: Parameters, likelihood: str) -> None:
    """Raise an error if a parameter is out of range, or does not go with the likelihood."""
    one_of("routing", given.routing, ("auto", "free", "closed", "hybrid"))
    one_of("recipe", given.recipe, RECIPES)
    check_body(given.body)
    require(
        given.recipe in ("default", "best")
        or (isinstance(given.body, str) and given.body == "auto"),
        "body",
        f"be 'auto' with recipe {given.recipe!r}, which has bodies of its own",
        repr(given.body),
        "Use recipe='default'.",
    )
    for name in ("n_members", "max_steps", "batch_size"):
        if getattr(given, name) is not None:
            positive_int(name, getattr(given, name))
    if given.learning_rate is not None:
        positive("learning_rate", given.learning_rate)
    not_negative("beta", given.beta)
    require(given.beta <= 1, "beta", "be at most 1", given.beta)
    weighted = given.beta == 0 or likelihood in ("gaussian", "gaussreg")
    require(weighted, "beta", f"be 0 for likelihood {likelihood!r}", given.beta)
    share = given.validation_fraction
    inside = isinstance(share, Real) and 0 < float(share) < 1
    require(inside, "validation_fraction", "lie strictly between 0 and 1", repr(share))
    require(
        likelihood in ("gaussian", "gaussreg") or given.routing in ("auto", "free"),
        "routing",
        f"be 'auto' or 'free' for likelihood {likelihood!r}",
        repr(given.routing),
        "Only a Gaussian factor has a posterior in closed form.",
    )


def check_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is a GPU if there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    require(
        not str(name).startswith("cuda") or torch.cuda.is_available(),
        "device",
        "be available",
        repr(name),
        "Use device='cpu'.",
    )
    with one_line("device", "be 'cpu', 'cuda' or 'auto'"):
        return torch.device(name)


def check_columns(estimator: BaseEstimator, X: TableLike, reset: bool) -> None:
    """Compare the number and names of the columns with those of training; `reset` records them."""
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
        raise invalid(name, what, f"others ({words})", error=kind) from error


def check_table(estimator: BaseEstimator, X: TableLike, text: bool) -> Array:
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


def check_target(y: ArrayLike, estimator: str) -> Array:
    """Return y (N,) or (N, K) as an array of finite values, in the dtype it came in."""
    with one_line("y", "hold finite numbers"):
        found: Array = check_array(
            y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator
        )
    return found


def check_held_out(held: Array, y: Array) -> None:
    """Raise an error unless the targets of an `eval_set` have as many columns as `y`."""
    want = f"hold targets of shape {('N', *y.shape[1:])}, as y".replace("'", "")
    require(held.shape[1:] == y.shape[1:], "eval_set", want, f"shape {held.shape}")


def check_seed(random_state: RandomState) -> int:
    """Return a seed: the given one, or one that the given generator draws."""
    with one_line("random_state", "be None, an integer from 0 to 2**32 - 1 or a RandomState"):
        return int(check_random_state(random_state).randint(2**31 - 1))


def check_weights(sample_weight: ArrayLike, n_rows: int) -> Array:
    """Return one finite weight of at least 0 per row; a single number stands for all rows."""
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_rows, sample_weight)
    with one_line("sample_weight", "hold finite numbers"):
        weight: Array = check_array(
            sample_weight,
            ensure_2d=False,
            dtype=np.float64,
            order="C",
            input_name="sample_weight",
        )
    shape = (n_rows,)
    require(weight.shape == shape, "sample_weight", f"have shape {shape}", weight.shape)
    low = int(weight.argmin())
    valid = bool(weight[low] >= 0)
    require(valid, "sample_weight", "be zero or positive", f"{weight[low]:g} in row {low}")
    require(bool(weight.any()), "sample_weight", "be positive for two rows", "zero for all rows")
    top = int(weight.argmax())
    if weight[top] > HUGE:  # no counts of rows; their sum may overflow
        weight = weight / weight[top]
    others = float(np.delete(weight, top).sum())
    require(
        others == 0 or others > ALONE * weight[top],
        "sample_weight",
        "give weight to more than one row",
        f"{float(np.asarray(sample_weight)[top]):g} in row {top}, beside which all others vanish",
        "Lower it, or drop the others.",
    )
    return weight


def check_eval_set(eval_set: EvalSet | None) -> tuple[TableLike, ArrayLike] | None:
    """Return one pair (X, y), also if it comes in a list, as boosting libraries have it."""
    if eval_set is None:
        return None
    pair = eval_set[0] if isinstance(eval_set, list) and len(eval_set) == 1 else eval_set
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise invalid("eval_set", "be one pair (X, y)", type(pair).__name__)
    return cast(tuple[TableLike, ArrayLike], tuple(pair))
