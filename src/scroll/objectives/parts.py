"""The four kinds of part that an objective is made of. Each part declares what it needs.

A part is an immutable value that is called like the function it holds. `Objective` and the heads
look only at the declarations, so a user's own part works wherever ours does:

    def _cautious(p):
        # the posterior under a prior of twice the precision
        return conjugate(p._replace(alpha=2 * p.alpha))

    cautious = Route(
        _cautious, gives={REMOVABLE_POINTS}, needs_every_row=True, needs_gaussian=True
    )
    objective = Objective(cautious, leave_one_out, prior=none)
"""

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

from .._core.checks import require
from .._core.value import value
from ..beliefs.belief import Belief
from ..beliefs.covariances import Diag
from ..beliefs.problem import Problem
from ..factors.factor import Moments

# What a route gives and a cavity needs, in the words of the error message. A user's route and
# cavity may agree on a description of their own.
ONE_BELIEF = "one belief that may score every point"
REMOVABLE_POINTS = "a belief that each point can be taken out of"
EARLIER_BELIEFS = "the beliefs before each point"
UNSEEN_BATCH = "a belief that has not seen the batch"


@value
class Filtered:
    """The belief after all points, and what it predicted of each point before seeing it."""

    mean: Tensor
    cov: Diag
    path: Moments

    def project(self, psi: Tensor) -> Moments:
        """Return q(f_n) of the belief after all points, for features psi (..., N, H)."""
        return Belief(self.mean, self.cov).project(psi)


def _describe(part: "Part") -> None:
    """Take the name, if none is given, and the docstring from the part's function."""
    function = part.compute
    require(callable(function), "compute", "be a function", repr(function), error=TypeError)
    name = part.name or getattr(function, "__name__", type(function).__name__).lstrip("_")
    object.__setattr__(part, "name", name)
    object.__setattr__(part, "__doc__", function.__doc__)


def _short(part: "Part") -> str:
    return f"{type(part).__name__}({part.name})"


B = TypeVar("B", bound=Belief | Filtered, covariant=True)


@dataclass(frozen=True, repr=False)
class Route(Generic[B]):
    """Where the belief comes from: belief = route(problem).

    - A route that does not need every row returns the same belief for any rows, even for none.
    - `Head.condition` keeps the belief of a route that needs every row. Its covariance is `Full`,
      or `Diag` with `diagonal`; with `needs_added`, the `Sum` of one of them and `problem.added`.
    - With `REMOVABLE_POINTS`, the covariance has `downdated_quad`. If it is a `Diag`,
      `leave_one_out` takes the mean and the leverages from the exact posterior.
    - A route with `needs_added` and `needs_gaussian` also reads `problem.site`, the noise of the
      posterior that the covariance is added to.
    - With `EARLIER_BELIEFS`, the belief is a `Filtered`, or the exact posterior of the problem.

    Args:
        compute: a function of the problem that returns the belief.
        gives: what a cavity can do with the belief, such as `REMOVABLE_POINTS`.
        needs_belief: the route reads `problem.free`, a mean and a covariance that a head learns.
        needs_added: the route reads `problem.added`, a covariance that a head learns.
        needs_every_row: the belief depends on the rows, so training takes all in one batch.
        needs_rest: the route reads `problem.rest`, sums over the rows outside the batch, so that
            training may take some rows at a time after all.
        needs_gaussian: the factor must be Gaussian.
        diagonal: the belief's covariance is diagonal, whatever the head's `covariance`.
        reason: why the belief gives nothing else, for the error message.
        name: by default the function's name without leading underscores.
    """

    compute: Callable[[Problem], B]
    gives: Set[str] = frozenset({ONE_BELIEF})
    needs_belief: bool = False
    needs_added: bool = False
    needs_every_row: bool = False
    needs_rest: bool = False
    needs_gaussian: bool = False
    diagonal: bool = False
    reason: str = ""
    name: str = ""

    __repr__ = _short

    def __post_init__(self) -> None:
        _describe(self)
        remedy = "Put it in a set: gives={...}."
        require(not isinstance(self.gives, str), "gives", "be a set", repr(self.gives), remedy)
        object.__setattr__(self, "gives", frozenset(self.gives))
        require(
            not (self.needs_belief and self.needs_added),
            "needs_added",
            "be False for a route with `needs_belief`, as a head learns one covariance",
            True,
        )

    def __call__(self, p: Problem) -> B:
        """Return the belief of problem `p`."""
        return self.compute(p)

    @property
    def batches(self) -> bool:
        """True if training may take some rows at a time."""
        return not self.needs_every_row or self.needs_rest

    @property
    def learns_covariance(self) -> bool:
        """True if a head learns a covariance for this route."""
        return self.needs_belief or self.needs_added


@dataclass(frozen=True, repr=False)
class Cavity:
    """Which data the belief that scores point n has seen: moments = cavity(belief, problem).

    Args:
        compute: a function of the belief and the problem that returns the moments of each f_n.
        needs: what the route must give, such as `ONE_BELIEF`.
        contains_prior: the scores already account for the prior, so that no prior term may.
        needs_gaussian: the factor must be Gaussian.
        name: by default the function's name without leading underscores.
    """

    compute: Callable[..., Moments]
    needs: str = ONE_BELIEF
    contains_prior: bool = False
    needs_gaussian: bool = False
    name: str = ""

    __repr__ = _short

    def __post_init__(self) -> None:
        _describe(self)

    def __call__(self, belief: Belief | Filtered, p: Problem) -> Moments:
        """Return the moments of f_n under the belief that scores point n, (..., N)."""
        return self.compute(belief, p)


@dataclass(frozen=True, repr=False)
class Score:
    """How good the moments are for each target: scores = score(problem, moments), (..., N).

    Args:
        compute: a function of the problem and the moments that returns one number per point.
        needs_gaussian: the factor must be Gaussian.
        name: by default the function's name without leading underscores.
    """

    compute: Callable[[Problem, Moments], Tensor]
    needs_gaussian: bool = False
    name: str = ""

    __repr__ = _short

    def __post_init__(self) -> None:
        _describe(self)

    def __call__(self, p: Problem, at: Moments) -> Tensor:
        """Return the score of each point of `p` under the moments `at`, (..., N)."""
        return self.compute(p, at)


@dataclass(frozen=True, repr=False)
class PriorTerm:
    """What the prior adds to the objective: term = prior(belief, problem), (...).

    It may read the belief, `problem.alpha` and `problem.factor`, but not the rows: `PriorGradient`
    computes it without any.

    Args:
        compute: a function of the belief and the problem that returns one number per replicate.
        counts_prior: the term accounts for p(w), so that no cavity may that contains the prior.
        zero: the term is zero, so that `prior_weight` would change nothing.
        unbounded_alpha: the best alpha may be infinite (Eq. dL_dalpha), which `diagnose` checks.
        needs_gaussian: the factor must be Gaussian.
        name: by default the function's name without leading underscores.
    """

    compute: Callable[..., Tensor]
    counts_prior: bool = True
    zero: bool = False
    unbounded_alpha: bool = False
    needs_gaussian: bool = False
    name: str = ""

    __repr__ = _short

    def __post_init__(self) -> None:
        _describe(self)

    def __call__(self, belief: Belief | Filtered, p: Problem) -> Tensor:
        """Return the prior term of the belief, (...)."""
        return self.compute(belief, p)


Part = Route[Belief | Filtered] | Cavity | Score | PriorTerm
