"""Compare the estimators with other libraries on the same splits.

    python paper/benchmarks/peers.py [--sets yacht,boston] [--seeds 5-9] [--rows scroll,ngboost]
    python paper/benchmarks/peers.py --task classification
    python paper/benchmarks/peers.py --speed  # times as ratios, ONNX latency, memory

Regression: every method trains on the training rows and uses the validation rows of the same
split for early stopping or selection. Classification: every method gets both together. Results are
appended to results/peers, one line per fit, and never computed twice; the tables are printed from
them. The paper's recipe comes from the records of `scroll bench headline` and `scroll bench
classification`.
"""

import argparse
import os
import time
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory

import numpy as np
import torch

from rivals import CLASSIFICATION, REGRESSION, split
from scroll import ScrollRegressor
from scroll.predictive import metrics
from scroll_paper.data import datasets, protocol
from scroll_paper.tables import records
from scroll_paper.tables.selection import Selection

RESULTS = Path("results")
TASKS = {  # methods, sets, metrics, and the row of the paper's tables that is shown below
    "regression": (
        REGRESSION,
        datasets.UCI,
        ("nll", "rmse", "calibration", "coverage90", "fit_s", "predict_s"),
        ("scroll-full", {}),
    ),
    "classification": (
        CLASSIFICATION,
        datasets.LABELLED,
        ("nll", "ece", "brier", "accuracy", "fit_s", "predict_s"),
        ("ova-full", {"architecture": "relu+LN"}),
    ),
}


def measured(task: str, row: str, name: str, seed: int) -> dict[str, float] | None:
    """Return the metrics of one fit on the test rows, and its time."""
    data = split(name, seed)
    began = time.perf_counter()
    predict = TASKS[task][0][row][1](data, seed)
    if predict is None:
        return None
    fitted = time.perf_counter()
    p, y = predict(data[2][0]), torch.from_numpy(data[2][1])
    spent = {"fit_s": fitted - began, "predict_s": time.perf_counter() - fitted}
    if task == "classification":
        return {k: float(v) for k, v in protocol.metrics(p, y.long()).items()} | spent
    low, high = p.interval(0.9)
    return {
        "nll": float(metrics.nll(p, y)),
        "rmse": float(metrics.rmse(p, y)),
        "calibration": float(metrics.calibration_error(p, y)),
        "coverage90": float(((low <= y) & (y <= high)).double().mean()),
    } | spent


def run(task: str, sets: list[str], seeds: list[int], rows: list[str]) -> None:
    """Run the fits that are missing from the records."""
    folder = RESULTS / "peers"
    done = records.done(records.load(folder).records)
    for name in sets:
        for seed in seeds:
            for row in rows:
                what = {"set": name, "method": row, "seed": seed}
                if records.key(what) in done or (found := measured(task, row, name, seed)) is None:
                    continue
                line = {"fit": what, "metrics": {k: round(v, 5) for k, v in found.items()}}
                records.append(records.file_of(folder, name), [line | {"threads": THREADS}])
                print(name, seed, row, line["metrics"], flush=True)


def table(task: str, sets: list[str], seeds: list[int]) -> None:
    """Print means and standard errors of the records as Markdown, one table per metric."""
    loaded = records.load(RESULTS / "peers").records
    rows, _, measures, (below, where) = TASKS[task]
    index = Selection(records.load(RESULTS).records)
    for metric in measures:
        print(f"\n**{metric}**\n\n| | {' | '.join(sets)} |\n|---|{'---:|' * len(sets)}")
        for row, (label, _) in rows.items():
            cells = []
            for name in sets:
                mine = [
                    r["metrics"][metric]
                    for r in loaded
                    if r["fit"]["method"] == row
                    and r["fit"]["set"] == name
                    and r["fit"]["seed"] in seeds
                ]
                cells.append(_cell(mine))
            print(f"| {label} | {' | '.join(cells)} |")
        if metric in ("nll", "rmse", "ece"):
            cells = [
                _cell(list(index.values(name, below, where, seeds, metric).values()))
                for name in sets
            ]
            print(f"| the paper's recipe (`scroll bench`) | {' | '.join(cells)} |")


