"""Search: try each body, train more of the good ones, choose each member's route.

A body is trained by the free route. On its features the belief may then be bound to the
posterior ("closed"), or bound with a free covariance added ("hybrid"); which of the three
predicts is decided, member by member, by the score on held-out rows.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from ..heads.likelihoods import GaussianLikelihood
from ..posterior.posterior import Posterior
from ..predictive import Labels, Normal, Stack
from ..predictive.mixture import joined, member
from ..training.network import Network, join
from .calibration import lapse_rate, width_factor
from .plans import Candidate
from .stacks import (
    Data,
    Ensemble,
    Features,
    Job,
    Members,
    each,
    features,
    head_of,
    member_seeds,
    posterior,
)

ADDED = 20_000  # rows that the added covariance of a hybrid is fitted on


class Routed(NamedTuple):
    """A stack's posterior, and the predictives of the held-out rows by each route.

    Attributes:
        bound: the posterior on the stack's features.
        held: log p of the held-out rows by route, (M, N).
        predicted: their predictives by route, (M, N) or (M, N, K).
    """

    bound: Posterior
    held: dict[str, Tensor]
    predicted: dict[str, Stack]

    def best(self) -> tuple[list[str], Tensor]:
        """Return the best route of each member, and its log p of the held-out rows, (M, N)."""
        names, each = list(self.held), torch.stack(list(self.held.values()))
        which = each.mean(-1).nan_to_num(-torch.inf).argmax(0)
        return [names[i] for i in which.tolist()], each[which, torch.arange(len(which))]

    def chosen(self) -> Stack:
        """Return the predictive of each member by its best route, as one stack."""
        routes = self.best()[0]
        some = [member(self.predicted[r], slice(m, m + 1)) for m, r in enumerate(routes)]
        return joined(some)

    def scores(self) -> dict[str, float]:
        """Return the first member's score by each route."""
        return {route: -float(held[0].mean()) for route, held in self.held.items()}


class Trial(NamedTuple):
    """A trained stack: its body, networks, steps taken, best steps, and routes."""

    body: Candidate
    network: Network
    steps: list[int]
    best: list[int]
    routed: Routed


def search(job: Job, *, members: int, routing: str, seed: int) -> Ensemble:
    """Train one network of each body, then more of those that are to share the ensemble.

    Args:
        job: the rows, the plan, and how heads are made.
        members: number of networks M.
        routing: "auto", "free", "closed" or "hybrid".
        seed: of the first member.
    """
    seeds, plan = member_seeds(seed, members), job.plan
    first = seeds[:1] if len(plan.candidates) > 1 else seeds
    trials = [_tried(job, body, first, routing) for body in plan.candidates]
    tried = {
        f"{trial.body.name}, {route}": score
        for trial in trials
        for route, score in trial.routed.scores().items()
    }
    shares = [members]
    if len(trials) > 1:
        held = torch.stack([trial.routed.best()[1][0] for trial in trials])
        shares = shared(held, members) if plan.mixes else [members * n for n in shared(held, 1)]
    grown = [
        _grown(job, trial, seeds[:share], routing)
        for trial, share in zip(trials, shares, strict=True)
        if share
    ]
    routed = [trial.routed for trial in grown]
    width = _width(routed, job.data)
    lapse = _lapse(routed, job.data) if plan.lapses else 0.0
    return Ensemble([_members(job, trial, seeds, width, lapse) for trial in grown], tried)


def _tried(job: Job, body: Candidate, seeds: Sequence[int], routing: str) -> Trial:
    """Train a stack and score its routes."""
    done = job.train(body, seeds)
    routed = _routed(done.network, job.data, routing)
    return Trial(body, done.network, done.steps.tolist(), done.step.tolist(), routed)


def _grown(job: Job, trial: Trial, seeds: Sequence[int], routing: str) -> Trial:
    """Return the stack with one member per seed: train those that it lacks."""
    rest = seeds[len(trial.steps) :]
    if not rest:
        return trial
    more = job.train(trial.body, rest)
    network = join(trial.network, more.network)
    steps, best = trial.steps + more.steps.tolist(), trial.best + more.step.tolist()
    return Trial(trial.body, network, steps, best, _routed(network, job.data, routing))


