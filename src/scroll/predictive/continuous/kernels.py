"""Standard distributions: a predictive of a real number shifts and scales one of them.

Each is symmetric about zero. The distribution function keeps the digits of a small lower tail.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, lgamma, log, pi, sqrt
from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.special import ndtr, ndtri
from typing_extensions import Self

from ..._core.checks import as_integer, invalid
from ..._core.linalg import LOG_2PI, standard_normal
from ..protocol import Numeric

LEAST_DF = 3  # the least integer with a finite variance
LARGEST_DF = 1000  # beyond it, the terms of the sums are many, and the normal is the same
_FAR = 4.0  # from here on, the tail of a t distribution is a continued fraction
_FRACTIONS = 16  # its depth: a relative error of 1e-13 for df up to 30, 1e-10 for 1000
_STEPS = 24  # Newton steps to a quantile


class Kernel(Protocol):
    """A standard distribution, symmetric about zero."""

    @property
    def reach(self) -> float:
        """Where the square of the tail is negligible: its integral beyond is below 1e-12."""

    @property
    def radius(self) -> float:
        """The length in which the distribution function is smooth, for a quadrature rule."""

    @property
    def edges(self) -> tuple[float, ...]:
        """Edges of quadrature panels from zero to where second moments have 1e-8 left."""

    def log_pdf(self, z: Tensor) -> Tensor:
        """Return the log density at z."""

    def cdf(self, z: Tensor) -> Tensor:
        """Return P(. <= z)."""

    def icdf(self, q: Tensor) -> Tensor:
        """Return the z whose cdf is q."""

    def deviate(self, level: float) -> float:
        """Return the z whose cdf is `level`, as a constant of a graph."""

    def draws(
        self, shape: tuple[int, ...], like: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Draw numbers of a shape, in the dtype and on the device of `like`."""


class LocationScale(Numeric, Protocol):
    """A predictive mean + scale X, X of a kernel; a stack of them can be mixed."""

    @property
    def scale(self) -> Tensor:
        """What multiplies the kernel: the standard deviation of a normal."""

    @property
    def kernel(self) -> Kernel:
        """The distribution of (y - mean) / scale."""

    def in_units(self, shift: Tensor, scale: Tensor) -> Self:
        """Return the distribution of shift + scale y."""


