"""From rows to members: try each body, train more of the good ones, choose each one's route.

A body is trained by the free route. On its features the belief may then be bound to the
posterior ("closed"), or bound with a free covariance added ("hybrid"); which of the three
predicts is decided, member by member, by the score on held-out rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..heads.head import Head
from ..heads.likelihoods import GaussianLikelihood
from ..posterior.posterior import Posterior, refit
from ..predictive.mixture import joined, member
from ..training.batches import Rows
from ..training.loop import Trained, Watch, train
from ..training.network import Network, held_out_nll, join, stack
from .calibration import lapse_rate, tempered
from .features import Features, each, features
from .full_data import again
from .plans import Candidate, Lead, Plan

LOOKED = 10_000  # held-out rows that training looks at
ADDED = 20_000  # rows that a hybrid's covariance is fitted on

MakeHead = Callable[[int, Lead], Head]


class Data(NamedTuple):
    """Encoded rows to train on and rows held out."""

    x: Tensor  # (N, D)
    y: Tensor  # (N,) or (N, K)
    weight: Tensor | None
    held_x: Tensor
    held_y: Tensor
    held_weight: Tensor | None
    own: bool  # whether the held-out rows are the user's, and so not to be learned from
    seen: bool  # whether they are the training rows: there were too few to hold any out
    fold: Tensor | None = None  # (N,), the member that holds each row out, where none is for all
    ratio: float = 1.0  # mean weight of the held-out rows by that of the training rows

    @property
    def later_weight(self) -> Tensor | None:
        """Weights of the held-out rows beside those of the training rows, once they are learned."""
        return None if self.held_weight is None else self.ratio * self.held_weight


@dataclass
class Members:
    """A stack of trained networks and what each predicts with."""

    body: str
    network: Network  # (M, ...)
    routes: list[str]
    bound: Posterior
    scores: list[float]  # held-out, of each member
    steps: list[int]
    best: list[int]  # the step that each was kept at
    width: float = 1.0  # factor on the deviations
    power: float = 1.0  # of the probabilities of labels
    lapse: float = 0.0  # share of rows with any label


class Routed(NamedTuple):
    """A stack's belief bound to its features, and what each route says of the held-out rows."""

    bound: Posterior
    held: dict[str, Tensor]  # log p, (M, N)
    said: dict[str, Any]  # the predictive, (M, N) or (M, N, K)

    def best(self) -> tuple[list[str], Tensor]:
        """The route of each member, and its log p, (M, N)."""
        names, each = list(self.held), torch.stack(list(self.held.values()))
        which = each.mean(-1).nan_to_num(-torch.inf).argmax(0)
        return [names[i] for i in which.tolist()], each[which, torch.arange(len(which))]

    def chosen(self) -> Any:
        """The predictive of each member by its route, as one stack."""
        routes = self.best()[0]
        return joined([member(self.said[r], slice(m, m + 1)) for m, r in enumerate(routes)])

    def scores(self) -> dict[str, float]:
        """The first member's score by each route."""
        return {route: -float(held[0].mean()) for route, held in self.held.items()}


