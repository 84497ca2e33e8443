"""Time of stacked replicates relative to a Python loop over the same fits, in one run.

    python paper/benchmarks/population.py [--device cuda] [--steps 40]

On a CPU: time per step of R = 80 networks (H = 50, Full), stacked as in `scroll bench`, eager and
compiled, relative to training them one by one in a loop. On a GPU: milliseconds per step of a
captured graph, and the total time of the three SCROLL methods (8 data sets x 20 seeds x 4 bodies).
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import torch
from joblib import Parallel, delayed

from scroll import RegressionHead
from scroll.training.batches import Feed, Rows
from scroll.training.bodies import MLP
from scroll.training.graph import captured
from scroll.training.memory import CACHED_ROWS
from scroll.training.network import Network, held_out_nll
from scroll.training.settings import Settings
from scroll.training.state import TrainingState

R, H, D, EVERY = 80, 50, 8, 5
ROWS = (32, 200, 1000)


def network(count: int, architecture: str) -> Network:
    """Return a stack of the paper's networks."""
    body = MLP(D, H, architecture=architecture, replicates=(count,))
    return Network(body, RegressionHead(H, bias=False, replicates=(count,)))


def cycle(count: int, n: int, architecture: str, device: str, compiled: bool) -> Callable[[], None]:
    """Return a function that does five steps and one validation check, as in training."""
    torch.manual_seed(0)
    rows = Rows(torch.randn(count, n, D, device=device), torch.randn(count, n, device=device))
    held = Rows(rows.x[:, : n // 3 + 1], rows.y[:, : n // 3 + 1])
    feed = Feed(rows, None, torch.arange(count, device=device), EVERY)
    settings = Settings(every=EVERY, compile=compiled)
    start = network(count, architecture).to(device)
    state = TrainingState(start, feed, held, settings, held_out_nll)
    return captured(lambda: state.cycle(EVERY), torch.device(device))


def seconds(run: Callable[[], None], steps: int) -> float:
    """Return the smallest of three times per step."""
    for _ in range(3):
        run()
    times = []
    for _ in range(3):
        _wait()
        began = time.perf_counter()
        for _ in range(max(1, steps // EVERY)):
            run()
        _wait()
        times.append((time.perf_counter() - began) / max(1, steps // EVERY) / EVERY)
    return min(times)


def alone(size: int, n: int, architecture: str, compiled: bool, steps: int) -> float:
    """Return the seconds per step of a stack in a process with one thread."""
    torch.set_num_threads(1)
    return seconds(cycle(size, n, architecture, "cpu", compiled), steps)


def on_a_cpu(steps: int) -> None:
    """Print ratios to a loop over single networks, which may use all threads.

    Stacks are as in `scroll bench`: no more rows than stay in the cache, one process per core.
    """
    cores = torch.get_num_threads()
    print(f"{R} networks, H = {H}, Full, {cores} cores: ratio to a loop")
    print(f"{'N':>5} {'body':8} {'loop ms':>8} {'stacked':>8} {'compiled':>9}")
    for n in ROWS:
        size = min(R // cores, max(1, CACHED_ROWS // n))
        for architecture in ("relu+LN", "tanh"):
            loop = R * seconds(cycle(1, n, architecture, "cpu", False), steps)
            ratios = []
            for compiled in (False, True):
                task = delayed(alone)(size, n, architecture, compiled, steps)
                each = fmean(Parallel(cores)(task for _ in range(cores)))
                ratios.append(loop / (R / size / cores * each))
            print(f"{n:5} {architecture:8} {1e3 * loop:8.1f} {ratios[0]:8.1f} {ratios[1]:9.1f}")


def on_a_gpu(steps: int) -> None:
    """Print step times and the total time of three methods."""
    for n in (460, 7160):
        for architecture in ("relu+LN", "tanh"):
            each = seconds(cycle(R, n, architecture, "cuda", False), steps)
            print(f"R = {R}, N = {n}, {architecture}: {1e3 * each:.2f} ms per step with checks")
    from scroll_paper.grid.experiments import GRID
    from scroll_paper.tables.experiment import Request, Screen

    rows = ("scroll-full", "scroll-diag", "scroll-none")
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        asked = Request(methods=rows, device="cuda", results=Path(folder))
        GRID["headline"].run(asked, Screen(print))
        print(f"the three SCROLL methods: {time.perf_counter() - began:.0f} s")


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    """Measure on one device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--steps", type=int, default=40)
    given = parser.parse_args()
    (on_a_gpu if given.device == "cuda" else on_a_cpu)(given.steps)


if __name__ == "__main__":
    main()
