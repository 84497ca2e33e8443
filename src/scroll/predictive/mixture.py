"""Members of an ensemble: taken apart, joined, and mixed into one predictive."""

from collections.abc import Sequence
from typing import TypeVar, cast

import torch
from torch import Tensor

from .._core.value import map_tensors
from .protocol import Distribution, Labels, Stack

P = TypeVar("P")


def member(stack: P, index: int | slice) -> P:
    """Return one member of a stack (M, ...), or a stack of some."""
    return map_tensors(lambda t: t[index], stack)


def output(predictive: P, k: int) -> P:
    """Return the predictive of one output of several, (..., N) of (..., N, K).

    The weights of a mixture, (M,), are those of every output.
    """
    return map_tensors(lambda t: t[..., k] if t.dim() > 1 else t, predictive)


def joined(stacks: Sequence[P]) -> P:
    """Return one stack of the members of several."""
    return map_tensors(lambda *parts: torch.cat(parts), *stacks)


def mix(
    stacks: Sequence[Stack], shift: Tensor, scale: Tensor, weights: Sequence[float] | None = None
) -> Distribution:
    """Return one predictive of the members of all stacks.

    Args:
        stacks: members (M, ...), of one kind.
        weights: of the stacks, if they hold labels; None if all members are equally likely.
        shift: of the target's units.
        scale: of the target's units: a real y becomes shift + scale y.
    """
    if weights is None:
        return joined(stacks).mixture().in_units(shift, scale)
    labels = [cast(Labels, stack) for stack in stacks]
    return joined(labels).mixture(member_weights(labels, weights))


def member_weights(stacks: Sequence[Labels], weights: Sequence[float]) -> Tensor:
    """Return the weight of each member of all stacks; those of one stack have equal shares.

    Args:
        stacks: members (M, ...).
        weights: of the stacks.
    """
    sizes = [len(stack.log_probs) for stack in stacks]
    shares = [w / m for w, m in zip(weights, sizes, strict=True) for _ in range(m)]
    return torch.tensor(shares, dtype=torch.float64)
