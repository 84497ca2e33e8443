"""Few rows: the regressor with and without a linear body, and Bayesian ridge regression.

python paper/benchmarks/few_rows.py --seeds 4:8

Prints the NLL on new rows and the coverage of the 90 % interval, means over seeds, and how often
the linear body was chosen.
"""

import argparse
from collections.abc import Iterator
from statistics import fmean

import numpy as np
import torch
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.linear_model import BayesianRidge

from scroll import ScrollRegressor
from scroll.fitting import plans
from scroll.predictive import Normal, Numeric

Rows = tuple[str, np.ndarray, np.ndarray, int]  # name, x, y, rows to fit on


def tables(seed: int, n: int = 1000) -> Iterator[Rows]:
    """Return tables: linear, nonlinear, pure noise, more columns than rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    y = x @ rng.normal(size=5) + 0.3 * rng.normal(size=n)
    yield from ((f"linear, {k} rows", x, y, k) for k in (30, 60, 100, 200))
    x = rng.uniform(-2, 2, size=(n, 2))
    y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] ** 2 + 0.2 * rng.normal(size=n)
    yield from ((f"sine, {k} rows", x, y, k) for k in (30, 60, 100, 200))
    x, y = make_friedman1(n, 10, noise=1.0, random_state=seed)
    yield from ((f"friedman, {k} rows", x, y, k) for k in (40, 100, 200))
    x = rng.normal(size=(n, 200))
    yield "200 columns, 60 rows", x, x[:, :5].sum(1) + 0.5 * rng.normal(size=n), 60
    x, y = rng.normal(size=(n, 5)), rng.normal(size=n)
    yield from ((f"noise, {k} rows", x, y, k) for k in (30, 100))
    x = rng.normal(size=(n, 3))
    y = x[:, 0] + 0.3 * np.exp(0.7 * x[:, 1]) * rng.normal(size=n)
    yield from ((f"heteroscedastic, {k} rows", x, y, k) for k in (60, 150))
    x, y = load_diabetes(return_X_y=True)
    order = rng.permutation(len(y))
    yield from ((f"diabetes, {k} rows", x[order], y[order], k) for k in (60, 150))


def scores(p: Numeric, y: torch.Tensor) -> tuple[float, float]:
    """Return NLL and coverage."""
    low, high = p.interval(0.9)
    covered = ((low <= y) & (y <= high)).double().mean()
    return -float(p.log_prob(y).mean()), float(covered)


def measured(seed: int, members: int) -> Iterator[tuple[str, str, tuple[float, float], bool]]:
    """Return table, method, scores and whether a member is linear."""
    few = plans.FEW
    for name, x, y, k in tables(seed):
        new = torch.from_numpy(y[k:])
        for method, limit in (("without", 0), ("with", few)):
            plans.FEW = limit
            model = ScrollRegressor(n_members=members, random_state=seed).fit(x[:k], y[:k])
            found = scores(model.predict_dist(x[k:]), new)
            yield name, method, found, "linear" in model.bodies_
        ridge = BayesianRidge().fit(x[:k], y[:k])
        mean, std = (torch.from_numpy(part) for part in ridge.predict(x[k:], return_std=True))
        yield name, "ridge", scores(Normal(mean, std**2, 0 * std), new), True


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:4", help="from:to")
    parser.add_argument("--members", type=int, default=1)
    asked = parser.parse_args()
    found: dict[str, dict[str, list[tuple[tuple[float, float], bool]]]] = {}
    for seed in range(*map(int, asked.seeds.split(":"))):
        for name, method, score, linear in measured(seed, asked.members):
            found.setdefault(name, {}).setdefault(method, []).append((score, linear))
            print(f"{seed} {name}, {method}: {score[0]:.3f} {score[1]:.2f}", flush=True)
    methods = ("without", "with", "ridge")
    print(f"\n| table | {' | '.join(methods)} | linear |\n|---|---|---|---|---|")
    for name, rows in found.items():
        cells = [
            f"{fmean(s[0] for s, _ in rows[m]):.3f} / {fmean(s[1] for s, _ in rows[m]):.2f}"
            for m in methods
        ]
        taken = f"{sum(linear for _, linear in rows['with'])} of {len(rows['with'])}"
        print(f"| {name} | {' | '.join(cells)} | {taken} |")


if __name__ == "__main__":
    main()
