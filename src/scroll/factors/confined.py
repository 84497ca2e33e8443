"""The message of a count head, limited to rates that counts can have.

A rate exp f, f ~ N(m, v), has the median exp m and the mean exp(m + v/2). Both overflow long before
m and v do, and neither can be learned beyond the counts that were seen. So both logarithms pass
through one smooth, increasing function s that is bounded,

    m' = s(m),    m' + v'/2 = s(m + v/2),

and is the identity over every ordinary rate. Then v' >= 0, and the predictive is that of N(m', v'):
its mean, quantiles, density and samples agree with each other.
"""

from math import log

import torch
from torch import Tensor, relu

from .._core.value import value
from .count import NegativeBinomial, Poisson
from .factor import Moments
from .inflated import ZeroInflated
from .smooth import Derivatives, derivatives

ABOVE = log(10)  # the mean rate stays below 10 times the largest count
LOW, BELOW = -20.0, 10.0  # s is the identity down to a log rate of -20 and stays above -30
WIDE, WIDER = 16.0, 4.0  # variances are as they are up to 16 and stay below 20: see `_sinh`
FINITE = 1e15  # beyond it s is flat to all digits


def confined(at: Moments, largest: float) -> Moments:
    """Return (m', v') of (m, v), for counts up to `largest`.

    v'/2 is the length of [m, m + v/2] after s. Its parts within, above and below the identity
    are measured one by one: a difference of s at both ends would lose a small v.
    """
    top, m = log(largest), at.mean.clamp(-FINITE, FINITE)
    half = at.var.clamp(max=FINITE) / 2
    over, under = relu(m - top), relu(LOW - m)
    end_over, end_under = relu(m + half - top), relu(LOW - m - half)
    above, below = torch.minimum(end_over, half), torch.minimum(under, half)
    within = (m + half).clamp(LOW, top) - m.clamp(LOW, top)
    length = torch.where((m >= LOW) & (m + half <= top), half, within)
    length = length + above / ((1 + over / ABOVE) * (1 + end_over / ABOVE))
    length = length + below / ((1 + under / BELOW) * (1 + end_under / BELOW))
    mean = m.clamp(LOW, top) + _slower(over, ABOVE) - _slower(under, BELOW)
    var = 2 * length
    return Moments(mean, var.clamp(max=WIDE) + _slower(relu(var - WIDE), WIDER))


def concentration(log_r: Tensor) -> Tensor:
    """Return r of a negative binomial, as it is from e^-6 to e^14, between e^-8 and e^18 always."""
    log_r = log_r.clamp(-FINITE, FINITE)
    over, under = relu(log_r - 14), relu(-6 - log_r)
    return (log_r.clamp(-6, 14) + _slower(over, 4.0) - _slower(under, 2.0)).exp()


def inflation(logit: Tensor) -> Tensor:
    """Return the logit of pi, the share of extra zeros: as it is up to +-12, within +-16 always."""
    logit = logit.clamp(-FINITE, FINITE)
    over, under = relu(logit - 12), relu(-12 - logit)
    return logit.clamp(-12, 12) + _slower(over, 4.0) - _slower(under, 4.0)


def _slower(x: Tensor, bound: float) -> Tensor:
    """x / (1 + x / bound), x >= 0: of slope one at zero, and below `bound`."""
    return x / (1 + x / bound)


@value
class Confined:
    """p(y | f) of a count, for messages of any size.

    Attributes:
        base: the factor of the count.
        largest: largest count in training.
    """

    base: Poisson | NegativeBinomial | ZeroInflated
    largest: float

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        """Return log p(y | f) of each row."""
        return self.base.log_prob(y, f)

    def derivatives(self, y: Tensor, f: Tensor) -> Derivatives:
        """Return the first three derivatives of log p(y | f) in f."""
        return derivatives(self.base, y, f)

    def log_marginal(self, y: Tensor, at: Moments) -> Tensor:
        """Return log E p(y | f) of each row, f ~ N(mean, var)."""
        return self.base.log_marginal(y, confined(at, self.largest))

    def expected_log(self, y: Tensor, at: Moments) -> Tensor:
        """Return E log p(y | f) of each row, f ~ N(mean, var)."""
        return self.base.expected_log(y, confined(at, self.largest))
