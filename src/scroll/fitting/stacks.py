"""Stacks of networks: made, trained, joined, and applied to rows that all members share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, cast

import torch
from torch import Tensor

from ..heads.head import Head
from ..posterior.posterior import Posterior, refit
from ..training.batches import Rows
from ..training.loop import Trained, Watch, train
from ..training.network import HeldOutScore, Network, held_out_nll, stack
from ..training.settings import Settings
from .plans import Candidate, Lead, Plan

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
        width: factor on the standard deviations.
        power: of the probabilities of labels.
        lapse: share of rows with a random label.
    """

    body: str
    network: Network
    routes: list[str]
    bound: Posterior
    scores: list[float]
    steps: list[int]
    width: float = 1.0
    power: float = 1.0
    lapse: float = 0.0


class Ensemble(NamedTuple):
    """Trained members, by body, and the held-out score of each body and route that was tried."""

    parts: list[Members]
    tried: dict[str, float]


@dataclass(frozen=True)
class Job:
    """One fit: the rows, the plan, and how heads are made and started.

    Attributes:
        data: the rows.
        plan: candidate bodies and how to train them.
        head: makes a head for a number of features and replicate axes.
        start: sets the initial parameters of a new head.
        watch: returns the progress callback for a body's name and a number of networks.
    """

    data: Data
    plan: Plan
    head: MakeHead
    start: Callable[[Head], None] = lambda head: None
    watch: Callable[[str, int], Watch | None] = lambda body, members: None

    def fresh(self, body: Candidate, seeds: Sequence[int]) -> Network:
        """Return an untrained stack in the rows' precision, whatever torch's default is.

        Args:
            body: of the networks.
            seeds: one per member.
        """

        def make(lead: Lead) -> Network:
            return Network(body.make(lead), self.head(body.features, lead))

        new = stack(make, seeds, self.data.x.dtype)
        with torch.no_grad():
            self.start(head_of(new))
        return new.to(self.data.x)

    def train(self, body: Candidate, seeds: Sequence[int]) -> Trained:
        """Train a stack on the training rows; held-out rows decide when each member stops.

        Args:
            body: of the networks.
            seeds: one per member.
        """
        data = self.data.looked()
        return train(
            self.fresh(body, seeds),
            shared_rows(data.x, data.y, data.weight, len(seeds)),
            shared_rows(data.held_x, data.held_y, data.held_weight, len(seeds)),
            self.plan.settings,
            seeds=seeds,
            score=held_out_nll,
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
        return train_for(self.fresh(body, seeds), rows, looks, self.plan.settings, seeds, watch)


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
    """Return psi of each member, (M, N, H), for rows x (N, D) that all of them share."""
    count = len(head_of(network).log_alpha)
    return torch.cat([network.body(each(part, count)) for part in x.split(CHUNK)], -2)


class Features:
    """Batches (psi, y) or (psi, y, weight) of a stack; it can be iterated several times.

    Args:
        network: the stack.
        x: inputs, (N, D).
        y: targets, (N,) or (N, K).
        weight: of the rows, (N,).
    """

    def __init__(self, network: Network, x: Tensor, y: Tensor, weight: Tensor | None = None):
        self.network, self.rows = network, (x, y, *(() if weight is None else (weight,)))

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for x, *others in zip(*(part.split(CHUNK) for part in self.rows), strict=True):
            psi = features(self.network, x)
            yield psi, *(each(other, len(psi)) for other in others)


def posterior(network: Network, data: Data) -> Posterior:
    """Return the posterior of a stack on its features of the training rows."""
    return refit(head_of(network), Features(network, data.x, data.y, data.weight))
