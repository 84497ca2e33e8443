"""The JSON of a model file: what each field may be, and what the fields must agree on."""

from typing import Any

from .._core.checks import LARGEST_COUNT
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
from ..beliefs.families import FAMILIES
from ..fitting.plans import LABELS
from .model import COUNTS

LIKELIHOODS = {"ScrollRegressor": ("gaussian", *COUNTS), "ScrollClassifier": LABELS}
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
        recipe=choice("default", "paper"),
        body=either(text, array(integer(1, size), 1)),
        layout=record(columns=integer(1), **sizes),
        parts=array(row(text, array(choice("free", "closed", "hybrid"), 1)), 1),
        tried=mapping(SCORE),
        power=number(0, 1e6),
        lapse=number(0, 1),
        bias=boolean,
        floor=number(0, 1e6),
        noise=number(1e-30, 1e6),
        largest=number(1, LARGEST_COUNT),
    )


def contradiction(content: dict[str, Any]) -> str | None:
    """Fields of a described JSON that contradict each other, in words."""
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
