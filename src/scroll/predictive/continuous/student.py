"""Predictive of a real number with heavy tails: Student's t distribution."""

from typing import ClassVar

import torch
from torch import Generator, Tensor

from ..._core.value import cast, map_tensors, value
from ..arguments import n_draws, rows
from ..protocol import Numeric
from ..summaries import summary
from .kernels import StudentT, student_t
from .normal import Mixture


@value
class Student(Numeric):
    """y ~ mean + scale T, T of the t distribution with df degrees of freedom.

    Attributes:
        mean: (..., N), or (..., N, K) of several outputs.
        scale: what multiplies T; the standard deviation is larger.
        df: degrees of freedom, an integer from 3 to 1000, the same for all rows.
    """

    discrete: ClassVar[bool] = False

    mean: Tensor
    scale: Tensor
    df: int

    @property
    def variance(self) -> Tensor:
        """scale^2 df / (df - 2)."""
        return self.scale.square() * (self.kernel.df / (self.kernel.df - 2))

    @property
    def kernel(self) -> StudentT:
        """The t distribution with df degrees of freedom."""
        return student_t(self.df)

    @property
    def members(self) -> tuple["Student"]:
        """The components that are mixed: this one."""
        return (self,)

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) of each row."""
        return self.kernel.log_pdf(self._standard(y)) - self.scale.log()

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(. <= y) of each row."""
        return self.kernel.cdf(self._standard(y))

    def icdf(self, q: Tensor) -> Tensor:
        """Return the y whose cdf is q."""
        return self.mean + self.scale * self.kernel.icdf(rows(q, self.mean))

    def crps(self, y: Tensor) -> Tensor:
        """Return int (F(t) - 1[t >= y])^2 dt of each row, by quadrature."""
        return Mixture(map_tensors(lambda t: t[None], self)).crps(y)

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n draws of y per row, (n, ...)."""
        shape = (n_draws(n), *self.mean.shape)
        return self.mean + self.scale * self.kernel.draws(shape, self.mean, generator)

    def in_units(self, shift: Tensor, scale: Tensor) -> "Student":
        """Return the distribution of shift + scale y."""
        return Student(shift + scale * self.mean, scale.abs() * self.scale, self.df)

    def widened(self, factor: float) -> "Student":
        """Return the distribution with its scale multiplied by `factor`."""
        return Student(self.mean, self.scale * factor, self.df)

    def mixture(self) -> "Student | Mixture[Student]":
        """Return the equal mixture of the members (M, ...), in float64; of one, that one."""
        parts = cast(self, torch.float64)
        return Mixture(parts) if len(parts.mean) > 1 else map_tensors(lambda t: t[0], parts)

    def _standard(self, y: Tensor) -> Tensor:
        return (rows(y, self.mean) - self.mean) / self.scale

    def __repr__(self) -> str:
        words = f"{self.df} degrees of freedom"
        return summary("Student", self.mean.shape, words, mean=self.mean, scale=self.scale)