def fit(
    data: Data,
    plan: Plan,
    head: MakeHead,
    *,
    members: int,
    routing: str,
    seed: int,
    watch: Callable[[str, int], Watch | None] = lambda body, members: None,
    start: Callable[[Any], None] = lambda head: None,
) -> tuple[list[Members], dict[str, float]]:
    """Train one network of each body, then more of those that are to share the ensemble.

    Also gives the held-out score of each body and route that was tried.

    Args:
        data: the rows.
        plan: candidate bodies and how to train them.
        head: makes a head for a number of features and replicate axes.
        members: M.
        routing: "auto", "free", "closed" or "hybrid".
        seed: of the first member.
        watch: what hears of progress, for a body and a number of networks.
        start: sets a new head's parameters where the data say that they should start.
    """
    seeds = [(seed + 7919 * m) % 2**31 for m in range(members)]
    first = seeds[:1] if len(plan.candidates) > 1 else seeds
    tried: dict[str, float] = {}
    pilots: list[tuple[Trained, Routed]] = []
    for body in plan.candidates:
        done = _trained(data, plan, body, head, first, watch(body.name, len(first)), start)
        routed = _routed(done.network, data, routing)
        tried |= {f"{body.name}, {route}": s for route, s in routed.scores().items()}
        pilots.append((done, routed))
    shares = [members]
    if len(pilots) > 1:
        held = torch.stack([routed.best()[1][0] for _, routed in pilots])
        shares = shared(held, members) if plan.mixes else shared(held, 1)
        shares = shares if plan.mixes else [members * share for share in shares]
    found, said = [], []
    for body, (done, routed), share in zip(plan.candidates, pilots, shares, strict=True):
        if share == 0:
            continue
        network, steps, best = done.network, done.steps.tolist(), done.step.tolist()
        if share > len(steps):
            rest = seeds[len(steps) : share]
            more = _trained(data, plan, body, head, rest, watch(body.name, len(rest)), start)
            network, steps = join(network, more.network), steps + more.steps.tolist()
            best += more.step.tolist()
            routed = _routed(network, data, routing)
        routes, log_p = routed.best()
        said.append(routed)
        scores = (-log_p.mean(-1)).tolist()
        found.append(Members(body.name, network, routes, routed.bound, scores, steps, best))
    width, lapse = _width(said, data), _lapse(said, data) if plan.lapses else 0.0
    for part in found:
        part.width, part.lapse = width, lapse
        if data.own:
            continue
        if plan.again:
            body = next(c for c in plan.candidates if c.name == part.body)
            mine = seeds[: len(part.steps)]
            told = watch(body.name, len(mine))
            part.network = _on_all(data, plan, body, head, mine, part.best, told, start)
            part.bound = refit(_head(part), Features(part.network, data.x, data.y, data.weight))
            part.bound = part.bound.keep()
        part.bound = _include(part.bound, part.network, data)
    return found, tried


def _head(part: Members) -> Any:
    return part.network.head


def _on_all(
    data: Data,
    plan: Plan,
    body: Candidate,
    head: MakeHead,
    seeds: Sequence[int],
    best: Sequence[int],
    watch: Watch | None,
    start: Callable[[Any], None],
) -> Network:
    """The members trained anew on all rows, each up to the step that it was kept at."""
    x, y = (torch.cat(pair) for pair in ((data.x, data.held_x), (data.y, data.held_y)))
    weight = None
    if data.weight is not None and data.later_weight is not None:
        weight = torch.cat([data.weight, data.later_weight])
        weight = each(weight / weight.mean(), len(seeds))
    rows = Rows(each(x, len(seeds)), each(y, len(seeds)), weight)
    looks = torch.tensor(best, device=x.device) / plan.recipe.every
    return again(fresh(data, body, head, seeds, start), rows, looks, plan.recipe, seeds, watch)


def _width(parts: list[Routed], data: Data) -> float:
    """The factor on all members' deviations; labels and counts have none."""
    members = joined([part.chosen() for part in parts])
    if members.discrete or data.seen:
        return 1.0
    weight = None if data.held_weight is None else data.held_weight[:LOOKED]
    return tempered(members, data.held_y[:LOOKED], weight)


def _lapse(parts: list[Routed], data: Data) -> float:
    """The lapse rate of labels."""
    members = joined([part.chosen() for part in parts]).log_probs
    y = data.held_y[: 0 if data.seen else LOOKED]
    weight = None if data.held_weight is None else data.held_weight[: len(y)]
    often = rates(data, members.shape[-1])
    return lapse_rate(members[:, : len(y)], y, often, len(data.y), weight)


def rates(data: Data, classes: int) -> Tensor:
    """How often each label comes in training, (K,), by the rows' weights; none is impossible."""
    weight = torch.ones_like(data.y, dtype=torch.float64) if data.weight is None else data.weight
    mass = torch.bincount(data.y.long(), weight.double(), classes) + 0.5
    return mass / mass.sum()


