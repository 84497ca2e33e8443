"""Cross-fitting of labels: each member holds out a fold of its own, so that no row is lost.

A label holds little information, and so does a fifth of a small table: a choice by one held-out
part is mostly chance. Here every row is held out by one member and learned from by all others, and
all rows together choose the bodies, the power and the lapse rate.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..training.batches import Rows
from ..training.loop import Trained, train
from ..training.network import held_out_nll, take
from .calibration import best_power, lapse_rate
from .plans import Candidate
from .search import rates, shared
from .stacks import Data, Ensemble, Job, Members, member_seeds, posterior


class CrossFitTrial(NamedTuple):
    """A trained stack and its log-probabilities of each row out of fold, (N, K)."""

    body: Candidate
    done: Trained
    log_probs: Tensor


def cross_fit(job: Job, *, members: int, seed: int) -> Ensemble:
    """Train one network per fold of each body; each fold's member then has one of the bodies.

    Args:
        job: the rows, each with a fold, the plan, and how heads are made.
        members: number of networks M, and of folds.
        seed: of the first member.
    """
    data, seeds = job.data, member_seeds(seed, members)
    trials = [_trial(job, body, seeds) for body in job.plan.candidates]
    tried = {f"{t.body.name}, free": -float(_scores(t.log_probs, data).mean()) for t in trials}
    shares = shared(torch.stack([_scores(t.log_probs, data) for t in trials]), members)
    mixed = _mixed([t.log_probs for t in trials], shares)
    power = best_power(mixed, data.y, data.weight)
    mixed = (power * mixed).log_softmax(-1)
    frequencies = rates(data, mixed.shape[-1])
    lapse = lapse_rate(mixed[None], data.y, frequencies, len(data.y), data.weight)
    body_of = torch.arange(len(trials)).repeat_interleave(torch.tensor(shares))  # of each fold
    parts = [
        _members(data, trial, which, power, lapse)
        for c, trial in enumerate(trials)
        if (which := (body_of == c).nonzero()[:, 0].tolist())
    ]
    return Ensemble(parts, tried)


def _trial(job: Job, body: Candidate, seeds: Sequence[int]) -> CrossFitTrial:
    """Train a stack whose members hold out one fold each."""
    (rows, _), held = (_parts(job.data, len(seeds), others) for others in (True, False))
    done = train(
        job.fresh(body, seeds),
        rows,
        held[0],
        job.plan.settings,
        seeds=seeds,
        score=held_out_nll,
        watch=job.watch(body.name, len(seeds)),
    )
    return CrossFitTrial(body, done, _out_of_fold(done, held, len(job.data.y)))


def _members(
    data: Data, trial: CrossFitTrial, which: list[int], power: float, lapse: float
) -> Members:
    """Return the members of a stack at the folds `which`."""
    done = trial.done
    keep = torch.zeros(len(done.steps), dtype=torch.bool)
    keep[which] = True
    network = take(done.network, keep.to(data.x.device))
    scores, steps = (x[which].tolist() for x in (done.score, done.steps))
    bound, routes = posterior(network, data).keep(), ["free"] * len(which)
    return Members(trial.body.name, network, routes, bound, scores, steps, power=power, lapse=lapse)


def _parts(data: Data, members: int, others: bool) -> tuple[Rows, Tensor]:
    """Return each member's rows, of the other folds or of its own, and their numbers.

    Shorter parts are padded with rows of weight zero, whose number is -1.
    """
    fold = torch.zeros_like(data.y) if data.fold is None else data.fold
    each = [((fold != m) if others else (fold == m)).nonzero()[:, 0] for m in range(members)]
    most = max(len(some) for some in each)
    index = torch.full((members, most), -1, device=fold.device)
    for row, some in zip(index, each, strict=True):
        row[: len(some)] = some
    at, weight = index.clamp(min=0), (index >= 0).to(data.x)
    weight = weight if data.weight is None else weight * data.weight[at]
    return Rows(data.x[at], data.y[at], weight / weight.mean(1, keepdim=True)), index


@torch.no_grad()
def _out_of_fold(done: Trained, held: tuple[Rows, Tensor], n_rows: int) -> Tensor:
    """Return the log-probabilities of each row by the member that holds it out, (N, K)."""
    rows, index = held
    each: Tensor = done.network(rows.x).log_probs
    there = index >= 0
    log_probs = each.new_empty(n_rows, each.shape[-1])
    log_probs[index[there]] = each[there]
    return log_probs


def _mixed(log_probs: list[Tensor], shares: list[int]) -> Tensor:
    """Return the log-probabilities of the bodies, mixed by their shares, (N, K)."""
    each = torch.stack(log_probs).double()
    weight = torch.tensor(shares, dtype=each.dtype, device=each.device) / sum(shares)
    return (each + weight.log()[:, None, None]).logsumexp(0)


def _scores(log_probs: Tensor, data: Data) -> Tensor:
    """Return log p of each row's label, times its weight, (N,)."""
    log_p = log_probs.gather(-1, data.y[:, None])[:, 0]
    return log_p if data.weight is None else log_p * data.weight
