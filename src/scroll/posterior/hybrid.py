"""The hybrid route: a free covariance S+ added to a posterior, trained on leave-one-out scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .._core.checks import one_of, positive, positive_int
from .._core.local_rng import Draws
from .._core.value import value
from ..beliefs.belief import Belief
from ..beliefs.covariances import Scaled, Spread
from ..beliefs.families import FAMILIES
from ..factors import Gaussian
from ..factors.factor import Moments

ADDED_FAMILIES = ("diag", "full", "lowrank")
RANK = 16  # of the "lowrank" family


@value
class Added:
    """What a hybrid adds to a posterior.

    Attributes:
        cov: S+.
        noise: standard deviation of the observations that belongs to it, (..., K).
    """

    cov: Spread
    noise: Tensor


class RegressionRows(NamedTuple):
    """Rows of the linear regression.

    Attributes:
        psi: features, (..., 1, N, H).
        y: targets, (..., K, N).
        weight: of each row's score, (..., 1, N), or None.
    """

    psi: Tensor
    y: Tensor
    weight: Tensor | None = None


class ScoredRows(NamedTuple):
    """Rows and q(f) of each, (..., K, N), which does not depend on S+."""

    rows: RegressionRows
    at: Moments


@dataclass(frozen=True)
class AddedSettings:
    """How S+ is trained.

    Args:
        family: of S+: "diag", "full" or "lowrank".
        steps: number of Adam steps, each on one batch.
        lr: their size, in units of the noise.
    """

    family: str = "diag"
    steps: int = 600
    lr: float = 0.02

    def __post_init__(self) -> None:
        one_of("added", self.family, ADDED_FAMILIES)
        positive_int("steps", self.steps)
        positive("lr", self.lr)


def left_out(weights: Belief, noise: Tensor, rows: RegressionRows) -> ScoredRows:
    """Return training rows, each with q(f) of the posterior of all other rows.

    A row of weight w was seen w times, and is left out once.
    """
    at = weights.project(rows.psi)
    h = at.var / noise.square()[..., None]  # leverage
    h = h if rows.weight is None else h * rows.weight.clamp(max=1)
    return ScoredRows(rows, Moments((at.mean - h * rows.y) / (1 - h), at.var / (1 - h)))


def held_out(weights: Belief, rows: RegressionRows) -> ScoredRows:
    """Return rows that are not in the posterior, with its q(f)."""
    return ScoredRows(rows, weights.project(rows.psi))


def blank_added(family: str, shape: tuple[int, ...]) -> Scaled:
    """Return an untrained S+, of the kind and shapes that `train_added` returns.

    Args:
        family: of S+.
        shape: of the weights, (..., K, H).
    """
    with Draws(0), torch.no_grad():
        return Scaled(FAMILIES[family](shape, 1.0, 0.0, RANK)(), torch.ones(shape[:-1]))


def train_added(
    mean: Tensor,
    noise: Tensor,
    unit: Tensor,
    training: Iterator[ScoredRows],
    validation: ScoredRows | None,
    settings: AddedSettings,
) -> Added:
    """Return S+ and the noise of best leave-one-out score.

    Args:
        mean: of the posterior, (..., K, H).
        noise: of the posterior, (..., K), from which that of the score starts.
        unit: scale of the weights, (..., K): in this unit the same steps serve every scale of y
            and psi.
        training: training rows (`left_out`), one batch per step.
        validation: other rows (`held_out`); each replicate keeps what scores best on them.
        settings: family of S+ and steps.
    """
    with Draws(0, mean.dtype):
        family = FAMILIES[settings.family]
        spread = family(tuple(mean.shape), 0.1 * mean.shape[-1] ** -0.5, 0.0, RANK)
    spread.to(mean)
    log_noise = nn.Parameter(torch.zeros_like(noise))
    variables = [*spread.parameters(), log_noise]

    def now() -> Added:
        return Added(Scaled(spread(), unit), noise * log_noise.exp())

    best = Best(variables, mean)
    adam = Adam(variables, settings.lr)
    for step in range(settings.steps + 1):
        if validation is not None and (step % 10 == 0 or step == settings.steps):
            with torch.no_grad():
                best.keep(mean_score(now(), validation))
        if step < settings.steps:
            adam.step(-mean_score(now(), next(training)).sum())
    best.restore(validation is not None)
    return now()


def mean_score(added: Added, scored: ScoredRows) -> Tensor:
    """Return the mean log marginal density of the rows, summed over outputs, (...)."""
    rows, at = scored
    at = Moments(at.mean, at.var + added.cov.quad(rows.psi))
    score = Gaussian(added.noise).log_marginal(rows.y, at)
    if rows.weight is not None:
        score = score * (rows.weight / rows.weight.mean(-1, keepdim=True))
    return score.mean(-1).sum(-1)


class Adam:
    """Adam for a few tensors; making torch's own imports its compiler, which takes two seconds."""

    def __init__(self, variables: list[nn.Parameter], lr: float):
        self.variables, self.lr, self.steps = variables, lr, 0
        self.first, self.second = ([torch.zeros_like(x) for x in variables] for _ in range(2))

    def step(self, loss: Tensor) -> None:
        """Take one step down the loss."""
        grads = torch.autograd.grad(loss, self.variables)
        self.steps += 1
        with torch.no_grad():
            for x, grad, m, v in zip(self.variables, grads, self.first, self.second, strict=True):
                m.lerp_(grad, 0.1)
                v.lerp_(grad.square(), 0.001)
                slow, fast = 1 - 0.9**self.steps, 1 - 0.999**self.steps
                x.sub_(self.lr / slow * m / ((v / fast).sqrt() + 1e-8))


class Best:
    """The variables of best validation score so far, for each replicate."""

    def __init__(self, variables: list[nn.Parameter], like: Tensor):
        self.variables = variables
        self.kept = [x.detach().clone() for x in variables]
        self.score = like.new_full(like.shape[:-2], -torch.inf)

    def keep(self, reached: Tensor) -> None:
        """Keep the present variables of the replicates that score better than before, (...)."""
        better = reached > self.score
        self.score = torch.where(better, reached, self.score)
        for kept, x in zip(self.kept, self.variables, strict=True):
            kept[better] = x.detach()[better]

    def restore(self, best: bool) -> None:
        """Fix the variables: at their best if `best`, else where they are."""
        for kept, x in zip(self.kept, self.variables, strict=True):
            x.requires_grad_(False)
            if best:
                x.copy_(kept)
