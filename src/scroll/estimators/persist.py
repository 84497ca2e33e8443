"""A fitted estimator as one file: JSON and tensors in the safetensors format, never code.

The JSON stands in the file's metadata, so that one file is the model. Reading it makes only what
the library itself knows how to make: a file can hold wrong numbers, but nothing that runs.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..atomic import write
from ..checks import must, refusal
from .base import single_precision
from .classifier import ScrollClassifier
from .model import Model, Spec
from .regressor import ScrollRegressor
from .table import Table

FORMAT = "scroll-model"
VERSION = 1
ESTIMATORS = {"ScrollRegressor": ScrollRegressor, "ScrollClassifier": ScrollClassifier}


def save(estimator: Any, path: str | Path) -> None:
    """Write a fitted estimator to one file, whole or not at all."""
    from safetensors.torch import save as packed

    from .. import __version__

    model: Model = estimator.model_
    parameters = estimator.get_params()
    if isinstance(parameters["body"], nn.Module):
        parameters["body"] = "yours"
    if not isinstance(parameters["random_state"], int | None):
        parameters["random_state"] = None  # a generator has moved on anyway
    what = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": type(estimator).__name__,
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "spec": model.spec.to_json() | {"tried": _finite(model.spec.tried)},
        "table": estimator.table_.to_json(),
        "classes": _labels(getattr(estimator, "levels_", None)),  # in their order
        "targets": getattr(estimator, "target_names_", None),  # the command line's
        "fitted": {"n_iter": int(estimator.n_iter_), "scores": _finite(estimator.scores_)},
        "versions": {"scroll": __version__, "torch": str(torch.__version__)},
    }
    tensors = {k: v.detach().contiguous().clone() for k, v in model.state_dict().items()}
    text = json.dumps(what, allow_nan=False)
    write(Path(path), packed(tensors, metadata={FORMAT: text}))


def load(path: str | Path, body: nn.Module | None = None) -> Any:
    """The estimator that `save` wrote.

    Args:
        path: of the file.
        body: the module, where the model's body is your own.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    must(path.is_file(), "path", "be a file", path, error=FileNotFoundError)
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(FORMAT)
            if text is None:
                raise _foreign(path, "another file")
            what = json.loads(text)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise _foreign(path, f"something that cannot be read: {error}") from error
    try:
        if what["version"] != VERSION:
            want, remedy = (
                f"be of version {VERSION} of the format",
                "Update scroll, or save it again.",
            )
            raise refusal(str(path), want, what["version"], remedy)
        return _made(what, tensors, body)
    except (KeyError, TypeError, RuntimeError, AttributeError, StopIteration) as error:
        got = f"one that does not fit together: {type(error).__name__}: {error}"
        raise _foreign(path, got[:300]) from error


def _foreign(path: Path, got: str) -> Exception:
    return refusal(str(path), "be a model that scroll has saved", got, "Save it again.")


def _made(what: dict[str, Any], tensors: dict[str, torch.Tensor], body: nn.Module | None) -> Any:
    parameters = {name: _parameter(value) for name, value in what["parameters"].items()}
    if parameters["body"] == "yours" and body is not None:
        parameters["body"] = body
    elif isinstance(parameters["body"], list):
        parameters["body"] = tuple(parameters["body"])
    estimator = ESTIMATORS[what["estimator"]](**parameters)
    with single_precision():
        model = Model(Spec(**what["spec"]), body)
    model.load_state_dict(tensors)
    for name, tensor in tensors.items():
        must(
            not tensor.is_floating_point() or not bool(tensor.isnan().any()) or "encoder" in name,
            name,
            "be finite",
            "NaN",
            "The file has been changed: save the model again.",
        )
    estimator.model_, estimator.table_ = model.eval(), Table.from_json(what["table"])
    estimator.n_features_in_ = len(estimator.table_.columns)
    estimator.n_iter_, estimator.scores_ = what["fitted"]["n_iter"], what["fitted"]["scores"]
    if estimator.table_.named:
        names = [column.name for column in estimator.table_.columns]
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    if what.get("targets") is not None:
        estimator.target_names_ = [str(name) for name in what["targets"]]
    if what["classes"] is not None:
        kind, labels = what["classes"]
        estimator.levels_ = np.asarray(labels, dtype=object if kind == "O" else kind)
        estimator.classes_ = np.sort(estimator.levels_)
    return estimator


def _plain(value: Any) -> Any:
    """A parameter as JSON; a dict as pairs, as its keys may be numbers."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, dict):
        return {"pairs": [[_plain(key), _plain(of)] for key, of in value.items()]}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _parameter(value: Any) -> Any:
    """What `_plain` wrote, but for tuples, which are lists."""
    return dict(value["pairs"]) if isinstance(value, dict) else value


def _finite(scores: Any) -> Any:
    """Scores as JSON, which has no infinity: what is none is null."""
    if isinstance(scores, dict):
        return dict(zip(scores, _finite(scores.values()), strict=True))
    return [float(s) if np.isfinite(s) else None for s in scores]


def _labels(classes: Any) -> Any:
    """Labels and their numpy type, as JSON."""
    if classes is None:
        return None
    kind = "O" if classes.dtype.kind == "O" else classes.dtype.str
    return [kind, classes.tolist()]
