"""Load a fitted estimator from a file.

The sizes that the file declares are compared with those of its tensors before a model is built.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from .._core.checks import require
from .._core.state_dicts import difference
from ..predictive import TargetMap
from ..tables.columns import TableSchema
from ..tables.frames import Array
from .classifier import ScrollClassifier
from .model import Model
from .modelfile import Saved, n_numbers, parameter, read, score
from .regressor import ScrollRegressor
from .spec import Spec, declared
from .tasks import Task, number_task
from .tasks.labels import LabelTask, label_likelihood

ESTIMATORS = {"ScrollRegressor": ScrollRegressor, "ScrollClassifier": ScrollClassifier}


def load(path: str | Path, body: nn.Module | None = None) -> ScrollRegressor | ScrollClassifier:
    """Return the estimator that its method `save` wrote to a file.

    Args:
        path: of the file.
        body: the module, if the model's body is your own.
    """
    return build(read(path), body)


def build(saved: Saved, body: nn.Module | None = None) -> ScrollRegressor | ScrollClassifier:
    """Return the estimator of a model file that has been read.

    Args:
        saved: the content of the file.
        body: the module, if the model's body is your own.
    """
    _, content, tensors = saved
    spec, schema = Spec(**content["spec"]), TableSchema.from_json(content["table"])
    spec = replace(spec, tried={name: score(s) for name, s in spec.tried.items()})
    want = "be left out for a model whose body is not your own"
    require(body is None or "yours" in spec.bodies, "body", want, type(body).__name__)
    estimator = _estimator(saved, body)
    model = _model(saved, spec, body)
    task = _task(estimator, _levels(saved), spec.likelihood, model.map)
    for wrong, got in {
        "columns that do not fit the encoder": not model.encoder.reads(schema),
        "another likelihood than its own": task.likelihood != spec.likelihood,
        "NaN": any(bool(t.isnan().any()) for name, t in tensors.items() if "encoder." not in name),
    }.items():
        if got:
            raise saved.fault(f"one with {wrong}")
    estimator.model_, estimator.schema_, estimator.task_ = model.eval(), schema, task
    estimator.n_features_in_, estimator.n_iter_ = len(schema.columns), content["fitted"]["n_iter"]
    estimator.scores_ = [score(s) for s in content["fitted"]["scores"]]
    if schema.named:
        names = [column.name for column in schema.columns]
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    if content["targets"] is not None:
        estimator.target_names_ = content["targets"]
    return estimator


def _estimator(saved: Saved, body: nn.Module | None) -> ScrollRegressor | ScrollClassifier:
    """Return the estimator as it was before it was fitted."""
    made = ESTIMATORS[saved.content["estimator"]]()
    parameters = {name: parameter(v) for name, v in saved.content["parameters"].items()}
    if {*parameters} != {*made.get_params()}:
        raise saved.fault("other parameters than those of its estimator")
    given = parameters["body"]
    if body is not None or isinstance(given, list):
        parameters["body"] = tuple(given) if body is None and isinstance(given, list) else body
    made.set_params(**parameters)
    return made


def _task(
    estimator: ScrollRegressor | ScrollClassifier,
    levels: Array | None,
    likelihood: str,
    map: TargetMap | None,
) -> Task:
    """Return the task of the estimator's parameters; give a classifier its classes."""
    if isinstance(estimator, ScrollClassifier) and levels is not None:
        estimator.levels_, estimator.classes_ = levels, np.sort(levels)
        return LabelTask(label_likelihood(estimator.likelihood, estimator.ordered), levels)
    censored = likelihood == "censored" and estimator.likelihood == "gaussian"
    return number_task("censored" if censored else estimator.likelihood, map)


def _model(saved: Saved, spec: Spec, body: nn.Module | None) -> Model:
    """Return the model with its tensors, once its sizes are known to be those of the tensors."""
    remedy = " Pass the body that it was trained with." if body is not None else ""
    try:
        wrong = _oversized(*declared(spec, body), saved.tensors)
    except ValueError as error:
        if "yours" in spec.bodies:
            raise
        got = " ".join(str(error).split())[:200].rstrip(".")
        raise saved.fault(f"one that cannot be built: {got}") from error
    if wrong is None:
        model = Model(spec, body)
        wrong = difference(model.state_dict(), saved.tensors)
    if wrong is not None:
        raise saved.fault(f"one that does not fit together: {wrong}", remedy)
    model.load_state_dict(saved.tensors)
    return model


def _oversized(
    shapes: dict[str, tuple[int, ...]], bodies: dict[str, int], tensors: dict[str, Tensor]
) -> str | None:
    """Return the first declared size that the tensors do not have, in words."""
    for name, shape in shapes.items():
        found = tuple(tensors[name].shape) if name in tensors else "missing"
        if found != shape:
            return f"{name} is {found}, declared as {shape}"
    for start, numbers in bodies.items():
        held = n_numbers({name: t for name, t in tensors.items() if name.startswith(start)})
        if held != numbers:
            return f"{start[:-1]} has {held} numbers, declared are {numbers}"
    return None


def _levels(saved: Saved) -> Array | None:
    """Return the classes as an array that holds them as they are, in a type that can be sorted."""
    if saved.content["classes"] is None:
        return None
    dtype, labels = saved.content["classes"]
    try:
        levels = np.asarray(labels, dtype=dtype)
        np.sort(levels)
    except (TypeError, ValueError, OverflowError):
        levels = np.empty(0)
    if levels.tolist() != labels:
        raise saved.fault(f"classes that are not {dtype}")
    return levels
