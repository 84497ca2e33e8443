"""Counts, y = 0, 1, 2, ..., with a log link."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .._value import value
from ..beliefs import Moments
from ..quadrature import expect, log_expect_at_mode


@value
class Poisson:
    """y ~ Poisson(exp f)."""

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """y f - exp f - log y!, written about exp f = y, where large terms cancel."""
        y = y.to(f.dtype)
        mode = y.clamp(min=1).log()
        d = f - mode
        top = _in_float64(lambda y: torch.xlogy(y, y) - y - torch.lgamma(y + 1), y)
        return torch.where(y > 0, y * (d - torch.expm1(d)) + top, -f.exp())

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        return log_expect_at_mode(lambda f: self.log_prob(y, f), *at)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        y = y.to(at.mean.dtype)
        return y * at.mean - (at.mean + at.var / 2).exp() - torch.lgamma(y + 1)


@value
class NegativeBinomial:
    """y ~ Poisson(g exp f), g ~ Gamma(concentration, concentration): mean exp f."""

    concentration: Tensor  # (...)

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """log C(y + r - 1, y) + y log s(u) + r log s(-u), u = f - log r, s the sigmoid."""
        r, y = self.concentration[..., None], y.to(f.dtype)
        choose = _in_float64(
            lambda y, r: torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1), y, r
        )
        u = f - r.log()
        return choose + y * logsigmoid(u) + r * logsigmoid(-u)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        return log_expect_at_mode(lambda f: self.log_prob(y, f), *at)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        return expect(lambda f: self.log_prob(y, f), *at)


def _in_float64(g: Callable[..., Tensor], *x: Tensor) -> Tensor:
    """g of large terms that cancel."""
    return g(*(t.double() for t in x)).to(x[0].dtype)
