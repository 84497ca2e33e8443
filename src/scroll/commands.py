"""Tables in, models and numbers out: the work behind `scroll fit`, `predict` and the others.

Each function returns plain values and raises errors that read well on one line; `scroll.cli`
prints both. Rows of a file are counted from 1, without the header.
"""

import io
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import metrics
from .checks import must, one_of, refusal
from .estimators import ScrollClassifier, ScrollRegressor
from .estimators.persist import FORMAT, load, written
from .estimators.table import Table, listed
from .predictive import Mixture, Normal
from .sheets import Note, free, library, matched, numeric, read

KINDS = {"boolean": "booleans", "string": "text", "categorical": "categories"} | dict.fromkeys(
    ("integer", "floating", "mixed-integer-float", "decimal"), "numbers"
)
TASKS = {"numbers": "regression"}  # all else is classified
LIKELIHOODS = {
    "regression": ("gaussian", "poisson", "negbinomial"),
    "classification": ("ova", "gaussreg", "ordinal"),
}


def fit(
    train: Path, target: str, output: Path, note: Note, *, task: str, likelihood: str,
    ordered: bool, weight: str, drop: str, held: Path | None, body: str, **parameters: Any,
) -> dict[str, Any]:  # fmt: skip
    """Fit a model to a table and write it; what it has become."""
    one_of("--task", task, ("auto", *LIKELIHOODS))
    one_of("--covariance", parameters["covariance"], ("full", "diag", "lowrank", "none"))
    seed = parameters["random_state"]
    must(0 <= seed < 2**32, "--seed", "lie between 0 and 2**32 - 1", seed)
    free(output, train, held)
    frame = read(train)
    targets = [target] if target in frame else names(target)
    dropped = names(drop)
    aside = [*targets, *names(weight), *dropped]
    for option, some in (("--target", targets), ("--weight", names(weight)), ("--drop", dropped)):
        absent = [name for name in some if name not in frame]
        got = f"{listed(absent)}; it has {listed(frame, 30)}"
        must(not absent, option, f"name columns of {train}", got)
    must(targets, "--target", "name a column", repr(target))
    must(len({*aside}) == len(aside), "--target", "name columns once, also beside others", aside)
    x = frame.drop(columns=aside)
    must(x.shape[1], str(train), "have columns to learn from", f"{listed(frame, 30)} alone")
    kind = _kind(frame, targets, train)
    taken = TASKS.get(kind, "classification") if task == "auto" else task
    classify = taken == "classification"
    if likelihood:
        remedy = f"The task is {taken}; --task decides it."
        one_of("--likelihood", likelihood, LIKELIHOODS[taken], remedy)
        parameters["likelihood"] = likelihood
    if ordered:
        remedy = "Add --task classification."
        must(classify, "--ordered", "go with classes", f"a target of {kind}", remedy)
        parameters["ordered"] = True
    many = len(targets) > 1
    must(not (classify and many), "--target", "name one column of classes", listed(targets))
    y = _classes(frame, targets[0]) if classify else _numbers(frame, targets, train)
    pair = None
    if held is not None:
        later, rows = matched(held, Table.of(x), aside, note)
        _kind(later, targets, held)
        pair = rows, _classes(later, targets[0]) if classify else _numbers(later, targets, held)
    make: Any = ScrollClassifier if classify else ScrollRegressor
    model = make(body=_body(body), **parameters)
    weights = _numbers(frame, [weight], train) if weight else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(x, y, sample_weight=weights, eval_set=pair)
    for told in caught:
        if issubclass(told.category, UserWarning):  # CollapsedNoise, and what scikit-learn advises
            note(str(told.message))
    if model.get_params().get("ordered") and kind == "text":
        note(f"the order of the classes is that of sorting: {' < '.join(model.classes_)}")
    model.target_names_ = targets
    model.set_params(verbose=0).save(output)  # the same file, watched or not
    because = f"the target holds {kind}" if task == "auto" else "--task"
    head = {"model": str(output), "task": taken, "because": because, "rows": len(frame)}
    return head | {"columns": x.shape[1]} | {k: v for k, v in _about(model).items() if k != "task"}


