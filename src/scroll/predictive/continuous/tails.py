"""Tails of predictive distributions: how likely errors of many standard deviations are."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..._core.checks import invalid, one_of, require
from .kernels import checked_df
from .normal import Mixture, Normal
from .student import Student


@dataclass(frozen=True)
class Tail:
    """The tails that a normal predictive is given.

    Attributes:
        kind: "gaussian" (as it is), "student" (a t distribution) or "lapse" (a share of the rows
            has a larger standard deviation).
        df: degrees of freedom of "student", an integer from 3 to 1000.
        share: share of the rows that "lapse" widens, from 0 to 1.
        factor: by which "lapse" multiplies their standard deviations.
    """

    KINDS: ClassVar[tuple[str, ...]] = ("gaussian", "student", "lapse")

    kind: str = "gaussian"
    df: int = 0
    share: float = 0.0
    factor: float = 1.0

    def __post_init__(self) -> None:
        one_of("kind", self.kind, self.KINDS)
        if self.kind == "student":
            checked_df(self.df)
        require(0 <= self.share <= 1, "share", "lie between 0 and 1", self.share)
        require(0 < self.factor < float("inf"), "factor", "be positive and finite", self.factor)


def narrowed(p: Normal | Mixture, most: Tensor) -> Normal | Mixture:
    """Return a normal, or a mixture of normals, whose standard deviations are at most `most`."""
    parts = p.parts if isinstance(p, Mixture) else p
    less = parts.widened((most / parts.stddev).clamp(max=1))
    return Mixture(less, p.weights) if isinstance(p, Mixture) else less


def with_tails(
    p: Normal | Mixture, tail: Tail, widest: float | None = None
) -> Normal | Mixture | Student | Mixture[Student]:
    """Return a normal, or a mixture of normals, with other tails.

    Args:
        p: the predictive.
        tail: "student" keeps the means, and the standard deviations become scales; "lapse" mixes
            each component with a wider one.
        widest: largest standard deviation of a lapse, but for rows that are wider by themselves;
            None for no limit.
    """
    parts = p.parts if isinstance(p, Mixture) else p
    if not isinstance(parts, Normal):
        got = type(parts).__name__
        raise invalid("p", "be a normal or a mixture of normals", got, error=TypeError)
    if tail.kind == "gaussian":
        return p
    if tail.kind == "student":
        heavy = Student(parts.mean, parts.stddev, tail.df)
        return Mixture(heavy, p.weights) if isinstance(p, Mixture) else heavy
    if not isinstance(p, Mixture):
        parts = Normal(p.mean[None], p.noise_var[None], p.belief_var[None])
    factor = torch.full_like(parts.mean, tail.factor)
    if widest is not None:
        factor = (widest / parts.stddev).clamp(min=1, max=tail.factor)
    wide = parts.widened(factor)
    both = [
        torch.cat([getattr(x, name) for x in (parts, wide)])
        for name in ("mean", "noise_var", "belief_var")
    ]
    members, mean = len(parts.mean), parts.mean
    equal = torch.ones(members, dtype=mean.dtype, device=mean.device) / members
    weights = equal if not isinstance(p, Mixture) or p.weights is None else p.weights
    return Mixture(Normal(*both), _shared(weights, tail.share))


def _shared(weights: Tensor, share: float) -> Tensor:
    """Return the weights of the components, and of the wide ones behind them."""
    return torch.cat([(1 - share) * weights, share * weights])
