"""Laplace's posterior on trained features, for labels and counts, and its hybrid.

It is what `refit` is for numbers: the body stays as it is, and the belief over the last layer is
computed anew. Its scores without each row come from one Newton step (`objectives.laplace`), so a
free covariance and a free gain can be trained on held-out scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log

import torch
from torch import Tensor, nn

from .._core.checks import one_of, require
from .._core.local_rng import Draws
from .._core.value import cast, value
from ..beliefs.belief import Belief
from ..beliefs.covariances import Full, Scaled, Spread, Sum
from ..beliefs.families import FAMILIES
from ..beliefs.problem import Problem
from ..factors import derivatives
from ..factors.factor import Moments
from ..heads.head import Head
from ..objectives.laplace import laplace_about, log_evidence, mode, newton_leave_one_out
from ..predictive.protocol import Predictive
from .data import check_batch
from .hybrid import RANK, Adam, AddedSettings, Best
from .posterior import check_refit

DECADES = (-4, 5)  # of alpha, in units of the mean |psi_n|^2, between which the best is searched
GOLDEN = 0.6180339887498949
NARROWINGS = 16  # of the bracket, which ends as a thousandth of a decade


@value
class Freed:
    """What a hybrid frees of a posterior N(mode, A^-1): N(gain mode, gain^2 A^-1 + S+).

    The mode of labels has been fitted with the factor's own noise. Variance that is added to it
    needs a larger mean: the gain is to labels what the free noise of the score is to numbers.

    Attributes:
        cov: S+.
        gain: factor on the posterior's weights, (..., K).
    """

    cov: Spread
    gain: Tensor

    def moments(self, psi: Tensor, at: Moments) -> Moments:
        """Return the freed moments of rows psi whose moments without the offset are `at`."""
        gain = self.gain[..., None]
        return Moments(gain * at.mean, gain.square() * at.var + self.cov.quad(psi))


@dataclass(frozen=True, eq=False)
class LaplacePosterior:
    """Laplace's posterior over a head's last-layer weights, made by `laplace_refit`.

    Attributes:
        head: the trained head, whose likelihood encodes labels and makes predictives.
        alpha: prior precision, (..., K).
        weights: N(mode, A^-1) over the weights, (..., K, H), in float64. If the head has a bias,
            the last weight is that of a constant feature.
        freed: what a hybrid adds, or None.
    """

    head: Head
    alpha: Tensor
    weights: Belief[Full]
    freed: Freed | None = None

    @property
    def belief(self) -> Belief[Full | Sum]:
        """N(mode, A^-1) over the weights; N(gain mode, gain^2 A^-1 + S+) for a hybrid."""
        if self.freed is None:
            return self.weights
        mean, root = self.weights.mean, self.weights.cov.scale
        gain = self.freed.gain[..., None]
        return Belief(gain * mean, Sum(Full(gain[..., None] * root), self.freed.cov))

    def __call__(self, psi: Tensor) -> Predictive:
        """Return the predictive distribution of each row of psi (..., N, H)."""
        at = self.belief.project(_features(self.head, psi))
        at = Moments(at.mean + _offset(self.head), at.var)
        return self.head.likelihood.predict(cast(at, self.head.log_alpha.dtype))

    def left_out(self, psi: Tensor, y: Tensor) -> Moments:
        """Return q(f_n) of training rows, each without itself, (..., K, N).

        Args:
            psi: features of all training rows, (..., N, H).
            y: their labels or counts.
        """
        problem = _problem(self.head, psi, y, self.alpha)
        at = newton_leave_one_out(self.weights, problem)
        if self.freed is None:
            return at
        at = self.freed.moments(problem.psi, Moments(at.mean - problem.offset, at.var))
        return Moments(at.mean + problem.offset, at.var)

    def epistemic(self, psi: Tensor) -> Tensor:
        """Return psi' A^-1 psi, which more data would reduce, (..., K, N)."""
        return self.weights.cov.quad(_features(self.head, psi)).to(self.head.log_alpha.dtype)

    @torch.enable_grad()  # S+ is trained even where the caller has turned gradients off
    def add(
        self,
        psi: Tensor,
        y: Tensor,
        *,
        family: str = "diag",
        steps: int = 600,
        lr: float = 0.02,
        validation: tuple[Tensor, ...] | None = None,
    ) -> LaplacePosterior:
        """Return a hybrid: with a free covariance S+ and a gain of best leave-one-out score.

        Arguments are those of `laplace_refit`; `family` is its `added`.
        """
        settings = AddedSettings(family, steps, lr)
        training, held = _problem(self.head, psi, y, self.alpha), None
        with torch.no_grad():
            at = newton_leave_one_out(self.weights, training)
            rows = Scored(training, Moments(at.mean - training.offset, at.var))
            if validation is not None:
                x, labels = check_batch("validation", validation)[:2]
                other = _problem(self.head, x, labels, self.alpha)
                held = Scored(other, self.weights.project(other.psi))
        return replace(self, freed=train_freed(self.weights.mean, rows, held, settings))


@dataclass(frozen=True)
class Scored:
    """Rows, and w.psi of each under a posterior that has not seen it, (..., K, N)."""

    rows: Problem
    at: Moments

    def mean_score(self, freed: Freed) -> Tensor:
        """Return the mean of log E p over the rows of the hybrid, summed over latents, (...)."""
        at = freed.moments(self.rows.psi, self.at)
        at = Moments(at.mean + self.rows.offset, at.var)
        return self.rows.factor.log_marginal(self.rows.y, at).mean(-1).sum(-1)


