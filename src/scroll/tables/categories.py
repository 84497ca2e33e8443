"""Match values to the categories of training, whatever their spelling.

Values are compared as they are, then ignoring case, surrounding spaces and the notation of numbers.
A spelling that several categories share matches none of them, so categories that differ by case
alone stay apart.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias
from unicodedata import normalize

Category: TypeAlias = str | int | float | bool

TRUTHS = dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), True) | dict.fromkeys(
    ("false", "f", "no", "n", "0", "0.0"), False
)
PLAIN_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)


def matcher(categories: Sequence[Category]) -> Callable[[object], int]:
    """Return a function from a value to the index of its category, or to len(categories)."""
    exact: dict[object, int] = {category: i for i, category in enumerate(categories)}
    folded = _distinct([_folded(category) for category in categories])
    truths = [_truth(category) for category in categories]
    logical = _distinct(truths) if len(categories) == 2 else {}

    def index(value: object) -> int:
        found = exact.get(value)
        if found is None:
            found = folded.get(_folded(value))
        if found is None and logical:
            found = logical.get(_truth(value))
        return len(categories) if found is None else found

    return index


def _distinct(keys: Sequence[Hashable]) -> dict[Hashable, int]:
    """Return the position of each key, without keys that occur twice and without None."""
    first: dict[Hashable, int] = {}
    repeated: set[Hashable] = {None}
    for i, key in enumerate(keys):
        if key in first:
            repeated.add(key)
        first.setdefault(key, i)
    return {key: i for key, i in first.items() if key not in repeated}


def _folded(value: object) -> Hashable:
    """Return a value without its case and spaces; a number and its text are the same."""
    if isinstance(value, str):
        text = normalize("NFC", value.strip()).casefold()
        return float(text) if PLAIN_NUMBER.fullmatch(text) else text
    if isinstance(value, bool):
        return str(value).casefold()
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None


def _truth(value: object) -> bool | None:
    """Return the truth value that a value stands for; None if it stands for none."""
    text = value.strip().casefold() if isinstance(value, str) else str(value).casefold()
    return TRUTHS.get(text)
