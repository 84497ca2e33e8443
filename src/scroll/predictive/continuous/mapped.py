"""Predictives of transformed targets: y = g^-1(z), z normal, Student or a mixture."""

from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.special import log_ndtr, ndtr
from typing_extensions import Never

from ..._core.checks import invalid
from ..._core.value import map_tensors, value
from ..arguments import Levels, quantile, rows
from ..protocol import Numeric
from ..summaries import summary
from .kernels import Gauss
from .maps import TargetMap
from .normal import Mixture, Normal, beside
from .panels import crps_integral, sigmoid_moments
from .student import Student

_FLAT = 45.0  # beyond it, the slope of the sigmoid function is below 1e-19
_ENDS = 750.0  # beyond it, the sigmoid function is 0 or 1 in float64

Base = Normal | Student | Mixture | Mixture[Student]


@value
class Mapped(Numeric):
    """y = g^-1(z), z ~ base: log-normal for the map "log" of a normal.

    Attributes:
        base: the distribution of z, in the units in which the map applies.
        map: g.
    """

    discrete: ClassVar[bool] = False

    base: Base
    map: TargetMap

    @property
    def mean(self) -> Tensor:
        """E y: exact for log and log1p, by quadrature for logit."""
        return self._moments()[0]

    @property
    def variance(self) -> Tensor:
        """Var y: exact for log and log1p, by quadrature for logit."""
        return self._moments()[1]

    @property
    def members(self) -> tuple["Mapped", ...]:
        """The components of the base, each mapped, whatever their weights are."""
        return tuple(Mapped(member, self.map) for member in self.base.members)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) = log p_base(g(y)) + log g'(y) of each row; -inf outside of the
        support."""
        y = rows(y, self.base.mean)
        inside = self.map.inside(y)
        some = torch.where(inside, y, self.map.inverse(torch.zeros_like(y)))
        found = self.base.log_prob(self.map.forward(some)) + self.map.log_slope(some)
        return torch.where(inside, found, -torch.inf)

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(. <= y) of each row."""
        y, (low, high) = rows(y, self.base.mean), self.map.support
        some = torch.where(self.map.inside(y), y, self.map.inverse(torch.zeros_like(y)))
        found = self.base.cdf(self.map.forward(some))
        found = torch.where(y <= low, 0.0, torch.where(y >= high, 1.0, found))
        return torch.where(y.isnan(), y, found)

    def icdf(self, q: Tensor) -> Tensor:
        """Return the y whose cdf is q."""
        return self.map.inverse(self.base.icdf(q))

    def quantile(self, q: Levels) -> Tensor:
        """Return the quantiles at one level, or at Q levels along a last axis."""
        return quantile(self.icdf, q, self.base.mean)

    def crps(self, y: Tensor) -> Tensor:
        """Return int (F(t) - 1[t >= y])^2 dt of each row.

        Exact for log and log1p, which need normals; by quadrature, to 1e-9, for logit.
        """
        y = rows(y, self.base.mean)
        if self.map.name == "logit":
            return self._crps_of_logit(y)
        self._require_normals("have a finite crps")
        return _crps_of_log(*_components(self.base), y if self.map.name == "log" else y + 1)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n draws of y per row, (n, ...)."""
        return self.map.inverse(self.base.sample(n, generator))

    def in_units(self, shift: Tensor, scale: Tensor) -> Never:
        """Refuse: only the base has units to change."""
        remedy = "Change the units of the base, and map it then."
        raise invalid("predictive", "be linear in its target", "Mapped", remedy, TypeError)

    def _moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and variance."""
        parts, weights = _components(self.base)
        if self.map.name == "logit":
            low, length = self.map.low, self.map.high - self.map.low
            mean, variance = sigmoid_moments(parts.kernel, parts.mean, parts.scale)
        else:
            self._require_normals("have a finite mean")
            low, length = (0.0 if self.map.name == "log" else -1.0), 1.0
            mean = (parts.mean + parts.variance / 2).exp()
            variance = mean.square() * parts.variance.expm1()
        whole = Mixture(Normal(mean, variance, torch.zeros_like(mean)), weights).collapsed()
        return low + length * whole.mean, length**2 * whole.variance

    def _crps_of_logit(self, y: Tensor) -> Tensor:
        (parts, _), (low, high) = _components(self.base), self.map.support
        within = y.clamp(low, high)
        z = self.map.forward(within).clamp(-_ENDS, _ENDS)
        mean, scale, kernel = beside(parts.mean, z), beside(parts.scale, z), parts.kernel
        wide = kernel.reach * scale
        ends = (mean - wide).amin(0).clamp(min=-_FLAT), (mean + wide).amax(0).clamp(max=_FLAT)
        centre = torch.cat([mean, torch.zeros_like(mean[:1])])  # the sigmoid's poles are at +-i pi
        width = torch.cat([kernel.radius * scale, torch.full_like(mean[:1], torch.pi)])
        slope = lambda t: (high - low) * t.sigmoid() * (-t).sigmoid()
        return (y - within).abs() + crps_integral(self.base.cdf, z, ends, centre, width, slope)

    def _require_normals(self, want: str) -> None:
        """Refuse a base with heavy tails, of which exp has no moments."""
        parts, _ = _components(self.base)
        if not isinstance(parts.kernel, Gauss):
            remedy = "Use quantiles, a Gaussian tail, or the map logit."
            got = f"the exponential of a t distribution with {parts.kernel.df} degrees of freedom"
            raise invalid("predictive", want, got, remedy)

    def __repr__(self) -> str:
        words, base = f"{self.map.name} of {type(self.base).__name__}", self.base
        shape = base.mean.shape
        return summary("Mapped", shape, words, base_mean=base.mean, base_stddev=base.stddev)


def _components(base: Base) -> tuple[Normal | Student, Tensor | None]:
    """Return the components (M, ...) of a distribution, and their weights."""
    if isinstance(base, Mixture):
        return base.parts, base.weights
    return map_tensors(lambda t: t[None], base), None


def _crps_of_log(parts: Normal | Student, weights: Tensor | None, y: Tensor) -> Tensor:
    """y (2 F(y) - 1) + 2 sum_i w_i E_i (sum_j w_j Phi(-a_ij) - Phi(b_i)), of log-normals.

    E_i is the mean of component i, a_ij = (m_i - m_j + v_i) / sqrt(v_i + v_j) and
    b_i = (log y - m_i - v_i) / s_i. It is E |Y - y| - E |Y - Y'| / 2 without differences of large
    means: products with E_i are taken in logarithms.
    """
    mean, var, std = parts.mean, parts.variance, parts.scale
    average = lambda each: Mixture(parts, weights).average(each)
    log_mean = mean + var / 2
    each = [
        average((log_mean + log_ndtr((m - mean - var) / (var + v).sqrt())).exp())
        for m, v in zip(mean, var, strict=True)
    ]
    apart = average(torch.stack(each))
    z = (y.clamp(min=0).log() - beside(mean, y)) / beside(std, y)
    near = average((beside(log_mean, y) + log_ndtr(z - beside(std, y))).exp())
    return y * (2 * average(ndtr(z)) - 1) + 2 * (apart - near)
