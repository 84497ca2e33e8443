"""A training objective is one choice on each axis; a named method is a row of choices.

loss = - sum_n score(cavity_n(belief)) - prior(belief),    belief = route(problem)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.checks import must, one_of
from .._core.value import cast
from ..beliefs.belief import Belief
from ..beliefs.families import FAMILIES, by_size
from ..beliefs.problem import Problem, gaussian
from ..factors.factor import Moments
from .cavities import leave_one_out, sequential, shared
from .routes import Filtered, conjugate, conjugate_diag, filtered_diag, free, hybrid
from .terms import (
    expected_log,
    log_evidence,
    log_marginal,
    minus_kl,
    minus_kl_wishart,
    none,
    ridge,
    squared_error,
)


@dataclass(frozen=True)
class Objective:
    """One cell of route x cavity x score x prior term."""

    route: Callable[[Problem], Belief | Filtered] = free
    cavity: Callable[..., Moments] = shared
    score: Callable[[Problem, Moments], Tensor] = log_marginal
    prior: Callable[..., Tensor] = log_evidence
    learns_alpha: bool = True

    def __post_init__(self) -> None:
        if self.route is free and self.cavity is not shared:
            raise ValueError(
                "`cavity` must be `shared` for the `free` route, but got "
                f"`{self.cavity.__name__}`: nothing binds a free variance below the noise, so "
                "taking a point back out diverges. Use the `hybrid` route with `leave_one_out`, "
                "or a `conjugate` one."
            )
        if self.cavity is not shared and self.prior is not none:
            raise ValueError(
                f"`prior` must be `none` for the `{self.cavity.__name__}` cavity, but got "
                f"`{self.prior.__name__}`: that cavity starts from the prior, which would count "
                "twice. Use `none`, or the `shared` cavity."
            )
        if self.route is hybrid and self.cavity is not leave_one_out:
            raise ValueError(
                f"`cavity` must be `leave_one_out` for the `hybrid` route, but got "
                f"`{self.cavity.__name__}`. Use `leave_one_out`: only held-out residuals tell "
                "what variance to add."
            )
        if (self.route is filtered_diag) != (self.cavity is sequential) and not (
            self.route is conjugate and self.cavity is sequential
        ):
            raise ValueError(
                f"`route` must be `conjugate` or `filtered_diag` for the `sequential` cavity, and "
                f"`filtered_diag` goes with no other, but got `{self.route.__name__}` and "
                f"`{self.cavity.__name__}`. Use `conjugate_diag` with `shared` or `leave_one_out`."
            )

    @property
    def batches(self) -> bool:
        """Whether a part of the data may stand for all of it: a bound belief needs every point."""
        return self.route is free

    @property
    def diagonal(self) -> bool:
        """Whether a bound belief has a diagonal covariance."""
        return self.route in (conjugate_diag, filtered_diag)

    def loss(
        self,
        p: Problem,
        total: int | None = None,
        beta: float = 0.0,
        prior_weight: float | Tensor = 1.0,
        weight: Tensor | None = None,
    ) -> Tensor:
        """The loss on all `total` points, of which `p` holds some, (...).

        `weight` (..., N) multiplies the score of each point.
        """
        dtype, p = p.psi.dtype, self.precise(p)
        belief = self.route(p)
        at = self.cavity(belief, p)
        score = self.score(p, at)
        if beta:
            score = score * spread_weight(p, at, beta)
        if weight is not None:
            score = score * weight
        n = p.y.shape[-1]
        data = score.sum(-1) if total is None else score.sum(-1) * (total / n)
        if isinstance(prior_weight, float) and prior_weight == 0:  # not even computed
            return (-data).to(dtype)
        return (-data - prior_weight * self.prior(belief, p)).to(dtype)

    def precise(self, p: Problem) -> Problem:
        """`p`, in float64 for a posterior: the normal equations square its condition number."""
        return p if self.batches else cast(p, torch.float64)


def spread_weight(p: Problem, at: Moments, beta: float) -> Tensor:
    """V^beta, detached and of unit mean: it moves the path, not the optimum
    (Rem. estimand_reweight)."""
    weight = spread_power(p, at, beta)
    return weight / weight.mean(-1, keepdim=True)


def spread_power(p: Problem, at: Moments, beta: float) -> Tensor:
    """V^beta, detached."""
    return (gaussian(p.factor, "beta").var + at.var).detach() ** beta


_ANY = ("full", "diag", "lowrank", "none")
_SPREAD = ("full", "diag", "lowrank")  # a point mass has no KL, no added covariance


def _rows(name: str, families: tuple[str, ...], objective: Objective) -> dict[str, Objective]:
    return {f"{name}-{family}": objective for family in families}


METHODS: dict[str, Objective] = {
    **_rows("scroll", _ANY, Objective()),
    **_rows("fixed-alpha", _ANY, Objective(learns_alpha=False)),
    **_rows("no-prior", _ANY, Objective(prior=ridge, learns_alpha=False)),
    **_rows("kl", _SPREAD, Objective(prior=minus_kl)),
    **_rows("fixed-kl", _SPREAD, Objective(prior=minus_kl, learns_alpha=False)),
    **_rows("elbo", _SPREAD, Objective(score=expected_log, prior=minus_kl)),
    **_rows(
        "vbll", _SPREAD, Objective(score=expected_log, prior=minus_kl_wishart, learns_alpha=False)
    ),
    "map-none": Objective(score=squared_error, prior=ridge, learns_alpha=False),
    "closed-full": Objective(conjugate),
    "closed-diag": Objective(conjugate_diag),
    "loo-full": Objective(conjugate, leave_one_out, prior=none),
    "loo-diag": Objective(conjugate_diag, leave_one_out, prior=none),
    "seq-full": Objective(conjugate, sequential, prior=none),
    "seq-diag": Objective(filtered_diag, sequential, prior=none),
    # The sum that "seq-full" telescopes to: the ELBO is tight at the posterior (Lem. binding).
    "evidence-full": Objective(conjugate, score=expected_log, prior=minus_kl),
    **_rows("hybrid", _SPREAD, Objective(hybrid, leave_one_out, prior=none)),
}
"""Every named method whose training is an objective: `method-covariance`."""


def family(method: str | Objective, covariance: str, in_features: int, latents: int) -> str:
    """Return the covariance family that `covariance` names; "auto" goes by size (`by_size`).

    A belief that `method` binds to the posterior has the posterior's own covariance.
    """
    if covariance != "auto":
        return covariance
    named = {key.rpartition("-")[2]: o for key, o in METHODS.items() if _method(key) == method}
    objective = next(iter(named.values()), method)
    if not isinstance(objective, Objective):
        return "full"  # `row` says which methods there are
    by_score = objective.batches or objective.route is hybrid
    found = by_size(in_features, latents) if by_score else "full"
    return found if found in named or not named else next(iter(named))


def _method(key: str) -> str:
    """The method's part of a key of `METHODS`."""
    return key.rpartition("-")[0]


def row(method: str | Objective, covariance: str) -> Objective:
    """`METHODS["method-covariance"]`, or an error that says what there is."""
    one_of("covariance", covariance, (*FAMILIES, "auto"))
    if isinstance(method, Objective):
        bound = not method.batches and method.route is not hybrid
        own = "diag" if method.diagonal else "full"
        must(
            not bound or covariance in ("full", own),
            "covariance",
            f"be {own!r}, which is what this objective's route gives",
            repr(covariance),
        )
        return method
    one_of("method", method, list(dict.fromkeys(map(_method, METHODS))))
    families = [key.rpartition("-")[2] for key in METHODS if _method(key) == method]
    remedy = f"These exist for method {method!r}; method 'scroll' takes every covariance."
    one_of("covariance", covariance, families, remedy)
    return METHODS[f"{method}-{covariance}"]
