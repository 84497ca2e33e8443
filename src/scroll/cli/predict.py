"""`scroll predict`: a table of predictions, one row per row of the input table."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pandas as pd

from .._core.checks import comma_list, require
from ..estimators import ScrollClassifier
from ..estimators.tasks import as_integers
from ..predictive import Labels, Numeric
from ..tables.frames import Array
from .models import by_output, load_model, target_names, warnings_as_notes
from .table_files import Note, as_written, matched


def predict_table(
    path: Path,
    table: Path,
    note: Note,
    interval: float | None = None,
    levels: Sequence[float] = (),
    ood: bool = False,
    keep: bool = False,
    typed: bool = False,
) -> pd.DataFrame:
    """Return the predictions of a model for a table.

    Args:
        path: the model file.
        table: the table file.
        note: called with each remark on the data.
        interval: coverage of the columns lower and upper, 0.9 by default.
        levels: quantile levels, one further column each.
        ood: whether to add the column ood_score.
        keep: whether to put the columns of the table first.
        typed: whether these are kept as numbers and text; otherwise exactly as written.
    """
    model = load_model(path)
    frame, x = matched(table, model.schema_, target_names(model), note)
    with warnings_as_notes(note):
        p = model.predict_dist(x)
        scores = {"ood_score": model.ood_score(x)} if ood else {}
    if isinstance(model, ScrollClassifier):
        found = _label_columns(model.levels_, p, interval, levels)
    else:
        found = {}
        for name, part in by_output(p, target_names(model)).items():
            found |= _number_columns(f"{name}_" if name else "", part, interval, levels)
    out = pd.DataFrame(found | scores, index=frame.index)
    if not keep:
        return out
    twice = [name for name in frame if name in out]
    want, remedy = f"leave the results' names free in {table}", "Rename them, or leave out --keep."
    require(not twice, "--keep", want, comma_list(twice), remedy)
    return pd.concat([as_written(table, typed), out], axis=1)


def _label_columns(
    classes: Array, p: Labels, interval: float | None, levels: Sequence[float]
) -> dict[str, Array]:
    """Return columns for classes: prediction, interval and quantiles if ordered, probabilities."""
    probs = p.probs.numpy()
    found = {"prediction": classes[probs.argmax(1)]}
    if p.ordered:
        points = _points(cast(Numeric, p), interval, levels)  # which ordered labels have
        found |= {name: classes[k] for name, k in points.items()}
    else:
        for option, given in (("--interval", interval), ("--quantiles", levels or None)):
            want = "be left out for classes without an order"
            require(given is None, option, want, given, "Use their probabilities.")
    return found | {f"p_{label}": probs[:, k] for k, label in enumerate(classes)}


def _number_columns(
    prefix: str, p: Numeric, interval: float | None, levels: Sequence[float]
) -> dict[str, Array]:
    """Return columns for one number: mean, std, interval, quantiles; integers for counts."""
    points = _points(p, interval, levels)
    if p.discrete:
        points = {name: as_integers(values) for name, values in points.items()}
    moments = {"mean": p.mean.numpy(), "std": p.stddev.numpy()}
    return {f"{prefix}{name}": column for name, column in (moments | points).items()}


def _points(p: Numeric, interval: float | None, levels: Sequence[float]) -> dict[str, Array]:
    """Return the ends of the interval, lower and upper, and the quantiles by their names."""
    ends = zip(("lower", "upper"), p.interval(0.9 if interval is None else interval), strict=True)
    points = dict(ends) | {f"q{level}": p.quantile(level) for level in levels}
    return {name: values.numpy() for name, values in points.items()}
