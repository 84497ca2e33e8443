"""Awkward tables: outliers, skewed costs, small tables of counts, censored lifetimes.

    python paper/benchmarks/awkward.py [--seeds 15-19] [--kinds outliers,costs,counts,lifetimes]
    python paper/benchmarks/awkward.py --tables  # print the tables only

Every table is fitted by `ScrollRegressor` with its defaults and by the model that a statistician
would take. The score is the NLL of new rows. Results are appended to results/awkward, one line per
fit, and never computed twice; the tables are printed from them.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy import stats

from peers import numbers
from rival_boosting import lognormal, mixed
from rival_parts import Rows
from scroll import ScrollRegressor
from scroll.predictive import metrics
from scroll_paper.studies.counted import counts
from scroll_paper.tables import records

RESULTS = Path("results/awkward")
SHARE, FACTOR = 0.01, 20.0  # of planted outliers, and how much larger their noise is
NEW = 20_000  # new rows of a simulated table


class Case(NamedTuple):
    """A table, rows to predict, and the methods that fit it; each returns scores by name."""

    name: str
    methods: dict[str, Callable[[], dict[str, float]]]


def scores(model: ScrollRegressor, x: object, y: np.ndarray) -> dict[str, float]:
    """Return NLL, and the coverage and the least lower end of 90 % intervals."""
    p, y = model.predict_dist(x), torch.from_numpy(y)
    low, high = p.interval(0.9)
    inside = ((low <= y) & (y <= high)).double().mean()
    found = {"nll": metrics.nll(p, y), "coverage90": inside, "lowest": low.min()}
    return {name: float(value) for name, value in found.items()}


def outliers(seed: int) -> Iterator[Case]:
    """Three simulated tables, clean and with 1 % of the rows 20 times as noisy."""
    shapes = {
        "line": lambda x: (x @ [1.0, -2.0, 0.5, 0.0], 0.5 + 0 * x[:, 0]),
        "waves": lambda x: (np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2], 0.3 + 0 * x[:, 0]),
        "uneven noise": lambda x: (x[:, 0] ** 2 - x[:, 1], 0.3 * np.exp(0.5 * x[:, 2])),
    }
    for name, of in shapes.items():
        for share in (0.0, SHARE):
            rng = np.random.default_rng([seed, len(name), round(100 * share)])
            x = rng.normal(size=(1000 + NEW, 4))
            mean, std = of(x)
            wide = np.where(rng.random(len(x)) < share, FACTOR, 1.0)
            y = mean + std * wide * rng.normal(size=len(x))
            fit = lambda tails, x=x, y=y: scores(
                _fitted(x[:1000], y[:1000], seed, tails=tails), x[1000:], y[1000:]
            )
            truth = lambda mean=mean, std=std, y=y, share=share: _truth(mean, std, y, share)
            methods = {"tails='auto'": lambda fit=fit: fit("auto"), "the true model": truth}
            methods["tails='gaussian'"] = lambda fit=fit: fit("gaussian")
            yield Case(f"{name}, {'outliers' if share else 'clean'}", methods)


def _truth(mean: np.ndarray, std: np.ndarray, y: np.ndarray, share: float) -> dict[str, float]:
    """The NLL of the density that made the new rows."""
    mean, std, y = mean[1000:], std[1000:], y[1000:]
    density = (1 - share) * stats.norm.pdf(y, mean, std)
    density += share * stats.norm.pdf(y, mean, FACTOR * std)
    return {"nll": float(-np.log(density).mean())}


def costs(seed: int) -> Iterator[Case]:
    """A log-normal cost of 3,000 rows with categories, and NGBoost's log-normal."""
    rng = np.random.default_rng([seed, 7])
    n = 3000 + NEW
    region, plan = rng.integers(6, size=n), rng.integers(3, size=n)
    age, visits = rng.uniform(18, 90, n), rng.poisson(3, n)
    effect = rng.normal(size=6) * 0.4
    centre = 6 + effect[region] + 0.3 * plan + 0.02 * age + 0.15 * visits * (plan == 2)
    y = np.exp(centre + (0.3 + 0.2 * (plan == 1)) * rng.normal(size=n))
    frame = pd.DataFrame({"age": age, "visits": visits})
    frame["region"] = np.array(list("abcdef"))[region]
    frame["plan"] = np.array(["basic", "plus", "full"])[plan]
    plain = pd.get_dummies(frame).to_numpy(float)

    def boosted() -> dict[str, float]:
        predict = mixed(lognormal, 1, logarithmic=True)(Rows(plain[:3000], y[:3000]), seed)
        p = predict(plain[3000:])
        low, high = p.interval(0.9)
        new = torch.from_numpy(y[3000:])
        inside = ((low <= new) & (new <= high)).double().mean()
        found = {"nll": metrics.nll(p, new), "coverage90": inside, "lowest": low.min()}
        return {name: float(value) for name, value in found.items()}

    def ours(target: str) -> dict[str, float]:
        model = _fitted(frame[:3000], y[:3000], seed, target=target)
        return scores(model, frame[3000:], y[3000:])

    yield Case(
        "costs, 3,000 rows",
        {
            "target='auto'": lambda: ours("auto"),
            "target='identity'": lambda: ours("identity"),
            "NGBoost, log-normal": boosted,
        },
    )


