"""Checks of what a head is given: arguments, features, weights, totals, state, precision."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor

from .._core.checks import (
    as_integer,
    checking,
    finite,
    invalid,
    may_hold,
    not_negative,
    positive,
    positive_int,
    require,
    shaped,
    tensor,
)
from .._core.state_dicts import difference
from ..beliefs.belief import Belief
from ..beliefs.covariances import Covariance, Diag, Full, Spread, Sum
from ..factors import Factor, Gaussian
from ..objectives import Filtered, Objective, Route
from .likelihoods import Likelihood


class Parameterised(Protocol):
    """A module with a prior precision, whose device it is on."""

    @property
    def log_alpha(self) -> Tensor:
        """Logarithm of the prior precision."""


P = ParamSpec("P")
M = TypeVar("M", bound=Parameterised)
T = TypeVar("T")


def full_precision(method: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Run a method without autocast: a body may use mixed precision, variances need all digits."""

    @wraps(method)
    def run(head: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
        device = head.log_alpha.device.type
        if device == "meta" or not torch.is_autocast_enabled(device):  # torch has none for meta
            return method(head, *args, **kwargs)
        with torch.autocast(device, enabled=False):
            return method(head, *args, **kwargs)

    return run


def require_numbers(
    sizes: Mapping[str, int], positives: Mapping[str, float], others: Mapping[str, float]
) -> None:
    """Check arguments of a head by name.

    Args:
        sizes: must be positive integers.
        positives: must be positive and finite.
        others: must be zero or positive, and finite.
    """
    for name, size in sizes.items():
        positive_int(name, size)
    for name, number in others.items():
        not_negative(name, number)
    for name, number in positives.items():
        positive(name, number)


def require_fit(
    objective: Objective, method: str, factor: Factor, beta: float, prior_weight: float
) -> None:
    """Check that an objective fits the factor, `beta` and `prior_weight` of a head.

    Args:
        objective: what the head minimises.
        method: its name in messages.
        factor: of the head's likelihood.
        beta: exponent of the weights V^beta, which need a Gaussian factor.
        prior_weight: factor on the prior term, which must exist to be weighted.
    """
    require(
        not objective.prior.zero or prior_weight in (0, 1),
        "prior_weight",
        f"be left at 1 for method {method!r}, which has no prior term",
        prior_weight,
    )
    for name, needed in (
        (f"method {method!r}", objective.needs_gaussian),
        ("beta > 0", beta > 0),
    ):
        require(
            isinstance(factor, Gaussian) or not needed,
            "likelihood",
            f"be Gaussian for {name}",
            type(factor).__name__,
            "Use method 'scroll' with beta=0, which takes every likelihood.",
            TypeError,
        )


def require_features(psi: Tensor, replicates: tuple[int, ...], in_features: int) -> None:
    """Check features psi (..., N, H): type, shape, precision and finite values."""
    tensor("psi", psi)
    lead, width = psi.shape[:-2], psi.shape[-1:]
    if psi.dim() < 2 or lead != replicates or width != (in_features,):
        want = ", ".join(map(str, (*replicates, "N", in_features)))
        remedy = "Use psi[None] for one row." if psi.dim() == 1 else "Pass body(x), not x."
        raise invalid("psi", f"have shape ({want})", tuple(psi.shape), remedy)
    if psi.shape[-2] == 0:
        raise invalid("psi", "hold at least one row", "an empty batch")
    if not psi.is_floating_point():
        raise invalid("psi", "be a floating-point tensor", psi.dtype, error=TypeError)
    finite("psi", psi)


def require_weights(weight: Tensor, psi: Tensor, batches: bool, method: str) -> None:
    """Check the weights of the rows of psi.

    Args:
        weight: one number per row, zero or positive.
        psi: features (..., N, H).
        batches: whether the head trains on some rows at a time; other heads take no weights.
        method: the head's method, for the message.
    """
    require(
        batches,
        "weight",
        f"be None for method {method!r}, whose belief weighs all rows alike",
        "weights",
        "Use method 'scroll'.",
    )
    tensor("weight", weight)
    shaped(weight, psi.shape[:-1], "weight")
    finite("weight", weight)
    sound = not checking() or may_hold((weight >= 0).all())
    require(sound, "weight", "be zero or positive", "negative ones")


def require_total(total: int | None, n: int, batches: bool, method: str) -> int:
    """Return `total`, checked: the number of training rows, of which a batch holds n.

    Args:
        total: the user's number.
        n: rows of the batch.
        batches: whether the head trains on some rows at a time.
        method: the head's method, for the message.
    """
    rows = as_integer(total, n)
    if rows is None:
        raise invalid(
            "total",
            f"be the number of training rows, an integer of at least the {n} given here",
            repr(total),
            f"Pass total={_all_rows()}: it weighs the prior against the data.",
        )
    if rows != n and not batches:
        raise invalid(
            "psi",
            f"hold all {rows} training rows for method {method!r}, whose belief is bound to all "
            "the data",
            f"{n} rows",
            "Train in one batch, or use method 'scroll' and scroll.refit afterwards.",
        )
    return rows


def require_rest(rest: object, rows: int, n: int, needed: bool, method: str) -> None:
    """Check that sums over the other rows are there if a method needs them, and only then.

    Args:
        rest: the sums, or None.
        rows: number of training rows.
        n: rows of the batch.
        needed: whether the head's method needs the sums.
        method: the head's method, for the message.
    """
    require(needed or rest is None, "rest", f"be None for method {method!r}", "sums")
    require(
        not needed or rest is not None or rows == n,
        "rest",
        f"hold the sums over the other {rows - n} rows for method {method!r}",
        "None",
        "Pass rest=seen.swap(index, psi), seen = scroll.heads.SeenRows(head, body(x), y).",
    )


def require_prior_alone(total: int, batches: bool, method: str) -> int:
    """Return `total`, checked, if the prior term of the method does not depend on the rows."""
    require(
        batches,
        "method",
        "train on mini-batches, so that its prior term does not depend on the rows",
        repr(method),
        "Use method 'scroll'.",
    )
    rows = as_integer(total)
    if rows is None:
        remedy = f"Pass {_all_rows()}."
        raise invalid("total", "be the number of training rows", repr(total), remedy)
    return rows


def kept_scale(cov: Covariance, route: Route[Belief | Filtered], added: Spread | None) -> Tensor:
    """Return the tensor that a head keeps of a route's covariance, of the declared kind.

    Args:
        cov: `Diag` if the route is diagonal, else `Full`; with `needs_added`, the `Sum` of one of
            them and `added`.
        route: where the covariance comes from.
        added: the covariance that the head adds when it predicts.
    """
    base = cov.base if isinstance(cov, Sum) and cov.extra is added else cov
    if isinstance(base, Diag) and route.diagonal:
        return base.var
    if isinstance(base, Full) and not route.diagonal:
        return base.scale
    kind = f"`{'Diag' if route.diagonal else 'Full'}` covariance"
    raise invalid(
        "route",
        f"return a belief with a {kind}{'' if added is None else ', plus `problem.added`'}",
        f"`{type(base).__name__}` from `{route.name}`",
        error=TypeError,
    )


def log_noise_of(likelihood: Likelihood) -> Tensor:
    """Return the logarithm of the noise of a Gaussian likelihood."""
    log_noise = getattr(likelihood, "log_noise", None)
    if isinstance(log_noise, Tensor) and isinstance(likelihood.factor(), Gaussian):
        return log_noise
    kind = type(likelihood).__name__
    raise invalid("likelihood", "be Gaussian to have a noise", kind, error=TypeError)


def require_same_kind(
    own: Mapping[str, Tensor], given: Mapping[str, Tensor], strict: bool = True
) -> None:
    """Check that a state dict comes from a head of the same kind.

    Args:
        own: state dict of the head that it is loaded into.
        given: the state dict.
        strict: whether names that only one of them has count as a difference.
    """
    if not strict:
        both = own.keys() & given.keys()
        own, given = ({name: state[name] for name in both} for state in (own, given))
    want = "come from a head of the same sizes, likelihood, covariance, method and replicates"
    found, remedy = difference(own, given, precision=False), "Make the head as it was saved."
    require(found is None, "state_dict", want, found, remedy, RuntimeError)


def _all_rows() -> str:
    """Return the code that counts all rows, of which each process may have a part."""
    group = torch.distributed
    many = group.is_available() and group.is_initialized() and group.get_world_size() > 1
    return "scroll.distributed.total(len(shard))" if many else "len(dataset)"
