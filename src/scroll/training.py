"""The one training loop: a stack of replicates, each with its own data, stop and checkpoint.

Replicates along the first axis (seeds, architectures, grid points, members) share a graph and
nothing else: the loss is their sum, Adam works elementwise, and what befalls one of them, a NaN
included, stays with it.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .checks import must, unchecked
from .head import Head


class Rows(NamedTuple):
    """Inputs and targets, one set a replicate."""

    x: Tensor  # (R, N, ...)
    y: Tensor  # (R, N) or (R, N, K)


class Network(nn.Module):
    """A body and a head."""

    def __init__(self, body: nn.Module, head: Head):
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x: Tensor) -> Any:
        """The predictive of each row."""
        return self.head(self.body(x))

    def loss(self, rows: Rows, total: int, decay: float) -> Tensor:
        """The head's loss on all `total` rows and decay |theta|^2, (R,)."""
        data = total * self.head.loss(self.body(rows.x), rows.y, total=total)
        penalty = sum((w.square().flatten(1).sum(-1) for w in self.body.parameters()), 0.0)
        return data + decay * penalty

    def condition(self, rows: Rows) -> None:
        """Give a bound head its training data; a free one needs none."""
        if not self.head.objective.batches:
            self.head.condition(self.body(rows.x), rows.y)


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Args:
        steps: of Adam, at most.
        lr: their size; a tensor (R,) for one each.
        decay: weight of |theta|^2 of the body against the sum over the data.
        every: steps between two looks at the held-out rows.
        patience: looks without a better score after which a replicate stops.
        batch: rows a step; None is all of them.
    """

    steps: int = 10_000
    lr: float | Tensor = 0.03
    decay: float = 0.01
    every: int = 5
    patience: int = 100
    batch: int | None = None


class Trained(NamedTuple):
    """Each replicate where its held-out score was best."""

    network: Network
    score: Tensor  # (R,), the least held-out score
    step: Tensor  # (R,), at which it was reached
    steps: Tensor  # (R,), taken in all


Score = Callable[[Network, Rows], Tensor]
Watch = Callable[[int, float], None]


def held_out_nll(network: Network, held: Rows) -> Tensor:
    """Mean of -log p(y_n) over the held-out rows, (R,)."""
    score: Tensor = network(held.x).log_prob(held.y)
    return -score.flatten(2).sum(-1).mean(-1) if score.dim() > 2 else -score.mean(-1)


def stack(make: Callable[[tuple[int, ...]], Network], seeds: Sequence[int]) -> Network:
    """`make((R,))`, whose replicate r starts where `make(())` starts under seed r."""
    together = make((len(seeds),))
    with torch.no_grad(), torch.random.fork_rng():
        for r, seed in enumerate(seeds):
            torch.manual_seed(seed)
            for p, q in zip(together.parameters(), make(()).parameters(), strict=True):
                p[r] = q
    return together


def train(
    network: Network,
    rows: Rows,
    held: Rows,
    recipe: Recipe | None = None,
    *,
    seeds: Sequence[int] | None = None,
    score: Score = held_out_nll,
    watch: Watch | None = None,
) -> Trained:
    """Train every replicate until it stops, and keep each where it was best.

    Args:
        network: a stack; it is left as it is.
        rows: to train on.
        held: to stop by and to choose the checkpoint by.
        recipe: how.
        seeds: of the mini-batches, one a replicate.
        score: what is to be small on the held-out rows.
        watch: told, at each look, how many replicates have stopped and the best score so far.
    """
    recipe = recipe or Recipe()
    count, n = rows.y.shape[:2]
    must(
        recipe.batch is None or network.head.objective.batches,
        "batch",
        f"be None for method {network.head.method!r}, whose belief is bound to all rows",
        recipe.batch,
    )
    feed = _Feed(rows, recipe.batch, seeds if seeds is not None else range(count))
    now, kept = copy.deepcopy(network), copy.deepcopy(network)
    adam = _Adam(list(now.parameters()), torch.as_tensor(recipe.lr).to(rows.x).expand(count))
    alive = torch.arange(count, device=rows.y.device)  # who is still in the stack
    best = torch.full((count,), torch.inf, dtype=rows.x.dtype, device=rows.y.device)
    at, taken, waited = (torch.zeros_like(alive) for _ in range(3))
    with unchecked():  # a NaN is looked at here, replicate by replicate
        for step in range(1, recipe.steps + 1):
            adam.step(now.loss(feed.next(), n, recipe.decay))
            if step % recipe.every and step < recipe.steps:
                continue
            with torch.no_grad():
                now.condition(feed.rows)
                reached = score(now, held)
            going = (waited[alive] < recipe.patience) & adam.sound
            taken[alive[going]] = step
            better = going & (reached < best[alive])
            _copy(now, better, kept, alive[better])
            best[alive[better]], at[alive[better]] = reached[better], step
            waited[alive] = torch.where(better, 0, waited[alive] + 1)
            going &= waited[alive] < recipe.patience
            if watch is not None:
                watch(count - int(going.sum()), float(best.min()))
            if not bool(going.any()):
                break
            waited[alive[~going]] = recipe.patience
            if int(going.sum()) <= 0.75 * len(alive):  # the others go on in a smaller stack
                now, held, feed = (
                    _take(now, going),
                    Rows(held.x[going], held.y[going]),
                    feed.take(going),
                )
                adam, alive = adam.take(list(now.parameters()), going), alive[going]
        with torch.no_grad():
            kept.condition(rows)
    return Trained(kept, best, at, taken)


class _Feed:
    """Batches of each replicate's rows, drawn from its own seed."""

    def __init__(self, rows: Rows, batch: int | None, seeds: Sequence[int]):
        n = rows.y.shape[1]
        self.rows, self.batch = rows, None if batch is None or batch >= n else batch
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.order, self.used = rows.y.new_empty(len(seeds), 0, dtype=torch.long), 0

    def next(self) -> Rows:
        """The next batch of every replicate; a new order once the rows do not fill one."""
        if self.batch is None:
            return self.rows
        n = self.rows.y.shape[1]
        if self.used + self.batch > self.order.shape[1]:
            orders = [torch.randperm(n, generator=g) for g in self.generators]
            self.order, self.used = torch.stack(orders).to(self.rows.y.device), 0
        some = self.order[:, self.used : self.used + self.batch]
        self.used += self.batch
        each = torch.arange(len(some), device=some.device)[:, None]
        return Rows(self.rows.x[each, some], self.rows.y[each, some])

    def take(self, keep: Tensor) -> "_Feed":
        """The same for some of the replicates."""
        less = copy.copy(self)
        less.rows = Rows(self.rows.x[keep], self.rows.y[keep])
        less.generators = [g for g, k in zip(self.generators, keep.tolist(), strict=True) if k]
        less.order = self.order[keep]
        return less