def small_counts(seed: int) -> Iterator[Case]:
    """Public counts and simulated tables of 200 to 900 rows, and the matching GLM."""
    data = {name: load() for name, load in counts.SETS.items()}
    for rows in (200, 500, 900):
        rng = np.random.default_rng([seed, rows])
        x = rng.normal(size=(rows + 5000, 4))
        rate = np.exp(0.5 + x @ [0.5, -0.3, 0.2, 0.0])
        data[f"simulated, {rows} rows"] = x, rng.poisson(rate * rng.gamma(2, 0.5, len(x))) + 0.0
    for name, (x, y) in data.items():
        rng = np.random.default_rng([seed, 11])
        order = np.arange(len(y)) if name.startswith("sim") else rng.permutation(len(y))
        n = int(name.split()[1]) if name.startswith("sim") else 900
        train, new = order[:n], order[n : n + 5000]
        unit = (x - x[train].mean(0)) / np.where(x[train].std(0) > 0, x[train].std(0), 1)
        parts = counts.Split(train.tolist(), [], new.tolist())
        task = counts.Task(unit, y, parts, seed, None)

        def ours(x: np.ndarray = unit, y: np.ndarray = y, a=train, b=new) -> dict[str, float]:
            return scores(_fitted(x[a], y[a], seed, likelihood="negbinomial"), x[b], y[b])

        def glm(task: counts.Task = task, y: np.ndarray = y, b=new) -> dict[str, float]:
            found = counts.negative_binomial(task)
            return {"nll": float(metrics.nll(found, torch.from_numpy(y[b])))}

        label = name if name.startswith("sim") else f"{name}, {n} rows"
        yield Case(label, {"ScrollRegressor": ours, "negative-binomial GLM": glm})


def lifetimes(seed: int) -> Iterator[Case]:
    """Right-censored lifetimes, and the accelerated-failure-time models of lifelines."""
    for name, noise in (("log-normal", None), ("Weibull", 1.5)):
        rng = np.random.default_rng([seed, len(name)])
        x = rng.normal(size=(1000 + 5000, 4))
        error = 0.5 * rng.normal(size=len(x)) if noise is None else rng.gumbel(size=len(x)) / -noise
        t = np.exp(1 + x @ [0.6, -0.4, 0.0, 0.2] + error)
        limit = rng.exponential(2 * np.median(t), len(x))
        y, open_end = np.minimum(t, limit), t > limit

        def ours(x=x, y=y, c=open_end) -> dict[str, float]:
            model = _fitted(x[:1000], y[:1000], seed, censored=c[:1000] * 1)
            p, low = model.predict_dist(x[1000:]), torch.from_numpy(y[1000:])
            high = torch.where(torch.from_numpy(c[1000:]), torch.inf, low)
            found = {"nll": float(metrics.censored_nll(p, low, high))}
            score = model.score(x[1000:], y[1000:], censored=c[1000:] * 1)
            return found | {"concordance": score}

        methods = {"ScrollRegressor": ours}
        for kind in ("LogNormalAFTFitter", "WeibullAFTFitter", "CoxPHFitter"):
            methods[kind] = lambda kind=kind, x=x, y=y, c=open_end: _lifelines(kind, x, y, c)
        yield Case(f"{name}, {open_end[:1000].mean():.0%} censored", methods)


