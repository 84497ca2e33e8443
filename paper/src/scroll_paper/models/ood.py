"""Out-of-distribution detection: how well a variance separates foreign rows from test rows."""

import torch
from torch import Tensor

from scroll.predictive import Normal


def auroc(own: Tensor, foreign: Tensor) -> Tensor:
    """P(own < foreign) + P(own = foreign) / 2 over pairs of rows, (..., N), (..., M) -> (...).

    The area under the ROC curve; NaN where a score is NaN.
    """
    own, broken = own.sort(-1).values.contiguous(), own.isnan().any(-1) | foreign.isnan().any(-1)
    foreign = foreign.contiguous()
    below = torch.searchsorted(own, foreign)
    up_to = torch.searchsorted(own, foreign, right=True)
    share = (below + up_to).double().mean(-1) / (2 * own.shape[-1])
    return share.masked_fill(broken, torch.nan)


def ood_auroc(own: Normal, foreign: Normal) -> Tensor:
    """The AUROC of sd^2 - sigma_obs^2, the variance minus the noise that all rows share.

    Noise that differs between rows counts as variance: a mean-variance network has no other.
    The noise of the first row is subtracted before the sum, so that shared noise leaves exactly
    zero and equal rows tie exactly.
    """
    shared = own.noise_var[..., :1].double()
    return auroc(*(p.belief_var.double() + (p.noise_var.double() - shared) for p in (own, foreign)))
