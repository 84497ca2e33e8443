"""What can go wrong with a freed belief, and the remedy (Cor. pathologies, app. e2e_regression)."""

import typing
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .._core.checks import require
from .._core.value import cast
from ..beliefs.belief import Belief
from ..beliefs.covariances import Point, Spread
from ..beliefs.problem import Problem
from ..factors import CensoredGaussian, Factor, Gaussian
from ..factors.factor import Moments
from ..objectives.objective import Objective
from .likelihoods import Likelihood

COLLAPSED = 1e-3  # share of the predictive variance below which the noise carries nothing
HARD = 0.1  # share of the rows, those with the largest residuals
LIGHT = 0.5  # weight of hard rows below which a body may give up on them


Noisy = Gaussian | CensoredGaussian


class Diagnosable(Protocol):
    """What `diagnose` needs of a head."""

    objective: Objective
    method: str
    likelihood: Likelihood

    @property
    def log_alpha(self) -> Tensor:
        """Logarithm of the prior precision, (..., K)."""

    def belief(self) -> Belief:
        """Return q(w)."""

    def features(self, psi: Tensor) -> Tensor:
        """Return features as the belief takes them."""

    def message(self, psi: Tensor) -> Moments:
        """Return the means and variances of the latents."""

    def problem(self, psi: Tensor, y: Tensor) -> Problem:
        """Return the problem that the objective is posed on."""


@dataclass(frozen=True)
class Diagnosis:
    """What `head.diagnose()` found. `print` shows it in words.

    Attributes:
        noise_share: s^2 / (s^2 + v), (..., K); None if the likelihood or the belief has none.
        runaway: tr S^-1 - mu' S^-2 mu, (..., K); None if alpha cannot run away.
        text: the findings and their remedies.
        hard_weight: 1/V of the rows with the largest residuals over that of all rows, (..., K);
            None without targets.
    """

    noise_share: Tensor | None
    runaway: Tensor | None
    text: str
    hard_weight: Tensor | None = None

    @property
    def noise_collapsed(self) -> bool:
        """True if the noise of some output carries less than 0.1 % of its variance."""
        return self.noise_share is not None and bool((self.noise_share < COLLAPSED).any())

    @property
    def alpha_runs_away(self) -> bool:
        """True if the prior precision of some output would grow without bound."""
        return self.runaway is not None and bool((self.runaway > 0).any())

    @property
    def gives_up(self) -> bool:
        """True if the rows with the largest residuals of some output hardly train a body."""
        return self.hard_weight is not None and bool((self.hard_weight < LIGHT).any())

    @property
    def healthy(self) -> bool:
        """True if nothing is wrong."""
        return not (self.noise_collapsed or self.alpha_runs_away or self.gives_up)

    def __str__(self) -> str:
        return self.text


@torch.inference_mode(False)  # a derivative is taken
@torch.no_grad()
def diagnose(head: Diagnosable, psi: Tensor | None = None, y: Tensor | None = None) -> Diagnosis:
    """Look for noise collapse, prior-precision runaway and attenuation in a head.

    Args:
        head: a trained head.
        psi: features to measure the spread on; without them, features of unit mean square.
        y: their targets, to tell whether rows with large residuals still train a body.
    """
    require(psi is not None or y is None, "psi", "be given with y", "None", "Pass body(x).")
    if head.objective.bound and not head.objective.route.needs_added:
        text = f"Method {head.method!r} binds the belief to the posterior: nothing is left free."
        return Diagnosis(None, None, text)
    belief, factor = head.belief(), head.likelihood.factor()
    features = None if psi is None else head.features(psi)
    share = _noise_share(factor, belief, features) if isinstance(factor, Noisy) else None
    learned = head.objective.prior.unbounded_alpha and head.log_alpha.requires_grad
    runaway = _runaway(belief) if learned else None
    hard = None if share is None or psi is None or y is None else _hard_weight(head, psi, y)
    noise, conjugate = _noise_words(share, factor), isinstance(factor, Gaussian)
    lines = [noise, _alpha_words(runaway, head.log_alpha.exp()), _hard_words(hard, conjugate)]
    if psi is not None:
        lines.append("Overfitting: only held-out rows can show it.")
    return Diagnosis(share, runaway, "\n".join(line for line in lines if line), hard)


