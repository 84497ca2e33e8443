"""A training objective is one choice on each axis; a named method is a row of choices.

loss = - sum_n score(cavity_n(belief)) - prior(belief),    belief = route(problem)
"""

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from .._core.checks import invalid, one_of, require
from .._core.value import cast
from ..beliefs.belief import Belief
from ..beliefs.families import FAMILIES, by_size
from ..beliefs.problem import Problem, gaussian
from ..factors.factor import Moments
from .cavities import CAVITIES, leave_batch_out, leave_one_out, sequential, shared
from .laplace import laplace, laplace_hybrid, newton_leave_one_out
from .parts import Cavity, Filtered, PriorTerm, Route, Score
from .routes import (
    ROUTES,
    batch_conjugate,
    batch_hybrid,
    block_hybrid,
    conjugate,
    conjugate_diag,
    filtered_diag,
    free,
    hybrid,
    prequential,
)
from .terms import (
    expected_log,
    lapsing,
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
    """One cell of route x cavity x score x prior term. What the parts declare must fit together.

    Args:
        route: where the belief comes from.
        cavity: which data the belief that scores a point has seen.
        score: how good the belief's moments are for each target.
        prior: what the prior adds.
        learns_alpha: whether a head learns the prior precision or keeps it as given.
    """

    route: Route[Belief | Filtered] = free
    cavity: Cavity = shared
    score: Score = log_marginal
    prior: PriorTerm = log_evidence
    learns_alpha: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            part, kind = getattr(self, field.name), type(field.default)
            remedy = f"Wrap it: scroll.objectives.{kind.__name__}(...)." if callable(part) else ""
            want = f"be a `{kind.__name__}`"
            require(isinstance(part, kind), field.name, want, repr(part), remedy, TypeError)
        route, cavity = self.route, self.cavity
        if cavity.needs not in route.gives:
            raise invalid(
                "route",
                f"give {cavity.needs} for the `{cavity.name}` cavity",
                f"`{route.name}`{route.reason and ': '}{route.reason}",
                _partners(route, cavity),
            )
        require(
            not (cavity.contains_prior and self.prior.counts_prior),
            "prior",
            f"not count the prior, which the `{cavity.name}` cavity already contains",
            f"`{self.prior.name}`, which would count it twice",
            "Use `none`, or the `shared` cavity.",
        )

    @property
    def batches(self) -> bool:
        """True if training may take some rows at a time."""
        return self.route.batches

    @property
    def bound(self) -> bool:
        """True if the belief depends on the rows."""
        return self.route.needs_every_row

    @property
    def diagonal(self) -> bool:
        """True if the route returns a diagonal covariance."""
        return self.route.diagonal

    @property
    def needs_gaussian(self) -> bool:
        """True if some part needs a Gaussian factor."""
        return any(p.needs_gaussian for p in (self.route, self.cavity, self.score, self.prior))

    def loss(
        self,
        p: Problem,
        total: int | None = None,
        beta: float = 0.0,
        prior_weight: float | Tensor = 1.0,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Return the loss on all points, (...).

        Args:
            p: the problem, which holds N of the points.
            total: number of all points, N by default.
            beta: weight each score by the detached V^beta of its point (`spread_weight`).
            prior_weight: multiplies the prior term.
            weight: of each score, (..., N).
        """
        dtype, p = p.psi.dtype, self.precise(p)
        belief = self.route(p)
        at = self.cavity(belief, p)
        score = self.score(p, at)
        if beta:
            score = score * spread_weight(p, at, beta)
        if weight is not None:
            score = score * weight
        n = p.psi.shape[-2]  # a censored target has an axis of two behind that of the rows
        data = score.sum(-1) if total is None else score.sum(-1) * (total / n)
        if isinstance(prior_weight, float) and prior_weight == 0:  # not even computed
            return (-data).to(dtype)
        return (-data - prior_weight * self.prior(belief, p)).to(dtype)

    def precise(self, p: Problem) -> Problem:
        """Return `p`, in float64 if the route needs every row.

        The normal equations of a posterior square the condition number of the features.
        """
        return cast(p, torch.float64) if self.bound else p


def _partners(route: Route[Belief | Filtered], cavity: Cavity) -> str:
    """Name our routes that fit the cavity and our cavities that fit the route."""
    known = (*ROUTES, laplace, laplace_hybrid), (*CAVITIES, newton_leave_one_out)
    routes = " or ".join(f"`{r.name}`" for r in known[0] if cavity.needs in r.gives)
    cavities = " or ".join(f"`{c.name}`" for c in known[1] if c.needs in route.gives)
    ways = ([f"route {routes}"] if routes else []) + ([f"cavity {cavities}"] if cavities else [])
    return f"Use {', or '.join(ways)}." if ways else ""


def spread_weight(p: Problem, at: Moments, beta: float) -> Tensor:
    """Return V^beta, detached and of unit mean (Rem. estimand_reweight).

    Such weights change the path of training, not the optimum.
    """
    weight = spread_power(p, at, beta)
    return weight / weight.mean(-1, keepdim=True)


def spread_power(p: Problem, at: Moments, beta: float) -> Tensor:
    """Return V^beta, detached, V = noise variance + belief variance, (..., N)."""
    return (gaussian(p.factor, "beta").var + at.var).detach() ** beta


_ANY = ("full", "diag", "lowrank", "none")
_SPREAD = ("full", "diag", "lowrank")  # a point mass has no KL, no added covariance


def _rows(name: str, families: tuple[str, ...], objective: Objective) -> dict[str, Objective]:
    return {f"{name}-{family}": objective for family in families}


METHODS: dict[str, Objective] = {
    **_rows("scroll", _ANY, Objective()),
    **_rows("robust", _ANY, Objective(score=lapsing)),
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
    **_rows("prequential", _SPREAD, Objective(prequential, sequential, prior=none)),
    "batch-closed-full": Objective(batch_conjugate),
    **_rows("batch-hybrid", _SPREAD, Objective(batch_hybrid, leave_one_out, prior=none)),
    **_rows("block-hybrid", _SPREAD, Objective(block_hybrid, leave_batch_out, prior=none)),
    # The same for every log-concave factor, about Laplace's posterior.
    "laplace-closed-full": Objective(laplace),
    "laplace-loo-full": Objective(laplace, newton_leave_one_out, prior=none),
    **_rows("laplace-hybrid", _SPREAD, Objective(laplace_hybrid, newton_leave_one_out, prior=none)),
}
"""The named methods, by "method-covariance"."""


def family(method: str | Objective, covariance: str, in_features: int, latents: int) -> str:
    """Return the covariance family that `covariance` stands for; "auto" goes by size (`by_size`).

    A route for which no covariance is learned has the posterior's own covariance, "full".

    Args:
        method: a method of `METHODS`, or an objective.
        covariance: a family, or "auto".
        in_features: number of features H.
        latents: number of outputs K.
    """
    if covariance != "auto":
        return covariance
    named = {key.rpartition("-")[2]: o for key, o in METHODS.items() if _method(key) == method}
    objective = next(iter(named.values()), method)
    if not isinstance(objective, Objective):
        return "full"  # `row` names the methods that exist
    found = by_size(in_features, latents) if objective.route.learns_covariance else "full"
    return found if found in named or not named else next(iter(named))


def _method(key: str) -> str:
    """Return the method of a key of `METHODS`."""
    return key.rpartition("-")[0]


def row(method: str | Objective, covariance: str) -> Objective:
    """Return `METHODS["method-covariance"]`, or raise an error that lists what exists.

    Args:
        method: a method of `METHODS`, or an objective, which is returned if it has `covariance`.
        covariance: a family of `FAMILIES`.
    """
    one_of("covariance", covariance, (*FAMILIES, "auto"))
    if isinstance(method, Objective):
        own = "diag" if method.diagonal else "full"
        require(
            method.route.learns_covariance or covariance in ("full", own),
            "covariance",
            f"be {own!r}, the covariance that route `{method.route.name}` returns",
            repr(covariance),
        )
        return method
    one_of("method", method, list(dict.fromkeys(map(_method, METHODS))))
    families = [key.rpartition("-")[2] for key in METHODS if _method(key) == method]
    remedy = f"These exist for method {method!r}; method 'scroll' takes every covariance."
    one_of("covariance", covariance, families, remedy)
    return METHODS[f"{method}-{covariance}"]
