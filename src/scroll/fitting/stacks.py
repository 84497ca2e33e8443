"""Stacks of networks: made, trained, joined, and applied to rows that all members share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from ..heads.head import Head
from ..heads.likelihoods import GaussianLikelihood
from ..objectives.terms import log_lapsing
from ..posterior.posterior import Posterior, refit
from ..predictive import Normal
from ..training.batches import Rows
from ..training.loop import Run, Watch, train
from ..training.network import HeldOutScore, Network, held_out_nll, stack
from ..training.settings import Settings
from .candidates import Candidate, Lead
from .plans import Plan

CHUNK = 8192  # rows that pass through a body at once
LOOKED = 10_000  # held-out rows that training looks at

MakeHead: TypeAlias = Callable[[int, Lead], Head]


class Data(NamedTuple):
    """Encoded rows to train on and rows held out.

    Attributes:
        x: inputs of the training rows, (N, D).
        y: their targets, (N,) or (N, K).
        weight: their weights, of mean one; None if all weigh the same.
        held_x: inputs of the held-out rows.
        held_y: their targets.
        held_weight: their weights, of mean one; None if all weigh the same.
        own: whether the held-out rows are the user's own, which are not learned from.
        seen: whether they are the training rows, because there are too few to hold any out.
        fold: the member that holds each training row out, (N,), when cross-fitting.
        ratio: mean weight of the held-out rows divided by that of the training rows.
    """

    x: Tensor
    y: Tensor
    weight: Tensor | None
    held_x: Tensor
    held_y: Tensor
    held_weight: Tensor | None
    own: bool
    seen: bool
    fold: Tensor | None = None
    ratio: float = 1.0

    @property
    def later_weight(self) -> Tensor | None:
        """Weights of the held-out rows on the scale of the training rows' weights."""
        return None if self.held_weight is None else self.ratio * self.held_weight

    def looked(self) -> "Data":
        """Return the same with the held-out rows that training looks at, at most 10,000."""
        weight = None if self.held_weight is None else self.held_weight[:LOOKED]
        held_x, held_y = self.held_x[:LOOKED], self.held_y[:LOOKED]
        return self._replace(held_x=held_x, held_y=held_y, held_weight=weight)


class Members(NamedTuple):
    """The members of an ensemble that have the same body.

    Attributes:
        body: its name.
        network: the stack, (M, ...).
        routes: the route that each member predicts with.
        bound: the posterior on its features.
        scores: held-out score of each member.
        steps: training steps of each member.
    """

    body: str
    network: Network
    routes: list[str]
    bound: Posterior
    scores: list[float]
    steps: list[int]


@dataclass(frozen=True)
class Job:
    """One fit: the rows, the plan, and how heads are made and started.

    Attributes:
        data: the rows.
        plan: candidate bodies and how to train them.
        head: makes a head for a number of features and replicate axes.
        start: sets the initial parameters of a new head.
        numbers: returns real numbers of unit spread that stand for targets, (N,) or (N, K).
        watch: returns the progress callback for a body's name and a number of networks.
    """

    data: Data
    plan: Plan
    head: MakeHead
    start: Callable[[Head], None] = lambda head: None
    numbers: Callable[[Tensor], Tensor] = lambda y: y
    watch: Callable[[str, int], Watch | None] = lambda body, members: None

    def fresh(self, body: Candidate, rows: Rows, seeds: Sequence[int]) -> Network:
        """Return an untrained stack in the rows' precision, whatever torch's default is.

        Args:
            body: of the networks.
            rows: each member's rows to learn from.
            seeds: one per member.
        """

        def make(lead: Lead) -> Network:
            return Network(body.make(lead), self.head(body.features, lead))

        new = stack(make, seeds, self.data.x.dtype)
        with torch.no_grad():
            self.start(head_of(new))
        new = new.to(self.data.x)
        if body.prepare is not None:
            body.prepare(new.body, rows._replace(y=self.numbers(rows.y)), seeds)
        return new

    def settings(self, body: Candidate) -> Settings:
        """Return how a body is trained."""
        return replace(self.plan.settings, lr=body.lr * self.plan.settings.lr)

    def run(
        self, network: Network, body: Candidate, rows: Rows, held: Rows, seeds: Sequence[int]
    ) -> Run:
        """Return the training of a stack, before its first step.

        Args:
            network: the untrained stack.
            body: its body.
            rows: each member's rows to learn from.
            held: each member's held-out rows, which decide when it stops.
            seeds: one per member.
        """
        return Run(
            network,
            rows,
            held,
            self.settings(body),
            seeds=seeds,
            score=held_out_score,
            watch=self.watch(body.name, len(seeds)),
        )

    def train_on_all(self, body: Candidate, seeds: Sequence[int], best: Sequence[int]) -> Network:
        """Train a stack anew on all rows, each member up to the step at which it was best.

        Args:
            body: of the networks.
            seeds: one per member.
            best: step of each member.
        """
        data, weight = self.data, None
        x, y = (torch.cat(pair) for pair in ((data.x, data.held_x), (data.y, data.held_y)))
        if data.weight is not None and data.later_weight is not None:
            weight = torch.cat([data.weight, data.later_weight])
            weight = weight / weight.mean()
        rows = shared_rows(x, y, weight, len(seeds))
        looks = torch.tensor(best, device=x.device) / self.plan.settings.every
        watch = self.watch(body.name, len(seeds))
        return train_for(
            self.fresh(body, rows, seeds), rows, looks, self.settings(body), seeds, watch
        )