def _noise_share(factor: Noisy, belief: Belief, psi: Tensor | None) -> Tensor | None:
    if isinstance(belief.cov, Point):
        return None
    cov = typing.cast("Spread", belief.cov)
    spread = cov.trace() if psi is None else cov.quad(psi).mean(-1)
    s2 = factor.var[..., 0]
    return s2 / (s2 + spread)


def _hard_weight(head: Diagnosable, psi: Tensor, y: Tensor) -> Tensor:
    """Return the mean of 1 / V_n over the rows with the largest residuals, over that of all rows.

    A residual r_n moves the features by r_n / V_n. A noise shared by all rows gives 1.
    """
    p = head.problem(psi, y)
    at = head.message(psi)
    factor = typing.cast(Noisy, p.factor)
    weight = 1 / (factor.var + at.var)
    if isinstance(factor, CensoredGaussian):
        size = factor.distance(p.y, at.mean)
    else:
        size = (p.y - at.mean).abs()
    n = size.shape[-1]
    hard = size >= size.kthvalue(n - int(HARD * n), -1, keepdim=True).values
    return (weight * hard).sum(-1) / hard.sum(-1) / weight.mean(-1)


def _runaway(belief: Belief) -> Tensor | None:
    """Return tr S^-1 - mu' S^-2 mu: if positive, a large alpha grows further (Eq. dL_dalpha)."""
    if isinstance(belief.cov, Point):  # alpha* = H / |mu|^2, always finite
        return None
    belief = cast(belief, torch.float64)
    with torch.enable_grad():  # it is -2 d log N(mu; 0, S + c I) / dc at c = 0, in any family
        c = torch.zeros_like(belief.mean[..., 0]).requires_grad_()
        density = belief.cov.plus(c).log_normal(belief.mean.detach())
        return -2 * torch.autograd.grad(density.sum(), c)[0]


def _noise_words(share: Tensor | None, factor: Factor) -> str:
    if share is None and isinstance(factor, Noisy):
        return "Noise: all of the predictive variance, the same for every row."
    if share is None:
        return "Noise: this likelihood has none that could collapse."
    low = float(share.min())
    if low >= COLLAPSED:
        return f"Noise: carries {low:.2%} of the predictive variance or more. Healthy."
    remedy = "Use covariance='none'."
    if isinstance(factor, Gaussian):
        remedy = (
            "Reimpose the binding: scroll.refit(head, psi, y), or train with method='closed'; in a "
            "deep network, try beta=0.5."
        )
    return (
        f"Noise collapse: the noise carries only {low:.2g} of the predictive variance, so the "
        "split between noise and belief is not identified and the residuals may be "
        f"interpolated. {remedy}"
    )


def _hard_words(weight: Tensor | None, conjugate: bool) -> str:
    if weight is None:
        return ""
    low = float(weight.min())
    if low >= LIGHT:
        return f"Hard rows: move the features with {low:.2g} of the average weight. Healthy."
    ways = "beta=0.5, covariance='none'," if conjugate else "covariance='none',"
    return (
        f"Attenuation: the tenth of the rows with the largest residuals moves the features with "
        f"only {low:.2g} of the average weight 1/V, because their variance has grown instead. A "
        f"body that is trained through the head may give up on them: use {ways} or for labels "
        "likelihood='ova', where this cannot happen. With fixed features it does no harm."
    )


def _alpha_words(runaway: Tensor | None, alpha: Tensor) -> str:
    if runaway is None:
        return "Prior precision: fixed or determined by the mean, so it cannot run away."
    high, top = float(runaway.max()), float(alpha.max())
    if high <= 0:
        return f"Prior precision: finite stationary point, alpha up to {top:.3g}. Healthy."
    return (
        f"Prior-precision runaway: tr S^-1 - mu'S^-2 mu = {high:.3g} > 0, so alpha (now up to "
        f"{top:.3g}) grows without bound once it dominates S. Predictions do not "
        "depend on it; to have a meaningful alpha reimpose the binding: "
        "scroll.refit(head, psi, y) or method='closed', or fix it with method='fixed-alpha'."
    )
