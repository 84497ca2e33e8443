"""The scikit-learn face: the only place where a method is a string."""

from ..tables.outliers import OutlyingTarget
from .classifier import ScrollClassifier
from .regressor import ScrollRegressor
from .user_warnings import AmbiguousColumn, CollapsedNoise, UnseenCategory, UnseenGap

__all__ = [
    "AmbiguousColumn",
    "CollapsedNoise",
    "OutlyingTarget",
    "ScrollClassifier",
    "ScrollRegressor",
    "UnseenCategory",
    "UnseenGap",
]
