"""Rows with equal inputs: held out together, one by one, or as the estimators decide.

python paper/benchmarks/equal_rows.py --seeds 0:3 --jobs 2

NLL on 2,000 new rows, means over seeds. Tables of categories are compared with the matching
generalised linear model, which has one parameter per cell.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
import torch
from scipy import stats

from scroll import ScrollClassifier, ScrollRegressor
from scroll.fitting import split
from scroll.fitting.split import held_out_together

Inputs = Any  # an array or a frame
Draw = Callable[[int], tuple[Inputs, np.ndarray]]
COUNTS, LABELS = ("poisson", "negbinomial"), ("labels", "ordered")
POLICIES: dict[str, Callable[..., np.ndarray]] = {
    "by (x, y)": lambda inputs, records, columns, largest: records - records.min(),
    "by x": lambda inputs, records, columns, largest: inputs - inputs.min(),
    "one by one": lambda inputs, records, columns, largest: np.arange(len(inputs)),
    "as decided": held_out_together,
}


class Table(NamedTuple):
    """Rows to fit on, and a function that draws new ones."""

    name: str
    task: str
    x: Inputs
    y: np.ndarray
    draw: Draw


def cells(rng: np.random.Generator, task: str, levels: tuple[int, ...], exact: bool) -> Draw:
    """Draw categories; each cell has its own mean."""
    means = rng.normal(size=levels)
    for axis, count in enumerate(levels):
        shape = [count if a == axis else 1 for a in range(len(levels))]
        means = means + rng.normal(size=shape)
    means = means / np.sqrt(1 + len(levels))

    def draw(n: int) -> tuple[Inputs, np.ndarray]:
        x = rng.integers(levels, size=(n, len(levels)))
        f, noise = means[tuple(x.T)], 0.0 if exact else rng.normal(size=n)
        target = {
            "gaussian": lambda: f + 0.5 * noise,
            "poisson": lambda: rng.poisson(np.exp(0.7 + 0.6 * f)).astype(float),
            "negbinomial": lambda: rng.poisson(np.exp(0.7 + 0.6 * f) * rng.gamma(2, 0.5, n)) * 1.0,
            "labels": lambda: (f + noise > 0).astype(int),
            "ordered": lambda: np.digitize(f + 0.7 * noise, [-0.7, 0.3, 1.1]),
        }
        frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(len(levels))])
        return frame.astype(str).astype("category"), target[task]()

    return draw


def measurements(rng: np.random.Generator, task: str, zeros: float = 0.0) -> Draw:
    """Draw real inputs; a share of the rows is zero throughout, with random targets."""
    slope = rng.normal(size=4)

    def draw(n: int) -> tuple[Inputs, np.ndarray]:
        x = rng.normal(size=(n, 4))
        x[rng.random(n) < zeros] = 0.0
        f = np.sin(2 * x[:, 0]) + 0.5 * x @ slope
        y = f + 0.5 * rng.normal(size=n)
        return x, y if task == "gaussian" else (y > 0).astype(int)

    return draw


def repeated(draw: Draw, n: int, share: float, copies: int) -> tuple[Inputs, np.ndarray]:
    """Draw n rows, of which a share are exact copies."""
    x, y = draw(n)
    some = int(share * n / copies)
    index = np.r_[np.repeat(np.arange(some), copies), some : n - (copies - 1) * some]
    return x[index], y[index]


def tables(seed: int) -> Iterator[Table]:
    """Cells of every task, then measurements with repeated records."""
    rng = np.random.default_rng(seed)
    for task, levels, n, exact in (
        ("gaussian", (4, 2, 3), 500, False),
        ("gaussian", (10, 10), 500, False),
        ("gaussian", (10, 10), 500, True),
        ("poisson", (4, 2, 3), 500, False),
        ("negbinomial", (4, 3), 600, False),
        ("labels", (2,), 500, False),
        ("labels", (4, 2, 3), 1000, False),
        ("labels", (10, 10), 600, False),
        ("labels", (10, 10), 500, True),
        ("ordered", (4, 2, 3), 600, False),
    ):
        draw = cells(rng, task, levels, exact)
        name = f"{int(np.prod(levels))} cells, {n} rows, {task}{', exact' if exact else ''}"
        yield Table(name, task, *draw(n), draw)
    for task, share, copies in (
        ("gaussian", 0.2, 2),
        ("gaussian", 0.6, 2),
        ("gaussian", 1.0, 2),
        ("gaussian", 1.0, 5),
        ("labels", 0.3, 2),
        ("labels", 1.0, 2),
        ("labels", 1.0, 5),
    ):
        draw = measurements(rng, task)
        name = f"{share:.0%} of 300 records {copies} times, {task}"
        yield Table(name, task, *repeated(draw, 300, share, copies), draw)
    for task, share in (("gaussian", 0.3), ("labels", 0.4), ("labels", 0.6)):
        draw = measurements(rng, task, share)
        yield Table(f"{share:.0%} of 400 rows zero, {task}", task, *draw(400), draw)


def ours(table: Table, policy: str, seed: int, new: tuple[Inputs, np.ndarray]) -> float:
    """Return the estimators' NLL on new rows under a policy."""
    split.held_out_together = POLICIES[policy]
    likelihood = table.task if table.task in COUNTS else "gaussian"
    model = ScrollRegressor(likelihood=likelihood, random_state=seed)
    if table.task in LABELS:
        model = ScrollClassifier(ordered=table.task == "ordered", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = model.fit(table.x, table.y).predict_dist(new[0])
    return -float(p.log_prob(torch.from_numpy(new[1])).mean())


def linear(table: Table, new: tuple[Inputs, np.ndarray]) -> float:
    """Return the NLL of the generalised linear model with one parameter per cell."""
    import statsmodels.api as sm
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    both = pd.concat([table.x, new[0]]).astype(str).agg("".join, axis=1)
    design = pd.get_dummies(both, drop_first=table.task == "ordered").to_numpy(float)
    a, b = design[: len(table.y)], design[len(table.y) :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if table.task == "ordered":
            fit = OrderedModel(table.y, a, distr="probit").fit(
                method="bfgs", disp=False, maxiter=1000
            )
            return -float(np.log(fit.predict(b)[np.arange(len(b)), new[1]]).mean())
        if (
            table.task == "labels"
        ):  # half a success and half a failure per cell: no label is impossible
            p = (a.T @ table.y + 0.5) / (a.sum(0) + 1)
            return -float(np.log(np.where(new[1] == 1, b @ p, 1 - b @ p)).mean())
        if table.task == "gaussian":
            fit = sm.OLS(table.y, a).fit()
            return -float(stats.norm.logpdf(new[1], fit.predict(b), fit.scale**0.5).mean())
        if table.task == "poisson":
            fit = sm.Poisson(table.y, a).fit(disp=0)
            return -float(stats.poisson.logpmf(new[1], fit.predict(b)).mean())
        fit = sm.NegativeBinomial(table.y, a).fit(disp=0)
        r, rate = 1 / fit.params[-1], fit.predict(b)
        return -float(stats.nbinom.logpmf(new[1], r, r / (r + rate)).mean())


def measured(seed: int, index: int, policy: str) -> tuple[str, str, float]:
    """Score one table under one policy, or by its linear model."""
    torch.set_num_threads(1)
    table = list(tables(seed))[index]
    new = table.draw(2000)
    score = linear(table, new) if policy == "GLM" else ours(table, policy, seed, new)
    return table.name, policy, score


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:3", help="from:to")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    every = [table.name for table in tables(0)]
    jobs = [
        (seed, index, policy)
        for seed in range(*map(int, asked.seeds.split(":")))
        for index, name in enumerate(every)
        for policy in (*POLICIES, *(["GLM"] if "cells" in name and "exact" not in name else []))
    ]
    found: dict[tuple[str, str], list[float]] = {}
    for name, policy, score in joblib.Parallel(asked.jobs)(
        joblib.delayed(measured)(*job) for job in jobs
    ):
        found.setdefault((name, policy), []).append(score)
    columns = (*POLICIES, "GLM")
    print(f"| table | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for name in every:
        row = [f"{fmean(found[name, c]):.3f}" if (name, c) in found else "" for c in columns]
        print(f"| {name} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