class _Adam:
    """Adam with a step size a replicate. A replicate whose gradient is not finite stays put."""

    def __init__(self, parameters: list[nn.Parameter], lr: Tensor):
        self.parameters, self.lr = [p for p in parameters if p.requires_grad], lr
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.sound = torch.ones_like(lr, dtype=torch.bool)
        self.count = 0

    def step(self, losses: Tensor) -> None:
        """One step down the sum of the losses, (R,)."""
        grads = torch.autograd.grad(losses.sum(), self.parameters)
        self.count += 1
        with torch.no_grad():
            for g in grads:
                self.sound &= g.flatten(1).isfinite().all(-1) if g.dim() > 1 else g.isfinite()
            slow, fast = 1 - 0.9**self.count, 1 - 0.999**self.count
            for p, g, m, v in zip(self.parameters, grads, self.first, self.second, strict=True):
                each = (-1, *(1,) * (p.dim() - 1))
                g = torch.where(self.sound.view(each), g, 0)
                m.lerp_(g, 0.1)
                v.lerp_(g.square(), 0.001)
                move = self.lr.view(each) / slow * m / ((v / fast).sqrt() + 1e-8)
                p.sub_(torch.where(self.sound.view(each), move, 0))

    def take(self, parameters: list[nn.Parameter], keep: Tensor) -> "_Adam":
        """The same for some of the replicates, now held by `parameters`."""
        less = _Adam(parameters, self.lr[keep])
        less.first, less.second = [m[keep] for m in self.first], [v[keep] for v in self.second]
        less.sound, less.count = self.sound[keep], self.count
        return less


def _take(network: Network, keep: Tensor) -> Network:
    """Some of the replicates of a network, as a network."""
    less = copy.deepcopy(network)
    count = len(keep)
    module: Any
    for module in less.modules():
        if getattr(module, "replicates", None):
            module.replicates = (int(keep.sum()),)
        for name, p in module._parameters.items():
            if p is not None:
                module._parameters[name] = nn.Parameter(p.detach()[keep], p.requires_grad)
        for name, b in module._buffers.items():
            if b is not None and b.dim() and len(b) == count:
                module._buffers[name] = b[keep]
    return less


def _copy(source: Network, chosen: Tensor, target: Network, at: Tensor) -> None:
    """The chosen replicates of one network, into places of another."""
    with torch.no_grad():
        for p, q in zip(source.parameters(), target.parameters(), strict=True):
            q[at] = p[chosen]
