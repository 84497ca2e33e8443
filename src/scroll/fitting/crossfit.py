"""Members of labels, each of which holds out a fold of its own: no row is lost to the choice.

A label says little, and so does a fifth of a small table: what is chosen by one part held out is
chosen by its chance. Here every row is held out by one member and learned from by all others, and
all rows together choose the bodies, the power and the lapse rate.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..posterior.posterior import refit
from ..training.batches import Rows
from ..training.loop import Trained, Watch, train
from ..training.network import held_out_nll, take
from .calibration import lapse_rate, power
from .features import Features
from .plans import Plan
from .search import Data, MakeHead, Members, fresh, rates, shared


def cross(
    data: Data,
    plan: Plan,
    head: MakeHead,
    *,
    members: int,
    seed: int,
    watch: Callable[[str, int], Watch | None] = lambda body, members: None,
    start: Callable[[Any], None] = lambda head: None,
) -> tuple[list[Members], dict[str, float]]:
    """Train as many networks of each body as there are folds; each fold's member is of one body.

    Arguments and results are those of `fit`, for rows that have a fold each.
    """
    fold: Any = data.fold
    seeds = [(seed + 7919 * m) % 2**31 for m in range(members)]
    mine, held = (_parts(data, fold, members, others) for others in (True, False))
    tried: dict[str, float] = {}
    pilots: list[tuple[Trained, Tensor]] = []
    for body in plan.candidates:
        done = train(
            fresh(data, body, head, seeds, start),
            mine[0],
            held[0],
            plan.recipe,
            seeds=seeds,
            score=held_out_nll,
            watch=watch(body.name, members),
        )
        said = _out_of_fold(done, held, len(data.y))
        tried[f"{body.name}, free"] = -float(_scores(said, data).mean())
        pilots.append((done, said))
    shares = shared(torch.stack([_scores(said, data) for _, said in pilots]), members)
    whose = torch.arange(len(pilots)).repeat_interleave(torch.tensor(shares))  # of each fold
    weight, mixed = data.weight, _mixed([said for _, said in pilots], shares)
    sharp = power(mixed, data.y, weight)
    mixed, often = (sharp * mixed).log_softmax(-1), rates(data, mixed.shape[-1])
    lapse = lapse_rate(mixed[None], data.y, often, len(data.y), weight)
    found = []
    for c, (body, (done, _)) in enumerate(zip(plan.candidates, pilots, strict=True)):
        which = (whose == c).nonzero()[:, 0].tolist()
        if not which:
            continue
        keep = torch.zeros(members, dtype=torch.bool)
        keep[which] = True
        network = take(done.network, keep.to(fold.device))
        bound = refit(_module(network.head), Features(network, data.x, data.y, weight)).keep()
        scores, steps, best = (x[which].tolist() for x in (done.score, done.steps, done.step))
        routes = ["free"] * len(which)
        part = Members(body.name, network, routes, bound, scores, steps, best)
        part.power, part.lapse = sharp, lapse
        found.append(part)
    return found, tried


def _module(head: nn.Module) -> Any:
    return head


def _parts(data: Data, fold: Tensor, members: int, others: bool) -> tuple[Rows, Tensor]:
    """The rows of each member, those of the other folds or of its own, and which they are.

    Shorter parts are filled up with rows that weigh nothing, marked by an index of -1.
    """
    each = [((fold != m) if others else (fold == m)).nonzero()[:, 0] for m in range(members)]
    most = max(len(some) for some in each)
    index = torch.full((members, most), -1, device=fold.device)
    for row, some in zip(index, each, strict=True):
        row[: len(some)] = some
    at, weight = index.clamp(min=0), (index >= 0).to(data.x)
    weight = weight if data.weight is None else weight * data.weight[at]
    return Rows(data.x[at], data.y[at], weight / weight.mean(1, keepdim=True)), index


@torch.no_grad()
def _out_of_fold(done: Trained, held: tuple[Rows, Tensor], count: int) -> Tensor:
    """The log-probabilities of each row by the member that holds it out, (N, K)."""
    rows, index = held
    each = done.network(rows.x).log_probs
    there = index >= 0
    said: Tensor = each.new_empty(count, each.shape[-1])
    said[index[there]] = each[there]
    return said


def _mixed(said: list[Tensor], shares: list[int]) -> Tensor:
    """What bodies say of rows that they have not seen, mixed by their shares, (N, K)."""
    each = torch.stack(said).double()
    weight = torch.tensor(shares, dtype=each.dtype, device=each.device) / sum(shares)
    return (each + weight.log()[:, None, None]).logsumexp(0)


def _scores(said: Tensor, data: Data) -> Tensor:
    """log p of each row's label, by its weight, (N,)."""
    log_p = said.gather(-1, data.y[:, None])[:, 0]
    return log_p if data.weight is None else log_p * data.weight
