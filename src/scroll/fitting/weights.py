"""Weights of bodies in a mixture of labels, by rows that no member saw: stacking."""

import torch
from torch import Tensor

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
