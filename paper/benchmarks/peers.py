"""Compare the estimators with other libraries on the same splits.

    python paper/benchmarks/peers.py [--sets yacht,california] [--seeds 5-9] [--rows scroll,tabm]
    python paper/benchmarks/peers.py --task classification
    python paper/benchmarks/peers.py --tables --protocol validation  # the earlier records
    python paper/benchmarks/peers.py --speed   # times as ratios; run it on an idle machine
    python paper/benchmarks/peers.py --memory  # time and memory against rows; --scale: as a plot

Every method gets the training and validation rows of a split together, 80 % of the table. Methods
that need held-out rows make five folds of them, shuffled by the seed of the split and the same for
all. Results are appended to results/peers, one line per fit with "protocol": "folds", and never
computed twice; the tables are printed from them. Records without a protocol are earlier ones, of
methods that trained on the training rows and stopped on the validation rows; tables never mix the
two. The paper's recipe comes from the records of `scroll bench headline` and `scroll bench
classification`.
"""

import argparse
import os
import time
from pathlib import Path
from statistics import fmean, stdev

import torch

from peers_speed import memory, speed
from rival_parts import split, threads
from rivals import CLASSIFICATION, REGRESSION
from scroll.predictive import metrics
from scroll_paper.data import datasets, protocol
from scroll_paper.tables import records
from scroll_paper.tables.selection import Selection

RESULTS = Path("results")
PROTOCOL = "folds"
TIMES = ("fit_s", "fit_cpu_s", "predict_s")
TASKS = {  # methods, sets, metrics, and the row of the paper's tables that is shown below
    "regression": (
        REGRESSION,
        datasets.UCI,
        ("nll", "rmse", "crps", "calibration", "coverage90", *TIMES),
        ("scroll-full", {}),
    ),
    "classification": (
        CLASSIFICATION,
        datasets.LABELLED,
        ("nll", "ece", "brier", "accuracy", *TIMES),
        ("ova-full", {"architecture": "relu+LN"}),
    ),
}


def measured(task: str, row: str, name: str, seed: int) -> dict[str, float] | None:
    """Return the metrics of one fit on the test rows, and its times."""
    train, test = split(name, seed)
    began, cpu = time.perf_counter(), sum(os.times()[:4])  # with all threads and child processes
    predict = TASKS[task][0][row][1](train, seed)
    if predict is None:
        return None
    fitted, spent = time.perf_counter(), sum(os.times()[:4]) - cpu
    p, y = predict(test.x), torch.from_numpy(test.y)
    times = zip(TIMES, (fitted - began, spent, time.perf_counter() - fitted), strict=True)
    if task == "classification":
        return {k: float(v) for k, v in protocol.metrics(p, y).items()} | dict(times)
    low, high = p.interval(0.9)
    return {
        "nll": float(metrics.nll(p, y)),
        "rmse": float(metrics.rmse(p, y)),
        "crps": float(metrics.crps(p, y)),
        "calibration": float(metrics.calibration_error(p, y)),
        "coverage90": float(((low <= y) & (y <= high)).double().mean()),
    } | dict(times)


def run(task: str, sets: list[str], seeds: list[int], rows: list[str], folder: Path) -> None:
    """Run the fits that are missing from the records."""
    done = records.done(records.load(folder).records)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for name in sets:
        for seed in seeds:
            for row in rows:
                what = {"set": name, "method": row, "seed": seed, "protocol": PROTOCOL}
                began = time.time()
                if records.key(what) in done or (found := measured(task, row, name, seed)) is None:
                    continue
                line = {"fit": what, "metrics": {k: float(f"{v:.6g}") for k, v in found.items()}}
                made = records.made(began, device) | {"threads": threads()}
                records.append(records.file_of(folder, name), [line | made])
                print(name, seed, row, line["metrics"], flush=True)


def table(task: str, sets: list[str], seeds: list[int], folder: Path, made_by: str) -> None:
    """Print means and standard errors of the records as Markdown, one table per metric."""
    fits = [r for r in records.load(folder).records if "set" in r["fit"]]  # others are times
    fits = [r for r in fits if r["fit"].get("protocol") == (made_by or None)]
    rows, _, measures, (below, where) = TASKS[task]
    index = Selection(records.load(RESULTS).records)
    for metric in measures:
        print(f"\n**{metric}**\n\n| | {' | '.join(sets)} |\n|---|{'---:|' * len(sets)}")
        for row, (label, _) in rows.items():
            cells = []
            for name in sets:
                same = [r for r in fits if (r["fit"]["set"], r["fit"]["method"]) == (name, row)]
                found = [r["metrics"].get(metric) for r in same if r["fit"]["seed"] in seeds]
                cells.append(_cell([v for v in found if v is not None]))
            if any(cell != "--" for cell in cells):
                print(f"| {label if made_by else row} | {' | '.join(cells)} |")
        if metric in ("nll", "rmse", "ece"):
            found = [index.values(name, below, [where], seeds, metric).values() for name in sets]
            cells = [_cell(list(values)) for values in found]
            print(f"| the paper's recipe (`scroll bench`) | {' | '.join(cells)} |")


def _cell(values: list[float]) -> str:
    if not values:
        return "--"
    error = f" ± {stdev(values) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{error}"


def numbers(text: str) -> list[int]:
    """Return the numbers of a text such as 5-9 or 5,6,9."""
    low, dash, high = text.partition("-")
    return list(range(int(low), int(high) + 1)) if dash else [int(n) for n in text.split(",")]


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="regression", choices=TASKS)
    parser.add_argument("--sets", default="", help="names, also california, protein and flights")
    parser.add_argument("--seeds", default="5-9")
    parser.add_argument("--rows", default="", help="methods by name; without it, all")
    parser.add_argument("--records", type=Path, default=RESULTS / "peers", help="folder")
    parser.add_argument("--tables", action="store_true", help="print the tables only")
    parser.add_argument("--protocol", default=PROTOCOL, choices=(PROTOCOL, "validation"))
    parser.add_argument("--speed", action="store_true", help="times as ratios")
    parser.add_argument("--memory", action="store_true", help="time and memory against rows")
    parser.add_argument("--scale", action="store_true", help="--memory, and a plot of it in docs/")
    return parser.parse_args()


def main() -> None:
    """Run the missing fits and print the tables."""
    given = arguments()
    if given.speed:
        return speed(given.records)
    if given.memory or given.scale:
        return memory(given.records, plot=given.scale)
    rows, sets, *_ = TASKS[given.task]
    sets = given.sets.split(",") if given.sets else sets
    seeds = numbers(given.seeds)
    earlier = given.protocol == "validation"
    if not (given.tables or earlier):
        chosen = given.rows.split(",") if given.rows else list(rows)
        run(given.task, sets, seeds, chosen, given.records)
    table(given.task, sets, seeds, given.records, "" if earlier else PROTOCOL)


if __name__ == "__main__":
    main()
