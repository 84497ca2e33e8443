"""Tables in, models and numbers out: the work behind `scroll fit`, `predict` and the others.

Each function returns plain values and raises errors that read well on one line; `scroll.cli`
prints both. Rows of a file are counted from 1, without the header.
"""

import io
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._core.checks import listed, must, one_of, refusal
from .._core.files import write
from ..estimators import ScrollClassifier, ScrollRegressor, modelfile
from ..estimators.loading import build, load
from ..estimators.model import COUNTS
from ..estimators.task import as_integers, check_counts
from ..predictive.arguments import as_tensor
from ..predictive.mixture import output as one_output
from ..tables.columns import Table
from ..tables.labels import class_indices
from ..tables.outliers import OutlyingTarget, describe
from . import table_files
from .scores import of_labels, of_numbers
from .table_files import Note, free, matched, numbered, read
from .targets import classes, kind_of, numbers, order, repeated, require_one_kind

TASKS = {"numbers": "regression"}  # all else is classified
LIKELIHOODS = {
    "regression": ("gaussian", "poisson", "negbinomial"),
    "classification": ("ova", "gaussreg", "ordinal"),
}


def fit(
    train: Path, target: str, output: Path, note: Note, *, task: str, likelihood: str,
    ordered: bool, levels: str, class_weight: str, weight: str, drop: str, held: Path | None,
    body: str, **parameters: Any,
) -> dict[str, Any]:  # fmt: skip
    """Fit a model to a table and write it; what it has become."""
    one_of("--task", task, ("auto", *LIKELIHOODS))
    one_of("--covariance", parameters["covariance"], ("auto", "full", "diag", "lowrank", "none"))
    if parameters["n_members"] is None:
        del parameters["n_members"]  # the estimators know
    seed = parameters["random_state"]
    must(0 <= seed < 2**32, "--seed", "lie between 0 and 2**32 - 1", seed)
    free(output, train, held)
    frame = read(train)
    targets, aside = _aside(frame, train, target, weight, drop)
    frame = numbered(frame, targets, train, note, gaps=False)
    x = frame.drop(columns=aside)
    must(x.shape[1], str(train), "have columns to learn from", f"{listed(frame, 30)} alone")
    kind = kind_of(frame, targets, train)
    ranked = {"--ordered": ordered, "--levels": levels}
    taken, because = _task(task, kind, likelihood, [name for name in ranked if ranked[name]])
    if because == "the target holds text":
        require_one_kind(frame, targets, train)
    if likelihood:
        remedy = f"The task is {taken}; --task decides it."
        one_of("--likelihood", likelihood, LIKELIHOODS[taken], remedy)
        parameters["likelihood"] = likelihood
    for option, given in (ranked | {"--class-weight": class_weight}).items():
        remedy = "Add --task classification."
        ok = not given or taken == "classification"
        must(ok, option, "go with classes", f"a target of {kind}", remedy)
    y = _target(frame, targets, train, taken, likelihood)
    repeated(y, targets[0])
    x = numbered(x, list(x), train, note)
    if ordered or levels or likelihood == "ordinal":
        parameters["ordered"] = order(frame, targets[0], names(levels))
    if class_weight:
        one_of("--class-weight", class_weight, ("balanced",))
        parameters["class_weight"] = class_weight
    pair = None
    if held is not None:
        later, rows = matched(held, Table.of(x), aside, note)
        kind_of(later, targets, held)
        pair = rows, _target(later, targets, held, taken, likelihood)
    make: Any = ScrollClassifier if taken == "classification" else ScrollRegressor
    model = make(body=_body(body), **parameters)
    weights = numbers(frame, [weight], train) if weight else None
    if taken == "regression":
        _note_outliers(y, targets, train, likelihood, note)
        if held is not None and pair is not None:
            _note_outliers(pair[1], targets, held, likelihood, note)
    with _heard(note):
        model.fit(x, y, sample_weight=weights, eval_set=pair)
    if parameters.get("ordered") is True and y.dtype.kind == "U":
        note(f"the order of the classes is that of sorting: {' < '.join(model.levels_)}")
    model.target_names_ = targets
    model.set_params(verbose=0).save(output)  # the same file, watched or not
    head = {"model": str(output), "task": taken, "because": because, "rows": len(frame)}
    return head | {"columns": x.shape[1]} | {k: v for k, v in _about(model).items() if k != "task"}


