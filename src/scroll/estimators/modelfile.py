"""Save a fitted estimator to one file and load it again: JSON and tensors, never code.

Loading trusts nothing in a file. The checksum is verified, the JSON is compared with its
description, the sizes that it declares are compared with those of the tensors, and only then is
a model built.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from .._core.archive import Unreadable, pack, unpack
from .._core.checks import must, refusal
from .._core.files import write
from .._core.state_dicts import difference
from ..tables.columns import Table
from .classifier import ScrollClassifier
from .model import Model, Spec, declared
from .modelfile_schema import contents, contradiction
from .regressor import ScrollRegressor

FORMAT = "scroll-model"
ESTIMATORS = {"ScrollRegressor": ScrollRegressor, "ScrollClassifier": ScrollClassifier}


class Saved(NamedTuple):
    """A model file whose content has been verified."""

    path: Path
    content: dict[str, Any]
    tensors: dict[str, Tensor]

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that wrote it."""
        return dict(self.content["versions"])


def save(estimator: Any, path: str | Path) -> None:
    """Write a fitted estimator to one file, whole or not at all."""
    from .._core.versions import __version__

    model: Model = estimator.model_
    parameters = {name: _plain(value) for name, value in estimator.get_params().items()}
    if not isinstance(parameters["random_state"], int | None):
        parameters["random_state"] = None  # a generator has moved on anyway
    content = {
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "spec": model.spec.to_json() | {"tried": _finite(model.spec.tried)},
        "table": estimator.table_.to_json(),
        "classes": _labels(getattr(estimator, "levels_", None)),  # in their order
        "targets": getattr(estimator, "target_names_", None),  # the command line's
        "fitted": {"n_iter": int(estimator.n_iter_), "scores": _finite(estimator.scores_)},
        "versions": {"scroll": __version__, "torch": str(torch.__version__)},
    }
    fault = contents(_numbers(model.state_dict()))(content)
    remedy = "Use numbers, text, booleans and lists of them."
    want = "have plain parameters and labels to be saved"
    must(fault is None, "estimator", want, (fault or "").lstrip("."), remedy)
    write(Path(path), pack(FORMAT, content, model.state_dict()))


def load(path: str | Path, body: nn.Module | None = None) -> Any:
    """Return the estimator that `save` wrote.

    Args:
        path: of the file.
        body: the module, if the model's body is your own.
    """
    return build(read(path), body)


def read(path: str | Path) -> Saved:
    """Return the content of a model file; refuse a file that `save` did not write."""
    path = Path(path)
    must(path.is_file(), "path", "be a file", path, error=FileNotFoundError)
    try:
        content, tensors, _ = unpack(path, FORMAT)
    except Unreadable as error:
        raise _foreign(path, str(error)) from error
    fault = contents(_numbers(tensors))(content) or contradiction(content)
    if fault is not None:
        raise _foreign(path, f"one{fault}" if fault.startswith(" ") else fault.lstrip("."))
    return Saved(path, content, tensors)


def build(saved: Saved, body: nn.Module | None = None) -> Any:
    """Return the estimator of a model file, with your module as its body if it has one."""
    path, content, tensors = saved
    spec, table = Spec(**content["spec"]), Table.from_json(content["table"])
    spec = replace(spec, tried={name: _score(score) for name, score in spec.tried.items()})
    own = "yours" in spec.bodies
    want = "be left out for a model whose body is not your own"
    must(body is None or own, "body", want, type(body).__name__)
    estimator = _estimator(saved, body)
    model = _model(saved, spec, body)
    for wrong, got in {
        "columns that do not fit the encoder": not model.encoder.reads(table),
        "another likelihood than its own": estimator._likelihood() != spec.likelihood,
        "NaN": any(bool(t.isnan().any()) for name, t in tensors.items() if "encoder." not in name),
    }.items():
        if got:
            raise _foreign(path, f"one with {wrong}")
    estimator.model_, estimator.table_ = model.eval(), table
    estimator.n_features_in_, estimator.n_iter_ = len(table.columns), content["fitted"]["n_iter"]
    estimator.scores_ = [_score(score) for score in content["fitted"]["scores"]]
    if table.named:
        names = [column.name for column in table.columns]
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    if content["targets"] is not None:
        estimator.target_names_ = content["targets"]
    if content["classes"] is not None:
        estimator.levels_ = _levels(path, *content["classes"])
        estimator.classes_ = np.sort(estimator.levels_)
    return estimator


