"""Censored targets: log p of an interval, survival functions, and pairs in the right order."""

from math import log, sqrt
from typing import ClassVar, TypeAlias

import torch
from torch import Generator, Tensor
from torch.special import erfc

from .._core.checks import invalid
from .._core.value import value
from ..factors.censored import log_known
from .arguments import as_tensor, rows
from .continuous import Mapped, Mixture, Normal, Student
from .continuous.kernels import Gauss, Kernel
from .continuous.maps import TargetMap
from .continuous.normal import beside
from .protocol import Numeric, Predictive

Continuous: TypeAlias = Normal | Student | Mixture | Mixture[Student] | Mapped


@value
class Survival(Numeric):
    """A predictive of a real number that is also scored on censored targets.

    Attributes:
        base: distribution of the target, whether or not it is observed.
    """

    discrete: ClassVar[bool] = False

    base: Continuous

    @property
    def mean(self) -> Tensor:
        """E y."""
        return self.base.mean

    @property
    def variance(self) -> Tensor:
        """Var y."""
        return self.base.variance

    @property
    def members(self) -> tuple[Normal | Student | Mapped, ...]:
        """The components that are mixed."""
        return self.base.members

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) of each row.

        Args:
            y: exact targets, (..., N), or pairs (low, high), (..., N, 2): the log density where
                low = high, log P(low < . < high) elsewhere. Ends may be infinite.
        """
        like = _like(self.base)
        y = as_tensor("y", y).to(like)
        if y.shape == (*like.shape, 2):
            return interval_log_prob(self.base, *y.unbind(-1))
        return self.base.log_prob(y)

    def survival(self, t: Tensor) -> Tensor:
        """Return P(. > t) of each row, exact in the tail."""
        return survival(self.base, t)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(. <= y) of each row."""
        return self.base.cdf(y)

    def icdf(self, q: Tensor) -> Tensor:
        """Return the y whose cdf is q."""
        return self.base.icdf(q)

    def crps(self, y: Tensor) -> Tensor:
        """Return int (F(t) - 1[t >= y])^2 dt of each row, y exact, (..., N)."""
        return self.base.crps(rows(y, _like(self.base)))

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n draws of y per row, (n, ...)."""
        return self.base.sample(n, generator)

    def in_units(self, shift: Tensor, scale: Tensor) -> "Survival":
        """Return the distribution of shift + scale y."""
        return Survival(self.base.in_units(shift, scale))

    def widened(self, factor: float) -> "Survival":
        """Return it with the standard deviations of a normal, or stack of them, times `factor`."""
        if not isinstance(self.base, Normal | Student):
            got = type(self.base).__name__
            raise invalid("predictive", "be a normal to be widened", got, error=TypeError)
        return Survival(self.base.widened(factor))

    def mixture(self) -> "Survival":
        """Return the equal mixture of the members (M, ...), in float64; of one, that one."""
        if not isinstance(self.base, Normal | Student):
            got = type(self.base).__name__
            raise invalid("predictive", "be a stack of members", got, error=TypeError)
        return Survival(self.base.mixture())

    def __repr__(self) -> str:
        return repr(self.base).replace(type(self.base).__name__, "Survival", 1)


def survival(predictive: Predictive, t: Tensor) -> Tensor:
    """Return P(. > t) of each row, which 1 - cdf would round to zero in the tail.

    Args:
        predictive: of a real number.
        t: a number, or one value per row.
    """
    p = predictive.base if isinstance(predictive, Survival) else predictive
    if isinstance(p, Mapped):
        return survival(p.base, _forward(p.map, rows(t, p.base.mean)))
    if isinstance(p, Mixture):
        t = rows(t, p.parts.mean[0])
        z = (beside(p.parts.mean, t) - t) / beside(p.parts.scale, t)
        return p.average(_lower_tail(p.parts.kernel, z))
    if isinstance(p, Normal | Student):
        return _lower_tail(p.kernel, (p.mean - rows(t, p.mean)) / p.scale)
    got, remedy = type(predictive).__name__, "Use 1 - predictive.cdf(t)."
    raise invalid("predictive", "be one of a real number", got, remedy, TypeError)


def interval_log_prob(predictive: Numeric, low: Tensor, high: Tensor) -> Tensor:
    """Return log p(y) of exact rows (low = high), log P(low <= y <= high) of the others.

    All digits are kept in the tails of normals, their mixtures and transforms. Others have
    differences of the distribution function, or of the survival function.

    Args:
        predictive: of a number, (..., N).
        low: least value that y may have, (..., N), or -inf.
        high: largest value, or inf.
    """
    p = predictive.base if isinstance(predictive, Survival) else predictive
    if isinstance(p, Mapped):
        inside = interval_log_prob(p.base, _forward(p.map, low), _forward(p.map, high))
        return torch.where(low == high, p.log_prob(low), inside)
    y = torch.stack([low, high], -1)
    if isinstance(p, Normal):
        return log_known(y, p.mean, p.variance)
    if isinstance(p, Mixture) and isinstance(p.parts, Normal):
        each = log_known(y, p.parts.mean, p.parts.variance)
        if p.weights is None:
            return each.logsumexp(0) - log(len(each))
        return (each.movedim(0, -1) + p.weights.to(each).log()).logsumexp(-1)
    return _by_cdf(p, low, high)


def _by_cdf(p: Numeric, low: Tensor, high: Tensor) -> Tensor:
    """By the distribution function, which takes finite numbers only."""
    exact, least, most = low == high, low.isfinite(), high.isfinite()
    density = p.log_prob(torch.where(exact, low, 0.0))
    low, high = torch.where(least, low, 0.0), torch.where(most, high, 0.0)
    below = torch.where(least, p.cdf(low - int(p.discrete)), 0.0)
    inside = torch.where(most, p.cdf(high), 1.0) - below
    if not p.discrete:
        above = torch.where(most, survival(p, high), 0.0)
        inside = torch.where(below > 0.5, survival(p, low) - above, inside)
    return torch.where(exact, density, inside.log())


def _forward(g: TargetMap, y: Tensor) -> Tensor:
    """Return g(y), infinite beyond the ends of the support."""
    low, high = g.support
    z = g.forward(torch.where(g.inside(y), y, g.inverse(torch.zeros_like(y))))
    return torch.where(y <= low, -torch.inf, torch.where(y >= high, torch.inf, z))


def _lower_tail(kernel: Kernel, z: Tensor) -> Tensor:
    """P(. <= z) of a kernel; torch's own of the normal is zero below -9."""
    return 0.5 * erfc(z * -sqrt(0.5)) if isinstance(kernel, Gauss) else kernel.cdf(z)


