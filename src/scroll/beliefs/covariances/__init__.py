"""Covariances of beliefs over last-layer weights: S as a value.

Leading `...` axes are independent replicates; several outputs are one more such axis, against
which the features broadcast.
"""

from .composed import Scaled, Sum
from .diagonals import Diag, Isotropic, LowRank, Point
from .matrices import Full, FullPlus, Spectral
from .protocol import Bound, Covariance, Spread
from .serialisation import from_state, state

__all__ = [
    "Bound",
    "Covariance",
    "Diag",
    "Full",
    "FullPlus",
    "Isotropic",
    "LowRank",
    "Point",
    "Scaled",
    "Spectral",
    "Spread",
    "Sum",
    "from_state",
    "state",
]
