"""The problem that an objective is posed on: features, targets, factor and prior precision."""

from typing import NamedTuple

from torch import Tensor

from ..factors import Factor, Gaussian
from .belief import Belief
from .covariances import Spread
from .sums import RowSums, row_sums


class Problem(NamedTuple):
    """Everything that a part of an objective may read.

    Attributes:
        psi: features, (..., N, H).
        y: targets, (..., N).
        factor: p(y | f).
        alpha: prior precision, (...).
        free: the belief that a head's parameters hold, if it has one.
        added: S+ of the hybrid route.
        offset: a bias outside the belief, (..., 1).
        site: the factor that the posterior is computed with, if it is not `factor`.
        rest: sums over the rows outside this batch; None is no such rows.
    """

    psi: Tensor
    y: Tensor
    factor: Factor
    alpha: Tensor
    free: Belief | None = None
    added: Spread | None = None
    offset: Tensor | float = 0.0
    site: Gaussian | None = None
    rest: RowSums | None = None

    def centred(self) -> Tensor:  # no property: PyTorch 2.11 compiles none of a named tuple
        """Return the targets minus the offset, which a belief without a bias is fitted to."""
        return self.y - self.offset

    def summed(self) -> "Problem":
        """Return the problem of no rows, whose rest are all rows."""
        rest = row_sums(self.psi, self.y)
        return self._replace(psi=self.psi[..., :0, :], y=self.y[..., :0], rest=rest)

    def noise_var(self, who: str) -> Tensor:
        """Return the noise variance of the conjugate sites, (..., 1), for the part called `who`."""
        return gaussian(self.site or self.factor, who).var


def gaussian(factor: Factor, who: str) -> Gaussian:
    """Return `factor`, which must be Gaussian for the part called `who`."""
    if not isinstance(factor, Gaussian):
        raise TypeError(
            f"`factor` must be `Gaussian` for `{who}`, but got `{type(factor).__name__}`. "
            "Use the `free` route with the `shared` cavity, which takes every factor."
        )
    return factor
