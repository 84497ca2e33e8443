"""Descriptions of JSON values: types and ranges as functions that compose.

A description is a function of a value that returns None, or the first fault and its place, such
as ".layout.knots = -1".
"""

from collections.abc import Callable
from math import inf
from reprlib import repr as short
from typing import TypeAlias

Check: TypeAlias = Callable[[object], str | None]


def null(value: object) -> str | None:
    """Accept null."""
    return None if value is None else _fault(value)


def boolean(value: object) -> str | None:
    """Accept true or false."""
    return None if isinstance(value, bool) else _fault(value)


def text(value: object) -> str | None:
    """Accept a string."""
    return None if isinstance(value, str) else _fault(value)


def number(low: float = -inf, high: float = inf) -> Check:
    """Accept a finite number in [low, high]."""

    def check(value: object) -> str | None:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return _fault(value)
        return None if low <= value <= high and abs(value) < inf else _fault(value)

    return check


def integer(low: float = -inf, high: float = inf) -> Check:
    """Accept an integer in [low, high]."""

    def check(value: object) -> str | None:
        ok = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if ok else _fault(value)

    return check


def choice(*names: str) -> Check:
    """Accept one of some strings."""
    return lambda value: None if isinstance(value, str) and value in names else _fault(value)


def array(item: Check, low: int = 0) -> Check:
    """Accept a list of at least `low` items."""

    def check(value: object) -> str | None:
        if not isinstance(value, list) or len(value) < low:
            return _fault(value)
        faults = ((i, item(each)) for i, each in enumerate(value))
        return next((f"[{i}]{fault}" for i, fault in faults if fault), None)

    return check


def row(*items: Check) -> Check:
    """Accept a list of exactly these items."""

    def check(value: object) -> str | None:
        if not isinstance(value, list) or len(value) != len(items):
            return _fault(value)
        faults = ((i, item(each)) for i, (item, each) in enumerate(zip(items, value, strict=True)))
        return next((f"[{i}]{fault}" for i, fault in faults if fault), None)

    return check


def record(**fields: Check) -> Check:
    """Accept an object with exactly these fields."""

    def check(value: object) -> str | None:
        if not isinstance(value, dict):
            return _fault(value)
        for name in (*fields, *value):
            if name not in value or name not in fields:
                return f" {'without' if name in fields else 'with an unknown'} {short(name)}"
        faults = ((name, item(value[name])) for name, item in fields.items())
        return next((f".{name}{fault}" for name, fault in faults if fault), None)

    return check


def mapping(item: Check) -> Check:
    """Accept an object with any field names, each value as `item` describes."""

    def check(value: object) -> str | None:
        if not isinstance(value, dict):
            return _fault(value)
        faults = ((name, item(each)) for name, each in value.items())
        return next((f"[{short(name)}]{fault}" for name, fault in faults if fault), None)

    return check


def either(*checks: Check) -> Check:
    """Accept a value that one of the descriptions fits."""
    return lambda value: _fault(value) if all(check(value) for check in checks) else None


def _fault(value: object) -> str:
    return f" = {short(value)}"
