"""Memory and time of training a one-versus-all head on 1,000 classes, one process per head.

    python paper/benchmarks/classes.py [--shape 256,512,1000] [--steps 10] [--heads diag,lowrank]

The peak is that of resident memory during a few steps of Adam, minus the memory of the process
after importing torch and scroll. It holds parameters, gradients, Adam's state, data and all
intermediate results. "full" has K matrices H x H and takes minutes; it is skipped if they might
not fit.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from scroll import ClassificationHead

GB = 2**30


def resident(field: str) -> float:
    """Return a line of this process's memory status, in GB."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / GB


def measured(covariance: str, shape: tuple[int, int, int], steps: int) -> list[float]:
    """Return GB of parameters, peak GB and milliseconds per step, measured in this process."""
    before = resident("VmRSS")
    b, h, k = shape
    torch.manual_seed(0)
    psi, y = torch.randn(b, h), torch.randint(k, (b,))
    head = ClassificationHead(h, k, "ova", covariance)
    adam = torch.optim.Adam(head.parameters(), lr=1e-3)
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        adam.zero_grad()
        loss = head.loss(psi, y, total=50_000)
        loss.backward()
        adam.step()
        times.append(time.perf_counter() - began)
        assert loss.isfinite()
    held = sum(p.numel() * p.element_size() for p in head.parameters()) / GB
    return [held, resident("VmHWM") - before, 1e3 * median(times)]


def in_its_own_process(covariance: str, shape: tuple[int, int, int], steps: int) -> list[str]:
    """Measure one head in a new process; return the cells of its row."""
    command = [sys.executable, __file__, "--one", covariance, "--steps", str(steps)]
    command += ["--shape", ",".join(map(str, shape))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return ["", "", f"failed: {(done.stderr.splitlines() or ['killed'])[-1]}"]
    held, peak, ms = map(float, done.stdout.split())
    return [f"{held:.3f}", f"{peak:.2f}", f"{ms:.0f}"]


def fits(shape: tuple[int, int, int]) -> bool:
    """Return whether 12 full covariances and 3 tensors of rows x classes x width fit in memory."""
    b, h, k = shape
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 4 * (12 * k * h * h + 3 * b * k * h) < 0.8 * free


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", default="256,512,1000", help="rows, features, classes")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--heads", default="none,diag,lowrank,full")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    b, h, k = map(int, given.shape.split(","))
    if given.one:
        print(*measured(given.one, (b, h, k), given.steps))
        return
    threads = torch.get_num_threads()
    table = Table(title=f"(B, H, K) = ({b}, {h}, {k}), {threads} threads")
    for column in ("covariance", "parameters GB", "peak GB", "ms per step"):
        table.add_column(column, justify="left" if column == "covariance" else "right")
    for covariance in given.heads.split(","):
        if covariance == "full" and not fits((b, h, k)):
            table.add_row(covariance, f"{4 * k * h * h / GB:.3f}", "", "skipped: might not fit")
            continue
        steps = given.steps if covariance != "full" else min(given.steps, 3)
        table.add_row(covariance, *in_its_own_process(covariance, (b, h, k), steps))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
