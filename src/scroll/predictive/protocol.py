"""What a predictive distribution offers, so that no caller has to ask which class it is.

- `Predictive`: a log density for each row. Every head returns one.
- `Stack`: the predictives of ensemble members along a first axis, to be mixed.
- `Distribution`: moments and draws, and whether y is discrete and ordered.
- `Numeric`: a distribution of a number, with a distribution function and quantiles.
- `Labels`: a distribution of a label 0..K-1, with probabilities.

Shapes are the user's: (..., N) for one output, (..., N, K) for several.

The classes of this package inherit from these protocols what follows from the other operations.
A class of your own may do the same, or just have the same operations.
"""

from typing import TYPE_CHECKING, ClassVar, Protocol

from torch import Generator, Tensor
from typing_extensions import Self

from .arguments import Levels, interval, quantile


class Predictive(Protocol):
    """A distribution over y for each row, of which the density is known."""

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) of each row."""


class Distribution(Predictive, Protocol):
    """A predictive with moments and draws."""

    discrete: ClassVar[bool]  # y takes integer values only
    ordered: ClassVar[bool]  # y has an order, and so a distribution function and quantiles

    if TYPE_CHECKING:  # a property would hide the field of a dataclass

        @property
        def mean(self) -> Tensor:
            """E y; for unordered labels, of the one-hot vector."""

    @property
    def variance(self) -> Tensor:
        """Var y; for unordered labels, of the one-hot vector."""

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n draws of y per row, (n, ...)."""

    def in_units(self, shift: Tensor, scale: Tensor) -> Self:
        """Return the distribution of shift + scale y; labels and counts have no unit to change."""
        return self

    def as_tensors(self) -> Tensor | tuple[Tensor, Tensor]:
        """Return what stands for it in a graph, float64: probabilities, or mean and stddev."""


class Stack(Predictive, Protocol):
    """Predictives of ensemble members, (M, ...)."""

    discrete: ClassVar[bool]

    def mixture(self) -> Distribution:
        """Return the equal mixture of the members; of a single member, its own predictive."""


class Numeric(Distribution, Protocol):
    """A predictive of a real number, a count or an ordered level."""

    ordered: ClassVar[bool] = True

    def cdf(self, y: Tensor) -> Tensor:
        """Return P(. <= y) of each row."""

    def icdf(self, q: Tensor) -> Tensor:
        """Return the least y whose cdf reaches q: one level for all rows, or one per row."""

    def quantile(self, q: Levels) -> Tensor:
        """Return the quantiles at one level, or at Q levels along a last axis."""
        return quantile(self.icdf, q, self.mean)

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return the quantiles that enclose the central `coverage` of the probability.

        Both ends belong to the interval: a discrete one covers at least `coverage`.
        """
        return interval(self.quantile, coverage)

    def crps(self, y: Tensor) -> Tensor:
        """Return int (F(t) - 1[t >= y])^2 dt of each row."""

    def as_tensors(self) -> Tensor | tuple[Tensor, Tensor]:
        """Return mean and standard deviation, in float64."""
        return self.mean.double(), self.stddev.double()


class Labels(Distribution, Protocol):
    """A predictive of a label 0..K-1, ordered or not."""

    discrete: ClassVar[bool] = True

    if TYPE_CHECKING:

        @property
        def log_probs(self) -> Tensor:
            """log P(y = k), (..., N, K)."""

    @property
    def probs(self) -> Tensor:
        """P(y = k), (..., N, K)."""
        return self.log_probs.exp()

    @property
    def mode(self) -> Tensor:
        """The most probable label."""
        return self.log_probs.argmax(-1)

    def as_tensors(self) -> Tensor | tuple[Tensor, Tensor]:
        """Return the probabilities, in float64."""
        return self.probs.double()

    def mixture(self, weights: Tensor | None = None) -> Self:
        """Return the mixture of the members of a stack.

        Args:
            weights: of the members, (M,), which sum to 1; None for 1/M each.
        """

    def recalibrated(self, power: float, lapse: float, rates: Tensor) -> Self:
        """Return the probabilities to a power, mixed with a share of labels drawn at random.

        Args:
            power: exponent of the probabilities, which are then normalised.
            lapse: share of rows whose label is drawn by `rates` whatever the features are.
            rates: how frequent each label is, (K,).
        """
