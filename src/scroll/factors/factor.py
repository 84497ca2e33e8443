"""The interface of observation factors, and the Gaussian message that they are integrated under."""

from typing import NamedTuple, Protocol

from torch import Tensor


class Moments(NamedTuple):
    """The message f_n ~ N(mean, var), f_n = w . psi_n (Eq. scroll_msg).

    Attributes:
        mean: (..., N).
        var: (..., N).
    """

    mean: Tensor
    var: Tensor


class Factor(Protocol):
    """p(y | f), elementwise in n."""

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log p(y | f)."""

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return log E[p(y | f)]."""

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E[log p(y | f)]."""
