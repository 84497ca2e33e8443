"""A fitted estimator's contents, to one file and back: JSON and tensors, never code.

Reading trusts nothing in a file: the checksum is verified, and the JSON is compared with its
description and with itself. `loading` builds an estimator of the contents.
"""

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from .._core.archive import Unreadable, pack, unpack
from .._core.checks import LARGEST_COUNT, invalid, require
from .._core.files import write
from .._core.schema import (
    Check,
    array,
    boolean,
    choice,
    either,
    integer,
    mapping,
    null,
    number,
    record,
    row,
    text,
)
from .._core.versions import __version__
from ..beliefs.families import FAMILIES
from ..fitting.plans import LABELS
from ..posterior.hybrid import ADDED_FAMILIES
from ..predictive import Tail, TargetMap
from ..tables.columns import TableSchema
from ..tables.frames import Array
from .arguments import RECIPES
from .model import Model
from .spec import COUNTS
from .tasks import Task

Content: TypeAlias = dict[str, Any]  # JSON that `contents` has checked

FORMAT = "scroll-model"
LIKELIHOODS = {"ScrollRegressor": ("gaussian", "censored", *COUNTS), "ScrollClassifier": LABELS}
NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
DTYPES = ("object", "str", "float16", "float32", "float64", *NUMBERS)  # of labels

SCALAR = either(null, boolean, text, number())
LABEL = either(boolean, text, number())
PARAMETER = either(SCALAR, array(SCALAR), record(pairs=array(row(LABEL, number()))))
SCORE = either(null, number())
COLUMN = record(
    name=either(null, text),
    kind=choice("numeric", "categorical"),
    categories=array(LABEL),
    missing=boolean,
    unlisted=number(0, 1),
)


class FittedEstimator(Protocol):
    """What a fitted estimator has, for those who write it to a file."""

    model_: Model
    schema_: TableSchema
    task_: Task
    scores_: list[float]
    n_iter_: int

    def get_params(self) -> dict[str, object]:
        """Return the parameters by name."""


