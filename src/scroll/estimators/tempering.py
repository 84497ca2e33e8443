"""How wide the members of an ensemble are to be: one factor on their deviations.

Each member is as wide as its own errors ask for. Their mixture is wider than that, by how far
its members are apart, and so its intervals cover too much; held-out rows tell how much.
"""

import torch
from torch import Tensor

from ..predictive import Mixture, Normal

FEWEST = 20  # held-out rows below which there is nothing to learn from
SHARE = 2 / 3  # see docs/recipe.md
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
    parts = (p.mean, p.noise_var * factor**2, p.belief_var * factor**2)
    log_p = Mixture(Normal(*(part.double() for part in parts))).log_prob(y.double())
    log_p = log_p if log_p.dim() == 1 else log_p.sum(-1)
    return log_p.mean() if weight is None else (log_p * weight).mean()