@contextmanager
def _heard(note: Note) -> Iterator[None]:
    """Advice, of this library and of scikit-learn, as notes; each is said once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    advice = [told for told in caught if issubclass(told.category, UserWarning)]
    # Outlying targets are named by their row in the file.
    said = (str(told.message) for told in advice if told.category is not OutlyingTarget)
    for words in dict.fromkeys(said):
        note(words)


def _note_outliers(y: Any, targets: Sequence[str], path: Path, likelihood: str, note: Note) -> None:
    """Name targets that are likely to be errors, by their row in the file."""
    least = 1.0 if likelihood in COUNTS else 0.0
    for name, column in zip(targets, y.reshape(len(y), -1).T, strict=True):
        where = f"of {path}, column {name!r}".replace("{", "{{").replace("}", "}}")
        said = describe(column, f"{{1:g}} in row {{0}} {where}", least, first=1)
        if said:
            note(said)


def _aside(
    frame: Any, path: Path, target: str, weight: str, drop: str
) -> tuple[list[str], list[str]]:
    """The targets, and all columns that are not learned from."""
    targets = [target] if target in frame else names(target)
    asked = {"--target": targets, "--weight": names(weight), "--drop": names(drop)}
    for option, some in asked.items():
        absent = [name for name in some if name not in frame]
        got = f"{listed(absent)}; it has {listed(frame, 30)}"
        must(not absent, option, f"name columns of {path}", got)
    must(targets, "--target", "name a column", repr(target))
    aside = [name for some in asked.values() for name in some]
    must(len({*aside}) == len(aside), "--target", "name columns once, also beside others", aside)
    return targets, aside


def _task(task: str, kind: str, likelihood: str, ranked: Sequence[str]) -> tuple[str, str]:
    """Regression or classification, and what says so."""
    if task != "auto":
        return task, "--task"
    for name, known in LIKELIHOODS.items():
        if likelihood in known:
            return name, "--likelihood"
    if ranked:
        return "classification", ranked[0]
    return TASKS.get(kind, "classification"), f"the target holds {kind}"


def _target(frame: Any, targets: Sequence[str], path: Path, task: str, likelihood: str) -> Any:
    """The targets of a table, as the task has them."""
    many = len(targets) > 1
    if task == "classification":
        must(not many, "--target", "name one column of classes", listed(targets))
        return classes(frame, targets[0])
    y = numbers(frame, targets, path)
    if likelihood in COUNTS:
        must(not many, "--target", "name one column of counts", listed(targets))
        check_counts(y, targets[0], 1, f" of {path}")
    return y


def predict(
    path: Path, table: Path, note: Note, *, interval: float | None, quantiles: str, ood: bool,
    keep: bool, typed: bool = False,
) -> Any:  # fmt: skip
    """A frame of predictions, a row for each of the table's; what is kept may need its types."""
    model = opened(path)
    levels = _levels(quantiles) if quantiles else []
    frame, x = matched(table, model.table_, _targets(model), note)
    with _heard(note):
        p, strange = model.predict_dist(x), {"ood_score": model.ood_score(x)} if ood else {}
    if isinstance(model, ScrollClassifier):
        found = _named(model.levels_, p, interval, levels)
    else:
        found = {}
        for name, part in _outputs(model, p).items():
            found |= _numbered(f"{name}_" if name else "", part, interval, levels)
    found |= strange
    out = pd.DataFrame(found, index=frame.index)
    if not keep:
        return out
    twice = [name for name in frame if name in found]
    remedy = "Rename them, or leave out --keep."
    must(not twice, "--keep", f"leave the results' names free in {table}", listed(twice), remedy)
    return pd.concat([table_files.as_written(table, typed), out], axis=1)


def _named(classes: Any, p: Any, interval: float | None, levels: Sequence[float]) -> dict[str, Any]:
    """Columns for labels: the likeliest, an interval where they are ordered, probabilities."""
    probs = p.probs.numpy()
    found = {"prediction": classes[probs.argmax(1)]}
    if p.ordered:
        ends = p.interval(0.9 if interval is None else interval)
        found |= {
            name: classes[end.numpy()] for name, end in zip(("lower", "upper"), ends, strict=True)
        }
        found |= {f"q{level}": classes[p.quantile(level).numpy()] for level in levels}
    else:
        for option, given in (("--interval", interval), ("--quantiles", levels or None)):
            want = "be left out for classes without an order"
            must(given is None, option, want, given, "Their probabilities say it all.")
    return found | {f"p_{c}": probs[:, k] for k, c in enumerate(classes)}


def _numbered(lead: str, p: Any, interval: float | None, levels: Sequence[float]) -> dict[str, Any]:
    """Columns for one number: mean, std, interval, quantiles; of counts, integers for these."""
    ends = zip(("lower", "upper"), p.interval(0.9 if interval is None else interval), strict=True)
    points = dict(ends) | {f"q{level}": p.quantile(level) for level in levels}
    found = {
        name: as_integers(v.numpy()) if p.discrete else v.numpy() for name, v in points.items()
    }
    moments = {"mean": p.mean.numpy(), "std": p.stddev.numpy()}
    return {f"{lead}{name}": column for name, column in (moments | found).items()}


def evaluate(
    path: Path, table: Path, note: Note, *, target: str, plots: Path | None
) -> dict[str, Any]:
    """What the model's predictives are worth on a table that holds the target."""
    model = opened(path)
    known = _targets(model) if not target else names(target)
    remedy = "Name its column with --target."
    must(known, str(path), "know its target", "a model saved from Python", remedy)
    frame, x = matched(table, model.table_, known, note)
    kind_of(frame, known, table)
    with _heard(note):
        p, rows = model.predict_dist(x), {"rows": len(frame)}
    if isinstance(model, ScrollClassifier):
        must(plots is None, "--plots", "be asked of a regression", f"classes in {path}")
        given, labels = model.levels_.tolist(), classes(frame, known[0])
        index = class_indices(labels, given, name="target", where=f" in {table}", as_text=True)
        return rows | of_labels(p, as_tensor("y", index))
    given = _target(frame, known, table, "regression", model.likelihood)
    y = as_tensor("y", given)
    parts = _outputs(model, p, known)
    truth = dict(zip(parts, y.reshape(len(y), -1).T, strict=True))
    if plots is not None:
        _draw(plots, parts, truth, model.ood_score(x))
    each = {name: of_numbers(part, truth[name]) for name, part in parts.items()}
    return rows | each.get("", {"targets": each})


