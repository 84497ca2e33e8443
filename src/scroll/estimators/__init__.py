"""scikit-learn estimators: regression and classification of tables."""

from ..tables.outliers import OutlyingTarget
from .classifier import ScrollClassifier
from .regressor import ScrollRegressor
from .user_warnings import (
    AmbiguousColumn,
    CollapsedNoise,
    NegativeInterval,
    UnseenCategory,
    UnseenGap,
)

__all__ = [
    "AmbiguousColumn",
    "CollapsedNoise",
    "NegativeInterval",
    "OutlyingTarget",
    "ScrollClassifier",
    "ScrollRegressor",
    "UnseenCategory",
    "UnseenGap",
]
