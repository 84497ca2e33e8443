"""The one training loop: a stack of replicates, each with its own data, stop and checkpoint.

Replicates along the first axis (seeds, architectures, grid points, members) share a graph and
nothing else: the loss is their sum, Adam works elementwise, and what befalls one of them, a NaN
included, stays with it. A cycle of steps and the look after it is one program without a
decision in it, so that a GPU can replay it as a graph; who has stopped leaves between cycles.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._core.checks import must, unchecked
from .._core.local_rng import Draws
from .batches import Feed, Rows
from .bodies import Dropout, Stacked
from .optimiser import Adam, Flat
from .settings import Recipe as Recipe  # part of the loop's interface
from .settings import pace


class Network(nn.Module):
    """A body and a head: a `Head`, or any module with its `loss`, `batches` and `condition`.

    Parameters have a first axis of replicates; so may the buffers of a module that has
    `replicates`. What a forward pass changes in a buffer is not kept.
    """

    def __init__(self, body: nn.Module, head: nn.Module):
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x: Tensor) -> Any:
        """The predictive of each row."""
        return self.head(self.body(x))

    def loss(self, rows: Rows, total: int, decay: float = 0.0) -> Tensor:
        """The head's loss on all `total` rows and decay |theta|^2, (R,)."""
        head: Any = self.head
        data = total * head.loss(self.body(rows.x), rows.y, total=total, **_weights(rows))
        if not decay:
            return data
        return data + decay * sum(w.square().flatten(1).sum(-1) for w in self.body.parameters())

    def condition(self, rows: Rows) -> None:
        """Give a bound head its training data; a free one needs none."""
        head: Any = self.head
        if not head.batches:
            head.condition(self.body(rows.x), rows.y)


def _weights(rows: Rows) -> dict[str, Tensor]:
    """Only where there are any: not every head takes them."""
    return {} if rows.weight is None else {"weight": rows.weight}


class Trained(NamedTuple):
    """Replicates where their held-out score was best."""

    which: Tensor  # (R,), of the replicates of the stack
    network: Network
    score: Tensor  # (R,), the least held-out score
    step: Tensor  # (R,), at which it was reached
    steps: Tensor  # (R,), taken in all


Score = Callable[[Network, Rows], Tensor]
Watch = Callable[[int, float], None]


def held_out_nll(network: Network, held: Rows) -> Tensor:
    """Mean of -log p(y_n) over the held-out rows, (R,), by their weights if they have any."""
    score: Tensor = network(held.x).log_prob(held.y)
    score = score.flatten(2).sum(-1) if score.dim() > 2 else score
    return -(score if held.weight is None else score * held.weight).mean(-1)


def held_out_mse(network: Network, held: Rows) -> Tensor:
    """Mean of (y_n - E y_n)^2 over the held-out rows, (R,)."""
    square: Tensor = (held.y - network(held.x).mean).square()
    return square.flatten(2).sum(-1).mean(-1) if square.dim() > 2 else square.mean(-1)


def stack(
    make: Callable[[tuple[int, ...]], Network],
    seeds: Sequence[int],
    dtype: torch.dtype | None = None,
) -> Network:
    """`make((R,))`, where replicate r starts as `make(())` does after `torch.manual_seed(r)`.

    The seeds are those of local generators: torch's own stays where it is.

    Args:
        make: makes a network with given leading axes of replicates.
        seeds: one per replicate.
        dtype: precision of the initial values; torch's default by default.
    """
    with Draws(0, dtype):
        together = make((len(seeds),))
    for r, seed in enumerate(seeds):
        with Draws(seed, dtype):
            one = make(())
        put(together, r, one)
    for module in together.modules():
        if isinstance(module, Dropout | Stacked):
            module.seeds.copy_(torch.tensor(seeds))
    return together


