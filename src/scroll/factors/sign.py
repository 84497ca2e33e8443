"""Two-valued factors, y = -1 or +1: probit (closed form) and logit (quadrature)."""

from torch import Tensor
from torch.nn.functional import logsigmoid
from torch.special import log_ndtr

from .._value import value
from ..beliefs import Moments
from ..quadrature import expect, log_expect_at_mode


@value
class Probit:
    """p(y | f) = Phi(y f / scale), y = -1, +1."""

    scale: Tensor  # (...), fixed: it plays the part of the noise

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return log_ndtr(y * f / self.scale[..., None])

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """log Phi(y mean / sqrt(scale^2 + var)) (Eq. probit_conv)."""
        return log_ndtr(y * at.mean / (self.scale.square()[..., None] + at.var).sqrt())

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        return expect(lambda f: self.log_prob(y, f), *at)


@value
class BernoulliLogit:
    """p(y | f) = 1/(1 + exp(-y f)), y = -1, +1."""

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        return logsigmoid(y * f)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        return log_expect_at_mode(lambda f: self.log_prob(y, f), *at)

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        return expect(lambda f: self.log_prob(y, f), *at)
