"""Any bounded factor a user writes down, by quadrature (Cor. any_likelihood)."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from .._core.checks import one_of
from .._core.quadrature import expect, log_error_bound, log_expect, log_expect_at_mode
from .factor import Moments

_RULES = {"mode": log_expect_at_mode, "belief": log_expect}


@dataclass(frozen=True)
class Bounded:
    """p(y | f) given by its logarithm.

    Args:
        log_density: log p(y | f), elementwise in tensors that broadcast.
        rule: "mode" puts the nodes where the integrand is (for log p concave in f);
            "belief" is the Gauss-Hermite rule that `log_error_bound` certifies.
        order: number of nodes.
    """

    log_density: Callable[[Tensor, Tensor], Tensor]
    rule: str = "mode"
    order: int = 321

    def __post_init__(self) -> None:
        one_of("rule", self.rule, _RULES)

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log p(y | f) of each row."""
        return self.log_density(y, f)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return log E p(y | f) of each row, f ~ N(mean, var)."""
        return _RULES[self.rule](lambda f: self.log_density(y, f), *at, self.order)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log p(y | f) of each row, f ~ N(mean, var)."""
        return expect(lambda f: self.log_density(y, f), *at)

    def log_error_bound(self, var: Tensor, log_derivative: float) -> Tensor:
        """Return the log of a bound on |Z - Z_m| for the "belief" rule (Lemma gh_error).

        Args:
            var: message variances.
            log_derivative: log sup_f |d^2m p(y | f) / df^2m|, m = order.
        """
        return log_error_bound(self.order, var, log_derivative)
