"""What the hybrid route adds to a posterior: a free covariance, by the leave-one-out score."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .._core.local_rng import Draws
from .._core.value import value
from ..beliefs.belief import Belief
from ..beliefs.covariances import Scaled, Spread
from ..beliefs.families import FAMILIES
from ..factors import Gaussian
from ..factors.factor import Moments

Rows = tuple[Tensor, Tensor]  # features (..., 1, N, H), targets (..., K, N)


@value
class Added:
    """S+ and the noise of its score."""

    cov: Spread
    noise: Tensor  # (..., K)


class Seen(NamedTuple):
    """Rows, and what a posterior says of them that stays the same however S+ changes."""

    psi: Tensor  # (..., 1, N, H)
    y: Tensor  # (..., K, N)
    at: Moments  # (..., K, N)
    weight: Tensor | None = None  # (..., 1, N), of their scores


def without(posterior: Belief, noise: Tensor, rows: Rows, weight: Tensor | None = None) -> Seen:
    """Rows that the posterior has seen, each under the posterior of all others.

    A row that weighs w was seen w times, and is left out once of these.
    """
    psi, y = rows
    at = posterior.project(psi)
    h = at.var / noise.square()[..., None]  # leverage
    h = h if weight is None else h * weight.clamp(max=1)
    return Seen(psi, y, Moments((at.mean - h * y) / (1 - h), at.var / (1 - h)), weight)


def outside(posterior: Belief, rows: Rows, weight: Tensor | None = None) -> Seen:
    """Rows that the posterior has not seen."""
    return Seen(*rows, posterior.project(rows[0]), weight)


def fit_added(
    posterior: Belief,
    noise: Tensor,
    unit: Tensor,
    batches: Iterator["Seen"],
    held: "Seen | None",
    *,
    family: str,
    steps: int,
    lr: float,
) -> Added:
    """S+ and noise of best leave-one-out score; the posterior stays as it is.

    Args:
        posterior: N(mean, A^-1), (..., K, H).
        noise: of its sites, (..., K), where that of the score starts.
        unit: a standard deviation of weights that the data know of, (..., K); in it, the same
            steps serve every scale of y and psi.
        batches: rows that are in the posterior, without themselves (`without`), one batch a step.
        held: rows that are not in it (`outside`); each replicate keeps what scores best on them.
        family: of S+.
        steps: of Adam.
        lr: their size.
    """
    mean = posterior.mean
    with Draws(0, mean.dtype):
        spread = FAMILIES[family](tuple(mean.shape), 0.1 * mean.shape[-1] ** -0.5, 0.0, 16)
    spread.to(mean)
    log_noise = nn.Parameter(torch.zeros_like(noise))
    variables = [*spread.parameters(), log_noise]

    def present() -> Added:
        return Added(Scaled(spread(), unit), noise * log_noise.exp())

    def score(rows: Seen) -> Tensor:
        """Mean score a row, (...)."""
        now = present()
        at = Moments(rows.at.mean, rows.at.var + now.cov.quad(rows.psi))
        each = Gaussian(now.noise).log_marginal(rows.y, at)
        if rows.weight is not None:
            each = each * (rows.weight / rows.weight.mean(-1, keepdim=True))
        return each.mean(-1).sum(-1)

    adam = torch.optim.Adam(variables, lr=lr)
    kept = [x.detach().clone() for x in variables]
    best = torch.full(mean.shape[:-2], -torch.inf, dtype=mean.dtype, device=mean.device)
    for step in range(steps + 1):
        if held is not None and (step % 10 == 0 or step == steps):
            with torch.no_grad():
                reached = score(held)
            better = reached > best
            best = torch.where(better, reached, best)
            for good, x in zip(kept, variables, strict=True):
                good[better] = x.detach()[better]
        if step < steps:
            adam.zero_grad()
            (-score(next(batches))).sum().backward()
            adam.step()
    for good, x in zip(kept, variables, strict=True):
        x.requires_grad_(False)
        if held is not None:
            x.copy_(good)
    return present()
