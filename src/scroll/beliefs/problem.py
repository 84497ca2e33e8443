"""The problem that an objective is posed on: features, targets, factor and prior precision."""

from typing import NamedTuple

from torch import Tensor

from ..factors import Factor, Gaussian
from .belief import Belief
from .covariances import Spread


class Problem(NamedTuple):
    """All that any part of an objective may look at."""

    psi: Tensor  # (..., N, H)
    y: Tensor  # (..., N)
    factor: Factor
    alpha: Tensor  # (...), prior precision
    free: Belief | None = None  # what a head's parameters say
    added: Spread | None = None  # S+ of the hybrid route
    offset: Tensor | float = 0.0  # (..., 1), a bias outside the belief
    site: Gaussian | None = None  # what the posterior is conjugate to, where not `factor`

    def centred(self) -> Tensor:  # no property: PyTorch 2.11 compiles none of a named tuple
        """Return the targets minus the offset, which a belief without a bias is fitted to."""
        return self.y - self.offset

    def noise_var(self, who: str) -> Tensor:
        """Noise variance of the conjugate sites, (..., 1)."""
        return gaussian(self.site or self.factor, who).var


def gaussian(factor: Factor, who: str) -> Gaussian:
    """`factor`, which must be Gaussian for `who`."""
    if not isinstance(factor, Gaussian):
        raise TypeError(
            f"`factor` must be `Gaussian` for `{who}`, but got `{type(factor).__name__}`. "
            "Use the `free` route with the `shared` cavity, which takes every factor."
        )
    return factor