def shared(held: Tensor, members: int) -> list[int]:
    """How many members each body gets, by log p of held-out rows under one of each, (C, N).

    Greedily: the next member is of the body that, added, makes the best mixture. Bodies that are
    nearly as good but err elsewhere share an ensemble; one that is far better gets all of it.
    """
    held = held.double().nan_to_num(-torch.inf)
    counts = [0] * len(held)
    for _ in range(members):
        trials = []
        for c in range(len(held)):
            now = torch.tensor([n + (i == c) for i, n in enumerate(counts)]).to(held)
            weight = (now / now.sum()).log()
            trials.append(float((held + weight[:, None]).logsumexp(0).mean()))
        counts[max(range(len(held)), key=trials.__getitem__)] += 1
    return counts


def _trained(
    data: Data,
    plan: Plan,
    body: Candidate,
    head: MakeHead,
    seeds: Sequence[int],
    watch: Watch | None,
    start: Callable[[Any], None],
) -> Trained:
    count, new = len(seeds), fresh(data, body, head, seeds, start)
    weight = None if data.weight is None else data.weight.expand(count, -1)
    some = slice(None, LOOKED)
    held = None if data.held_weight is None else each(data.held_weight[some], count)
    return train(
        new,
        Rows(each(data.x, count), each(data.y, count), weight),
        Rows(each(data.held_x[some], count), each(data.held_y[some], count), held),
        plan.recipe,
        seeds=seeds,
        score=held_out_nll,
        watch=watch,
    )


def fresh(
    data: Data,
    body: Candidate,
    head: MakeHead,
    seeds: Sequence[int],
    start: Callable[[Any], None],
) -> Network:
    """A stack as it starts, in the rows' precision, whatever torch's default is."""

    def make(lead: Lead) -> Network:
        return Network(body.make(lead), head(body.features, lead))

    new = stack(make, seeds, data.x.dtype)
    with torch.no_grad():
        start(new.head)
    return new.to(data.x)


@torch.no_grad()
def _routed(network: Network, data: Data, routing: str) -> Routed:
    """Bind the belief to the features; score what may predict."""
    head: Any = network.head
    bound = refit(head, Features(network, data.x, data.y, data.weight))
    held_y = each(data.held_y[:LOOKED], len(head.log_alpha))
    psi = features(network, data.held_x[:LOOKED])
    held: dict[str, Tensor] = {}
    said: dict[str, Any] = {}
    for route in _allowed(network, routing):
        if route == "hybrid":
            some = slice(None, ADDED)
            mine = _weighed(features(network, data.x[some]), data.y, data.weight, some)
            looked = _weighed(psi, data.held_y, data.held_weight, slice(None, LOOKED))
            bound = bound.add([mine], validation=looked)
        said[route] = head(psi) if route == "free" else bound(psi)
        log_p = said[route].log_prob(held_y)
        held[route] = log_p if log_p.dim() == 2 else log_p.sum(-1)
        if data.held_weight is not None:
            held[route] = held[route] * data.held_weight[:LOOKED]
    # What has been scored is what predicts: more rows must not move alpha and noise.
    return Routed(bound.keep(), held, said)


def _weighed(psi: Tensor, y: Tensor, weight: Tensor | None, rows: slice) -> tuple[Tensor, ...]:
    """Features (M, N, H) of some rows with their targets and, if they have any, their weights."""
    return psi, *(each(t[rows], len(psi)) for t in (y, weight) if t is not None)


def _allowed(network: Network, routing: str) -> tuple[str, ...]:
    """The routes to compare, a hybrid last: it changes what `bound` predicts with.

    Features that are not trained have no need of a freed belief: their posterior is exact.
    """
    if routing != "auto":
        return (routing,)
    if not isinstance(network.head.likelihood, GaussianLikelihood):
        return ("free",)
    trained = any(True for _ in network.body.parameters())
    return ("free", "closed", "hybrid") if trained else ("closed", "hybrid")


def _include(bound: Posterior, network: Network, data: Data) -> Posterior:
    """Return the posterior of the training rows and of the held-out rows."""
    for batch in Features(network, data.held_x, data.held_y, data.later_weight):
        bound = bound.update(*batch)
    return bound
