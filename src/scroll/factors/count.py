"""Counts, y = 0, 1, 2, ..., with a log link."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .._core.quadrature import expect, log_expect_at_mode
from .._core.value import value
from .factor import Moments
from .smooth import Derivatives, of_sigmoid


@value
class Poisson:
    """y ~ Poisson(exp f)."""

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return y f - exp f - log y!, written about exp f = y, where large terms cancel."""
        y = y.to(f.dtype)
        return self._about(y, f - y.clamp(min=1).log())

    def derivatives(self, y: Tensor, f: Tensor) -> Derivatives:
        """Return y - exp f, -exp f and -exp f."""
        rate = f.exp()
        return Derivatives(y.to(f.dtype) - rate, -rate, -rate)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return log E p(y | f) of each row, f ~ N(mean, var)."""
        y = y.to(at.mean.dtype)
        # The integral over d = f - log y: near zero, nodes as close as 1/sqrt(y) keep their digits.
        some = y.clamp(min=1)

        def derivatives(d: Tensor) -> tuple[Tensor, Tensor]:
            return y - some - some * torch.expm1(d), -some * d.exp()

        mean = at.mean - some.log()
        return log_expect_at_mode(
            lambda d: self._about(y, d), mean, at.var, derivatives=derivatives
        )

    @staticmethod
    def _about(y: Tensor, d: Tensor) -> Tensor:
        """log p(y | f), f = d + log max(y, 1)."""
        some = y.clamp(min=1)
        top = _in_float64(lambda y, m: torch.xlogy(y, m) - m - torch.lgamma(y + 1), y, some)
        return some * ((y > 0) * d - torch.expm1(d)) + top

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log p(y | f) of each row, f ~ N(mean, var)."""
        y = y.to(at.mean.dtype)
        return y * at.mean - (at.mean + at.var / 2).exp() - torch.lgamma(y + 1)


@value
class NegativeBinomial:
    """y ~ Poisson(g exp f), g ~ Gamma(concentration, concentration): mean exp f.

    Attributes:
        concentration: (...).
    """

    concentration: Tensor

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log C(y + r - 1, y) + y log s(u) + r log s(-u), u = f - log r, s the sigmoid."""
        r, y = self.concentration[..., None], y.to(f.dtype)
        choose = _in_float64(
            lambda y, r: torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1), y, r
        )
        u = f - r.log()
        return choose + y * logsigmoid(u) + r * logsigmoid(-u)

    def derivatives(self, y: Tensor, f: Tensor) -> Derivatives:
        """Return y s(-u) - r s(u), -(y + r) s(u) s(-u) and its derivative, u = f - log r."""
        r = self.concentration[..., None]
        return of_sigmoid(f - r.log(), y.to(f.dtype), r)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return log E p(y | f) of each row, f ~ N(mean, var)."""
        r, y = self.concentration[..., None], y.to(at.mean.dtype)

        def derivatives(f: Tensor) -> tuple[Tensor, Tensor]:
            up, down = torch.sigmoid(f - r.log()), torch.sigmoid(r.log() - f)
            return y * down - r * up, -(y + r) * up * down

        return log_expect_at_mode(lambda f: self.log_prob(y, f), *at, derivatives=derivatives)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log p(y | f) of each row, f ~ N(mean, var)."""
        return expect(lambda f: self.log_prob(y, f), *at)


def _in_float64(g: Callable[..., Tensor], *x: Tensor) -> Tensor:
    """g of large terms that cancel."""
    return g(*(t.double() for t in x)).to(x[0].dtype)
