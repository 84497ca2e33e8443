"""Columns of hostile values, each from a generator of random numbers and a number of rows."""

import numpy as np
import pandas as pd


def normal(rng, n):
    return rng.normal(size=n)


def scaled(rng, n):
    return rng.normal(size=n) * 10.0 ** rng.integers(-300, 300)


def wide(rng, n):
    return rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-300, 300, n)


def single(rng, n):
    return rng.normal(size=n).astype(np.float32)


def half(rng, n):
    return rng.normal(size=n).astype(np.float16)


def whole(rng, n):
    return rng.integers(-5, 5, n)


def small(rng, n):
    return rng.integers(0, 255, n).astype(rng.choice(["uint8", "int16", "int32", "uint32"]))


def huge_integers(rng, n):
    return rng.integers(-(2**63), 2**63 - 1, n)


def constant(rng, n):
    return np.full(n, rng.choice([0.0, 1.0, -1e300, 1e-300, 5e-324, 3.7]))


def nearly_constant(rng, n):
    return 1.0 + np.finfo(float).eps * rng.integers(0, 3, n)


def few(rng, n):
    return rng.choice([0.0, 1.0], n)


def sentinel(rng, n):
    x = rng.normal(size=n)
    x[rng.random(n) < 0.1] = rng.choice([-9999, 1e20, -1e308])
    return x


def gaps(rng, n):
    x = rng.normal(size=n)
    x[rng.random(n) < rng.choice([0.1, 0.9])] = np.nan
    return x


def only_gaps(rng, n):
    return np.full(n, np.nan)


def infinite(rng, n):
    x = rng.normal(size=n)
    x[rng.integers(n)] = rng.choice([np.inf, -np.inf])
    return x


def tiny(rng, n):
    return rng.choice([5e-324, 1e-310, 0.0, 2.2e-308], n)


def booleans(rng, n):
    return rng.random(n) < 0.5


def nullable_booleans(rng, n):
    return pd.array(rng.choice([True, False, None], n), dtype="boolean")


def nullable_integers(rng, n):
    return pd.array(rng.choice([1, 2, None], n), dtype="Int64")


def nullable_floats(rng, n):
    return pd.array(rng.choice([0.5, -2.0, None], n), dtype="Float32")


def text(rng, n):
    return rng.choice(["a", "b", " a", "A", "", "nan", "None", "é", "\u202e", "x" * 300], n)


def strings(rng, n):
    return pd.array(rng.choice(["u", "v", None], n), dtype="string")


def names(rng, n):
    return np.array([f"row {i}" for i in range(n)], object)


def mixed(rng, n):
    options = [1, 2.5, "three", True, None, np.nan, b"raw", (1, 2), np.int8(3), "4"]
    picked = np.empty(n, object)
    picked[:] = [options[i] for i in rng.integers(0, rng.integers(1, len(options) + 1), n)]
    return picked


def numeric_objects(rng, n):
    return np.array([*rng.choice([1, 2, 3.5], n)], object)


def numeric_text(rng, n):
    return np.array([str(v) for v in rng.integers(0, 5, n)], object)


def huge_objects(rng, n):
    picked = np.empty(n, object)
    picked[:] = [int(rng.integers(1, 9)) * 10**400 for _ in range(n)]
    return picked


def categories(rng, n):
    made = pd.Categorical(rng.choice(["lo", "mid", "hi"], n), ["lo", "mid", "hi", "never"])
    return made.as_ordered() if rng.random() < 0.5 else made


def numeric_categories(rng, n):
    return pd.Categorical(rng.choice([1.5, 2.0, np.nan], n))


def dates(rng, n):
    return pd.date_range("2020-01-01", periods=n)


def spans(rng, n):
    return pd.to_timedelta(rng.integers(0, 100, n), "D")


def complex_numbers(rng, n):
    return rng.normal(size=n) + 1j


NUMBERS = [
    normal, scaled, wide, single, half, whole, small, huge_integers, constant, nearly_constant,
    few, sentinel, gaps, only_gaps, tiny,
]  # fmt: skip
OTHERS = [
    booleans, nullable_booleans, nullable_integers, nullable_floats, text, strings, names, mixed,
    numeric_objects, numeric_text, huge_objects, categories, numeric_categories,
]  # fmt: skip
REFUSED = [infinite, dates, spans, complex_numbers]

NAMES = ["a", "b", "", " ", "é", "日本", "a\nb", "x" * 200, "y", "p_a", "mean", "`c`", "1", "%s{}"]
