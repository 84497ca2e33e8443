"""Derivatives of log p(y | f) in f: what a Laplace posterior and its leave-one-out need."""

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from .._core.checks import require
from .factor import Factor


class Derivatives(NamedTuple):
    """The first three derivatives of log p(y_n | f_n) in f_n, (..., N) each."""

    first: Tensor
    second: Tensor
    third: Tensor


@runtime_checkable
class Smooth(Protocol):
    """A factor that has the derivatives of its log density in closed form."""

    def derivatives(self, y: Tensor, f: Tensor) -> Derivatives:
        """Return the first three derivatives of log p(y | f) in f."""


def derivatives(factor: Factor, y: Tensor, f: Tensor) -> Derivatives:
    """Return the first three derivatives of log p(y | f) in f, (..., N) each.

    A factor without a method `derivatives` is differentiated by torch.
    """
    if isinstance(factor, Smooth):
        return factor.derivatives(y, f)
    require(
        not torch.is_inference_mode_enabled(),
        "torch.inference_mode",
        "be off for a factor whose derivatives are found by differentiation",
        "on",
        "Use torch.no_grad(), or give the factor a method `derivatives`.",
        RuntimeError,
    )

    def first(f: Tensor) -> Tensor:
        return torch.func.grad(lambda f: factor.log_prob(y, f).sum())(f)

    def second(f: Tensor) -> Tensor:
        return torch.func.grad(lambda f: first(f).sum())(f)

    third = torch.func.grad(lambda f: second(f).sum())(f)
    return Derivatives(first(f), second(f), third)


def of_sigmoid(f: Tensor, up: Tensor | float, down: Tensor | float) -> Derivatives:
    """Return the derivatives of up log s(f) + down log s(-f), s the logistic function."""
    high, low = torch.sigmoid(f), torch.sigmoid(-f)
    curve = (up + down) * high * low
    return Derivatives(up * low - down * high, -curve, curve * (high - low))
