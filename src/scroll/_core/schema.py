"""Descriptions of JSON values: types and ranges as functions that compose.

A description is a function of a value that returns None, or the first fault and its place, such
as ".layout.knots = -1".
"""

from collections.abc import Callable
from math import inf
from reprlib import repr as short
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any], str | None]


def null(value: Any) -> str | None:
    """null."""
    return None if value is None else _fault(value)


def boolean(value: Any) -> str | None:
    """true or false."""
    return None if isinstance(value, bool) else _fault(value)


def text(value: Any) -> str | None:
    """A string."""
    return None if isinstance(value, str) else _fault(value)


def number(low: float = -inf, high: float = inf) -> Check:
    """A finite number in [low, high]."""

    def check(value: Any) -> str | None:
        ok = isinstance(value, int | float) and not isinstance(value, bool)
        return None if ok and low <= value <= high and abs(value) < inf else _fault(value)

    return check


def integer(low: float = -inf, high: float = inf) -> Check:
    """An integer in [low, high]."""

    def check(value: Any) -> str | None:
        ok = isinstance(value, int) and not isinstance(value, bool)
        return None if ok and low <= value <= high else _fault(value)

    return check


def choice(*names: str) -> Check:
    """One of some strings."""
    return lambda value: None if isinstance(value, str) and value in names else _fault(value)


def array(item: Check, low: int = 0) -> Check:
    """A list of at least `low` items."""

    def check(value: Any) -> str | None:
        if not isinstance(value, list) or len(value) < low:
            return _fault(value)
        faults = ((i, item(each)) for i, each in enumerate(value))
        return next((f"[{i}]{fault}" for i, fault in faults if fault), None)

    return check


def row(*items: Check) -> Check:
    """A list of exactly these items."""

    def check(value: Any) -> str | None:
        if not isinstance(value, list) or len(value) != len(items):
            return _fault(value)
        faults = ((i, item(each)) for i, (item, each) in enumerate(zip(items, value, strict=True)))
        return next((f"[{i}]{fault}" for i, fault in faults if fault), None)

    return check


def record(**fields: Check) -> Check:
    """An object with exactly these fields."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return _fault(value)
        for name in (*fields, *value):
            if name not in value or name not in fields:
                return f" {'without' if name in fields else 'with an unknown'} {short(name)}"
        faults = ((name, item(value[name])) for name, item in fields.items())
        return next((f".{name}{fault}" for name, fault in faults if fault), None)

    return check


def mapping(item: Check) -> Check:
    """An object with any fields."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return _fault(value)
        faults = ((name, item(each)) for name, each in value.items())
        return next((f"[{short(name)}]{fault}" for name, fault in faults if fault), None)

    return check


def either(*checks: Check) -> Check:
    """A value that one of the descriptions fits."""
    return lambda value: _fault(value) if all(check(value) for check in checks) else None


def _fault(value: Any) -> str:
    return f" = {short(value)}"
