"""The Bayesian last layer as an `nn.Module`.

A head holds parameters and names three parts: a likelihood, a covariance family and a row of
`METHODS`. The mathematics is in the parts.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .._core.checks import axes, checking, may_hold, positive, precise, require, tensor
from ..beliefs.belief import Belief
from ..beliefs.covariances import Diag, Full, Sum
from ..beliefs.families import FAMILIES, warn_if_heavy
from ..beliefs.problem import Problem, gaussian
from ..beliefs.sums import RowSums
from ..factors import Gaussian
from ..factors.factor import Moments
from ..objectives.objective import Objective, family, row
from ..predictive.protocol import Predictive
from . import checks
from .checks import full_precision
from .diagnosis import Diagnosis, diagnose
from .likelihoods import Likelihood, Replicates


class Head(nn.Module):
    """A Gaussian belief over the last layer's weights.

    Args:
        in_features: number of features H, the width of the body's output.
        likelihood: the observation model, one of `scroll.likelihoods`.
        covariance: "full", "diag", "lowrank" or "none", the family of S. "auto" is "full" up to
            K H^2 = 2^20 for K latents, then "lowrank" up to K H = 2^20, then "diag". The attribute
            `covariance` holds the choice.
        method: a method of `scroll.METHODS` that exists for this covariance, or an `Objective`.
        beta: weight each row's score by its detached V^beta; 0.5 keeps a deep body from giving
            up on hard rows (Gaussian likelihoods only).
        alpha: prior precision at the start; a method that does not learn it keeps it.
        prior_weight: multiplies the prior term; 1 is the method as defined.
        floor: eps in S + eps I, absolute; "none" has none.
        rank: number of directions of "lowrank", shared by the outputs.
        init_std: standard deviations of S at the start.
        bias: add a learned offset to each latent, as `nn.Linear` does.
        replicates: leading axes of independent copies of this head.

    Attributes:
        objective: the `Objective` that training minimises.
        batches: True if training may take some rows at a time.
        needs_rest: True if its loss then needs sums over the other rows (`SeenRows`).
    """

    log_alpha: nn.Parameter
    bias: nn.Parameter | None
    mean: nn.Parameter | None
    family: nn.Module | None
    log_site_noise: nn.Parameter | None
    conditioned: Tensor
    posterior_mean: Tensor
    posterior_scale: Tensor

    def __init__(
        self,
        in_features: int,
        likelihood: Likelihood,
        *,
        covariance: str = "auto",
        method: str | Objective = "scroll",
        beta: float = 0.0,
        alpha: float = 1.0,
        prior_weight: float = 1.0,
        floor: float = 1e-4,
        rank: int = 16,
        init_std: float = 0.1,
        bias: bool = True,
        replicates: Replicates = (),
    ):
        super().__init__()
        checks.require_numbers(
            {"in_features": in_features, "rank": rank},
            {"init_std": init_std, "alpha": alpha},
            {"beta": beta, "floor": floor, "prior_weight": prior_weight},
        )
        warn_if_heavy(covariance, in_features, likelihood.latents)
        covariance = family(method, covariance, in_features, likelihood.latents)
        self.objective = row(method, covariance)
        self.method = method if isinstance(method, str) else "your own"
        self.batches, self.needs_rest = self.objective.batches, self.objective.route.needs_rest
        self.covariance = "diag" if self.objective.diagonal else covariance
        self.in_features, self.replicates = in_features, axes(replicates)
        self.beta, self.prior_weight = float(beta), float(prior_weight)
        self.likelihood = likelihood
        checks.require_fit(self.objective, self.method, likelihood.factor(), beta, prior_weight)
        _register(self, float(alpha), bias)
        if self.objective.route.learns_covariance:
            shape = (*self.log_alpha.shape, in_features)
            self.family = FAMILIES[covariance](shape, init_std, floor, rank)

    @full_precision
    def loss(
        self,
        psi: Tensor,
        y: Tensor,
        total: int | None = None,
        weight: Tensor | None = None,
        prior: bool = True,
        rest: RowSums | None = None,
    ) -> Tensor:
        """Return (mean of -score over the batch) + (-prior term)/total, one number per replicate.

        Its expectation over batches is the method's loss on all the data divided by `total`
        (for beta > 0, up to the batch's own normalisation of the weights).

        Args:
            psi: features, (..., N, H).
            y: targets or labels, (..., N); (..., N, K) for K outputs, (..., N, 2) if censored.
            total: number of rows in the whole training set.
            weight: of each row's score, (..., N), of mean one over the whole training set.
            prior: False leaves the prior term out, for `PriorGradient`.
            rest: sums over the rows outside the batch, for a method that needs them.
        """
        problem, n = self.problem(psi, y)._replace(rest=rest), psi.shape[-2]
        rows = checks.require_total(total, n, self.batches, self.method)
        checks.require_rest(rest, rows, n, self.needs_rest, self.method)
        if weight is not None:
            checks.require_weights(weight, psi, not self.objective.bound, self.method)
            weight = weight.to(problem.psi.dtype).unsqueeze(-2)
        prior_weight = self.prior_weight if prior else 0.0
        losses = self.objective.loss(problem, rows, self.beta, prior_weight, weight)
        return losses.sum(-1) / rows

    @full_precision
    def prior_loss(self, total: int) -> Tensor:
        """Return (-prior term)/total, the part of `loss` that is the same for every batch.

        Args:
            total: number of rows in the whole training set.
        """
        rows = checks.require_prior_alone(total, not self.objective.bound, self.method)
        problem = _without_rows(self)
        terms = self.objective.prior(self.objective.route(problem), problem)
        return -self.prior_weight * terms.sum(-1) / rows

    @full_precision
    def forward(self, psi: Tensor) -> Predictive:
        """Return the predictive distribution of each row of psi (..., N, H)."""
        return self.likelihood.predict(self.message(psi))

    @full_precision
    def message(self, psi: Tensor) -> Moments:
        """Return q(f), the means and variances of the latents, (..., K, N)."""
        mean, var = self.belief().project(self.features(psi))
        return Moments(mean + _offset(self), var)

    def belief(self) -> Belief:
        """Return q(w), (..., K, H)."""
        if not self.objective.bound:
            found = self.objective.route(_without_rows(self))
            return Belief(found.mean, found.cov)
        require(
            not checking() or may_hold(self.conditioned),
            "head",
            "be given the training data before it predicts with a bound belief",
            f"method {self.method!r} without it",
            "Call head.condition(psi, y) after training.",
            RuntimeError,
        )
        kept: Diag | Full = (Diag if self.objective.diagonal else Full)(self.posterior_scale)
        added = self.family if self.objective.route.needs_added else None
        return Belief(self.posterior_mean, kept if added is None else Sum(kept, added()))

    @torch.no_grad()
    @full_precision
    def condition(self, psi: Tensor, y: Tensor) -> "Head":
        """Compute and keep the belief that `method` binds to all the training data.

        Call it again after further training: the kept belief does not follow the parameters.

        Args:
            psi: features of all training rows, (..., N, H).
            y: their targets or labels.

        Returns:
            The head itself.
        """
        require(
            self.objective.bound,
            "method",
            "bind the belief to data",
            repr(self.method),
            "There is nothing to compute: the belief is learned. See scroll.refit.",
        )
        problem, route = self.objective.precise(self.problem(psi, y)), self.objective.route
        belief = route(problem.summed() if route.needs_rest else problem)
        self.posterior_mean.copy_(belief.mean)
        self.posterior_scale.copy_(checks.kept_scale(belief.cov, route, problem.added))
        self.conditioned.fill_(True)
        return self

    @torch.no_grad()
    @full_precision
    def fit_noise(self, psi: Tensor, y: Tensor) -> "Head":
        """Set the noise to the root mean square residual, as MAP-type methods do; return the head.

        Args:
            psi: features, (..., N, H).
            y: their targets.
        """
        log_noise = checks.log_noise_of(self.likelihood)
        residual = self.problem(psi, y).y - self.message(psi).mean
        log_noise.copy_(residual.square().mean(-1).sqrt().log())
        return self

    def diagnose(self, psi: Tensor | None = None, y: Tensor | None = None) -> Diagnosis:
        """Return what went wrong with a freed belief: noise collapse, runaway, attenuation.

        Args:
            psi: features to measure the spread on; without them, features of unit mean square.
            y: their targets, to tell whether rows with large residuals still train a body.
        """
        return diagnose(self, psi, y)

    def problem(self, psi: Tensor, y: Tensor) -> Problem:
        """Return the problem that the objective is posed on.

        Args:
            psi: features (..., N, H), which become (..., 1, N, H).
            y: targets or labels, which become (..., K, N).
        """
        features = self.features(psi)
        tensor("y", y)
        return _pose(self, features, self.likelihood.encode(y, psi.shape[:-1]))

    def features(self, psi: Tensor) -> Tensor:
        """Return psi (..., N, H), checked, as (..., 1, N, H) in the precision of the head."""
        checks.require_features(psi, self.replicates, self.in_features)
        precise(self.log_alpha)
        return psi.to(self.log_alpha.dtype).unsqueeze(-3)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load a state dict; that of another kind of head is refused before anything is loaded."""
        checks.require_same_kind(self.state_dict(), state_dict, strict)
        return super().load_state_dict(state_dict, strict, assign)

    def extra_repr(self) -> str:
        """Return what `repr` shows: features, covariance and method."""
        parts = {"in_features": self.in_features, "covariance": self.covariance}
        return ", ".join(f"{k}={v!r}" for k, v in {**parts, "method": self.method}.items())


def _register(head: Head, alpha: float, bias: bool) -> None:
    """Give a head its parameters and buffers, apart from those of its covariance family."""
    objective, route = head.objective, head.objective.route
    shape = (*head.replicates, head.likelihood.latents, head.in_features)
    head.log_alpha = nn.Parameter(
        positive("alpha", alpha).log().repeat(shape[:-1]), requires_grad=objective.learns_alpha
    )
    head.bias = nn.Parameter(torch.zeros(shape[:-1])) if bias else None
    head.mean = head.family = head.log_site_noise = None
    if route.needs_belief:
        head.mean = nn.Parameter(torch.empty(shape).uniform_(-1, 1) * head.in_features**-0.5)
    if route.needs_added and route.needs_gaussian:
        noise = gaussian(head.likelihood.factor(), route.name).noise
        head.log_site_noise = nn.Parameter(noise.detach().log())
    if route.needs_every_row:
        spread = shape if objective.diagonal else (*shape, head.in_features)
        head.register_buffer("posterior_mean", torch.zeros(shape))
        head.register_buffer("posterior_scale", torch.zeros(spread))
        head.register_buffer("conditioned", torch.tensor(False))


def _offset(head: Head) -> Tensor | float:
    return 0.0 if head.bias is None else head.bias[..., None]


def _pose(head: Head, features: Tensor, targets: Tensor) -> Problem:
    """Return the problem of features (..., 1, N, H) and targets (..., K, N)."""
    cov = None if head.family is None else head.family()
    return Problem(
        features,
        targets,
        head.likelihood.factor(),
        head.log_alpha.exp(),
        free=None if head.mean is None or cov is None else Belief(head.mean, cov),
        added=cov if head.objective.route.needs_added else None,
        offset=_offset(head),
        site=None if head.log_site_noise is None else Gaussian(head.log_site_noise.exp()),
    )


def _without_rows(head: Head) -> Problem:
    """Return the problem without rows, for a route that needs none."""
    like = head.log_alpha
    psi = like.new_zeros(*head.replicates, 1, 0, head.in_features)
    return _pose(head, psi, like.new_zeros(*like.shape, 0))
