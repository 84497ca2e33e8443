"""`scroll evaluate`: scores of a model on a table that holds the target, and their plots."""

import io
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from .._core.checks import invalid, require
from .._core.files import write
from ..estimators import ScrollClassifier
from ..predictive import Labels, Numeric, metrics
from ..predictive.arguments import as_tensor
from ..tables.censoring import bounds
from ..tables.frames import Array
from ..tables.labels import class_indices
from . import targets as t
from .models import Estimator, Facts, by_output, load_model, target_names, warnings_as_notes
from .table_files import Note, matched


def evaluate_table(
    path: Path,
    table: Path,
    note: Note,
    targets: Sequence[str] = (),
    plots: Path | None = None,
    censored: str = "",
) -> Facts:
    """Return the scores of a model on a table.

    Args:
        path: the model file.
        table: the table file.
        note: called with each remark on the data.
        targets: the target columns of the table, if they are not named as in training.
        plots: a folder for plots of a regression.
        censored: the column that marks censored targets.
    """
    model = load_model(path)
    known = _target_columns(model, path, targets)
    frame, x = matched(table, model.schema_, [*known, censored], note)
    t.target_kind(frame, known, table)
    with warnings_as_notes(note):
        p = model.predict_dist(x)
    rows = {"rows": len(frame)}
    if isinstance(model, ScrollClassifier):
        for option, given in (("--censored", censored), ("--plots", plots)):
            require(not given, option, "be used with regression models", f"classes in {path}")
        return rows | label_scores(p, _label_indices(frame, known[0], table, model))
    y = as_tensor("y", t.read_targets(frame, known, table, "regression", model.likelihood))
    if censored:
        require(plots is None, "--plots", "be left out with --censored", plots)
        return rows | censored_scores(p, y, t.read_flags(frame, censored, table))
    if model.task_.likelihood == "censored":
        note(f"{path} was fitted to censored targets; with --censored COLUMN, bounds count as such")
    parts = by_output(p, known)
    truth = dict(zip(parts, y.reshape(len(y), -1).T, strict=True))
    if plots is not None:
        _draw(plots, parts, truth, model.ood_score(x))
    return rows | _by_target({name: number_scores(p, truth[name]) for name, p in parts.items()})


def _target_columns(model: Estimator, path: Path, targets: Sequence[str]) -> list[str]:
    """Return the target columns: those asked for, or else those of training."""
    known = list(targets) or target_names(model)
    remedy = "Name its column with --target."
    require(known, str(path), "record its target column", "a model saved from Python", remedy)
    return known


def _label_indices(
    frame: pd.DataFrame, target: str, table: Path, model: ScrollClassifier
) -> Tensor:
    """Return the class index of each row's label."""
    labels, levels = t.read_labels(frame, target), model.levels_.tolist()
    index = class_indices(labels, levels, name="target", where=f" in {table}", as_text=True)
    return as_tensor("y", index)


def _by_target(each: dict[str, Facts]) -> Facts:
    """Return the scores of a single target, or those of several by name."""
    return each.get("", {"targets": each})


def label_scores(p: Labels, y: Tensor) -> dict[str, float]:
    """Return the scores of labels y, 0..K-1: NLL, accuracy, Brier score, calibration error."""
    found = {
        "nll": -p.log_prob(y).mean(),
        "accuracy": metrics.accuracy(p, y),
        "brier": metrics.brier(p, y),
        "ece": metrics.ece(p, y),
    }
    if p.ordered:
        found["ranked_probability_score"] = metrics.ranked_probability_score(p, y)
    return {name: float(score) for name, score in found.items()}


def number_scores(p: Numeric, y: Tensor) -> dict[str, float]:
    """Return the scores of numbers or counts y: NLL, CRPS, RMSE, calibration and coverage."""
    low, high = p.interval(0.9)
    found = {
        "nll": metrics.nll(p, y),
        "crps": metrics.crps(p, y),
        "rmse": metrics.rmse(p, y),
        "calibration_error": calibration_error(p, y),
        "coverage_90": ((low <= y) & (y <= high)).double().mean(),
    }
    return {name: float(score) for name, score in found.items()}


def censored_scores(p: Numeric, y: Tensor, flags: Array) -> dict[str, float]:
    """Return the scores of censored numbers: NLL, and concordance if none is left-censored."""
    pairs = torch.from_numpy(bounds(y.numpy(), flags))
    found = {"nll": metrics.censored_nll(p, *pairs.unbind(-1))}
    if (flags >= 0).all():
        found["concordance"] = metrics.concordance(p.quantile(0.5), y, torch.from_numpy(flags > 0))
    return {name: float(score) for name, score in found.items()}


def calibration_error(p: Numeric, y: Tensor) -> Tensor:
    """Return the mean of |nominal - empirical| coverage over the levels of `metrics`.

    Counts use the randomised PIT, drawn between F(y - 1) and F(y): with F(y) alone, even the true
    distribution has a calibration error.
    """
    if not p.discrete:
        return metrics.calibration_error(p, y)
    off = (2 * metrics.pit(p, y, torch.Generator().manual_seed(0)) - 1).abs()
    levels = torch.tensor(metrics.LEVELS, dtype=off.dtype)
    return ((off[:, None] <= levels).to(off).mean(0) - levels).abs().mean()


def _draw(
    folder: Path, parts: Mapping[str, Numeric], truth: Mapping[str, Tensor], ood: Array
) -> None:
    """Write plots of each output and of the OOD scores; all are drawn before one is written."""
    from ..integrations import plots

    plots.pyplot()  # or the remedy
    kinds = {
        "calibration": plots.calibration_curve,
        "pit": plots.pit_histogram,
        "spread": plots.spread_against_residual,
    }
    drawings: dict[str, Callable[..., object]] = {"ood": partial(plots.ood_histogram, ood)}
    for name, p in parts.items():
        for kind, draw in kinds.items():
            drawings[f"{name}_{kind}" if name else kind] = partial(draw, p, truth[name])
    pictures = {f"{n.replace(os.sep, '_')}.png": _png(draw) for n, draw in drawings.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise invalid("--plots", "be a folder", f"{folder}: {error.strerror}") from error
    for name, picture in pictures.items():
        write(folder / name, picture)


def _png(draw: Callable[..., object]) -> bytes:
    """Return the picture that `draw` draws into the axes `ax`."""
    figure = import_module("matplotlib.figure").Figure(figsize=(5, 4), layout="constrained")
    content = io.BytesIO()
    draw(ax=figure.subplots())
    figure.savefig(content, format="png", dpi=150)
    return content.getvalue()