def held_out_score(network: Network, rows: Rows) -> Tensor:
    """Return the mean of -log p(y_n) over held-out rows, (R,), of real targets with lapses."""
    head = head_of(network)
    if not isinstance(head.likelihood, GaussianLikelihood):
        return held_out_nll(network, rows)
    p = cast(Normal, network(rows.x))
    score = log_lapsing(rows.y - p.mean, p.variance)
    score = score if score.dim() == 2 else score.sum(-1)
    return -(score if rows.weight is None else score * rows.weight).mean(-1)


def member_seeds(seed: int, members: int) -> list[int]:
    """Return one seed per member; the first one is `seed`."""
    return [(seed + 7919 * m) % 2**31 for m in range(members)]


def train_for(
    fresh: Network,
    rows: Rows,
    looks: Tensor,
    settings: Settings,
    seeds: Sequence[int],
    watch: Watch | None,
) -> Network:
    """Train each replicate of a stack for its own number of looks at the held-out rows.

    Args:
        fresh: the untrained stack.
        rows: to train on.
        looks: number of looks of each replicate, (R,).
        settings: how to train.
        seeds: one per replicate.
        watch: progress callback.
    """
    like = rows.x
    until = Rows(like.new_zeros(len(looks), 1, 1), looks[:, None].to(like))
    how = replace(settings, patience=1)
    return train(fresh, rows, until, how, seeds=seeds, score=_towards(like), watch=watch).network


def _towards(like: Tensor) -> HeldOutScore:
    """Return a score that falls until the look at which a replicate is kept, and then rises."""
    seen = torch.zeros((), dtype=like.dtype, device=like.device)

    def score(network: Network, held: Rows) -> Tensor:
        seen.add_(1)
        return (held.y[:, 0] - seen).abs()

    return score


def head_of(network: Network) -> Head:
    """Return the head of a network, which is a `Head` in all that is fitted here."""
    return cast(Head, network.head)


def each(x: Tensor, members: int) -> Tensor:
    """Return x for every member, (M, ...), without copying it."""
    return x.expand(members, *x.shape)


def shared_rows(x: Tensor, y: Tensor, weight: Tensor | None, members: int) -> Rows:
    """Return rows that all members share as the rows of a stack."""
    return Rows(
        each(x, members), each(y, members), None if weight is None else each(weight, members)
    )


@torch.no_grad()
def features(network: Network, x: Tensor) -> Tensor:
    """Return psi of each member, (M, N, H), for the rows of each, (M, N, D)."""
    return torch.cat([network.body(part) for part in x.split(CHUNK, 1)], -2)


class Features:
    """Batches (psi, y) or (psi, y, weight) of a stack; it can be iterated several times.

    Args:
        network: the stack.
        rows: of each member.
    """

    def __init__(self, network: Network, rows: Rows):
        self.network, self.rows = network, [part for part in rows if part is not None]

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for x, *others in zip(*(part.split(CHUNK, 1) for part in self.rows), strict=True):
            yield self.network.body(x).detach(), *others


def posterior(network: Network, rows: Rows) -> Posterior:
    """Return the posterior of each member of a stack on its features of its rows.

    If all that differs in the targets is in one fold, the member without it has no evidence; alpha
    and noise are then those of the heads.
    """
    head, hyper = head_of(network), "evidence"
    if isinstance(head.likelihood, GaussianLikelihood) and _some_constant(rows):
        hyper = "head"
    return refit(head, Features(network, rows), hyper=hyper)


def _some_constant(rows: Rows) -> bool:
    """Return whether a member has a target that is the same in all rows of positive weight."""
    y = rows.y.reshape(*rows.y.shape[:2], -1)
    there = torch.ones_like(y[..., :1], dtype=torch.bool)
    if rows.weight is not None:
        there = (rows.weight > 0)[..., None]
    low = y.masked_fill(~there, torch.inf).amin(1)
    return bool((low == y.masked_fill(~there, -torch.inf).amax(1)).any())
