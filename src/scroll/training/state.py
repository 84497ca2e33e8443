"""The state of a stack in training: parameters, best checkpoints, and when replicates stop."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from .._core.checks import unchecked
from ..beliefs.sums import RowSums
from .batches import Feed, Rows
from .network import HeldOutScore, Network, take
from .optimiser import Adam, FlatParameters
from .settings import Settings, step_factors


class Trained(NamedTuple):
    """Replicates at their best held-out score.

    Attributes:
        which: indices of the replicates in the stack, (R,).
        network: these replicates.
        score: the least held-out score, (R,).
        step: the step at which it was reached, (R,).
        steps: number of steps taken, (R,).
    """

    which: Tensor
    network: Network
    score: Tensor
    step: Tensor
    steps: Tensor


class TrainingState:
    """The replicates still in the stack: all that a cycle reads and writes.

    Args:
        network: a stack; it is copied.
        feed: the training rows.
        held: the held-out rows.
        settings: how to train.
        score: what is minimised on the held-out rows.
    """

    def __init__(
        self, network: Network, feed: Feed, held: Rows, settings: Settings, score: HeldOutScore
    ):
        count, like = len(held.y), held.x  # the precision of scores; y may be labels
        self.network, self.feed, self.held = copy.deepcopy(network), feed, held
        self.settings, self.score, self.total = settings, score, feed.rows.y.shape[1]
        self.loss = _loss(self.network, settings)
        self.seen = None if feed.batch is None else self.network.seen(feed.rows)
        lr = torch.as_tensor(settings.lr).to(like).expand(count)
        flat = FlatParameters(self.network, count, like)
        body = {id(p) for p in self.network.body.parameters()}
        penalty = flat.spread([2 * settings.decay * (id(p) in body) for p in flat.parameters])
        shrink = flat.spread([settings.weight_decay * (id(p) in body) for p in flat.parameters])
        self.adam = Adam(flat, lr, penalty, shrink, step_factors(settings, lr))
        self.kept, self.mean = flat.values.clone(), flat.values.clone()
        self.best = torch.full((count,), torch.inf, dtype=like.dtype, device=like.device)
        self.index = torch.arange(count, device=like.device)
        self.best_step, self.taken, self.waited = (torch.zeros_like(self.index) for _ in range(3))

    def cycle(self, steps: int) -> None:
        """Take some steps of Adam, then evaluate on the held-out rows."""
        with unchecked():  # NaN is looked for here, replicate by replicate
            self.network.train()
            for step in range(steps):
                self.adam.step(self.loss(self.feed.part(step), self.total, 0.0, self._rest(step)))
                if self.settings.average > 1:
                    share = 1 / self.adam.count.clamp(max=self.settings.average).to(self.mean)
                    self.mean.lerp_(self.adam.flat.values, share)
            self.network.eval()
            with torch.no_grad(), self._averaged():
                self.network.condition(self.feed.rows)
                self._record(self.score(self.network, self.held))

    def _rest(self, step: int) -> Callable[[Tensor], RowSums] | None:
        """Return what gives the sums over the rows outside the batch of a step, if needed."""
        return None if self.seen is None else partial(self.seen.swap, self.feed.index(step))

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Let the network have the averages of its parameters, if there are any."""
        flat = self.adam.flat
        if self.settings.average > 1:
            flat.assign(self.mean)
        try:
            yield
        finally:
            flat.assign(flat.values)

    def _record(self, reached: Tensor) -> None:
        """Keep replicates with a new best score; count the evaluations of the others."""
        active = self.active()
        better = active & (reached < self.best)
        step = self.adam.count
        self.taken.copy_(torch.where(active, step, self.taken))
        self.best_step.copy_(torch.where(better, step, self.best_step))
        self.best.copy_(torch.where(better, reached, self.best))
        self.waited.copy_(torch.where(better, 0, self.waited + 1))
        now = self.mean if self.settings.average > 1 else self.adam.flat.values
        self.kept.copy_(torch.where(better[:, None], now, self.kept))

    def active(self) -> Tensor:
        """Return which replicates have not stopped, (R,)."""
        how = self.settings
        share = (how.patience_share * self.best_step / how.every).floor()
        return (self.waited < share.clamp(min=how.patience)) & self.adam.sound

    @torch.no_grad()
    def finished(self, which: Tensor) -> Trained:
        """Return some of the replicates, each at its best."""
        network = take(self.network, which)
        FlatParameters(network, int(which.sum()), self.kept).assign(self.kept[which])
        network.eval()
        with unchecked():
            network.condition(self.feed.rows.take(which))
        results = (x[which] for x in (self.best, self.best_step, self.taken))
        return Trained(self.index[which], network, *results)

    def take(self, keep: Tensor) -> "TrainingState":
        """Return the state of some of the replicates."""
        less = copy.copy(self)
        less.network, less.held = take(self.network, keep), self.held.take(keep)
        less.seen = None if self.seen is None else self.seen.take(keep)
        less.feed, less.loss = self.feed.take(keep), _loss(less.network, self.settings)
        less.adam = self.adam.take(FlatParameters(less.network, int(keep.sum()), self.kept), keep)
        for name in ("kept", "mean", "best", "index", "best_step", "taken", "waited"):
            setattr(less, name, getattr(self, name)[keep])
        return less


def _loss(network: Network, settings: Settings) -> Callable[..., Tensor]:
    """Return the network's loss, compiled if asked for."""
    return torch.compile(network.loss) if settings.compile else network.loss
