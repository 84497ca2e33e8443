"""Counts with more zeros than their distribution gives: a share of the rows is always zero."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .._core.quadrature import expect
from .._core.value import value
from .count import NegativeBinomial, Poisson
from .factor import Moments


@value
class ZeroInflated:
    """P(0 | f) = pi + (1 - pi) p(0 | f), P(y | f) = (1 - pi) p(y | f) for y > 0.

    Attributes:
        base: p(y | f), the count before inflation.
        logit: log pi/(1 - pi) of the probability of an extra zero, (...).
    """

    base: Poisson | NegativeBinomial
    logit: Tensor

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log P(y | f)."""
        return self._inflate(y, self.base.log_prob(y, f))

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return log E P(y | f) of each row, f ~ N(mean, var).

        pi does not depend on f, so the integral is the base's, inflated.
        """
        return self._inflate(y, self.base.log_marginal(y, at))

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log P(y | f) of each row, f ~ N(mean, var)."""
        zero = torch.zeros_like(at.mean)
        # Flat at log pi above a knee, which is sharp for a small pi and takes narrow steps.
        of_zero = expect(lambda f: self.log_prob(zero, f), *at, order=561, reach=9.0)
        of_more = logsigmoid(-self.logit)[..., None] + self.base.expected_log(y, at)
        return torch.where(y == 0, of_zero, of_more)

    def _inflate(self, y: Tensor, log_p: Tensor) -> Tensor:
        """log of pi 1[y = 0] + (1 - pi) p."""
        logit = self.logit[..., None]
        rest = logsigmoid(-logit) + log_p
        return torch.where(y == 0, torch.logaddexp(logsigmoid(logit), rest), rest)
