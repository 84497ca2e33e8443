"""Train the members of an ensemble: one network per fold of each body, then choose.

Rows that a network did not see choose the route of each body, the bodies that are mixed, and the
calibration.
"""

from collections.abc import Callable, Sequence
from math import log
from typing import NamedTuple, cast

import torch
from torch import Tensor

from ..posterior.posterior import Posterior
from ..predictive import Labels, Normal, Survival
from ..predictive.mixture import joined, member_weights
from ..training.batches import Rows
from ..training.loop import Run
from ..training.network import Network
from ..training.state import Trained
from .calibration import Calibration, Tails, best_power, fit_tails, fit_width, lapse_rate
from .candidates import Candidate
from .folds import Folds, Judged, folds_of
from .mixing import power_of_all, shrinkage, stacking_weights
from .plans import PILOT
from .stacks import Data, Features, Job, Members, each, features, member_seeds, posterior
from .trials import Trial, allowed, promising, trial_of, untrained

GAIN = 0.5  # standard errors by which one more body must improve the mixture
AHEAD = 1.0  # standard errors by which a mixture must be better than the linear body


class Pilot(NamedTuple):
    """A short training of the first body.

    Attributes:
        score: mean log density of held-out rows.
        run: the training, to be continued; None if the body needs none.
    """

    score: float
    run: Run | None


class Ensemble(NamedTuple):
    """Trained members, by body.

    Attributes:
        parts: the members.
        weights: of the parts, if the target is a label; None if all members weigh the same.
        tried: held-out score of each body and route.
        calibration: by the rows that members did not see.
        judged: the predictives of these rows.
    """

    parts: list[Members]
    weights: list[float] | None
    tried: dict[str, float]
    calibration: Calibration
    judged: Judged


def fit_ensemble(
    job: Job, *, members: int, routing: str, tails: Tails, seed: int, begun: Run | None = None
) -> Ensemble:
    """Train one network per member of each body, and keep the bodies of the best mixture.

    Args:
        job: the rows, the plan, and how heads are made.
        members: number of folds, or of networks that hold out the same rows.
        routing: "auto", "free", "closed" or "hybrid".
        tails: the tails of a real target to try.
        seed: of the first member.
        begun: the training of the first body with this job, if a pilot has begun it.
    """
    seeds, folds = member_seeds(seed, members), folds_of(job.data, members)
    runs, done = _runs(job, folds, seeds, routing, begun)
    done |= {
        body.name: run.finish()
        for body, run in promising(runs, folds, routing, tails, job.plan.race)
    }
    trained = [(body, done[body.name]) for body in job.plan.candidates if body.name in done]
    trials = [trial_of(body, each, folds, routing, tails, job.plan.added) for body, each in trained]
    tried = {
        f"{trial.body.name}, {route}": -float(folds.score(routed.log_p))
        for trial in trials
        for route, routed in trial.routed.items()
    }
    chosen, weights = _chosen(trials, folds, tails, members == 1 or not job.plan.mixes)
    calibration = _calibration(chosen, weights, folds, job, tails)
    ood = torch.stack(
        [t.bound.ood_score(features(t.done.network, folds.held.x)) for t in chosen]
    ).mean(0)
    judged = Judged(folds, [trial.best.predictive for trial in chosen], ood)
    parts = [_members(job, trial, folds, seeds) for trial in chosen]
    return Ensemble(parts, weights, tried, calibration, judged)


def _runs(
    job: Job, folds: Folds, seeds: Sequence[int], routing: str, begun: Run | None
) -> tuple[list[tuple[Candidate, Run]], dict[str, Trained]]:
    """Return the trainings of the bodies, and those that need none by name.

    Features without parameters, of a belief that is bound to the posterior, need no training.
    """
    done: dict[str, Trained] = {}
    runs: list[tuple[Candidate, Run]] = []
    for i, body in enumerate(job.plan.candidates):
        if begun is not None and i == 0:
            begun.watch = job.watch(body.name, len(seeds))
            runs.append((body, begun))
            continue
        network = job.fresh(body, folds.rows, seeds)
        if "free" in allowed(network, routing) or any(True for _ in network.body.parameters()):
            runs.append((body, job.run(network, body, folds.rows, folds.held, seeds)))
        else:
            done[body.name] = untrained(network, len(seeds))
    return runs, done


