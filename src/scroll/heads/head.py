"""The Bayesian last layer as an `nn.Module`.

A head holds parameters and names three parts: a likelihood, a covariance family and a row of
`METHODS`. The mathematics is theirs.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .._core.checks import (
    axes,
    finite,
    known,
    looking,
    must,
    not_negative,
    positive,
    positive_int,
    precise,
    refusal,
    shaped,
    tensor,
    whole,
)
from .._core.state_dicts import difference
from ..beliefs.belief import Belief
from ..beliefs.covariances import Diag, Full, Sum
from ..beliefs.families import FAMILIES, warn_if_heavy
from ..beliefs.problem import Problem
from ..factors import Gaussian
from ..factors.factor import Moments
from ..objectives.objective import Objective, family, row
from .diagnosis import Diagnosis, diagnose
from .likelihoods import Likelihood, Replicates
from .precision import full_precision


class Head(nn.Module):
    """A Gaussian belief over the last layer's weights.

    Args:
        in_features: number of features H that the body gives.
        likelihood: the observation model; `scroll.likelihoods` has them.
        covariance: "full", "diag", "lowrank" or "none", the family of S; "auto" takes "full" up to
            K H^2 = 2^20 for K latents, then "lowrank" up to K H = 2^20, then "diag". The attribute
            `covariance` says which.
        method: a method of `scroll.METHODS` that exists for this covariance, or an `Objective`.
        beta: weight each point's score by its detached V^beta; 0.5 keeps a deep body from
            giving up on hard points (Gaussian likelihoods only).
        alpha: where the prior precision starts; for a method that does not learn it, what it
            stays at.
        prior_weight: multiplies the prior term; 1 is the method as defined.
        floor: eps in S + eps I, absolute; "none" has none.
        rank: number of directions of "lowrank", which the outputs share.
        init_std: where the standard deviations of S start.
        bias: add a learned offset to each latent, as `nn.Linear` does.
        replicates: leading axes of independent copies of this head.
    """

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
        positive_int("in_features", in_features)
        positive_int("rank", rank)
        for name, number in (("beta", beta), ("floor", floor), ("prior_weight", prior_weight)):
            not_negative(name, number)
        positive("init_std", init_std)
        positive("alpha", alpha)
        warn_if_heavy(covariance, in_features, likelihood.latents)
        covariance = family(method, covariance, in_features, likelihood.latents)
        self.objective = row(method, covariance)
        self.method = method if isinstance(method, str) else "your own"
        self.covariance = "diag" if self.objective.diagonal else covariance
        must(
            not self.objective.prior.zero or prior_weight in (0, 1),
            "prior_weight",
            f"be left at 1 for method {self.method!r}, which has no prior term",
            prior_weight,
        )
        self.in_features, self.replicates = in_features, axes(replicates)
        self.beta, self.prior_weight = float(beta), float(prior_weight)
        self.likelihood = likelihood
        self._check_parts()

        route, lead = self.objective.route, (*self.replicates, likelihood.latents)
        shape = (*lead, in_features)
        self.log_alpha = nn.Parameter(
            positive("alpha", float(alpha)).log().repeat(lead),
            requires_grad=self.objective.learns_alpha,
        )
        self.bias = nn.Parameter(torch.zeros(lead)) if bias else None
        self.mean = self.family = self.log_site_noise = None
        if route.needs_belief:
            self.mean = nn.Parameter(torch.empty(shape).uniform_(-1, 1) * in_features**-0.5)
        if route.learns_covariance:
            self.family = FAMILIES[covariance](shape, init_std, floor, rank)
        if route.needs_added:
            factor: Any = likelihood.factor()
            self.log_site_noise = nn.Parameter(factor.noise.detach().log())
        if route.needs_every_row:
            spread = shape if self.objective.diagonal else (*shape, in_features)
            self.register_buffer("posterior_mean", torch.zeros(shape))
            self.register_buffer("posterior_scale", torch.zeros(spread))
            self.register_buffer("conditioned", torch.tensor(False))

    @full_precision
    def loss(
        self,
        psi: Tensor,
        y: Tensor,
        total: int | None = None,
        weight: Tensor | None = None,
        prior: bool = True,
    ) -> Tensor:
        """(mean of -score over the batch) + (-prior term)/total, one number a replicate.

        Its expectation over batches is the method's loss on all the data divided by `total`
        (for beta > 0, up to the batch's own normalisation of the weights).

        Args:
            psi: features, (..., N, H).
            y: targets or labels, (..., N), or (..., N, K) for K outputs.
            total: number of rows in the whole training set.
            weight: of each row's score, (..., N), of mean one over the whole training set.
            prior: False leaves the prior term out, for `PriorGradient`.
        """
        problem = self.problem(psi, y)
        n = problem.y.shape[-1]
        rows = whole(total, n)
        if rows is None:
            raise refusal(
                "total",
                f"be the number of training rows, an integer of at least the {n} given here",
                repr(total),
                f"Pass total={_all_rows()}: it weighs the prior against the data.",
            )
        if rows != n and not self.objective.batches:
            raise refusal(
                "psi",
                f"hold all {rows} training rows for method {self.method!r}, whose belief is "
                "bound to all the data",
                f"{n} rows",
                "Train in one batch, or use method 'scroll' and scroll.refit afterwards.",
            )
        if weight is not None:
            self.weights(weight, psi)
            weight = weight.to(problem.psi.dtype).unsqueeze(-2)
        prior_weight = self.prior_weight if prior else 0.0
        losses = self.objective.loss(problem, rows, self.beta, prior_weight, weight)
        return losses.sum(-1) / rows

    def weights(self, weight: Tensor, psi: Tensor) -> None:
        """Check the weights of rows psi."""
        must(
            self.objective.batches,
            "weight",
            f"be None for method {self.method!r}, whose belief weighs all rows alike",
            "weights",
            "Use method 'scroll'.",
        )
        tensor("weight", weight)
        shaped(weight, psi.shape[:-1], "weight")
        finite("weight", weight)
        sound = not looking() or known((weight >= 0).all())
        must(sound, "weight", "be zero or positive", "negative ones")

    @full_precision
    def prior_loss(self, total: int) -> Tensor:
        """(-prior term)/total, the part of `loss` that is the same for every batch."""
        must(
            self.objective.batches,
            "method",
            "train on a part of the rows, so that its prior stands by itself",
            repr(self.method),
            "Use method 'scroll'.",
        )
        rows = whole(total)
        if rows is None:
            remedy = f"Pass {_all_rows()}."
            raise refusal("total", "be the number of training rows", repr(total), remedy)
        problem = self._no_rows()
        terms = self.objective.prior(self.objective.route(problem), problem)
        return -self.prior_weight * terms.sum(-1) / rows

    @full_precision
    def forward(self, psi: Tensor) -> Any:
        """The predictive distribution of each row of psi (..., N, H)."""
        return self.likelihood.predict(self.message(psi))

    @full_precision
    def message(self, psi: Tensor) -> Moments:
        """q(f): the latents' means and variances, (..., K, N)."""
        at = self.belief().project(self.features(psi))
        return Moments(at.mean + self._offset, at.var)

    def belief(self) -> Belief:
        """q(w), (..., K, H)."""
        if self.objective.batches:
            found = self.objective.route(self._no_rows())
            return Belief(found.mean, found.cov)
        must(
            not looking() or known(self.conditioned),
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

        Again after further training: what is kept does not follow the parameters.
        """
        must(
            not self.objective.batches,
            "method",
            "bind the belief to data",
            repr(self.method),
            "Nothing is to be done: its belief is already there. See scroll.refit.",
        )
        belief = self.objective.route(self.objective.precise(self.problem(psi, y)))
        cov: Any = belief.cov.base if isinstance(belief.cov, Sum) else belief.cov
        kind = Diag if self.objective.diagonal else Full
        must(
            isinstance(cov, kind),
            "route",
            f"return a belief with a `{kind.__name__}` covariance, as it declares",
            f"`{type(cov).__name__}` from `{self.objective.route.name}`",
            error=TypeError,
        )
        self.posterior_mean.copy_(belief.mean)
        self.posterior_scale.copy_(cov.var if isinstance(cov, Diag) else cov.scale)
        self.conditioned.fill_(True)
        return self

    @torch.no_grad()
    @full_precision
    def fit_noise(self, psi: Tensor, y: Tensor) -> "Head":
        """Set each output's noise to the root mean square residual, as MAP-type methods do."""
        model: Any = self.likelihood
        must(
            hasattr(model, "log_noise"),
            "likelihood",
            "be Gaussian to have a noise",
            type(model).__name__,
            error=TypeError,
        )
        residual = self.problem(psi, y).y - self.message(psi).mean
        model.log_noise.copy_(residual.square().mean(-1).sqrt().log())
        return self

    def diagnose(self, psi: Tensor | None = None, y: Tensor | None = None) -> Diagnosis:
        """What can go wrong with a freed belief: noise collapse, runaway, attenuation.

        Args:
            psi: features to measure the spread on; without them, features of unit mean square.
            y: their targets, to tell whether rows with large residuals still train a body.
        """
        return diagnose(self, psi, y)

    def problem(self, psi: Tensor, y: Tensor) -> Problem:
        """What the objective sees: features (..., 1, N, H), targets (..., K, N)."""
        features = self.features(psi)
        tensor("y", y)
        return self._problem(features, self.likelihood.encode(y, psi.shape[:-1]))

    def _problem(self, features: Tensor, targets: Tensor) -> Problem:
        cov = None if self.family is None else self.family()
        site = None if self.log_site_noise is None else Gaussian(self.log_site_noise.exp())
        return Problem(
            features,
            targets,
            self.likelihood.factor(),
            self.log_alpha.exp(),
            free=None if self.mean is None else Belief(self.mean, cov),
            added=cov if self.objective.route.needs_added else None,
            offset=self._offset,
            site=site,
        )

    def _no_rows(self) -> Problem:
        """The problem without rows, for a route that needs none."""
        like = self.log_alpha
        psi = like.new_zeros(*self.replicates, 1, 0, self.in_features)
        return self._problem(psi, like.new_zeros(*like.shape, 0))

    @property
    def batches(self) -> bool:
        """Whether it can train on a part of the rows at a time."""
        return self.objective.batches

    @property
    def _offset(self) -> Tensor | float:
        return 0.0 if self.bias is None else self.bias[..., None]

    def features(self, psi: Tensor) -> Tensor:
        """psi (..., N, H), checked, as (..., 1, N, H) in the precision of the head."""
        tensor("psi", psi)
        axes, width = psi.shape[:-2], psi.shape[-1:]
        if psi.dim() < 2 or axes != self.replicates or width != (self.in_features,):
            want = ", ".join(map(str, (*self.replicates, "N", self.in_features)))
            remedy = "Use psi[None] for one row." if psi.dim() == 1 else "Pass body(x), not x."
            raise refusal("psi", f"have shape ({want})", tuple(psi.shape), remedy)
        if psi.shape[-2] == 0:
            raise refusal("psi", "hold at least one row", "an empty batch")
        if not psi.is_floating_point():
            raise refusal("psi", "be a floating-point tensor", psi.dtype, error=TypeError)
        finite("psi", psi)
        precise(self.log_alpha)
        return psi.to(self.log_alpha.dtype).unsqueeze(-3)

    def _check_parts(self) -> None:
        factor = self.likelihood.factor()
        parts = (
            (f"method {self.method!r}", self.objective.needs_gaussian),
            ("beta > 0", self.beta > 0),
        )
        for name, needed in parts:
            must(
                isinstance(factor, Gaussian) or not needed,
                "likelihood",
                f"be Gaussian for {name}",
                type(factor).__name__,
                "Use method 'scroll' with beta=0, which takes every likelihood.",
                TypeError,
            )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load a state dict; one of another kind of head is refused before anything is loaded."""
        given, own = state_dict, self.state_dict()
        if not strict:
            given = {name: state_dict[name] for name in own if name in state_dict}
            own = {name: own[name] for name in given}
        want = "come from a head of the same sizes, likelihood, covariance, method and replicates"
        found, remedy = difference(own, given, precision=False), "Make the head as it was saved."
        must(found is None, "state_dict", want, found, remedy, RuntimeError)
        return super().load_state_dict(state_dict, strict, assign)

    def extra_repr(self) -> str:
        parts = {"in_features": self.in_features, "covariance": self.covariance}
        return ", ".join(f"{k}={v!r}" for k, v in {**parts, "method": self.method}.items())


def _all_rows() -> str:
    """How to say the number of all rows, of which each process may have a part."""
    group = torch.distributed
    many = group.is_available() and group.is_initialized() and group.get_world_size() > 1
    return "scroll.distributed.total(len(shard))" if many else "len(dataset)"
