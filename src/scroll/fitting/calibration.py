"""Calibrate an ensemble by its held-out rows: one number each for width, power and lapse rate.

Width of the members: each member is as wide as its own errors require. Their mixture is wider, by
the variance between the members, so its intervals would cover too much.

Power of the probabilities: a mixture of labels is less confident than its members, each of which is
as confident as it is accurate. Raised to a power and normalised, the mixture is sharper.

Lapse rate of labels: the tail of a probit is that of a normal distribution, so a network that
extrapolates calls a label impossible that then occurs. A share of the rows is assumed to have a
label drawn at random, by the frequencies of the labels.
"""

from math import log10

import torch
from torch import Tensor

from ..predictive import Normal

FEWEST = 20  # held-out rows that a calibration needs
SHARE = 2 / 3  # see docs/recipe.md
POWERS = torch.linspace(-0.7, 0.7, 57, dtype=torch.float64).exp()
FACTORS = torch.linspace(-0.9, 0.5, 57, dtype=torch.float64).exp()


def width_factor(p: Normal, y: Tensor, weight: Tensor | None = None) -> float:
    """Return the factor on the standard deviations of the members of an ensemble.

    It is the power 2/3 of the factor with the best held-out score: the same rows decided when
    training stopped, so the best factor is too small.

    Args:
        p: predictives of the members, (M, N) or (M, N, K).
        y: held-out targets.
        weight: of the held-out rows.
    """
    members = len(p.mean)
    if members == 1 or len(y) < FEWEST:
        return 1.0
    scores = torch.stack([_score(p, float(factor), y, weight) for factor in FACTORS])
    return float(FACTORS[scores.nan_to_num(-torch.inf).argmax()] ** SHARE)


def _score(p: Normal, factor: float, y: Tensor, weight: Tensor | None) -> Tensor:
    log_p = p.widened(factor).mixture().log_prob(y.double())
    log_p = log_p if log_p.dim() == 1 else log_p.sum(-1)
    return log_p.mean() if weight is None else (log_p * weight).mean()


def best_power(log_probs: Tensor, y: Tensor, weight: Tensor | None = None) -> float:
    """Return the power of the probabilities with the best held-out score.

    Args:
        log_probs: logarithms of the probabilities, (N, K).
        y: held-out labels, (N,).
        weight: of the held-out rows.
    """
    if len(y) < FEWEST:
        return 1.0
    each = [(float(b) * log_probs.double()).log_softmax(-1) for b in POWERS]
    scores = [log_p.gather(-1, y[:, None])[:, 0] for log_p in each]
    means = [(score if weight is None else score * weight).mean() for score in scores]
    return float(POWERS[torch.stack(means).argmax()])


def lapse_rate(
    log_probs: Tensor, y: Tensor, rates: Tensor, rows: int, weight: Tensor | None = None
) -> float:
    """Return the share of rows with a random label that has the best held-out score.

    Args:
        log_probs: of the members, (M, N, K).
        y: held-out labels, (N,).
        rates: frequency of each label, (K,).
        rows: number of training rows; the share is at least 1 / (rows + 1).
        weight: of the held-out rows.
    """
    least = 1 / (rows + 1)
    if len(y) < FEWEST:
        return least
    p = log_probs.double().exp().mean(0).gather(-1, y[:, None])[:, 0]
    shares = torch.logspace(log10(least), -1, 40, dtype=torch.float64).to(p.device)
    each = ((1 - shares) * p[:, None] + shares * rates[y][:, None]).log()
    scores = (each if weight is None else each * weight[:, None]).mean(0)
    return float(shares[scores.argmax()])