def _estimator(saved: Saved, body: nn.Module | None) -> Any:
    """Return the estimator as it was before it was fitted."""
    kind: Any = ESTIMATORS[saved.content["estimator"]]
    parameters = {name: _parameter(v) for name, v in saved.content["parameters"].items()}
    if {*parameters} != {*kind._get_param_names()}:
        raise _foreign(saved.path, "other parameters than those of its estimator")
    if body is not None or isinstance(parameters["body"], list):
        parameters["body"] = tuple(parameters["body"]) if body is None else body
    return kind(**parameters)


def _model(saved: Saved, spec: Spec, body: nn.Module | None) -> Model:
    """Return the model with its tensors, once its sizes are known to be those of the tensors."""
    remedy = " Pass the body that it was trained with." if body is not None else ""
    try:
        wrong = _oversized(*declared(spec, body), saved.tensors)
    except ValueError as error:
        if "yours" in spec.bodies:
            raise
        got = " ".join(str(error).split())[:200].rstrip(".")
        raise _foreign(saved.path, f"one that cannot be built: {got}") from error
    if wrong is None:
        model = Model(spec, body)
        wrong = difference(model.state_dict(), saved.tensors)
    if wrong is not None:
        raise _foreign(saved.path, f"one that does not fit together: {wrong}", remedy)
    model.load_state_dict(saved.tensors)
    return model


def _oversized(
    shapes: dict[str, tuple[int, ...]], bodies: dict[str, int], tensors: dict[str, Tensor]
) -> str | None:
    """The first of the declared sizes that the tensors do not have, in words."""
    for name, shape in shapes.items():
        found = tuple(tensors[name].shape) if name in tensors else "missing"
        if found != shape:
            return f"{name} is {found}, declared as {shape}"
    for start, numbers in bodies.items():
        held = _numbers({name: t for name, t in tensors.items() if name.startswith(start)})
        if held != numbers:
            return f"{start[:-1]} has {held} numbers, declared are {numbers}"
    return None


def _levels(path: Path, dtype: str, labels: list[Any]) -> Any:
    """Return labels as an array that holds them as they are, in a type that can be sorted."""
    try:
        levels = np.asarray(labels, dtype=dtype)
        np.sort(levels)
    except (TypeError, ValueError, OverflowError):
        levels = np.empty(0)
    if levels.tolist() != labels:
        raise _foreign(path, f"classes that are not {dtype}")
    return levels


def _numbers(tensors: dict[str, Tensor]) -> int:
    """How many numbers tensors hold."""
    return sum(tensor.numel() for tensor in tensors.values())


def _foreign(path: Path, got: str, remedy: str = "") -> Exception:
    want = "be a model that scroll has saved"
    return refusal(str(path), want, got, f"Save it again.{remedy}")


def _plain(value: Any) -> Any:
    """A parameter as JSON; a dict as pairs, as its keys may be numbers."""
    if isinstance(value, nn.Module):
        return "yours"
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(key), _plain(of)] for key, of in value.items()]}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, torch.device) else value


def _parameter(value: Any) -> Any:
    """What `_plain` was given, but for tuples, which are lists."""
    return dict(value["pairs"]) if isinstance(value, dict) else value


def _finite(scores: Any) -> Any:
    """Scores as JSON, which has no infinity: null in its place."""
    if isinstance(scores, dict):
        return dict(zip(scores, _finite(scores.values()), strict=True))
    return [float(s) if np.isfinite(s) else None for s in scores]


def _score(score: float | None) -> float:
    """What `_finite` was given."""
    return inf if score is None else score


def _labels(classes: Any) -> Any:
    """Labels and their numpy type, as JSON."""
    if classes is None:
        return None
    return ["str" if classes.dtype.kind == "U" else classes.dtype.name, classes.tolist()]
