"""SCROLL: honest predictive distributions from a neural network."""

from typing import TYPE_CHECKING, Any

from . import beliefs, factors, predictive
from ._core.checks import unchecked
from ._core.versions import __version__
from .beliefs import Problem, covariances
from .heads import (
    CensoredHead,
    ClassificationHead,
    CountHead,
    Head,
    OrdinalHead,
    PriorGradient,
    RegressionHead,
    likelihoods,
)
from .objectives import METHODS, Objective
from .posterior import Posterior, refit
from .predictive import metrics

if TYPE_CHECKING:
    from .estimators import ScrollClassifier, ScrollRegressor
    from .estimators.loading import load

_LATE = {
    "ScrollClassifier": "estimators",
    "ScrollRegressor": "estimators",
    "load": "estimators.loading",
}
_MODULES = {
    "distributed": "distributed",
    "plots": "integrations.plots",
    "training": "training",
}


def __dir__() -> list[str]:
    """List the names that `__getattr__` imports on first use, too, without importing them."""
    return sorted({*globals(), *_LATE, *_MODULES})


def __getattr__(name: str) -> Any:
    """Import the estimators and some modules on first use: scikit-learn takes a second."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f".{_MODULES[name]}", __name__)
    if name not in _LATE:
        raise AttributeError(f"module 'scroll' has no attribute {name!r}")
    return getattr(import_module(f".{_LATE[name]}", __name__), name)


__all__ = [
    "METHODS",
    "CensoredHead",
    "ClassificationHead",
    "CountHead",
    "Head",
    "Objective",
    "OrdinalHead",
    "Posterior",
    "PriorGradient",
    "Problem",
    "RegressionHead",
    "ScrollClassifier",
    "ScrollRegressor",
    "__version__",
    "beliefs",
    "covariances",
    "factors",
    "likelihoods",
    "load",
    "metrics",
    "predictive",
    "refit",
    "unchecked",
]
