"""What every observation factor offers, and the Gaussian message that it is integrated under."""

from typing import NamedTuple, Protocol

from torch import Tensor


class Moments(NamedTuple):
    """The message f_n ~ N(mean, var), f_n = w . psi_n (Eq. scroll_msg)."""

    mean: Tensor  # (..., N)
    var: Tensor  # (..., N)


class Factor(Protocol):
    """p(y | f), elementwise in n."""

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """log p(y | f)."""

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """log E[p(y | f)]."""

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """E[log p(y | f)]."""
