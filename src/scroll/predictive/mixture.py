"""Members of an ensemble: taken apart, joined, and mixed into one predictive."""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from .._core.value import map_tensors
from .protocol import Distribution, Stack

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


def mix(stacks: Sequence[Stack], shift: Tensor, scale: Tensor) -> Distribution:
    """Return one predictive of the members of all stacks, all equally likely.

    Args:
        stacks: members (M, ...), of one kind.
        shift: of the target's units.
        scale: of the target's units: a real y becomes shift + scale y.
    """
    return joined(stacks).mixture().in_units(shift, scale)