@torch.no_grad()
def put(together: Network, r: int, one: Network) -> None:
    """Let replicate r be what a network without replicates is, its fixed features included."""
    for p, q in zip(together.parameters(), one.parameters(), strict=True):
        p[r] = q
    fixed = dict(one.named_buffers())
    for name, buffer in together.named_buffers():
        if name in fixed and buffer.shape[1:] == fixed[name].shape and buffer.dim():
            buffer[r] = fixed[name]


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
    parts = list(finishing(network, rows, held, recipe, seeds=seeds, score=score, watch=watch))
    which = torch.cat([part.which for part in parts])
    order = which.argsort()
    reached, step, steps = (
        torch.cat(results)[order]
        for results in zip(*((p.score, p.step, p.steps) for p in parts), strict=True)
    )
    whole = take(network, torch.ones_like(which, dtype=torch.bool)).eval()
    for part in parts:
        fill(whole, part)
    with torch.no_grad():
        whole.condition(rows)
    return Trained(which[order], whole, reached, step, steps)


def finishing(
    network: Network,
    rows: Rows,
    held: Rows,
    recipe: Recipe | None = None,
    *,
    seeds: Sequence[int] | None = None,
    score: Score = held_out_nll,
    watch: Watch | None = None,
) -> Iterator[Trained]:
    """`train`, which hands out the replicates as they leave the stack, ready to predict."""
    recipe = recipe or Recipe()
    head: Any = network.head
    must(
        recipe.batch is None or head.batches,
        "batch",
        "be None for a method whose belief is bound to all rows",
        recipe.batch,
    )
    count, device = len(rows.y), rows.y.device
    own = torch.as_tensor(list(seeds if seeds is not None else range(count)), device=device)
    now = Stack(network, Feed(rows, recipe.batch, own, recipe.every), held, recipe, score)
    rest, best = recipe.steps, torch.inf
    looks = 10 if device.type == "cuda" else 1  # cycles between two waits for the device
    cycle = replayed(now, recipe.every)
    while True:
        for _ in range(looks):
            steps = min(recipe.every, rest)
            now.feed.refill()
            cycle() if steps == recipe.every else now.cycle(steps)
            rest -= steps
            if rest == 0:
                break
        going = now.going()
        best = min(best, float(now.best.min()))
        if watch is not None:
            watch(count - int(going.sum()), best)
        if rest == 0 or not bool(going.any()):
            yield now.finished(torch.ones_like(going))
            return
        if int(going.sum()) <= _shrink(recipe) * len(going):
            yield now.finished(~going)
            now = now.take(going)
            cycle = replayed(now, recipe.every)


def _shrink(recipe: Recipe) -> float:
    """The share of a stack at which the others go on in a smaller one."""
    return 0.5 if recipe.compile else 0.8  # a compiled loss is compiled anew for it