def _members(job: Job, trial: Trial, seeds: Sequence[int], width: float, lapse: float) -> Members:
    """Let the chosen stack learn from the held-out rows, too, unless they are the user's own."""
    (routes, log_p), bound, network = trial.routed.best(), trial.routed.bound, trial.network
    if not job.data.own:
        if job.plan.retrain_on_all:
            network = job.train_on_all(trial.body, seeds[: len(trial.steps)], trial.best)
            bound = posterior(network, job.data).keep()
        bound = _including(bound, network, job.data)
    scores = (-log_p.mean(-1)).tolist()
    name, steps = trial.body.name, trial.steps
    return Members(name, network, routes, bound, scores, steps, width=width, lapse=lapse)


def _width(parts: list[Routed], data: Data) -> float:
    """Return the factor on all members' standard deviations; 1 for labels and counts."""
    members = joined([part.chosen() for part in parts])
    if members.discrete or data.seen:
        return 1.0
    data = data.looked()
    return width_factor(cast(Normal, members), data.held_y, data.held_weight)


def _lapse(parts: list[Routed], data: Data) -> float:
    """Return the lapse rate of labels."""
    members = cast(Labels, joined([part.chosen() for part in parts])).log_probs
    data, n_rows = data.looked(), len(data.y)
    y = data.held_y[: 0 if data.seen else None]
    weight = None if data.held_weight is None else data.held_weight[: len(y)]
    frequencies = rates(data, members.shape[-1])
    return lapse_rate(members[:, : len(y)], y, frequencies, n_rows, weight)


def rates(data: Data, classes: int) -> Tensor:
    """Return the weighted frequency of each label in training, (K,); none is zero."""
    weight = torch.ones_like(data.y, dtype=torch.float64) if data.weight is None else data.weight
    mass = torch.bincount(data.y.long(), weight.double(), classes) + 0.5
    return mass / mass.sum()


def shared(held: Tensor, members: int) -> list[int]:
    """Return how many members of an ensemble each body gets.

    Greedily: the next member has the body that, added, makes the best mixture. Bodies that are
    nearly as good but err elsewhere share an ensemble; one that is far better gets all of it.

    Args:
        held: log p of held-out rows under one network of each body, (C, N).
        members: number of members.
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


@torch.no_grad()
def _routed(network: Network, data: Data, routing: str) -> Routed:
    """Bind the belief to the features; score each route on the held-out rows."""
    head, bound, later = head_of(network), posterior(network, data), data.looked()
    held_y = each(later.held_y, len(head.log_alpha))
    psi = features(network, later.held_x)
    held: dict[str, Tensor] = {}
    predicted: dict[str, Stack] = {}
    for route in _allowed(network, routing):
        if route == "hybrid":
            some = slice(None, ADDED)
            rows = _weighted(features(network, data.x[some]), data.y, data.weight, some)
            bound = bound.add([rows], validation=_weighted(psi, later.held_y, later.held_weight))
        predicted[route] = head(psi) if route == "free" else bound(psi)
        log_p = predicted[route].log_prob(held_y)
        held[route] = log_p if log_p.dim() == 2 else log_p.sum(-1)
        if later.held_weight is not None:
            held[route] = held[route] * later.held_weight
    # alpha and noise stay as they were scored when further rows are added
    return Routed(bound.keep(), held, predicted)


def _weighted(
    psi: Tensor, y: Tensor, weight: Tensor | None, rows: slice = slice(None)
) -> tuple[Tensor, ...]:
    """Return features (M, N, H), their targets, and their weights if they have any."""
    return psi, *(each(t[rows], len(psi)) for t in (y, weight) if t is not None)


def _allowed(network: Network, routing: str) -> tuple[str, ...]:
    """Return the routes to compare; "hybrid" is last, because it changes the posterior.

    Features that are not trained need no free belief: their posterior is exact.
    """
    if routing != "auto":
        return (routing,)
    if not isinstance(head_of(network).likelihood, GaussianLikelihood):
        return ("free",)
    trained = any(True for _ in network.body.parameters())
    return ("free", "closed", "hybrid") if trained else ("closed", "hybrid")


def _including(bound: Posterior, network: Network, data: Data) -> Posterior:
    """Return the posterior of the training rows and the held-out rows."""
    for batch in Features(network, data.held_x, data.held_y, data.later_weight):
        bound = bound.update(*batch)
    return bound