def _cell(values: list[float]) -> str:
    if not values:
        return "--"
    error = f" ± {stdev(values) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{error}"


def speed() -> None:
    """Print time ratios of one run: fits, predictions of 100,000 rows, one row through ONNX."""
    for name, limit in (("concrete", 3), ("kin8nm", 2)):
        data, times, fits = split(name, 5), {}, {}
        for row in ("ngboost", "scroll", "scroll-5"):
            began = time.perf_counter()
            fits[row] = REGRESSION[row][1](data, 5)
            times[row] = time.perf_counter() - began
        print(
            f"{name}: NGBoost {times['ngboost']:.1f} s, one member {times['scroll']:.1f} s "
            f"({times['scroll'] / times['ngboost']:.2f}x, limit {limit}), five members "
            f"{times['scroll-5']:.1f} s ({times['scroll-5'] / times['scroll']:.2f}x one, limit 2.5)"
        )
        many = np.tile(data[2][0], (100_000 // len(data[2][0]) + 1, 1))[:100_000]
        for row in fits:
            began = time.perf_counter()
            fits[row](many)
            times[row] = time.perf_counter() - began
        print(
            f"{name}, 100,000 rows: NGBoost {times['ngboost']:.2f} s, one member "
            f"{times['scroll']:.2f} s ({times['ngboost'] / times['scroll']:.0f}x faster, want 20), "
            f"five {times['scroll-5']:.2f} s"
        )
    import onnxruntime

    with TemporaryDirectory() as folder:
        x, y = data[0]
        model = ScrollRegressor(max_steps=100, random_state=0).fit(x, y)
        file = Path(folder) / "model.onnx"
        model.export_onnx(file)
        session = onnxruntime.InferenceSession(str(file))
        one = {"codes": x[:1]}
        session.run(None, one)
        began = time.perf_counter()
        for _ in range(1000):
            session.run(None, one)
        print(f"one row through ONNX: {time.perf_counter() - began:.2f} ms (limit 1)")


def memory() -> None:
    """Print the peak memory of a fit on 1,000,000 x 20 float32 rows, above the data itself."""
    import resource

    rng = np.random.default_rng(0)
    x = rng.standard_normal((1_000_000, 20), dtype=np.float32)
    y = (np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(len(x))).astype(np.float32)
    ScrollRegressor(max_steps=20, random_state=0).fit(x[:1000], y[:1000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    model = ScrollRegressor(random_state=0).fit(x, y)
    spent = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"1,000,000 x 20: {spent:.0f} s, {(after - before) / 2**20:.2f} GiB above the data, "
        f"R2 {model.score(x[:10_000], y[:10_000]):.4f}"
    )


THREADS = int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads()))


def numbers(text: str) -> list[int]:
    """Return the numbers of a text such as 5-9 or 5,6,9."""
    low, dash, high = text.partition("-")
    return list(range(int(low), int(high) + 1)) if dash else [int(n) for n in text.split(",")]


def main() -> None:
    """Run the missing fits and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="regression", choices=TASKS)
    parser.add_argument("--sets", default="")
    parser.add_argument("--seeds", default="5-9")
    parser.add_argument("--rows", default="")
    parser.add_argument("--tables", action="store_true", help="print the tables only")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    if given.speed or given.memory:
        (speed if given.speed else memory)()
        return
    rows, sets, *_ = TASKS[given.task]
    sets = given.sets.split(",") if given.sets else sets
    seeds = numbers(given.seeds)
    if not given.tables:
        run(given.task, sets, seeds, given.rows.split(",") if given.rows else list(rows))
    table(given.task, sets, seeds)


if __name__ == "__main__":
    main()