def train_freed(
    mean: Tensor, training: Scored, validation: Scored | None, settings: AddedSettings
) -> Freed:
    """Return S+ and the gain of best leave-one-out score.

    Args:
        mean: of the posterior, (..., K, H).
        training: training rows, each without itself.
        validation: other rows; each replicate keeps what scores best on them.
        settings: family of S+ and steps.
    """
    unit = training.rows.psi.square().mean((-2, -1)).rsqrt().expand(mean.shape[:-1])
    with Draws(0, mean.dtype):
        family = FAMILIES[settings.family]
        spread = family(tuple(mean.shape), 0.1 * mean.shape[-1] ** -0.5, 0.0, RANK)
    spread.to(mean)
    log_gain = nn.Parameter(torch.zeros_like(mean[..., 0]))
    variables: list[nn.Parameter] = [*spread.parameters(), log_gain]
    best, adam = Best(variables, mean), Adam(variables, settings.lr)

    def now() -> Freed:
        return Freed(Scaled(spread(), unit), log_gain.exp())

    for step in range(settings.steps + 1):
        if validation is not None and (step % 10 == 0 or step == settings.steps):
            with torch.no_grad():
                best.keep(validation.mean_score(now()))
        if step < settings.steps:
            adam.step(-training.mean_score(now()).sum())
    best.restore(validation is not None)
    return now()


@torch.inference_mode(False)
def laplace_refit(
    head: Head,
    psi: Tensor,
    y: Tensor,
    *,
    alpha: str | Tensor = "evidence",
    hybrid: bool = False,
    added: str = "diag",
    steps: int = 600,
    lr: float = 0.02,
    validation: tuple[Tensor, ...] | None = None,
) -> LaplacePosterior:
    """Return Laplace's posterior of a trained head's weights on its features.

    The head keeps its thresholds, noise and other parameters of the likelihood.

    Args:
        head: a trained head whose factor is log-concave in f.
        psi: features of all training rows, (..., N, H).
        y: their labels or counts.
        alpha: prior precision: of greatest evidence, "head" for the head's, or numbers (..., K).
        hybrid: also fit a free covariance S+ and a gain on the leave-one-out score.
        added: family of S+: "diag", "full" or "lowrank".
        steps: Adam steps for S+, each on all rows.
        lr: their step size.
        validation: held-out (psi, y); the S+ of best score on it is kept.
    """
    settings = AddedSettings(added, steps, lr)
    check_refit(head)
    require(hybrid or validation is None, "validation", "be None unless `hybrid` is True", "rows")
    default, remedy = settings == AddedSettings(), "They shape the S+ of a hybrid."
    require(hybrid or default, "hybrid", "be True with `added`, `steps` or `lr`", False, remedy)
    with torch.no_grad():
        found = _bound(head, psi, y, alpha)
    if not hybrid:
        return found
    return found.add(psi, y, family=added, steps=steps, lr=lr, validation=validation)


def _bound(head: Head, psi: Tensor, y: Tensor, alpha: str | Tensor) -> LaplacePosterior:
    if isinstance(alpha, str):
        one_of("alpha", alpha, ("evidence", "head"))
        chosen = head.log_alpha.detach().double().exp()
        problem = _problem(head, psi, y, chosen)
        if alpha == "evidence":
            problem = problem._replace(alpha=best_alpha(problem))
    else:
        problem = _problem(head, psi, y, alpha.to(head.log_alpha.device).double())
    weights = laplace_about(problem, mode(problem))
    curvature = -derivatives(
        problem.factor, problem.y, weights.project(problem.psi).mean + problem.offset
    ).second
    require(
        bool((curvature >= 0).all()),
        "head",
        "have a likelihood that is log-concave in f",
        type(head.likelihood).__name__,
        "Predict with head(psi).",
        TypeError,
    )
    return LaplacePosterior(head, problem.alpha, weights)


def best_alpha(p: Problem) -> Tensor:
    """Return alpha of greatest Laplace evidence, (...): a grid, refined by golden sections."""
    power = p.psi.square().sum(-1).mean(-1).expand(p.alpha.shape).log()
    grid = [power + k * log(10) for k in range(DECADES[0], DECADES[1] + 1)]
    w: Tensor | None = None

    def evidence(log_alpha: Tensor) -> Tensor:
        nonlocal w
        q = p._replace(alpha=log_alpha.exp())
        w = mode(q, w)
        return log_evidence(q, laplace_about(q, w)).nan_to_num(-torch.inf)

    reached = torch.stack([evidence(x) for x in reversed(grid)]).flip(0)
    middle = torch.stack(grid).gather(0, reached.argmax(0, keepdim=True))[0]
    low, high = middle - log(10), middle + log(10)
    for _ in range(NARROWINGS):
        a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        rising = evidence(a) < evidence(b)
        low, high = torch.where(rising, a, low), torch.where(rising, high, b)
    return ((low + high) / 2).exp()


def _features(head: Head, psi: Tensor) -> Tensor:
    """Return psi in float64, (..., 1, N, H); a constant feature is appended if there is a bias."""
    found = head.features(psi.detach().to(head.log_alpha.device)).double()
    if head.bias is None:
        return found
    return torch.cat([found, torch.ones_like(found[..., :1])], -1)


def _offset(head: Head) -> Tensor | float:
    """Return the head's bias, about which the constant's weight has its prior, (..., K, 1)."""
    return 0.0 if head.bias is None else head.bias.detach().double()[..., None]


@torch.no_grad()
def _problem(head: Head, psi: Tensor, y: Tensor, alpha: Tensor) -> Problem:
    """Return the problem of Laplace's posterior, in float64."""
    target = head.likelihood.encode(y.to(head.log_alpha.device), psi.shape[:-1])
    factor = cast(head.likelihood.factor(), torch.float64)
    return Problem(
        _features(head, psi), cast(target, torch.float64), factor, alpha, offset=_offset(head)
    )
