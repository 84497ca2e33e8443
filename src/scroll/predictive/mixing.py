"""The members of an ensemble as one predictive: the exact mixture of theirs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core.checks import must
from .._core.value import cast
from ..factors import NegativeBinomial
from .normal import Categorical, Count, CountMixture, Mixture, Normal, Ordered


def blend(stacks: Sequence[Any], shift: Tensor, scale: Tensor) -> Any:
    """One predictive of the members of all stacks, each (M, ...), all equally likely.

    A real y is in units of shift + scale y.
    """
    parts = stacks[0]
    if isinstance(parts, Normal):
        parts = cast(_together(stacks, "mean", "noise_var", "belief_var"), torch.float64)
        square = scale.square()
        normal = Normal(
            shift + scale * parts.mean, square * parts.noise_var, square * parts.belief_var
        )
        if len(normal.mean) > 1:
            return Mixture(normal)
        return Normal(normal.mean[0], normal.noise_var[0], normal.belief_var[0])
    if isinstance(parts, Count):
        each = tuple(_member(s, m) for s in stacks for m in range(len(s.latent_mean)))
        return each[0] if len(each) == 1 else CountMixture(each)
    must(
        isinstance(parts, Categorical | Ordered),
        "likelihood",
        "be one that an ensemble can mix",
        type(parts).__name__,
        error=TypeError,
    )
    parts = _together(stacks, "log_probs")
    mean = parts.log_probs.double().logsumexp(0)
    return type(parts)(mean - mean.logsumexp(-1, keepdim=True))


def lapsed(p: Any, power: float, share: float, rates: Tensor) -> Any:
    """The predictive of labels to some power, but for a share that is drawn by `rates` (K,)."""
    probs = (power * p.log_probs).softmax(-1)
    return type(p)(((1 - share) * probs + share * rates).log())


def _together(stacks: Sequence[Any], *names: str) -> Any:
    return type(stacks[0])(*(torch.cat([getattr(s, name) for s in stacks]) for name in names))


def _member(parts: Count, m: int) -> Count:
    factor = parts.factor
    if isinstance(factor, NegativeBinomial):
        factor = NegativeBinomial(factor.concentration[m])
    return Count(factor, parts.latent_mean[m], parts.latent_var[m])
