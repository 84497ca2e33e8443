"""Counts, y = 0, 1, 2, ..., with a log link."""

import torch
from torch import Tensor

from .._value import value
from ..beliefs import Moments
from ..quadrature import expect, log_expect_at_mode


@value
class Poisson:
    """y ~ Poisson(exp f)."""

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return y * f - f.exp() - torch.lgamma(y + 1)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        return log_expect_at_mode(lambda f: self.log_prob(y, f), *at)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        return y * at.mean - (at.mean + at.var / 2).exp() - torch.lgamma(y + 1)


@value
class NegativeBinomial:
    """y ~ Poisson(g exp f), g ~ Gamma(concentration, concentration): mean exp f."""

    concentration: Tensor  # (...)

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        r = self.concentration[..., None]
        choose = torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1)
        return choose + r * r.log() + y * f - (y + r) * torch.logaddexp(r.log(), f)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        return log_expect_at_mode(lambda f: self.log_prob(y, f), *at)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        return expect(lambda f: self.log_prob(y, f), *at)