def predict(
    path: Path, table: Path, note: Note, *, interval: float | None, quantiles: str, ood: bool,
    keep: bool,
) -> Any:  # fmt: skip
    """A frame of predictions, a row for each of the table's."""
    model = opened(path)
    levels = _levels(quantiles) if quantiles else []
    frame, x = matched(table, model.table_, _targets(model), note)
    found: dict[str, Any] = {}
    if isinstance(model, ScrollClassifier):
        for option, given in (("--interval", interval), ("--quantiles", quantiles or None)):
            want = "be left out for a model of classes"
            must(given is None, option, want, given, "Its probabilities say it all.")
        probs = model.predict_proba(x)
        found["prediction"] = model.classes_[probs.argmax(1)]
        found |= {f"p_{c}": probs[:, k] for k, c in enumerate(model.classes_)}
    else:
        for name, p in _outputs(model, model.predict_dist(x)).items():
            lead = f"{name}_" if name else ""
            found |= {f"{lead}mean": p.mean, f"{lead}std": p.stddev}
            ends = p.interval(0.9 if interval is None else interval)
            found |= dict(zip((f"{lead}lower", f"{lead}upper"), ends, strict=True))
            found |= {f"{lead}q{level}": p.quantile(level) for level in levels}
        found = {name: column.double().numpy() for name, column in found.items()}
    if ood:
        found["ood_score"] = model.ood_score(x)
    out = library("pandas").DataFrame(found, index=frame.index)
    if not keep:
        return out
    twice = [name for name in frame if name in found]
    remedy = "Rename them, or leave out --keep."
    must(not twice, "--keep", f"leave the results' names free in {table}", listed(twice), remedy)
    return library("pandas").concat([frame, out], axis=1)


def evaluate(
    path: Path, table: Path, note: Note, *, target: str, plots: Path | None
) -> dict[str, Any]:
    """What the model's predictives are worth on a table that holds the target."""
    model = opened(path)
    known = _targets(model) if not target else names(target)
    remedy = "Name its column with --target."
    must(known, str(path), "know its target", "a model saved from Python", remedy)
    frame, x = matched(table, model.table_, known, note)
    _kind(frame, known, table)
    p, rows = model.predict_dist(x), {"rows": len(frame)}
    if isinstance(model, ScrollClassifier):
        must(plots is None, "--plots", "be asked of a regression", f"classes in {path}")
        y = _positions(model.classes_, _classes(frame, known[0]), table)
        nll, hit = -p.log_prob(y).mean(), (p.probs.argmax(-1) == y).double().mean()
        scores = {"nll": nll, "accuracy": hit, "brier": metrics.brier(p, y)}
        return rows | {k: float(v) for k, v in (scores | {"ece": metrics.ece(p, y)}).items()}
    y = torch.from_numpy(_numbers(frame, known, table))
    parts = _outputs(model, p, known)
    truth = dict(zip(parts, y.reshape(len(y), -1).T, strict=True))
    if plots is not None:
        _draw(plots, parts, truth, model.ood_score(x))
    each = {name: _scores(part, truth[name]) for name, part in parts.items()}
    return rows | each.get("", {"targets": each})


def export(path: Path, output: Path, quantiles: str) -> None:
    """Write a model as an ONNX graph."""
    levels = _levels(quantiles)
    free(output, path)
    opened(path).export_onnx(output, tuple(levels))


def info(path: Path) -> dict[str, Any]:
    """What a model knows of itself."""
    from safetensors import safe_open

    model = opened(path)
    with safe_open(path, framework="pt") as file:
        versions = json.loads(file.metadata()[FORMAT])["versions"]
    columns = [asdict(column) for column in model.table_.columns]
    shift = _units(model)
    tried = {name: score + shift for name, score in model.tried_.items()}
    return _about(model) | {"tried": tried, "versions": versions, "columns": columns}


def _about(model: Any) -> dict[str, Any]:
    classes, given = getattr(model, "classes_", None), model.get_params()
    found: dict[str, Any] = {"task": "regression" if classes is None else "classification"}
    found |= {"targets": _targets(model)} | ({} if classes is None else {"classes": classes})
    found["likelihood"] = "ordinal" if given.get("ordered") else given["likelihood"]
    found |= {"covariance": given["covariance"], "members": len(model.routes_)}
    found |= {"bodies": model.bodies_, "routes": model.routes_, "steps": model.n_iter_}
    score = float(np.mean(model.scores_)) + _units(model)
    return json.loads(json.dumps(found | {"held_out_nll": score}, default=np.ndarray.tolist))


def _units(model: Any) -> float:
    """What scores of the standardised target lack to be those of the target itself."""
    return float(model.model_.scale.log().sum())


def lines(found: dict[str, Any], indent: str = "") -> str:
    """Names and values, one a line, as a person reads them."""
    out, width = [], max(map(len, found), default=0)
    for name, value in found.items():
        if isinstance(value, dict):
            out += [f"{indent}{name}", lines(value, f"{indent}  ")]
        elif name == "columns" and isinstance(value, list):
            out += [f"{indent}{name}", *(f"{indent}  {_column(column)}" for column in value)]
        else:
            some = ", ".join(map(str, value)) if isinstance(value, list) else value
            text = f"{some + 0.0:.4g}" if isinstance(some, float) else some  # no -0
            out.append(f"{indent}{name.replace('_', ' '):{width}}  {text}")
    return "\n".join(out)


