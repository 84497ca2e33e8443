"""The scikit-learn face: the only place where a method is a string."""

from .advice import CollapsedNoise, UnseenGap
from .classifier import ScrollClassifier
from .regressor import ScrollRegressor

__all__ = ["CollapsedNoise", "ScrollClassifier", "ScrollRegressor", "UnseenGap"]
