"""What held-out rows say of a predictive as a whole: one number each.

The width of an ensemble's members. Each is as wide as its own errors ask for. Their mixture is
wider than that, by how far its members are apart, and so its intervals cover too much.

The power of an ensemble's probabilities. A mixture of labels is less sure than its members, and
each of those as sure as it is right: raised to a power and normalised it is sharper.

The lapse rate of labels. The tail of a probit is a normal one: a network that extrapolates calls
a label impossible that then turns up. A share of the rows is taken to have any label, drawn as
often as it comes.
"""

from math import log10

import torch
from torch import Tensor

from ..predictive import Normal

FEWEST = 20  # held-out rows below which there is nothing to learn from
SHARE = 2 / 3  # see docs/recipe.md
POWERS = torch.linspace(-0.7, 0.7, 57, dtype=torch.float64).exp()
FACTORS = torch.linspace(-0.9, 0.5, 57, dtype=torch.float64).exp()


def tempered(p: Normal, y: Tensor, weight: Tensor | None = None) -> float:
    """The factor on the deviations of members p (M, N) or (M, N, K), by held-out targets y.

    Two thirds of the way, on a logarithmic scale, to what the rows' score asks for: they have
    also said when training was to stop, and so ask for too little.
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


def power(log_probs: Tensor, y: Tensor, weight: Tensor | None = None) -> float:
    """What to raise probabilities to, by labels y (N,) that they (N, K) have not seen."""
    if len(y) < FEWEST:
        return 1.0
    each = [(float(b) * log_probs.double()).log_softmax(-1) for b in POWERS]
    scores = [log_p.gather(-1, y[:, None])[:, 0] for log_p in each]
    means = [(score if weight is None else score * weight).mean() for score in scores]
    return float(POWERS[torch.stack(means).argmax()])


def lapse_rate(
    log_probs: Tensor, y: Tensor, rates: Tensor, rows: int, weight: Tensor | None = None
) -> float:
    """The share of rows that have any label, by held-out labels y (N,) of members (M, N, K).

    Args:
        log_probs: of the members.
        y: the labels.
        rates: how often each label comes, (K,).
        rows: that have been seen. Those cannot tell a share below one in as many, and one.
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