def _column(column: dict[str, Any]) -> str:
    kinds = f", {len(column['categories'])} kinds" if column["categories"] else ""
    gaps = ", with gaps" if column["missing"] else ""
    return f"{column['name'] or '(no name)'}  {column['kind']}{kinds}{gaps}"


def opened(path: Path) -> Any:
    """A model from its file."""
    remedy = "Make one with scroll fit."
    must(path.is_file(), "model", "be a file", path, remedy, FileNotFoundError)
    return load(path)


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


def _kind(frame: Any, targets: Sequence[str], path: Path) -> str:
    """What the targets hold, once it is known that nothing is missing."""
    for name in targets:
        must(name in frame, str(path), "hold the target", f"none called {name!r}")
        gone = frame[name].isna().to_numpy()
        got = f"{gone.sum()} missing in {path}, the first in row {gone.argmax() + 1}"
        must(not gone.any(), name, "have a value in every row", got, "Drop or fill such rows.")
    infer = library("pandas").api.types.infer_dtype
    found = {name: infer(frame[name]) for name in targets}
    for name, kind in found.items():
        must(kind in KINDS, name, "hold numbers, text or booleans to be a target", kind)
    return next((KINDS[k] for k in found.values() if KINDS[k] != "numbers"), "numbers")


def _classes(frame: Any, name: str) -> Any:
    """A column of labels as integers, booleans or text."""
    labels = np.asarray(frame[name].tolist())
    if labels.dtype.kind == "f":
        whole = bool((labels == labels.round()).all())
        must(whole, name, "hold whole numbers, text or booleans to be classes", "fractions")
        return labels.astype(np.int64)
    return labels if labels.dtype.kind in "biuU" else labels.astype(str)


def _positions(classes: Any, labels: Any, path: Path) -> torch.Tensor:
    """Labels as 0..K-1; classes that look like numbers are known by either form."""
    at = {key: k for k, c in enumerate(classes.tolist()) for key in (str(c), c)}
    found = [at.get(label, at.get(str(label), -1)) for label in labels.tolist()]
    got = f"{listed({str(v) for v, k in zip(labels, found, strict=True) if k < 0})} in {path}"
    must(
        -1 not in found,
        "target",
        f"hold the classes of training, {listed(classes.tolist(), 10)}",
        got,
    )
    return torch.tensor(found)


def _numbers(frame: Any, targets: Sequence[str], path: Path) -> Any:
    """Columns of finite numbers, (N,) or (N, K)."""
    y = np.stack([numeric(frame[name], path).to_numpy(np.float64) for name in targets], -1)
    for name, column in zip(targets, y.T, strict=True):
        bad = ~np.isfinite(column)
        got = f"{column[bad.argmax()]} in row {bad.argmax() + 1} of {path}"
        must(not bad.any(), name, "hold finite numbers", got)
    return y[:, 0] if len(targets) == 1 else y


def _targets(model: Any) -> list[str]:
    """Names of the targets, none where the model was saved without."""
    return list(getattr(model, "target_names_", []))


def _outputs(model: Any, p: Any, targets: Sequence[str] = ()) -> dict[str, Any]:
    """The predictive of each output by its name, of a single one by none."""
    if p.mean.dim() == 1:
        return {"": p}
    known = targets or _targets(model) or [f"y{k}" for k in range(p.mean.shape[1])]
    return {name: _output(p, k) for k, name in enumerate(known)}


def _output(p: Any, k: int) -> Any:
    if isinstance(p, Mixture):
        return Mixture(_output(p.parts, k))
    return Normal(p.mean[..., k], p.noise_var[..., k], p.belief_var[..., k])


def _scores(p: Any, y: torch.Tensor) -> dict[str, float]:
    low, high = p.interval(0.9)
    found = {"nll": metrics.nll(p, y), "crps": metrics.crps(p, y), "rmse": metrics.rmse(p, y)}
    if isinstance(p, Normal | Mixture):  # of counts even the truth is off the diagonal
        found["calibration_error"] = metrics.calibration_error(p, y)
    found["coverage_90"] = ((low <= y) & (y <= high)).double().mean()
    return {name: float(score) for name, score in found.items()}


def _draw(folder: Path, parts: dict[str, Any], truth: dict[str, Any], ood: Any) -> None:
    """Pictures of each output and of the OOD scores; all are drawn before one is written."""
    from . import plots

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
        written(folder / name, picture)
