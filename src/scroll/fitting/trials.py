"""One trained body: the posterior on its features, and held-out rows judged by each route.

A body is trained by the free route. On its features the belief may then be bound to the
posterior ("closed"), or bound with a free covariance added ("hybrid").
"""

from collections.abc import Sequence
from math import log
from typing import NamedTuple, cast

import torch
from torch import Tensor

from ..heads.likelihoods import GaussianLikelihood
from ..posterior.posterior import Posterior
from ..predictive import Normal, Stack
from ..training.batches import Rows
from ..training.loop import Run
from ..training.network import Network
from ..training.state import Trained
from .calibration import FEWEST, Tails, fit_tails, maximise
from .candidates import Candidate
from .folds import Folds
from .plans import ADDED, AddedPlan
from .stacks import Features, features, head_of, posterior

# Parameters of count likelihoods that rows out of fold shift, and how far
DISPERSIONS = {"log_concentration": (-2.0, 5.0), "logit_inflation": (-3.0, 3.0)}


class Routed(NamedTuple):
    """Predictives of held-out rows by one route.

    Attributes:
        log_p: log density of each judged row, mixed over the members that may judge it, and
            calibrated if the target is real, (J,).
        members: log density of each member's held-out rows, (M, L).
        predictive: of these rows, (M, L, ...).
    """

    log_p: Tensor
    members: Tensor
    predictive: Stack


class Trial(NamedTuple):
    """A trained stack: its body, posterior, routes and the best one of them."""

    body: Candidate
    done: Trained
    bound: Posterior
    routed: dict[str, Routed]
    route: str

    @property
    def best(self) -> Routed:
        """The predictives by the best route."""
        return self.routed[self.route]


def promising(
    runs: list[tuple[Candidate, Run]],
    folds: Folds,
    routing: str,
    tails: Tails,
    race: tuple[int, float],
) -> list[tuple[Candidate, Run]]:
    """Train all bodies for a while; drop those that are far behind the best one.

    Args:
        runs: the training of each body.
        folds: the rows of each member.
        routing: "auto", "free", "closed" or "hybrid".
        tails: the tails of a real target to try.
        race: steps after which to compare, and the distance in nats per row that is too far.
    """
    until, far = race
    if len(runs) == 1 or not until:
        return runs
    scores = []
    for _, run in runs:
        run.advance(until)
        scores.append(_score_so_far(run, folds, routing, tails))
    return [pair for pair, score in zip(runs, scores, strict=True) if score >= max(scores) - far]


def _score_so_far(run: Run, folds: Folds, routing: str, tails: Tails) -> float:
    """Return the score of the judged rows by the free or the closed route; hybrids are closed."""
    network = run.best_so_far()
    routes = [route for route in allowed(network, routing) if route != "hybrid"] or ["closed"]
    _, routed = _routed(network, folds, routes, tails)
    return max(float(folds.score(found.log_p).nan_to_num(-torch.inf)) for found in routed.values())


def untrained(network: Network, members: int) -> Trained:
    """Return networks whose features need no training, as if they had been trained."""
    like = head_of(network).log_alpha
    zero = torch.zeros(members, dtype=torch.long, device=like.device)
    which = torch.arange(members, device=like.device)
    return Trained(which, network.eval(), zero.float(), zero, zero)


def trial_of(
    body: Candidate, done: Trained, folds: Folds, routing: str, tails: Tails, added: AddedPlan
) -> Trial:
    """Bind the belief to the features; judge each route by rows that the members did not see."""
    network = done.network
    bound, routed = _routed(network, folds, allowed(network, routing), tails, added)
    scores = {route: float(folds.score(found.log_p)) for route, found in routed.items()}
    best = max(scores, key=lambda route: scores[route] if scores[route] == scores[route] else -1e30)
    return Trial(body, done, bound, routed, best)


@torch.no_grad()
def _routed(
    network: Network,
    folds: Folds,
    routes: Sequence[str],
    tails: Tails,
    added: AddedPlan = ADDED,
) -> tuple[Posterior, dict[str, Routed]]:
    """Return the posterior of each member, and the predictives by each route."""
    bound, routed = posterior(network, folds.rows), {}
    psi = features(network, folds.held.x)
    _fit_dispersion(network, folds, psi)
    for route in routes:
        if route == "hybrid":
            bound = _with_added(bound, network, folds, psi, added)
        p = predict(network, bound, route, psi)
        log_p = p.log_prob(folds.held.y)
        log_p = log_p if log_p.dim() == 2 else log_p.sum(-1)
        if isinstance(p, Normal):
            judged = folds.predictive(p)
            mixed = fit_tails(judged, folds.y, folds.weight, tails, few=True).log_p
        else:
            each = folds.judged(log_p).double()
            mixed = each.logsumexp(0) - log(len(each))
        routed[route] = Routed(mixed, log_p, p)
    # alpha and noise stay as they were judged when further rows are added
    return bound.keep(), routed


def _fit_dispersion(network: Network, folds: Folds, psi: Tensor) -> None:
    """Set dispersion and extra zeros of counts by rows out of fold, alike for all members.

    Training starts at those of the counts alone, and learns slowly what the inputs explain.
    """
    head = head_of(network)
    found = {name: getattr(head.likelihood, name, None) for name in DISPERSIONS}
    some = {name: at for name, at in found.items() if at is not None}
    if not some or len(folds.y) < FEWEST:
        return
    for name, at in [*some.items()] * len(some):  # one after the other, and once more if both
        start = at.detach().clone()

        def score(shift: float, at: Tensor = at, start: Tensor = start) -> float:
            at.copy_(start + shift)
            log_p = folds.judged(head(psi).log_prob(folds.held.y)).double()
            return float(folds.score(log_p.logsumexp(0)).nan_to_num(-torch.inf))

        best, reached = maximise(score, *DISPERSIONS[name])
        at.copy_(start + best if reached > score(0.0) else start)


def predict(network: Network, bound: Posterior, route: str, psi: Tensor) -> Stack:
    """Return the predictives of features psi (M, N, H) by a route."""
    return cast(Stack, head_of(network)(psi) if route == "free" else bound(psi))


def _with_added(
    bound: Posterior, network: Network, folds: Folds, psi: Tensor, added: AddedPlan
) -> Posterior:
    """Return the posterior with a free covariance added, by leave-one-out scores."""
    x, y, weight = folds.rows
    some = slice(None), slice(added.rows)
    first = Rows(x[some], y[some], None if weight is None else weight[some])
    rows = next(iter(Features(network, first)))
    held = (psi, *(part for part in folds.held[1:] if part is not None))
    return bound.add([rows], validation=held, steps=added.steps, lr=added.lr)


def allowed(network: Network, routing: str) -> tuple[str, ...]:
    """Return the routes to compare; "hybrid" is last, because it changes the posterior.

    Features that are not trained need no free belief: their posterior is exact.
    """
    if routing != "auto":
        return (routing,)
    if not isinstance(head_of(network).likelihood, GaussianLikelihood):
        return ("free",)
    trained = any(True for _ in network.body.parameters())
    return ("free", "closed", "hybrid") if trained else ("closed", "hybrid")
