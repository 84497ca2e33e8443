"""Cost of a head's loss and backward pass relative to `nn.Linear`, in one run.

    python paper/benchmarks/heads.py [--quick]

Times are medians over rounds in which every contender takes its turn, so that a noisy moment
affects all of them. A ratio compares the better of eager and compiled of both. There are two
states of the cache: "hot" repeats the same step, which favours the smaller layer; "cold" uses the
cache for something else first, as a body does in training. Memory is the peak of a new process
above parameters, gradients and the optimiser's state.
"""

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

import scroll
from scroll.training.progress import progress

SHAPES = ((128, 512, 10), (64, 512, 50), (64, 512, 1000))
LIGHT = ("none", "diag", "lowrank")
TASKS = ("classification", "regression")


def contender(name, task, shape):
    """Return a function without arguments that does one loss and backward pass."""
    b, h, k = shape
    torch.manual_seed(0)
    psi = torch.randn(b, h, requires_grad=True)
    y = torch.randint(k, (b,)) if task == "classification" else torch.randn(b, k)
    kind, _, mode = name.partition("/")
    if kind == "linear":
        layer, fit = nn.Linear(h, k), cross_entropy if task == "classification" else mse_loss

        def loss(psi, y):
            return fit(layer(psi), y)

    elif kind == "vbll":
        import vbll

        layer = vbll.DiscClassification(h, k, 1 / 50_000, parameterization="dense")

        def loss(psi, y):
            return layer(psi).train_loss_fn(y)

    else:
        make = scroll.ClassificationHead if task == "classification" else scroll.RegressionHead
        layer = make(h, k, covariance=kind)

        def loss(psi, y):
            return layer.loss(psi, y, total=50_000)

    run = torch.compile(loss, fullgraph=True) if mode == "compiled" else loss

    def step():
        psi.grad = None
        layer.zero_grad()
        run(psi, y).backward()

    step.layer = layer
    return step


def times(task, shape, kinds, rounds):
    """Return median milliseconds of `nn.Linear` and of these heads: {name: (hot, cold)}."""
    names = [f"{kind}/{mode}" for kind in ("linear", *kinds) for mode in ("eager", "compiled")]
    steps = {name: contender(name, task, shape) for name in names}
    other = torch.zeros(16_000_000)  # 64 MB, as a body would have in the cache
    hot, cold = {name: [] for name in names}, {name: [] for name in names}
    for _ in range(rounds):
        for name, step in steps.items():
            for _ in range(5):
                step()
            hot[name] += [seconds(step) for _ in range(10)]
            for _ in range(5):
                other += 1
                cold[name].append(seconds(step))
    return {name: (1e3 * median(hot[name]), 1e3 * median(cold[name])) for name in names}


def seconds(step):
    """Return the wall time of one step."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def best(ms, kind):
    """Return the better of eager and compiled, hot and cold."""
    both = [ms.get(f"{kind}/{mode}", (float("nan"),) * 2) for mode in ("eager", "compiled")]
    return [min(each) for each in zip(*both, strict=True)]


def resident(field):
    """Return a line of this process's memory status, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", status)[1]) / 1024


def peak(kind, task, shape):
    """Return the peak MB of eager steps above parameters, gradients and Adam's state."""
    step = contender(f"{kind}/eager", task, shape)
    tiny = contender(f"{kind}/eager", task, (8, 16, 3))  # loads what the first step loads
    for _ in range(2):
        tiny()
    adam = torch.optim.Adam(step.layer.parameters(), foreach=False)
    for p in step.layer.parameters():
        p.grad = torch.ones_like(p)
    adam.step()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    for _ in range(3):
        step()
    return resident("VmHWM") - before


def peak_in_own_process(kind, task, shape):
    """Return `peak` as measured in a new process."""
    command = [sys.executable, __file__, "--peak", kind, task, json.dumps(shape)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else float("nan")


def rows(task, shape):
    """Return the cells of the table for one task and shape, one row per head."""
    heavy = ("full",) if shape[2] <= 100 else ()  # measured in a separate round
    found = []
    for kinds, rounds in ((LIGHT, 10), (heavy, 1)):
        if not kinds:
            continue
        ms = times(task, shape, kinds, rounds)
        plain = best(ms, "linear")
        peers = ("vbll",) if kinds == heavy and task == "classification" else ()
        for kind in (*(("linear",) if kinds == LIGHT else ()), *kinds, *peers):
            mine = best(ms, kind)
            label = {"linear": "nn.Linear", "vbll": "vbll dense"}.get(kind, f"scroll {kind}")
            ratios = (f"{a / b:.2f}" for a, b in zip(mine, plain, strict=True))
            memory = f"{peak_in_own_process(kind, task, shape):.0f}"
            times_in_ms = (f"{t:.3f}" for t in mine)
            found.append((task, ", ".join(map(str, shape)), label, *times_in_ms, *ratios, memory))
    return found


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first shape only")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(2)
    warnings.simplefilter("ignore")
    if args.peak:
        kind, task, shape = args.peak
        print(peak(kind, task, tuple(json.loads(shape))))
        return
    console = Console(width=120)
    table = Table(title=f"loss + backward, torch {torch.__version__}, 2 threads")
    columns = ("hot ms", "cold ms", "hot ratio", "cold ratio", "peak MB")
    for column in ("task", "B, H, K", "head", *columns):
        table.add_column(column, justify="left" if column in ("task", "head") else "right")
    torch.compiler.config.recompile_limit = 64
    jobs = [(task, shape) for shape in SHAPES[: 1 if args.quick else None] for task in TASKS]
    with progress(console, len(jobs), "shapes") as update:
        for done, (task, shape) in enumerate(jobs, start=1):
            for cells in rows(task, shape):
                table.add_row(*cells)
            table.add_section()
            update(done)
    console.print(table)


if __name__ == "__main__":
    main()
