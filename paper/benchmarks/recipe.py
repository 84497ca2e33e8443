"""The default recipe of the estimators, one change at a time.

    python paper/benchmarks/recipe.py [--task labels] [--seeds 0-4] [--sets yacht,boston]
    python paper/benchmarks/recipe.py --pictures  # docs/recipe/*.png, and the tables

Each row of `CHANGES` changes one parameter of the estimator. A fit gets the training rows of a
split; the validation rows are new rows, by which choices are made, and the test rows are shown
beside them. Results are appended to results/recipe, one line per fit, and never computed twice;
pictures and tables are made from them.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from peers import numbers
from scroll import ScrollClassifier, ScrollRegressor
from scroll.fitting.plans import n_steps
from scroll_paper.data import datasets, protocol
from scroll_paper.tables import records

RESULTS, PICTURES = Path("results/recipe"), Path("docs/recipe")
SHIPPED = "as shipped"
TICKS = (-0.5, -0.1, -0.02, 0, 0.02, 0.1, 0.5)
Change = dict[str, Any] | Callable[[int], dict[str, Any]]  # of the number of steps

BELIEF: dict[str, Change] = {
    "full covariance": {"covariance": "full"},
    "low-rank covariance": {"covariance": "lowrank"},
    "no covariance": {"covariance": "none"},
}
TRAINING: dict[str, Change] = {
    "half the steps": lambda steps: {"max_steps": steps // 2},
    "twice the steps": lambda steps: {"max_steps": 2 * steps},
    "batches of 64": {"batch_size": 64},
    "batches of 256": {"batch_size": 256},
    "learning rate 0.0025": {"learning_rate": 0.0025},
    "learning rate 0.01": {"learning_rate": 0.01},
}
MEMBERS: dict[str, Change] = {
    "1 member": {"n_members": 1},
    "3 members": {"n_members": 3},
    "10 members": {"n_members": 10},
}
RECIPES: dict[str, Change] = {"fast": {"recipe": "fast"}, "best": {"recipe": "best"}}
DECISIONS: dict[str, dict[str, dict[str, Change]]] = {
    "numbers": {
        "belief": BELIEF,
        "route": {name: {"routing": name} for name in ("free", "closed", "hybrid")},
        "bodies": {f"{name} alone": {"body": name} for name in ("smooth", "waves")},
        "members": MEMBERS,
        "tails": {f"{name} tails": {"tails": name} for name in ("gaussian", "student")},
        "target": {"target as it is": {"target": "identity"}},
        "training": TRAINING,
        "recipes": RECIPES,
    },
    "labels": {
        "belief": BELIEF,
        "bodies": {f"{name} alone": {"body": name} for name in ("smooth", "swell", "waves")},
        "members": MEMBERS,
        "training": {k: v for k, v in TRAINING.items() if k != "batches of 64"},  # as shipped
        "recipes": RECIPES,
    },
}
TASKS = {
    "numbers": (ScrollRegressor, datasets.UCI),
    "labels": (ScrollClassifier, datasets.LABELLED),
}


def measured(task: str, name: str, change: Change, seed: int) -> dict[str, float]:
    """Return the NLL of validation and test rows, and the CPU seconds of the fit."""
    table = datasets.load(name)
    x, y = np.asarray(table.x, np.float64), np.asarray(table.y, np.float64)
    y = y.astype(np.int64) if table.classes else y
    parts = protocol.split(range(len(y)), seed)
    kind = "labels" if table.classes else "real"
    how = change(n_steps(len(parts.train), kind)) if callable(change) else change
    began = sum(os.times()[:4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = TASKS[task][0](random_state=seed, **how).fit(x[parts.train], y[parts.train])
    found = {"cpu_s": sum(os.times()[:4]) - began}
    for part, rows in (("validation", parts.val), ("test", parts.test)):
        log_p = model.predict_dist(x[rows]).log_prob(torch.from_numpy(y[rows]))
        found[part] = -float(log_p.mean())
    return found


def changes(task: str) -> dict[str, Change]:
    """Return all changes of a task by name, the recipe itself first."""
    every = [each for decision in DECISIONS[task].values() for each in decision.items()]
    return {SHIPPED: {}} | dict(every)


def run(task: str, sets: list[str], seeds: list[int], asked: list[str]) -> None:
    """Run the fits that are missing from the records."""
    done = records.done(records.load(RESULTS).records)
    for seed in seeds:
        for change in asked:
            for name in sets:
                what = {"set": name, "task": task, "change": change, "seed": seed}
                if records.key(what) in done:
                    continue
                began = time.time()
                found = measured(task, name, changes(task)[change], seed)
                line = {"fit": what, "metrics": {k: float(f"{v:.6g}") for k, v in found.items()}}
                made = records.made(began, torch.device("cpu"))
                records.append(RESULTS / f"{task}.jsonl", [line | made])
                print(change, name, seed, line["metrics"], flush=True)


def pairs(task: str, change: str, metric: str) -> dict[str, list[tuple[float, float]]]:
    """Return the metric with the change and as shipped, by set; only where both were run."""
    fits: dict[tuple[str, int], dict[str, float]] = {}
    for record in records.load(RESULTS).records:
        fit = record["fit"]
        if fit["task"] == task and fit["change"] in (SHIPPED, change):
            both = fits.setdefault((fit["set"], fit["seed"]), {})
            both[fit["change"]] = record["metrics"][metric]
    found: dict[str, list[tuple[float, float]]] = {}
    for (name, _), both in fits.items():
        if len(both) == 2:
            found.setdefault(name, []).append((both[change], both[SHIPPED]))
    return found


def cost(task: str, change: str) -> float:
    """Return the CPU seconds of all fits, divided by those of the recipe."""
    every = [pair for found in pairs(task, change, "cpu_s").values() for pair in found]
    return sum(changed for changed, _ in every) / sum(shipped for _, shipped in every)


def picture(task: str, decision: str) -> None:
    """Draw the differences of one decision, one dot per set, and print them as a table."""
    from matplotlib.figure import Figure

    sets = TASKS[task][1]
    known = {c: pairs(task, c, "validation") for c in DECISIONS[task][decision]}
    known = {c: found for c, found in known.items() if found}
    if not known:
        return
    print(f"\n**{task}: {decision}**\n\n| | {' | '.join(sets)} | CPU time |")
    print(f"|---|{'---:|' * (len(sets) + 1)}")
    figure = Figure(figsize=(7, 1.2 + 0.45 * len(known)), layout="constrained")
    axis = figure.subplots()
    for row, (change, found) in enumerate(known.items()):
        means = {name: fmean(a - b for a, b in found[name]) for name in sets if name in found}
        cells = [f"{means[name]:+.3f}" if name in means else "--" for name in sets]
        print(f"| {change} | {' | '.join(cells)} | {cost(task, change):.1f} |")
        for k, name in enumerate(sets):
            if name in means:
                at = max(-0.5, min(0.5, means[name]))
                axis.plot(at, row, "o", color=f"C{k}", alpha=0.8, label="" if row else name)
    axis.axvline(0, color="0.5", lw=1)
    axis.set_yticks(range(len(known)), list(known))
    axis.set_xlabel("validation NLL minus that of the recipe (right: worse)")
    axis.set_xscale("symlog", linthresh=0.02, linscale=0.5)
    axis.set_xticks(TICKS, [f"{x:+g}" if x else "0" for x in TICKS])
    axis.minorticks_off()
    axis.set_xlim(-0.6, 0.6)
    axis.set_ylim(len(known) - 0.5, -0.5)
    figure.legend(loc="outside right center", fontsize="small")
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / f"{task}_{decision}.png", dpi=130)


def main() -> None:
    """Run the missing fits, or draw the records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="numbers", choices=TASKS)
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--sets", default="")
    parser.add_argument("--changes", default="", help="names between commas; without it, all")
    parser.add_argument("--pictures", action="store_true", help="draw the records only")
    given = parser.parse_args()
    if given.pictures:
        for task, decisions in DECISIONS.items():
            for decision in decisions:
                picture(task, decision)
        return
    sets = given.sets.split(",") if given.sets else TASKS[given.task][1]
    asked = given.changes.split(",") if given.changes else list(changes(given.task))
    run(given.task, sets, numbers(given.seeds), asked)


if __name__ == "__main__":
    main()
