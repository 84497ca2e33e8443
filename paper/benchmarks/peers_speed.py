"""Times as ratios within one run, and time and memory against the number of rows."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

import numpy as np
import torch

from rival_parts import Rows, split, threads
from rivals import CLASSIFICATION, REGRESSION, Fit
from scroll import ScrollClassifier, ScrollRegressor
from scroll_paper.data import datasets
from scroll_paper.tables import records

SEED = 5
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PLOT = Path("docs/scaling.png")
FAST = """
import numpy as np
rng = np.random.default_rng(0)
x = rng.standard_normal((1000, 10))
y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(1000)
from scroll import ScrollRegressor
ScrollRegressor(recipe="fast", random_state=0).fit(x, y).predict_dist(x[:10])
"""
GROW = """
import json, os, resource, sys, time
import numpy as np
from scroll import ScrollRegressor
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
rng = np.random.default_rng(0)
rows, new = int(sys.argv[1]), 10_000
x = rng.standard_normal((rows + new, 20), dtype=np.float32)
y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(len(x))
y = y.astype(np.float32)
ScrollRegressor(max_steps=20, random_state=0).fit(x[:1000], y[:1000])
before, began, cpu = peak(), time.perf_counter(), sum(os.times()[:4])
model = ScrollRegressor(random_state=0).fit(x[:rows], y[:rows])
spent, cpu = time.perf_counter() - began, sum(os.times()[:4]) - cpu
score = model.score(x[rows:], y[rows:])  # rows that are new; the noise allows 0.993
memory = {"mib_above_data": peak() - before, "mib": peak()}
print(json.dumps({"fit_s": spent, "fit_cpu_s": cpu, **memory, "r2": score}))
"""


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    """Return the wall seconds of a call, and its result."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def speed(folder: Path) -> None:
    """Print and record times as ratios of one run: fits, predictions, a fresh process."""
    run = datetime.now(timezone.utc).isoformat(timespec="seconds")

    def note(what: str, methods: dict[str, float], **other: float) -> None:
        found = {f"{name}_s": round(s, 4) for name, s in methods.items()} | other
        line = {"fit": {"what": what, "run": run}, "metrics": found, "threads": threads()}
        records.append(folder / "speed.jsonl", [line])
        print(what, found, flush=True)

    labels(note)
    few = Rows(*(part[:200] for part in split("concrete", SEED)[0]))  # imports are not timed
    fits(REGRESSION, ("scroll", "ngboost"), few)
    for name in ("concrete", "kin8nm"):
        train, _ = split(name, SEED)
        spent = fits(REGRESSION, ("scroll", "ngboost"), train)
        note(f"fit {name}", spent, ratio=round(spent["scroll"] / spent["ngboost"], 3))
    predictions(note, split("kin8nm", SEED)[0])
    fresh, done = seconds(
        lambda: subprocess.run([sys.executable, "-c", FAST], capture_output=True, text=True)
    )
    if done.returncode:
        print('skipped recipe="fast":', done.stderr.strip().rpartition("\n")[2])
    else:
        note('recipe="fast", 1,000 x 10, fresh process with import', {"scroll": fresh})


def fits(rows: dict[str, tuple[str, Fit]], names: tuple[str, ...], train: Rows) -> dict[str, float]:
    """Return the seconds that each method takes to fit."""
    return {name: seconds(lambda n=name: rows[n][1](train, SEED))[0] for name in names}


def labels(note: Callable[..., None]) -> None:
    """Time the classifiers on the eight sets with labels: totals, and the median ratio."""
    names, found = ("scroll", "realmlp", "boosting"), []
    warm, _ = split("blood", SEED)
    few = Rows(warm.x[:100], warm.y[:100])  # imports are not timed
    ScrollClassifier(max_steps=20, random_state=SEED).fit(*few)
    fits(CLASSIFICATION, ("realmlp", "boosting"), few)
    for name in datasets.LABELLED:
        found.append(fits(CLASSIFICATION, names, split(name, SEED)[0]))
        note(f"fit {name}", found[-1], **_ratios(found[-1:]))
    totals = {name: sum(spent[name] for spent in found) for name in names}
    medians = {f"median_{k}": v for k, v in _ratios(found).items()}
    note("fit all eight label sets", totals, **_ratios([totals]), **medians)


def _ratios(found: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of the times of ours divided by those of the others."""
    return {
        f"ratio_{other}": round(median(s["scroll"] / s[other] for s in found), 3)
        for other in ("realmlp", "boosting")
    }


def predictions(note: Callable[..., None], train: Rows) -> None:
    """Time the prediction of 100,000 rows by the body "waves" and by NGBoost."""
    many = np.tile(train.x, (100_000 // len(train.x) + 1, 1))[:100_000]
    theirs = REGRESSION["ngboost"][1](train, SEED)
    how = {"body": "waves", "max_steps": 100, "random_state": SEED}
    for members in (1, 5):
        ours = ScrollRegressor(n_members=members, **how).fit(*train).predict_dist
        spent = {}
        for name, predict in (("scroll", ours), ("ngboost", theirs)):
            predict(many[:1000])
            spent[name] = min(seconds(lambda p=predict: p(many))[0] for _ in range(3))
        faster = round(spent["ngboost"] / spent["scroll"], 2)
        what = f"predict 100,000 rows of kin8nm, waves, members: {members}"
        note(what, spent, times_faster=faster)


def memory(folder: Path, plot: bool = False) -> None:
    """Print and record time and peak memory of fits on 20 columns, each in a fresh process."""
    run = datetime.now(timezone.utc).isoformat(timespec="seconds")
    found = []
    for rows in SIZES:
        command = [sys.executable, "-c", GROW, str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        measured = {k: round(v, 4) for k, v in json.loads(done.stdout.splitlines()[-1]).items()}
        line = {"fit": {"what": "scale", "rows": rows, "run": run}, "metrics": measured}
        records.append(folder / "speed.jsonl", [line | {"threads": torch.get_num_threads()}])
        print(f"{rows} x 20:", measured, flush=True)
        found.append(measured)
    if plot:
        picture(found)


def picture(found: list[dict[str, float]]) -> None:
    """Plot time and memory against rows into docs/."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(8, 3), layout="constrained")
    labels = (("fit_cpu_s", "CPU seconds to fit"), ("mib", "peak memory of the process, MiB"))
    for axis, (key, label) in zip(axes, labels, strict=True):
        axis.plot(SIZES, [m[key] for m in found], "o-")
        axis.set(xscale="log", yscale="log", xlabel="rows (20 columns)", ylabel=label)
        axis.grid(alpha=0.3)
    figure.savefig(PLOT, dpi=150)
    print(f"wrote {PLOT}")