def pilot(job: Job, *, members: int, seed: int) -> Pilot:
    """Train the first body for a while, and judge it by held-out rows.

    Args:
        job: the rows, the plan, and how heads are made.
        members: number of members.
        seed: of the first member.
    """
    folds, body = folds_of(job.data, members), job.plan.candidates[0]
    seeds = member_seeds(seed, members)
    network = job.fresh(body, folds.rows, seeds)
    if "free" not in allowed(network, "auto"):
        trial = trial_of(
            body, untrained(network, members), folds, "closed", Tails(), job.plan.added
        )
        return Pilot(float(folds.score(trial.best.log_p)), None)
    run = job.run(network, body, folds.rows, folds.held, seeds)
    how = job.plan.settings
    run.advance(max(min(how.steps // PILOT, job.plan.pilot), how.every))
    return Pilot(-float(run.best().mean()), run)


def _chosen(
    trials: list[Trial], folds: Folds, tails: Tails, single: bool
) -> tuple[list[Trial], list[float] | None]:
    """Return the bodies to mix, the best one first; of labels also their weights.

    Args:
        trials: the trained bodies.
        folds: the rows of each member.
        tails: the tails of a real target to try.
        single: whether to take one body only.
    """
    if hasattr(trials[0].best.predictive, "log_probs") and not single:
        log_p = torch.stack([trial.best.log_p for trial in trials])
        each = stacking_weights(log_p, folds.weight).tolist()
        kept = [i for i in sorted(range(len(each)), key=lambda i: -each[i]) if each[i] > 0]
        return [trials[i] for i in kept], [each[i] for i in kept]
    mixed = lambda some: _mixed([trials[i] for i in some], folds, tails)
    plain = [i for i, trial in enumerate(trials) if trial.body.name == "linear"]
    found = best_mixture(len(trials), mixed, folds, single, *plain)
    return [trials[i] for i in found], None


def best_mixture(
    n_bodies: int,
    log_p: Callable[[Sequence[int]], Tensor],
    folds: Folds,
    single: bool,
    plain: int | None = None,
) -> list[int]:
    """Return which bodies to mix equally, the best one first.

    A body is added if the judged rows of the mixture are better by half a standard error. The plain
    body is alone unless the mixture is better than it by one standard error: the best of several
    bodies on few rows is partly luck.

    Args:
        n_bodies: number of bodies.
        log_p: returns the calibrated log density of the judged rows, (J,), mixed over some bodies.
        folds: the weights of the rows.
        single: whether to take one body only.
        plain: the simplest body, if there is one.
    """
    found: dict[tuple[int, ...], Tensor] = {
        (i,): log_p((i,)).nan_to_num(-torch.inf) for i in range(n_bodies)
    }
    chosen = max(found, key=lambda some: float(folds.score(found[some])))
    while not single and len(chosen) < n_bodies:
        more = [(*chosen, i) for i in range(n_bodies) if i not in chosen]
        found |= {some: log_p(some).nan_to_num(-torch.inf) for some in more}
        best = max(more, key=lambda some: float(folds.score(found[some])))
        if not _ahead(found[best] - found[chosen], folds, GAIN):
            break
        chosen = best
    if plain is None or not found[(plain,)].isfinite().all():
        return list(chosen)
    enough = _ahead(found[chosen] - found[(plain,)], folds, AHEAD)
    return list(chosen) if enough else [plain]


def _ahead(gain: Tensor, folds: Folds, errors: float) -> bool:
    """Return whether the mean gain of the judged rows is larger than some standard errors."""
    error = float(gain.std()) / len(gain) ** 0.5 if len(gain) > 1 else torch.inf
    return float(folds.score(gain)) > errors * error


def _mixed(trials: Sequence[Trial], folds: Folds, tails: Tails) -> Tensor:
    """Return the calibrated log density of the judged rows under an equal mixture, (J,)."""
    normals = [p for trial in trials if isinstance(p := trial.best.predictive, Normal)]
    if normals:
        members = joined([folds.predictive(p) for p in normals])
        return fit_tails(members, folds.y, folds.weight, tails, few=True).log_p
    return torch.stack([t.best.log_p for t in trials]).logsumexp(0) - log(len(trials))


def _calibration(
    chosen: list[Trial], weights: list[float] | None, folds: Folds, job: Job, tails: Tails
) -> Calibration:
    """Return width and tails of a real target, or power and lapse rate of labels."""
    first, data = chosen[0].best.predictive, job.data
    if data.seen or not (isinstance(first, Normal | Survival) or hasattr(first, "log_probs")):
        return Calibration()
    stacks = [folds.predictive(trial.best.predictive) for trial in chosen]
    members = joined(stacks)
    if isinstance(members, Survival):
        width = fit_width(cast(Normal, members.base), folds.y, folds.weight)
        return Calibration(width)
    if isinstance(members, Normal):
        width, tail, _ = fit_tails(members, folds.y, folds.weight, tails)
        return Calibration(width, shrinkage(chosen, folds, width), tail)
    if not job.plan.lapses:
        return Calibration()
    labels = cast(list[Labels], stacks)
    each_weight = None if weights is None else member_weights(labels, weights)
    mixed = cast(Labels, members).mixture(each_weight).log_probs
    power = best_power(mixed, folds.y, folds.weight)
    mixed = (power * mixed).log_softmax(-1)
    frequencies = rates(data, mixed.shape[-1])
    lapse = lapse_rate(mixed[None], folds.y, frequencies, len(data.y), folds.weight)
    return Calibration(
        power=power, power_of_all=power_of_all(chosen, weights, folds, power), lapse=lapse
    )


def _members(job: Job, trial: Trial, folds: Folds, seeds: Sequence[int]) -> Members:
    """Let the posteriors learn from the held-out rows, too, unless they are the user's own."""
    network, bound, done, data = trial.done.network, trial.bound, trial.done, job.data
    if not data.own:
        if job.plan.retrain_on_all and not folds.crossed:
            network = job.train_on_all(trial.body, seeds, done.step.tolist())
            bound = posterior(network, folds.rows).keep()
        bound = _including(bound, network, folds, data)
    scores = _scores(trial.best.members, folds)
    routes = [trial.route] * len(seeds)
    return Members(trial.body.name, network, routes, bound, scores, done.steps.tolist())


def _scores(log_p: Tensor, folds: Folds) -> list[float]:
    """Return the held-out score of each member."""
    weight = folds.held.weight
    return (-(log_p if weight is None else log_p * weight).mean(-1)).tolist()


def _including(bound: Posterior, network: Network, folds: Folds, data: Data) -> Posterior:
    """Return the posterior of the training rows and the held-out rows."""
    held, members = folds.held, len(folds.number)
    if not folds.crossed:
        later = data.later_weight
        held = Rows(
            each(data.held_x, members),
            each(data.held_y, members),
            None if later is None else each(later, members),
        )
    elif held.weight is not None:
        held = held._replace(weight=held.weight * folds.ratio)
    for batch in Features(network, held):
        bound = bound.update(*batch)
    return bound


def rates(data: Data, classes: int) -> Tensor:
    """Return the weighted frequency of each label in training, (K,); none is zero."""
    weight = torch.ones_like(data.y, dtype=torch.float64) if data.weight is None else data.weight
    mass = torch.bincount(data.y.long(), weight.double(), classes) + 0.5
    return mass / mass.sum()
