"""SCROLL: honest predictive distributions from a neural network."""

from typing import TYPE_CHECKING, Any

from . import beliefs, covariances, factors, likelihoods, metrics, predictive
from .checks import unchecked
from .head import Head
from .heads import ClassificationHead, CountHead, OrdinalHead, RegressionHead
from .objectives import METHODS, Objective
from .prior_gradient import PriorGradient
from .refit import Refit
from .routes import Problem

if TYPE_CHECKING:
    from .estimators import ScrollClassifier, ScrollRegressor
    from .estimators.persist import load
    from .refit import refit  # at run time `scroll.refit` is the module, which can be called

__version__ = "0.1.0"

_LATE = {"ScrollClassifier": "estimators", "ScrollRegressor": "estimators",
         "load": "estimators.persist"}  # fmt: skip
_MODULES = ("checkpoint", "distributed", "plots")


def __dir__() -> list[str]:
    """List the names that `__getattr__` imports on first use, too, without importing them."""
    return sorted({*globals(), *_LATE, *_MODULES})


def __getattr__(name: str) -> Any:
    """Import the estimators and some modules on first use: scikit-learn takes a second."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _LATE:
        raise AttributeError(f"module 'scroll' has no attribute {name!r}")
    return getattr(import_module(f".{_LATE[name]}", __name__), name)


__all__ = [
    "METHODS",
    "ClassificationHead",
    "CountHead",
    "Head",
    "Objective",
    "OrdinalHead",
    "PriorGradient",
    "Problem",
    "Refit",
    "RegressionHead",
    "ScrollClassifier",
    "ScrollRegressor",
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
