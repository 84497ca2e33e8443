"""The posterior of the last layer on trained features, from sums over the data."""

from .posterior import Refit, refit

__all__ = ["Refit", "refit"]