def _like(p: Continuous) -> Tensor:
    """Return a tensor with one number per row; the mean of a transform may not exist."""
    return p.base.mean if isinstance(p, Mapped) else p.mean


def harrell(predicted: Tensor, y: Tensor, censored: Tensor) -> Tensor:
    """Return the share of comparable pairs in the right order (`metrics.concordance`), in float64.

    Sorted by y, exact rows before censored ones of the same y, the rows that exact row i is
    compared with are those from some `start_i` on.

    Args:
        predicted: (N,).
        y: (N,).
        censored: whether y is right-censored, boolean, (N,).
    """
    n = len(y)
    rank = torch.unique(predicted, return_inverse=True)[1] + 1  # 0 is left for the padding
    order = (2 * torch.unique(y, return_inverse=True)[1] + censored.long()).sort()
    exact = ~censored[order.indices]
    start = torch.searchsorted(order.values, order.values, right=True)[exact]
    rank = rank[order.indices]
    above, equal = _counts(rank, rank[exact], start)
    pairs = (n - start).sum()
    if not bool(pairs > 0):
        remedy = "Take more rows, of which some are exact."
        raise invalid("y", "have rows whose order is known", "no such pair", remedy)
    return (above.double() + 0.5 * equal.double()) / pairs


def _counts(rank: Tensor, query: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many rank[j], j >= start_i, are above and equal to query_i, summed over i.

    The rows from `start_i` on are a union of blocks of 1, 2, 4, ... rows, one per bit at most. In
    every block, sorted, a search finds the query.
    """
    size = 1 << max(len(rank) - 1, 1).bit_length()
    rank = torch.cat([rank, rank.new_zeros(size - len(rank))])
    span = int(rank.max()) + 1
    above, equal = rank.new_zeros(()), rank.new_zeros(())
    width = 1
    while width < size:
        block = torch.arange(size, device=rank.device) // width * span
        keys = (block + rank).sort().values
        some = (start & width) > 0
        at = start[some] // width
        target = at * span + query[some]
        below, through = (torch.searchsorted(keys, target, right=r) for r in (False, True))
        above = above + ((at + 1) * width - through).sum()
        equal = equal + (through - below).sum()
        start, width = torch.where(some, start + width, start), 2 * width
    return above, equal