class Stack:
    """Those still in the stack: all that a cycle reads and writes."""

    def __init__(self, network: Network, feed: Feed, held: Rows, recipe: Recipe, score: Score):
        count, like = len(held.y), held.x  # the precision that scores have; y may be labels
        self.now, self.feed, self.held = copy.deepcopy(network), feed, held
        self.recipe, self.score, self.total = recipe, score, feed.rows.y.shape[1]
        self.loss: Callable[..., Tensor] = self.now.loss
        if recipe.compile:
            self.loss = torch.compile(self.now.loss)
        lr = torch.as_tensor(recipe.lr).to(like).expand(count)
        flat, body = Flat(self.now, count, like), {id(p) for p in self.now.body.parameters()}
        pull = flat.spread([2 * recipe.decay * (id(p) in body) for p in flat.parameters])
        shrink = flat.spread([recipe.weight_decay * (id(p) in body) for p in flat.parameters])
        self.adam = Adam(flat, lr, pull, shrink, pace(recipe, lr))
        self.kept, self.mean = flat.values.clone(), flat.values.clone()
        self.best = torch.full((count,), torch.inf, dtype=like.dtype, device=like.device)
        self.index = torch.arange(count, device=like.device)
        self.at, self.taken, self.waited = (torch.zeros_like(self.index) for _ in range(3))

    def cycle(self, steps: int) -> None:
        """Some steps of Adam and a look at the held-out rows."""
        with unchecked():  # a NaN is looked at here, replicate by replicate
            self.now.train()
            for step in range(steps):
                self.adam.step(self.loss(self.feed.part(step), self.total))
                if self.recipe.average > 1:
                    share = 1 / self.adam.count.clamp(max=self.recipe.average).to(self.mean)
                    self.mean.lerp_(self.adam.flat.values, share)
            self.now.eval()
            with torch.no_grad(), self.shown():
                self.now.condition(self.feed.rows)
                self.look(self.score(self.now, self.held))

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The network at what is looked at: the averages, if there are any."""
        flat = self.adam.flat
        if self.recipe.average > 1:
            flat.put(self.mean)
        try:
            yield
        finally:
            flat.put(flat.values)

    def look(self, reached: Tensor) -> None:
        """Keep those that are better than ever; count for how long the others were not."""
        going = self.going()
        better = going & (reached < self.best)
        step = self.adam.count
        self.taken.copy_(torch.where(going, step, self.taken))
        self.at.copy_(torch.where(better, step, self.at))
        self.best.copy_(torch.where(better, reached, self.best))
        self.waited.copy_(torch.where(better, 0, self.waited + 1))
        now = self.mean if self.recipe.average > 1 else self.adam.flat.values
        self.kept.copy_(torch.where(better[:, None], now, self.kept))

    def going(self) -> Tensor:
        """Who has not stopped, (R,)."""
        return (self.waited < self.recipe.patience) & self.adam.sound

    @torch.no_grad()
    def finished(self, which: Tensor) -> Trained:
        """Some of the replicates, each where it was best."""
        network = take(self.now, which)
        Flat(network, int(which.sum()), self.kept).put(self.kept[which])
        network.eval()
        with unchecked():
            network.condition(self.feed.rows.take(which))
        results = (x[which] for x in (self.best, self.at, self.taken))
        return Trained(self.index[which], network, *results)

    def take(self, keep: Tensor) -> "Stack":
        """The same for some of the replicates."""
        less = copy.copy(self)
        less.now, less.held = take(self.now, keep), self.held.take(keep)
        less.feed = self.feed.take(keep)
        less.loss = torch.compile(less.now.loss) if self.recipe.compile else less.now.loss
        less.adam = self.adam.take(Flat(less.now, int(keep.sum()), self.kept), keep)
        for name in ("kept", "mean", "best", "index", "at", "taken", "waited"):
            setattr(less, name, getattr(self, name)[keep])
        return less


def aside(run: Callable[[], None]) -> None:
    """Run what is to be captured as a graph later, on a stream of its own, as that asks for."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)


def replayed(now: Stack, steps: int) -> Callable[[], None]:
    """A cycle to call again and again; on a GPU the first runs, the second is captured."""
    if now.best.device.type != "cuda":
        return lambda: now.cycle(steps)
    graph, calls = torch.cuda.CUDAGraph(), 0

    def replay() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:  # libraries set themselves up outside of the capture
            aside(lambda: now.cycle(steps))
            return
        if calls == 2:
            with torch.cuda.graph(graph):
                now.cycle(steps)
        graph.replay()

    return replay


@torch.no_grad()
def fill(whole: Network, part: Trained) -> None:
    """Put replicates that have finished into their places."""
    for to, source in zip(whole.parameters(), part.network.parameters(), strict=True):
        to[part.which] = source.to(to)


def replicated(module: nn.Module, count: int) -> list[str]:
    """Buffers that have an axis of so many replicates: of a module that says it has any."""
    if not getattr(module, "replicates", None):
        return []
    return [
        name for name, b in module._buffers.items() if b is not None and b.shape[:1] == (count,)
    ]


def take(network: Network, keep: Tensor) -> Network:
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
        for name in replicated(module, count):
            module._buffers[name] = module._buffers[name][keep]
    return less
