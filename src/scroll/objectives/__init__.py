"""Training objectives: one choice on each axis, and the named methods as rows of choices."""

from .objective import METHODS, Objective

__all__ = ["METHODS", "Objective"]
