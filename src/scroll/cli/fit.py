"""`scroll fit`: from a table on disk to a fitted model in one file.

Rows of a file are counted from 1, without the header.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from .._core.checks import comma_list, one_of, require
from ..estimators import ScrollClassifier, ScrollRegressor
from ..estimators.spec import COUNTS
from ..tables.censoring import bounds
from ..tables.columns import TableSchema
from ..tables.frames import Array
from ..tables.outliers import describe
from . import targets as t
from .models import Estimator, Facts, describe_model, warnings_as_notes
from .options import split_names
from .table_files import Note, check_output, matched, read, with_numbers

LIKELIHOODS = {
    "regression": ("gaussian", *COUNTS),
    "classification": ("ova", "gaussreg", "ordinal"),
}
COVARIANCES = ("auto", "full", "diag", "lowrank", "none")


@dataclass(frozen=True)
class Request:
    """The options of `scroll fit`; several columns or levels are text with commas."""

    train: Path
    target: str
    output: Path
    held_out: Path | None
    task: str
    likelihood: str
    ordered: bool
    levels: str
    class_weight: str
    weight: str
    drop: str
    seed: int
    members: int | None
    covariance: str
    routing: str
    recipe: str
    body: str
    max_steps: int | None
    map: str = "auto"
    tails: str = "auto"
    censored: str = ""

    @property
    def orders(self) -> list[str]:
        """Names of the options that say that classes are ordered."""
        given = {"--ordered": self.ordered, "--levels": bool(self.levels)}
        return [name for name in given if given[name]]

    @property
    def numeric(self) -> list[str]:
        """Names of the options that only numbers have."""
        given = {"--map": self.map != "auto", "--tails": self.tails != "auto"}
        given["--censored"] = bool(self.censored)
        return [name for name in given if given[name]]


def fit_table(request: Request, note: Note, show_bar: bool = False) -> Facts:
    """Fit a model to a table and write it to a file.

    Args:
        request: the options of the command.
        note: called with each remark on the data or the fit.
        show_bar: whether to show a progress bar.

    Returns:
        A summary of the table and the model.
    """
    _check(request)
    frame = read(request.train)
    targets, excluded = _roles(frame, request)
    frame = with_numbers(frame, targets, request.train, note, gaps=False)
    x = frame.drop(columns=excluded)
    got = f"{comma_list(frame, 30)} alone"
    require(x.shape[1], str(request.train), "have columns to learn from", got)
    task, because = _task(request, frame, targets)
    y = t.read_targets(frame, targets, request.train, task, request.likelihood)
    t.require_repeated_labels(y, targets[0])
    x = with_numbers(x, list(x), request.train, note)
    model = _estimator(request, task, frame, targets[0], show_bar)
    held_out = _held_out(request, task, x, targets, excluded, note)
    weights = t.read_numbers(frame, [request.weight], request.train) if request.weight else None
    if task == "regression":
        _note_outliers(y, targets, request.train, request.likelihood, note)
    more = {}
    if request.censored:
        more["censored"] = t.read_flags(frame, request.censored, request.train)
    with warnings_as_notes(note):
        model.fit(x, y, sample_weight=weights, eval_set=held_out, **more)
    if model.get_params().get("ordered") is True and y.dtype.kind == "U":
        note(f"the classes are ordered alphabetically: {' < '.join(model.levels_)}")
    model.target_names_ = targets
    model.set_params(verbose=0).save(request.output)  # the same file with and without a bar
    found = {"model": str(request.output), "task": task, "because": because, "rows": len(frame)}
    return found | {"columns": x.shape[1]} | describe_model(model)


def _check(request: Request) -> None:
    """Check the options that do not depend on the table."""
    one_of("--task", request.task, ("auto", *LIKELIHOODS))
    one_of("--covariance", request.covariance, COVARIANCES)
    require(0 <= request.seed < 2**32, "--seed", "lie between 0 and 2**32 - 1", request.seed)
    check_output(request.output, request.train, request.held_out)


def _roles(frame: pd.DataFrame, request: Request) -> tuple[list[str], list[str]]:
    """Return the target columns, and all columns that are not learned from."""
    targets = [request.target] if request.target in frame else split_names(request.target)
    weight, drop = split_names(request.weight), split_names(request.drop)
    censored = split_names(request.censored)
    asked = {"--target": targets, "--weight": weight, "--drop": drop, "--censored": censored}
    for option, names in asked.items():
        absent = [name for name in names if name not in frame]
        got = f"{comma_list(absent)}; it has {comma_list(frame, 30)}"
        require(not absent, option, f"name columns of {request.train}", got)
    require(targets, "--target", "name a column", repr(request.target))
    excluded = [*targets, *weight, *drop, *censored]
    once, others = len({*excluded}) == len(excluded), "--weight, --drop and --censored"
    require(once, "--target", f"name columns once, and none of {others}", excluded)
    return targets, excluded


def _task(request: Request, frame: pd.DataFrame, targets: Sequence[str]) -> tuple[str, str]:
    """Return "regression" or "classification", and what decided it."""
    kind = t.target_kind(frame, targets, request.train)
    decided = _task_of_options(request)
    if decided is None and kind == "text":
        t.require_one_kind(frame, targets, request.train)
    by_kind = "regression" if kind == "numbers" else "classification"
    task, because = decided or (by_kind, f"the target holds {kind}")
    if request.likelihood:
        remedy = f"The task is {task}; --task decides it."
        one_of("--likelihood", request.likelihood, LIKELIHOODS[task], remedy)
    for option in (*request.orders, *(["--class-weight"] if request.class_weight else [])):
        remedy = "Add --task classification."
        require(task == "classification", option, "go with classes", f"a target of {kind}", remedy)
    for option in request.numeric:
        require(task == "regression", option, "go with numbers", f"a target of {kind}")
    return task, because


def _task_of_options(request: Request) -> tuple[str, str] | None:
    """Return the task and the option that decides it; None if no option does."""
    if request.task != "auto":
        return request.task, "--task"
    for task, likelihoods in LIKELIHOODS.items():
        if request.likelihood in likelihoods:
            return task, "--likelihood"
    return ("classification", request.orders[0]) if request.orders else None


def _estimator(
    request: Request, task: str, frame: pd.DataFrame, target: str, show_bar: bool
) -> Estimator:
    """Return the estimator that the options describe, not fitted."""
    parameters: dict[str, Any] = {
        "covariance": request.covariance,
        "routing": request.routing,
        "recipe": request.recipe,
        "body": _body(request.body),
        "random_state": request.seed,
        "max_steps": request.max_steps,
        "verbose": int(show_bar),
    }
    if request.members is not None:
        parameters["n_members"] = request.members
    if request.likelihood:
        parameters["likelihood"] = request.likelihood
    if request.orders or request.likelihood == "ordinal":
        parameters["ordered"] = t.label_order(frame, target, split_names(request.levels))
    if request.class_weight:
        one_of("--class-weight", request.class_weight, ("balanced",))
        parameters["class_weight"] = request.class_weight
    if task == "classification":
        return ScrollClassifier(**parameters)
    return ScrollRegressor(target=request.map, tails=request.tails, **parameters)


def _body(text: str) -> str | tuple[int, ...]:
    """Return the name of a body, or its widths."""
    widths = split_names(text)
    return tuple(map(int, widths)) if widths and all(w.isdecimal() for w in widths) else text


def _held_out(
    request: Request,
    task: str,
    x: pd.DataFrame,
    targets: Sequence[str],
    excluded: Sequence[str],
    note: Note,
) -> tuple[pd.DataFrame, Array] | None:
    """Return the columns and targets of the table of --eval; None if there is none."""
    path = request.held_out
    if path is None:
        return None
    frame, rows = matched(path, TableSchema.of(x), excluded, note)
    t.target_kind(frame, targets, path)
    y = t.read_targets(frame, targets, path, task, request.likelihood)
    if task == "regression":
        _note_outliers(y, targets, path, request.likelihood, note)
    return rows, bounds(y, t.read_flags(frame, request.censored, path)) if request.censored else y


def _note_outliers(
    y: Array, targets: Sequence[str], path: Path, likelihood: str, note: Note
) -> None:
    """Name targets that are likely to be errors, by their row in the file."""
    least = 1.0 if likelihood in COUNTS else 0.0
    for name, column in zip(targets, y.reshape(len(y), -1).T, strict=True):
        where = f"of {path}, column {name!r}".replace("{", "{{").replace("}", "}}")
        found = describe(column, f"{{1:g}} in row {{0}} {where}", least, first=1)
        if found:
            note(found)