class Saved(NamedTuple):
    """A model file whose content has been verified."""

    path: Path
    content: Content
    tensors: dict[str, Tensor]

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that wrote it."""
        return dict(self.content["versions"])

    def fault(self, got: str, remedy: str = "") -> Exception:
        """Return the error that refuses the file, because of what `got` says."""
        return _foreign(self.path, got, remedy)


def save(estimator: FittedEstimator, path: str | Path) -> None:
    """Write a fitted estimator to one file, completely or not at all.

    Args:
        estimator: a fitted `ScrollRegressor` or `ScrollClassifier`.
        path: of the file.
    """
    model = estimator.model_
    parameters = {name: _plain(value) for name, value in estimator.get_params().items()}
    if not isinstance(parameters["random_state"], int | None):
        parameters["random_state"] = None  # a generator has moved on anyway
    tried, scores = model.spec.tried, estimator.scores_
    content = {
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "spec": model.spec.to_json() | {"tried": {name: _finite(s) for name, s in tried.items()}},
        "table": estimator.schema_.to_json(),
        "classes": _labels(estimator.task_.levels),  # in their order
        "targets": getattr(estimator, "target_names_", None),  # the command line's
        "fitted": {"n_iter": int(estimator.n_iter_), "scores": [_finite(s) for s in scores]},
        "versions": {"scroll": __version__, "torch": str(torch.__version__)},
    }
    fault = contents(n_numbers(model.state_dict()))(content)
    remedy = "Use numbers, text, booleans and lists of them."
    want = "have plain parameters and labels to be saved"
    require(fault is None, "estimator", want, (fault or "").lstrip("."), remedy)
    write(Path(path), pack(FORMAT, content, model.state_dict()))


def read(path: str | Path) -> Saved:
    """Return the verified content of a model file; refuse a file that `save` did not write.

    Args:
        path: of the file.
    """
    path = Path(path)
    require(path.is_file(), "path", "be a file", path, error=FileNotFoundError)
    try:
        content, tensors, _ = unpack(path, FORMAT)
    except Unreadable as error:
        raise _foreign(path, str(error)) from error
    fault = contents(n_numbers(tensors))(content) or contradiction(content)
    if fault is not None:
        raise _foreign(path, f"one{fault}" if fault.startswith(" ") else fault.lstrip("."))
    return Saved(path, content, tensors)


def contents(size: int) -> Check:
    """Describe the JSON of a file whose tensors hold `size` numbers, so none can declare more."""
    return record(
        estimator=choice(*LIKELIHOODS),
        parameters=mapping(PARAMETER),
        spec=spec(size),
        table=record(named=boolean, columns=array(COLUMN, 1)),
        classes=either(null, row(choice(*DTYPES), array(LABEL, 2))),
        targets=either(null, array(text, 1)),
        fitted=record(n_iter=integer(0), scores=array(SCORE, 1)),
        versions=record(scroll=text, torch=text),
    )


def spec(size: int) -> Check:
    """Describe the fields of `Spec`."""
    sizes = {name: integer(low, size) for name, low in (("numbers", 0), ("marks", 0), ("knots", 2))}
    return record(
        likelihood=choice(*(name for names in LIKELIHOODS.values() for name in names)),
        covariance=choice(*FAMILIES),
        beta=number(0, 1),
        outputs=integer(1, size),
        recipe=choice(*RECIPES),
        body=either(text, array(integer(1, size), 1)),
        layout=record(columns=integer(1), **sizes),
        parts=array(row(text, array(choice("free", "closed", "hybrid"), 1)), 1),
        weights=either(null, array(number(1e-6, 1), 1)),
        tried=mapping(SCORE),
        power=number(0, 1e6),
        lapse=number(0, 1),
        width=number(1e-30, 1e30),
        tail=record(
            kind=choice(*Tail.KINDS), df=integer(0), share=number(0, 1), factor=number(1e-30, 1e30)
        ),
        target=either(null, record(name=choice(*TargetMap.NAMES), low=number(), high=number())),
        judged=integer(0, size),
        bias=boolean,
        floor=number(0, 1e6),
        noise=number(1e-30, 1e6),
        largest=number(1, LARGEST_COUNT),
        added=choice(*ADDED_FAMILIES),
    )


def contradiction(content: Content) -> str | None:
    """Return the first fields that contradict each other, in words; None if all agree."""
    spec, estimator, table = content["spec"], content["estimator"], content["table"]
    outputs, likelihood = spec["outputs"], spec["likelihood"]
    bodies, members = [b for b, _ in spec["parts"]], [r for _, some in spec["parts"] for r in some]
    labels = (content["classes"] or [None, []])[1]
    targets = outputs if likelihood == "gaussian" else 1
    names = [column["name"] for column in table["columns"]]
    known = [name is not None for name in names]
    agreed = {
        f"{likelihood} for {estimator}": likelihood in LIKELIHOODS[estimator],
        f"{outputs} outputs for {likelihood}": likelihood not in COUNTS or outputs == 1,
        f"{len(labels)} classes for {outputs} outputs": len(labels)
        == (outputs if likelihood in LABELS else 0),
        "a class twice": len({*map(repr, labels)}) == len(labels),
        f"a lapse rate for {likelihood}": not spec["lapse"] or likelihood in LABELS,
        "a body twice": len({*bodies}) == len(bodies),
        "weights that do not fit the bodies": _weights_fit(spec, bodies),
        f"{len(content['fitted']['scores'])} scores for {len(members)} members": len(members)
        == len(content["fitted"]["scores"]),
        f"{len(content['targets'] or [])} names for {targets} targets": content["targets"] is None
        or len(content["targets"]) == targets,
        f"{len(names)} columns for {spec['layout']['columns']}": len(names)
        == spec["layout"]["columns"],
        "columns that are not all named": all(known) if table["named"] else not any(known),
        "a column twice": not table["named"] or len({*names}) == len(names),
    }
    return next((f"one with {words}" for words, ok in agreed.items() if not ok), None)


def _weights_fit(spec: Content, bodies: list[str]) -> bool:
    """Return whether there is one weight per body, of labels."""
    weights = spec["weights"]
    return weights is None or (spec["likelihood"] in LABELS and len(weights) == len(bodies))


def n_numbers(tensors: Mapping[str, Tensor]) -> int:
    """Return how many numbers the tensors hold."""
    return sum(tensor.numel() for tensor in tensors.values())


def score(saved: float | None) -> float:
    """Return a score of the JSON, in which null stands for infinity."""
    return inf if saved is None else saved


def parameter(saved: object) -> object:
    """Return a parameter of the JSON as the estimator takes it, but for tuples: a list."""
    return dict(saved["pairs"]) if isinstance(saved, dict) else saved


def _foreign(path: Path, got: str, remedy: str = "") -> Exception:
    want = "be a model that scroll has saved"
    return invalid(str(path), want, got, f"Save it again.{remedy}")


def _plain(value: object) -> object:
    """A parameter as JSON; a dict as pairs, as its keys may be numbers."""
    if isinstance(value, nn.Module):
        return "yours"
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(key), _plain(of)] for key, of in value.items()]}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, torch.device) else value


def _finite(score: float) -> float | None:
    """A score as JSON, which has no infinity: null in its place."""
    return float(score) if np.isfinite(score) else None


def _labels(classes: Array | None) -> list[object] | None:
    """Labels and their numpy type, as JSON."""
    if classes is None:
        return None
    return ["str" if classes.dtype.kind == "U" else classes.dtype.name, classes.tolist()]
