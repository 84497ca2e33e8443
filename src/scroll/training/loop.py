"""The one training loop: a stack of replicates, each with its own data, stop and checkpoint.

Replicates along the first axis (seeds, architectures, grid points, members) share a graph and
nothing else: the loss is their sum, Adam works elementwise, and a replicate that diverges does
not affect the others. A cycle of steps and the evaluation after it is one program without
decisions, so that a GPU can replay it as a graph; replicates that have stopped leave the stack
between cycles.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from .._core.checks import require
from .batches import Feed, Rows
from .graph import captured
from .network import HeldOutScore, Network, fill, held_out_nll, take
from .settings import Settings
from .state import Trained, TrainingState

Watch = Callable[[int, float], None]  # called with the number that stopped and the best score


def train(
    network: Network,
    rows: Rows,
    held: Rows,
    settings: Settings | None = None,
    *,
    seeds: Sequence[int] | None = None,
    score: HeldOutScore = held_out_nll,
    watch: Watch | None = None,
) -> Trained:
    """Train every replicate until it stops, and return each at its best held-out score.

    Args:
        network: a stack; it is left as it is.
        rows: training rows.
        held: held-out rows, for early stopping and for the choice of the checkpoint.
        settings: how to train; the defaults of `Settings` by default.
        seeds: of the mini-batches, one per replicate.
        score: what is minimised on the held-out rows.
        watch: called after each evaluation with the number of replicates that have stopped and
            the best score so far.
    """
    run = Run(network, rows, held, settings, seeds=seeds, score=score, watch=watch)
    return run.finish()


def train_in_parts(
    network: Network,
    rows: Rows,
    held: Rows,
    settings: Settings | None = None,
    *,
    seeds: Sequence[int] | None = None,
    score: HeldOutScore = held_out_nll,
    watch: Watch | None = None,
) -> Iterator[Trained]:
    """Yield replicates, ready to predict, as they leave the stack; arguments as for `train`."""
    run = Run(network, rows, held, settings, seeds=seeds, score=score, watch=watch)
    yield from run.parts()


class Run:
    """A training in progress: it can be paused, judged by its scores so far, and continued.

    Arguments are those of `train`.
    """

    def __init__(
        self,
        network: Network,
        rows: Rows,
        held: Rows,
        settings: Settings | None = None,
        *,
        seeds: Sequence[int] | None = None,
        score: HeldOutScore = held_out_nll,
        watch: Watch | None = None,
    ):
        self.settings, self.watch = settings or Settings(), watch
        self.network, self.rows, self.held = network, rows, held
        self.left, self.ended, self.least = self.settings.steps, False, torch.inf
        self.state = _start(network, rows, held, self.settings, seeds, score)
        self.finished: list[Trained] = []

    def advance(self, until: int | None = None) -> None:
        """Train until that step, or to the end.

        Args:
            until: number of steps from the start.
        """
        self.finished += self.parts(until)

    def best(self) -> Tensor:
        """Return the best held-out score of each replicate so far, (R,)."""
        best = self.state.best.new_full((len(self.rows.y),), torch.inf)
        for part in self.finished:
            best[part.which] = part.score
        if not self.ended:
            best[self.state.index] = self.state.best
        return best

    def finish(self) -> Trained:
        """Train to the end, and return every replicate at its best held-out score."""
        self.advance()
        return self._together(self.finished)

    def best_so_far(self) -> Network:
        """Return every replicate at its best held-out score so far; training may go on."""
        active = [] if self.ended else [self.state.finished(self.state.index >= 0)]
        return self._together([*self.finished, *active]).network

    def _together(self, finished: list[Trained]) -> Trained:
        """Return the replicates that left the stack one after the other as one stack."""
        which = torch.cat([part.which for part in finished])
        order = which.argsort()
        reached, step, steps = (
            torch.cat(results)[order]
            for results in zip(*((p.score, p.step, p.steps) for p in finished), strict=True)
        )
        together = take(self.network, torch.ones_like(which, dtype=torch.bool)).eval()
        for part in finished:
            fill(together, part.which, part.network)
        with torch.no_grad():
            together.condition(self.rows)
        return Trained(which[order], together, reached, step, steps)

    def parts(self, until: int | None = None) -> Iterator[Trained]:
        """Train until that step, or to the end; yield replicates as they leave the stack.

        Args:
            until: number of steps from the start.
        """
        last = 0 if until is None else max(self.settings.steps - until, 0)
        cycle = self._captured()
        while not self.ended and self.left > last:
            self._train(cycle, last)
            active = self.state.active()
            if self.left == 0 or not bool(active.any()):
                self.ended = True
                yield self.state.finished(torch.ones_like(active))
            elif int(active.sum()) <= _shrink_at(self.settings) * len(active):
                yield self.state.finished(~active)
                self.state = self.state.take(active)
                cycle = self._captured()

    def _captured(self) -> Callable[[], None]:
        return captured(partial(self.state.cycle, self.settings.every), self.rows.y.device)

    def _train(self, cycle: Callable[[], None], last: int) -> None:
        """Train for a few cycles without waiting for the device, and report the progress."""
        for _ in range(10 if self.rows.y.device.type == "cuda" else 1):
            steps = min(self.settings.every, self.left)
            self.state.feed.refill()
            cycle() if steps == self.settings.every else self.state.cycle(steps)
            self.left -= steps
            if self.left <= last:
                break
        self.least = min(self.least, float(self.state.best.min()))
        if self.watch is not None:
            stopped = len(self.rows.y) - int(self.state.active().sum())
            self.watch(stopped, self.least)


def _start(
    network: Network,
    rows: Rows,
    held: Rows,
    settings: Settings,
    seeds: Sequence[int] | None,
    score: HeldOutScore,
) -> TrainingState:
    """Return the state before the first step."""
    require(
        settings.batch is None or network.trainable.batches,
        "batch",
        "be None for a method whose belief is bound to all rows",
        settings.batch,
    )
    own = list(seeds if seeds is not None else range(len(rows.y)))
    each = torch.as_tensor(own, device=rows.y.device)
    feed = Feed(rows, settings.batch, each, settings.every)
    return TrainingState(network, feed, held, settings, score)


def _shrink_at(settings: Settings) -> float:
    """Return the share of active replicates at which they continue in a smaller stack."""
    return 0.5 if settings.compile else 0.8  # a compiled loss is compiled anew for it
