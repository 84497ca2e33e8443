"""Cross-fitting, or one held-out part for all members: NLL of new rows and CPU seconds.

    python paper/benchmarks/crossfit.py [--sets protein,flights] [--sizes 2000,10000,25000]

`ScrollRegressor` is fitted to some rows of a shuffled table; 20,000 others are new. Results
are appended to results/recipe/crossfit.jsonl, one line per fit, and never computed twice.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from scroll import ScrollRegressor
from scroll.estimators import rows as rows_of
from scroll_paper.data import datasets
from scroll_paper.tables import records

RESULTS = Path("results/recipe/crossfit.jsonl")
NEW = 20_000
WAYS = {"cross-fitted": 10**9, "one held-out part": 0}  # most rows that are cross-fitted


def measured(name: str, size: int, most: int, seed: int) -> dict[str, float]:
    """Return the NLL of new rows and the CPU seconds of a fit."""
    table = datasets.load(name)
    x, y = np.asarray(table.x, np.float64), np.asarray(table.y, np.float64)
    order = np.random.default_rng(seed).permutation(len(y))
    new, train = order[:NEW], order[NEW : NEW + size]
    rows_of.CROSSFIT_ROWS = most
    began = sum(os.times()[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ScrollRegressor(target="identity", random_state=seed).fit(x[train], y[train])
    spent = sum(os.times()[:4]) - began
    log_p = model.predict_dist(x[new]).log_prob(torch.from_numpy(y[new]))
    return {"nll": round(-float(log_p.mean()), 6), "cpu_s": round(spent, 2)}


def main() -> None:
    """Run the missing fits and print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="protein,flights")
    parser.add_argument("--sizes", default="2000,10000,25000")
    parser.add_argument("--seeds", default="0")
    given = parser.parse_args()
    done = records.done(records.load(RESULTS.parent).records)
    for size in map(int, given.sizes.split(",")):
        for name in given.sets.split(","):
            for seed in map(int, given.seeds.split(",")):
                for way, most in WAYS.items():
                    what = {"set": name, "task": f"{size} rows", "change": way, "seed": seed}
                    if records.key(what) in done:
                        continue
                    began = time.time()
                    found = measured(name, size, most, seed)
                    line = {"fit": what, "metrics": found}
                    records.append(RESULTS, [line | records.made(began, torch.device("cpu"))])
    for record in records.load(RESULTS.parent).records:
        if record["fit"]["change"] in WAYS:
            fit = record["fit"]
            print(fit["set"], fit["task"], fit["change"], fit["seed"], record["metrics"])


if __name__ == "__main__":
    main()
