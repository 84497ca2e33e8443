"""Model files as the commands see them: loaded, described, with warnings as notes."""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .._core.checks import require
from ..estimators import ScrollClassifier, ScrollRegressor, modelfile
from ..estimators.loading import build, load
from ..predictive import Numeric
from ..predictive.mixture import output
from ..tables.outliers import OutlyingTarget
from .table_files import Note

Estimator: TypeAlias = ScrollClassifier | ScrollRegressor
Facts: TypeAlias = dict[str, Any]  # names and values that JSON can hold


def load_model(path: Path) -> Estimator:
    """Return the fitted estimator of a model file."""
    return load(_existing(path))


def describe_file(path: Path) -> Facts:
    """Return what a model file holds: `describe_model`, scores tried, versions and columns."""
    saved = modelfile.read(_existing(path))
    model = build(saved)
    columns = [asdict(column) for column in model.schema_.columns]
    tried = {name: _finite(score) for name, score in model.tried_.items()}
    return describe_model(model) | {"tried": tried, "versions": saved.versions, "columns": columns}


def describe_model(model: Estimator) -> Facts:
    """Return the task of a fitted estimator, its parts, and its held-out NLL."""
    labels, given = getattr(model, "levels_", None), model.get_params()
    found: Facts = {"task": "regression" if labels is None else "classification"}
    found |= {"targets": target_names(model)} | ({} if labels is None else {"classes": labels})
    found["likelihood"] = model.model_.spec.likelihood
    if given.get("class_weight") is not None:
        found["class_weight"] = given["class_weight"]
    if found["task"] == "regression":
        spec = model.model_.spec
        used = "identity" if spec.target is None else spec.target["name"]
        shape = {"map": used, "tails": spec.tail["kind"]}
        found |= shape if spec.likelihood in ("gaussian", "censored") else {}
    found |= {"covariance": model.model_.spec.covariance, "members": len(model.routes_)}
    found |= {"bodies": model.bodies_, "routes": model.routes_, "steps": model.n_iter_}
    found["held_out_nll"] = _finite(model.oof_scores()["nll"])
    plain: Facts = json.loads(json.dumps(found, default=np.ndarray.tolist))
    return plain


def target_names(model: Estimator) -> list[str]:
    """Return the names of the target columns; none if the model was saved from Python."""
    return list(getattr(model, "target_names_", []))


def by_output(p: Numeric, names: Sequence[str]) -> dict[str, Numeric]:
    """Return the predictive of each output by its name; of a single output, by "".

    Args:
        p: the predictive of one output (N,) or of several (N, K).
        names: of the outputs; y0, y1, ... if there are none.
    """
    if p.mean.dim() == 1:
        return {"": p}
    known = names or [f"y{k}" for k in range(p.mean.shape[1])]
    return {name: output(p, k) for k, name in enumerate(known)}


@contextmanager
def warnings_as_notes(note: Note) -> Iterator[None]:
    """Turn warnings for the user, ours and scikit-learn's, into notes, each of them once.

    Outlying targets are left out: the commands name them by their row in the file.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for_user = [w for w in caught if issubclass(w.category, UserWarning)]
    messages = (str(w.message) for w in for_user if w.category is not OutlyingTarget)
    for message in dict.fromkeys(messages):
        note(message)


def _existing(path: Path) -> Path:
    """Return the path; refuse one without a file."""
    remedy = "Make one with scroll fit."
    require(path.is_file(), "model", "be a file", path, remedy, FileNotFoundError)
    return path


def _finite(score: float) -> float | None:
    """Return a score for JSON, which has no infinity: None in its place."""
    return score if np.isfinite(score) else None
