"""Mixtures: weights of bodies, and how much wider and less confident a mixture of all folds is.

Rows out of fold are judged by one member of each body, and the calibration is fitted to them. The
ensemble mixes the members of all folds.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from ..predictive import Labels, Normal, Stack
from .calibration import power_of_mixture
from .folds import Folds
from .stacks import features
from .trials import Trial, predict

LOOKED_AT, NARROWEST = 2000, 0.25  # rows that members are compared on; least factor on a variance
BETWEEN = 1.5  # times that variance: once for the spread of the members, half for their mean

PRIOR = 1.0  # rows that each body is credited with before any is seen
LEAST = 0.05  # bodies with less weight are left out
ROUNDS, SETTLED = 500, 1e-6  # of expectation maximisation
IMPOSSIBLE = -1e4  # stands for the log density of a body that has none


def stacking_weights(log_p: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the weights w_b, which sum to 1, of greatest sum_j log sum_b w_b p_bj, (B,).

    A Dirichlet prior adds one row to each body, so that few rows keep the weights apart from 0 and
    1. Bodies with a weight below 5 % get none.

    Args:
        log_p: log density of each held-out row by each body, (B, J).
        weight: of the rows, of mean one, (J,).
    """
    log_p = log_p.double().nan_to_num(IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE)
    found = torch.full_like(log_p[:, 0], 1 / len(log_p))
    for _ in range(ROUNDS):
        share = (log_p + found.log()[:, None]).softmax(0)
        count = (share if weight is None else share * weight).sum(1) + PRIOR
        before, found = found, count / count.sum()
        if float((found - before).abs().max()) < SETTLED:
            break
    kept = torch.where(found < LEAST, 0.0, found)
    return kept / kept.sum()


@torch.no_grad()
def shrinkage(trials: Sequence[Trial], folds: Folds, width: float) -> float:
    """Return the factor on the width that allows for the mixture of all folds.

    Mixing adds the variance between the members. The mean of the ensemble is also more accurate
    than that of one member, by as much if the errors of the members were independent; they share
    some.

    Args:
        trials: the bodies that are mixed.
        folds: the rows of each member.
        width: factor on the standard deviations of the members.
    """
    if not folds.crossed:
        return 1.0
    normals = [cast(Normal, p) for p in _by_all(trials, folds)]
    between = torch.stack([p.mean.double().var(0) for p in normals])
    within = torch.stack([p.variance.double().mean(0) * width**2 for p in normals])
    ratio = between.mean(0) / within.mean(0)
    members = len(folds.number)
    excess = BETWEEN * (members - 1) / members * ratio.mean()
    return float((1 - excess).clamp(min=NARROWEST).sqrt())


@torch.no_grad()
def power_of_all(
    trials: Sequence[Trial], weights: Sequence[float] | None, folds: Folds, power: float
) -> float:
    """Return the power at which the mixture of all folds is as confident as one fold's members.

    Args:
        trials: the bodies that are mixed.
        weights: of the bodies; None if all weigh the same.
        folds: the rows of each member.
        power: of the probabilities of rows out of fold.
    """
    if not folds.crossed:
        return power
    log_p = torch.stack([cast(Labels, p).log_probs.double() for p in _by_all(trials, folds)])
    share = log_p.new_full((len(trials),), 1 / len(trials))
    share = share if weights is None else torch.tensor(weights).to(share)
    members = (log_p + share.log().reshape(-1, 1, 1, 1)).logsumexp(0)
    weight = None if folds.held.weight is None else _some(folds, folds.held.weight)
    return power_of_mixture(members, power, weight)


def _by_all(trials: Sequence[Trial], folds: Folds) -> list[Stack]:
    """Return what all members of each body predict of about 2,000 of the rows, (M, J, ...)."""
    rows = _some(folds, folds.held.x)
    shared = rows.expand(len(folds.number), *rows.shape)
    return [
        predict(t.done.network, t.bound, t.route, features(t.done.network, shared)) for t in trials
    ]


def _some(folds: Folds, held: Tensor) -> Tensor:
    """Return the first rows of each fold, about 2,000 in all, of held-out rows (M, L, ...)."""
    return held[:, : -(-LOOKED_AT // len(folds.number))].flatten(0, 1)