def export(path: Path, output: Path, quantiles: str) -> None:
    """Write a model as an ONNX graph."""
    levels = _levels(quantiles)
    free(output, path)
    opened(path).export_onnx(output, tuple(levels))


def info(path: Path) -> dict[str, Any]:
    """What a model knows of itself."""
    saved = modelfile.read(existing(path))
    model = build(saved)
    columns = [asdict(column) for column in model.table_.columns]
    shift = _units(model)
    tried = {name: _shown(score + shift) for name, score in model.tried_.items()}
    return _about(model) | {"tried": tried, "versions": saved.versions, "columns": columns}


def _about(model: Any) -> dict[str, Any]:
    labels, given = getattr(model, "levels_", None), model.get_params()
    found: dict[str, Any] = {"task": "regression" if labels is None else "classification"}
    found |= {"targets": _targets(model)} | ({} if labels is None else {"classes": labels})
    found["likelihood"] = model.model_.spec.likelihood
    if given.get("class_weight") is not None:
        found["class_weight"] = given["class_weight"]
    found |= {"covariance": model.model_.spec.covariance, "members": len(model.routes_)}
    found |= {"bodies": model.bodies_, "routes": model.routes_, "steps": model.n_iter_}
    found["held_out_nll"] = _shown(float(np.mean(model.scores_)) + _units(model))
    return json.loads(json.dumps(found, default=np.ndarray.tolist))


def _shown(score: float) -> float | None:
    """A score as JSON, which has no infinity."""
    return score if np.isfinite(score) else None


def _units(model: Any) -> float:
    """What scores of the standardised target lack to be those of the target itself."""
    return float(model.model_.scale.log().sum())


def opened(path: Path) -> Any:
    """Return the model of a file."""
    return load(existing(path))


def existing(path: Path) -> Path:
    """Return the path of a model file; refuse one that is not there."""
    remedy = "Make one with scroll fit."
    must(path.is_file(), "model", "be a file", path, remedy, FileNotFoundError)
    return path


def names(listed: str) -> list[str]:
    """Names between commas."""
    return [name.strip() for name in listed.split(",") if name.strip()]


def _levels(listed: str) -> list[float]:
    try:
        levels = [float(level) for level in names(listed)]
    except ValueError:
        levels = []
    ok = levels and all(0 < q < 1 for q in levels) and len({*levels}) == len(levels)
    want = "be distinct levels strictly between 0 and 1, such as 0.05,0.5,0.95"
    must(ok, "--quantiles", want, repr(listed))
    return levels


def _body(body: str) -> str | tuple[int, ...]:
    """A body's name, or its widths."""
    widths = names(body)
    return tuple(map(int, widths)) if widths and all(w.isdecimal() for w in widths) else body


def _targets(model: Any) -> list[str]:
    """Names of the targets, none where the model was saved without."""
    return list(getattr(model, "target_names_", []))


def _outputs(model: Any, p: Any, targets: Sequence[str] = ()) -> dict[str, Any]:
    """The predictive of each output by its name, of a single one by none."""
    if p.mean.dim() == 1:
        return {"": p}
    known = targets or _targets(model) or [f"y{k}" for k in range(p.mean.shape[1])]
    return {name: one_output(p, k) for k, name in enumerate(known)}


def _draw(folder: Path, parts: dict[str, Any], truth: dict[str, Any], ood: Any) -> None:
    """Pictures of each output and of the OOD scores; all are drawn before one is written."""
    from ..integrations import plots

    plots.pyplot()  # or the remedy
    figure = import_module("matplotlib.figure").Figure
    pictures = {"calibration": plots.calibration_curve, "pit": plots.pit_histogram}
    pictures["spread"] = plots.spread_against_residual
    drawn: dict[str, Any] = {"ood": lambda ax: plots.ood_histogram(ood, ax=ax)}
    for name, p in parts.items():
        for kind, draw in pictures.items():
            at = f"{name}_{kind}" if name else kind
            drawn[at] = lambda ax, p=p, y=truth[name], draw=draw: draw(p, y, ax=ax)
    files = {}
    for name, onto in drawn.items():
        page, content = figure(figsize=(5, 4), layout="constrained"), io.BytesIO()
        onto(page.subplots())
        page.savefig(content, format="png", dpi=150)
        files[f"{name.replace(os.sep, '_')}.png"] = content.getvalue()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refusal("--plots", "be a folder", f"{folder}: {error.strerror}") from error
    for name, picture in files.items():
        write(folder / name, picture)
