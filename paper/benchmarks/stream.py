"""Data that do not fit in memory: a refit in one pass, and training in mini-batches.

    python paper/benchmarks/stream.py [--rows 10000000] [--features 100] [--epochs 3] [--data F]

The stream is simulated batch by batch. The table is `flights`, from $SCROLL_DATA or --data. Memory
is the peak of the process minus its memory before (for the table: with the table in memory). It is
also printed for a tenth of the rows, where it should be the same.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from scroll import RegressionHead, refit
from scroll.training.batches import Rows
from scroll.training.bodies import MLP
from scroll.training.loop import train
from scroll.training.network import Network
from scroll.training.settings import Settings
from scroll_paper.data import datasets

BATCH = 10_000


def stream(rows: int, features: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of rows, y = psi . w + noise of 0.5."""
    draw = torch.Generator().manual_seed(0)
    w = torch.randn(features, generator=draw)
    for start in range(0, rows, BATCH):
        psi = torch.randn(min(BATCH, rows - start), features, generator=draw)
        yield psi, psi @ w + 0.5 * torch.randn(len(psi), generator=draw)


def streamed(rows: int, features: int) -> tuple[int, str]:
    """Refit in one pass; return the rows seen and the noise."""
    bound = refit(RegressionHead(features), stream(rows, features))
    return int(bound.statistics.count), f"noise {float(bound.noise):.4f}"


def drawn(rows: int, features: int) -> tuple[int, str]:
    """Read the stream without a refit; return its rows and the sum of y."""
    return rows, f"sum {float(sum(y.sum() for _, y in stream(rows, features))):.0f}"


def train_on_table(x: Tensor, y: Tensor, epochs: int, batch: int = 1000) -> tuple[int, str]:
    """Train one network in mini-batches, validated on 20,000 rows; return rows seen and score."""
    torch.manual_seed(0)
    at = 20_000
    rows, held = Rows(x[None, at:], y[None, at:]), Rows(x[None, :at], y[None, :at])
    network = Network(MLP(x.shape[1], replicates=(1,)), RegressionHead(50, replicates=(1,)))
    steps = max(1, epochs * rows.y.shape[1] // batch)
    settings = Settings(steps, lr=0.01, every=50, batch=batch, schedule="one-cycle")
    done = train(network, rows, held, settings)
    return int(done.steps[0]) * batch, f"held-out NLL {float(done.score[0]):.4f}"


def flights(folder: str | None) -> tuple[Tensor, Tensor]:
    """Return the table in single precision, standardised, in random order."""
    table = datasets.load("flights", folder)
    order = torch.randperm(len(table.y), generator=torch.Generator().manual_seed(0))
    x, y = (torch.as_tensor(part, dtype=torch.float32)[order] for part in (table.x, table.y))
    return (x - x.mean(0)) / x.std(0).clamp(min=1e-6), (y - y.mean()) / y.std()


def measured(run: Callable[[], tuple[int, str]], before: float) -> tuple[float, float, str]:
    """Return rows per second, peak MiB above `before`, and the result as text."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    began = time.perf_counter()
    rows, result = run()
    return rows / (time.perf_counter() - began), mebibytes("VmHWM") - before, result


def mebibytes(name: str = "VmRSS") -> float:
    """Return the memory of the process, now or at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def show(what: str, speed: float, peak: float, result: str) -> None:
    """Print one line of results."""
    print(f"{what:30} {speed:10,.0f} rows/s {peak:8.1f} MiB  {result}", flush=True)


def main() -> None:
    """Measure the stream and the table, each first with a tenth of the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--data", default=None)
    asked = parser.parse_args()
    print(f"{torch.get_num_threads()} threads")
    streamed(2 * BATCH, asked.features)  # warm-up
    before = mebibytes()
    for rows in (asked.rows // 10, asked.rows):
        for what, run in (("stream alone", drawn), ("refit of a stream", streamed)):
            show(f"{what}, {rows:,}", *measured(partial(run, rows, asked.features), before))
    if not datasets.at_hand("flights", asked.data):
        print("flights: not in $SCROLL_DATA or --data")
        return
    x, y = flights(asked.data)
    print(f"flights: {len(y):,} rows, {(x.nbytes + y.nbytes) / 2**20:.1f} MiB")
    train_on_table(x[:30_000], y[:30_000], 1)
    before = mebibytes()
    for count in (20_000 + len(y) // 10, len(y)):
        found = measured(partial(train_on_table, x[:count], y[:count], asked.epochs), before)
        show(f"training on {count:,}", *found)


if __name__ == "__main__":
    main()
