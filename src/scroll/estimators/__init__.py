"""The scikit-learn face: the only place where a method is a string."""

from .advice import CollapsedNoise, UnseenGap
from .classifier import ScrollClassifier
from .outliers import OutlyingTarget
from .regressor import ScrollRegressor

__all__ = ["CollapsedNoise", "OutlyingTarget", "ScrollClassifier", "ScrollRegressor", "UnseenGap"]
