"""The scikit-learn face: the only place where a method is a string."""

from .advice import AmbiguousColumn, CollapsedNoise, UnseenCategory, UnseenGap
from .classifier import ScrollClassifier
from .outliers import OutlyingTarget
from .regressor import ScrollRegressor

__all__ = [
    "AmbiguousColumn",
    "CollapsedNoise",
    "OutlyingTarget",
    "ScrollClassifier",
    "ScrollRegressor",
    "UnseenCategory",
    "UnseenGap",
]