@dataclass(frozen=True)
class Gauss:
    """The standard normal distribution."""

    reach: float = 12.0
    radius: float = 2.0
    edges: tuple[float, ...] = (0.0, 1.5, 3.0, 5.0, 8.0, 12.0)

    def log_pdf(self, z: Tensor) -> Tensor:
        """Return -(z^2 + log 2 pi) / 2."""
        return -0.5 * (z.square() + LOG_2PI)

    def cdf(self, z: Tensor) -> Tensor:
        """Return Phi(z)."""
        return ndtr(z)

    def icdf(self, q: Tensor) -> Tensor:
        """Return the z with Phi(z) = q."""
        return ndtri(q)

    def deviate(self, level: float) -> float:
        """Return the z with Phi(z) = level, as a constant of a graph."""
        from scipy.special import ndtri

        return float(ndtri(level))

    def draws(
        self, shape: tuple[int, ...], like: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Draw standard normal numbers."""
        return standard_normal(shape, like, generator)


@dataclass(frozen=True)
class StudentT:
    """The t distribution of integer degrees of freedom; made by `student_t`, which checks them.

    Attributes:
        df: degrees of freedom, at least 3.
    """

    df: int

    @property
    def reach(self) -> float:
        """Where the square of the tail, (z/df)^(-2 df), is negligible."""
        return max(12.0, 2 * float(10 ** (12 / (2 * self.df - 1))))

    @property
    def radius(self) -> float:
        """sqrt(df): the distribution function has branch points at +-i sqrt(df)."""
        return min(sqrt(self.df), 2.0)

    @property
    def edges(self) -> tuple[float, ...]:
        """Edges of quadrature panels from zero to where second moments, z^(2 - df), are small."""
        most, found = 1e8 ** (1 / (self.df - 2)), [0.0, 1.5, 4.0, 12.0]
        while found[-1] < most:
            found.append(4 * found[-1])
        return tuple(found)

    def log_pdf(self, z: Tensor) -> Tensor:
        """Return log C - (df + 1)/2 log(1 + z^2/df)."""
        return self._log_constant - (self.df + 1) / 2 * (z.square() / self.df).log1p()

    def cdf(self, z: Tensor) -> Tensor:
        """Return P(. <= z): a finite sum in theta = atan(z / sqrt(df)); the far tail by itself."""
        u = z / sqrt(self.df)
        x = 1 / (1 + u.square())  # cos^2 theta
        near = 0.5 + 0.5 * self._central(u, x)
        tail = self._tail(x)
        far = torch.where(z < 0, tail, 1 - tail)
        return torch.where(z.abs() < _FAR, near, far)

    def icdf(self, q: Tensor) -> Tensor:
        """Return the z whose cdf is q, by Newton steps that approach it from one side.

        In the tails log P is a concave function of log z, and the power law bounds z. In the
        centre P is a concave function of z > 0, and z starts at zero.
        """
        tail = torch.minimum(q, 1 - q)
        rare, n = tail < 0.1, self.df
        log_bound = self._log_constant + (n + 1) / 2 * log(n) - log(n)  # P <= bound z^-df
        z = torch.where(rare, ((log_bound - tail.log()) / n).exp(), 0.0)
        for _ in range(_STEPS):
            reached, density = self.cdf(-z), self.log_pdf(z).exp()
            rate = reached / (z * density)
            outer = z * ((reached / tail).log() * rate).exp()
            z = torch.where(rare, outer, z + (reached - tail) / density)
        z = torch.where(tail > 0, z, inf)
        z = torch.where((q < 0) | (q > 1), torch.nan, z)
        return torch.where(q < 0.5, -z, z)

    def deviate(self, level: float) -> float:
        """Return the z whose cdf is `level`, as a constant of a graph."""
        from scipy.special import betaincinv

        tail = min(level, 1 - level)
        if tail < 0.1:
            x = float(betaincinv(self.df / 2, 0.5, 2 * tail))  # cos^2 theta
            z = sqrt(self.df * (1 - x) / x)
        else:
            x = float(betaincinv(0.5, self.df / 2, 1 - 2 * tail))  # sin^2 theta
            z = sqrt(self.df * x / (1 - x))
        return -z if level < 0.5 else z

    def draws(
        self, shape: tuple[int, ...], like: Tensor, generator: Generator | None = None
    ) -> Tensor:
        """Return sqrt(df (U^(-2/df) - 1)) cos(2 pi V), U and V uniform (Bailey 1994)."""
        u, v = (
            torch.rand(shape, dtype=like.dtype, device=like.device, generator=generator)
            for _ in range(2)
        )
        square = self.df * torch.expm1(-2 / self.df * torch.log1p(-u))
        return square.sqrt() * torch.cos(2 * pi * v)

    @property
    def _log_constant(self) -> float:
        n = self.df
        return lgamma((n + 1) / 2) - lgamma(n / 2) - 0.5 * log(n * pi)

    def _central(self, u: Tensor, x: Tensor) -> Tensor:
        """P(|.| <= z) with the sign of z, u = z / sqrt(df) and x = cos^2 theta."""
        cosine, total = x.sqrt(), torch.ones_like(x)
        for k in range(self.df - 2, 1, -2):  # Horner, from the highest power of cos theta
            total = 1 + (k - 1) / k * x * total
        sine = u * cosine
        if self.df % 2:
            return 2 / pi * (u.atan() + sine * cosine * total)
        return sine * total

    def _tail(self, x: Tensor) -> Tensor:
        """I_x(df/2, 1/2) / 2 as a continued fraction, x = cos^2 theta."""
        a, b = self.df / 2, 0.5
        h = torch.ones_like(x)
        for n in range(_FRACTIONS, 0, -1):
            m = n // 2
            even = m * (b - m) / ((a + 2 * m - 1) * (a + 2 * m))
            odd = -(a + m) * (a + b + m) / ((a + 2 * m) * (a + 2 * m + 1))
            h = 1 + (odd if n % 2 else even) * x / h
        front = exp(lgamma(a + b) - lgamma(a) - lgamma(b)) / (2 * a)
        return front * x.pow(a) * (1 - x).sqrt() / h


GAUSS = Gauss()


@lru_cache
def student_t(df: int) -> StudentT:
    """Return the t distribution of `df` degrees of freedom, an integer from 3 to 1000."""
    return StudentT(checked_df(df))


def checked_df(df: object) -> int:
    """Return `df`, which must be an integer from 3 to 1000."""
    found = as_integer(df, LEAST_DF)
    if found is None or found > LARGEST_DF:
        want = f"be an integer from {LEAST_DF} to {LARGEST_DF}"
        remedy = "With fewer the variance is infinite; with more it is a normal."
        raise invalid("df", want, repr(df), remedy)
    return found
