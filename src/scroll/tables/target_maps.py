"""Which monotone maps a real target may be trained in: it must lie inside the map's support."""

import numpy as np

from .._core.checks import one_of, require
from ..predictive import TargetMap
from ..predictive.arguments import as_tensor
from .frames import Array

TARGETS = ("auto", "identity", "log", "log1p", "logit")
SPREAD = 0.4  # standard deviation of log y from which "auto" tries the map


def target_maps(target: str, y: Array) -> list[TargetMap | None]:
    """Return the maps to choose from; None is the identity.

    Args:
        target: the parameter of the estimator.
        y: targets, (N,) or (N, K).
    """
    one_of("target", target, TARGETS)
    if target == "identity":
        return [None]
    if target != "auto":
        return [_asked(target, y)]
    found: list[TargetMap | None] = [None]
    low, high = float(y.min()), float(y.max())
    if y.ndim > 1 or low == high:
        return found
    if low > 0 and np.log(y).std() > SPREAD:
        found.append(TargetMap("log"))
    elif low == 0 and np.log1p(y).std() > SPREAD and _skew(y) > 1:
        found.append(TargetMap("log1p"))
    if low > 0 and high < 1:
        found.append(TargetMap("logit"))
    return found


def _asked(target: str, y: Array) -> TargetMap:
    """Return the map that the user asks for, if all targets lie inside of its support."""
    found = TargetMap(target)
    if target == "logit" and float(y.max()) > 1:
        found = TargetMap(target, 0.0, 100.0)  # per cent
    require_inside(found, y)
    return found


def require_inside(found: TargetMap, y: Array) -> None:
    """Raise an error unless all targets lie inside of the support of a map."""
    low, high = float(y.min()), float(y.max())
    wants = {
        "log": ("be positive for target='log'", "Zeros: use target='log1p'."),
        "log1p": ("be zero or positive for target='log1p'", "Use target='identity'."),
        "logit": (
            "lie strictly between 0 and 1, or 0 and 100, for target='logit'",
            "Rescale it, or use target='identity'.",
        ),
    }
    want, remedy = wants[found.name]
    inside = bool(found.inside(as_tensor("y", y)).all()) and (found.name != "log1p" or low >= 0)
    require(inside, "y", want, f"values from {low:g} to {high:g}", remedy)


def _skew(y: Array) -> float:
    """Return the skewness of the targets."""
    centred = y - y.mean()
    return float((centred**3).mean() / max((centred**2).mean(), 1e-300) ** 1.5)