def _lifelines(kind: str, x: np.ndarray, y: np.ndarray, open_end: np.ndarray) -> dict[str, float]:
    """Fit a model of lifelines; Cox's has no density, so no NLL."""
    import lifelines

    frame = pd.DataFrame(x, columns=list("abcd")).assign(t=y, event=~open_end)
    model = getattr(lifelines, kind)().fit(frame[:1000], "t", "event")
    new = frame[1000:]
    found = {"concordance": model.score(new, "concordance_index")}
    if kind != "CoxPHFitter":
        found["nll"] = -model.score(new, "log_likelihood")
    return {name: float(value) for name, value in found.items()}


def _fitted(x: object, y: np.ndarray, seed: int, **how: object) -> ScrollRegressor:
    more = {"censored": how.pop("censored")} if "censored" in how else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ScrollRegressor(random_state=seed, **how).fit(x, y, **more)


KINDS = {
    "outliers": (outliers, ("nll", "coverage90")),
    "costs": (costs, ("nll", "coverage90", "lowest")),
    "counts": (small_counts, ("nll",)),
    "lifetimes": (lifetimes, ("nll", "concordance")),
}


def run(kind: str, seeds: list[int]) -> None:
    """Fit what the records lack."""
    done = records.done(records.load(RESULTS).records)
    for seed in seeds:
        for case in KINDS[kind][0](seed):
            for method, fit in case.methods.items():
                what = {"set": kind, "table": case.name, "method": method, "seed": seed}
                if records.key(what) in done:
                    continue
                began = time.time()
                found = {name: float(f"{value:.6g}") for name, value in fit().items()}
                line = {"fit": what, "metrics": found}
                made = records.made(began, torch.device("cpu"))
                records.append(RESULTS / f"{kind}.jsonl", [line | made])
                print(case.name, method, seed, found, flush=True)


def table(kind: str, seeds: list[int]) -> None:
    """Print means and standard errors over the seeds as Markdown, one table per metric."""
    fits = [r for r in records.load(RESULTS).records if r["fit"]["set"] == kind]
    fits = [r for r in fits if r["fit"]["seed"] in seeds]
    rows, columns = (list(dict.fromkeys(r["fit"][k] for r in fits)) for k in ("table", "method"))
    rows = list(dict.fromkeys(name.partition("% c")[0].rstrip("0123456789") for name in rows))
    for metric in KINDS[kind][1]:
        print(f"\n**{kind}: {metric}**\n\n| | {' | '.join(columns)} |")
        print(f"|---|{'---:|' * len(columns)}")
        for row in rows:
            cells = []
            for method in columns:
                same = [r for r in fits if r["fit"]["method"] == method]
                same = [r for r in same if r["fit"]["table"].startswith(row)]
                found = [r["metrics"][metric] for r in same if metric in r["metrics"]]
                error = f" ± {stdev(found) / len(found) ** 0.5:.3f}" if len(found) > 1 else ""
                cells.append(f"{fmean(found):.3f}{error}" if found else "--")
            print(f"| {row.rstrip(', ')} | {' | '.join(cells)} |")


def main() -> None:
    """Run the missing fits and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="15-19")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--tables", action="store_true", help="print the tables only")
    given = parser.parse_args()
    for kind in given.kinds.split(","):
        if not given.tables:
            run(kind, numbers(given.seeds))
        table(kind, numbers(given.seeds))


if __name__ == "__main__":
    main()
