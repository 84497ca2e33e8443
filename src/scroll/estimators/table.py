"""What a table looked like when it was learnt from, and later tables as numbers in that form.

A data frame is known by its columns and dtypes, so that pandas is never imported here.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..checks import must, refusal

Category: TypeAlias = str | int | float | bool
Kind: TypeAlias = Literal["numeric", "categorical"]
Array: TypeAlias = NDArray[Any]

KEPT = 50  # categories of a column; the rarer ones are as good as unseen


@dataclass(frozen=True)
class Column:
    """One column: its name, whether its values are numbers or categories, and which.

    `missing` says whether training saw missing values. A boolean has categories (False, True).
    """

    name: str | None
    kind: Kind
    categories: tuple[Category, ...] = ()
    missing: bool = False


@dataclass(frozen=True)
class Table:
    """The columns of a table; `named` where later frames are matched by name."""

    columns: tuple[Column, ...]
    named: bool = False

    @classmethod
    def of(cls, X: Any) -> "Table":
        """The columns of `X`, a data frame or an array of numbers (N, D)."""
        if _is_frame(X):
            names = _names(X)
            _filled(X.shape)
            columns = tuple(_describe(X.iloc[:, j], j, name) for j, name in enumerate(names))
            return cls(columns, names[0] is not None)
        x = _numbers(_array(X))
        _filled(x.shape)
        gaps = (bool(np.isnan(column).any()) for column in x.T)
        return cls(tuple(Column(None, "numeric", (), gap) for gap in gaps))

    def codes(self, X: Any, estimator: str = "model") -> Array:
        """`X` as numbers (N, D): a number as it is, a category as its index, NaN where missing.

        A category that training did not see, or did not keep, has the index len(categories).
        Columns of a frame are found by name, in any order; those of an array by position. An
        array of float32 or float64 is returned as it is, not copied; all else is float64, but
        for frames of float32 throughout. `estimator` is who is said to expect the columns.
        """
        frame = _is_frame(X)
        names = _names(X) if frame else []
        if self.named and frame and names[:1] != [None]:
            order = self._matched(names)
        else:
            textual = any(c.kind == "categorical" for c in self.columns)
            X = X if frame else _array(X, object if textual else None)
            order = list(range(len(self.columns)))
            if X.shape[1] != len(order):  # scikit-learn's words, which its checks look for
                raise ValueError(
                    f"X has {X.shape[1]} features, but {estimator} is expecting "
                    f"{len(order)} features as input"
                )
            if not frame and not textual:
                return self._finite(_numbers(X))
        single = frame and all(d == np.float32 for d in X.dtypes)
        codes = np.empty((len(X), len(order)), np.float32 if single else np.float64)
        for j, (at, column) in enumerate(zip(order, self.columns, strict=True)):
            values = X.iloc[:, at] if frame else X[:, at]
            codes[:, j] = _encode(values, column, _label(j, column.name))
        return self._finite(codes)

    def new_gaps(self, codes: Array) -> list[str | int]:
        """Columns, by name or place, that lack a value in codes (N, D) and never did before."""
        gone = np.flatnonzero(np.isnan(codes).any(axis=0))
        some = ((j, self.columns[j]) for j in gone.tolist() if not self.columns[j].missing)
        return [j if c.name is None else c.name for j, c in some]

    def to_json(self) -> dict[str, Any]:
        """The table as plain JSON; `from_json` reads it."""
        columns = [{**asdict(c), "categories": list(c.categories)} for c in self.columns]
        return {"named": self.named, "columns": columns}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Table":
        """The table that `to_json` wrote."""
        columns = (Column(**{**c, "categories": tuple(c["categories"])}) for c in data["columns"])
        return cls(tuple(columns), data["named"])

    def _matched(self, names: list[Any]) -> list[int]:
        """Where the table's columns stand among `names`."""
        at = {name: j for j, name in enumerate(names)}
        known = [c.name for c in self.columns]
        absent, extra = [n for n in known if n not in at], [n for n in names if n not in known]
        if absent or extra:
            got = " and ".join(
                f"{which} {listed(some)}"
                for which, some in (("none called", absent), ("unknown", extra))
                if some
            )
            remedy = "Add or rename the first." if absent else ""
            remedy += " Drop the unknown ones." if extra else ""
            raise refusal("X", "have the columns of training", got, remedy.strip())
        return [at[n] for n in known]

    def _finite(self, codes: Array) -> Array:
        infinite = np.isinf(codes)
        if infinite.any():
            j = int(infinite.any(0).argmax())
            raise refusal(
                "X",
                "be finite",
                f"infinity in column {_label(j, self.columns[j].name)}",
                "Missing values are NaN; cap or drop others.",
            )
        return codes


def _is_frame(X: Any) -> bool:
    return all(hasattr(X, a) for a in ("columns", "dtypes", "iloc"))


def _names(X: Any) -> list[Any]:
    """A frame's column names; None each where they are not text, as for a frame of an array."""
    names = list(X.columns)
    text = [isinstance(n, str) for n in names]
    remedy = "Convert them with X.columns = X.columns.astype(str)."
    mixed = any(text) and not all(text)
    must(not mixed, "X", "have text for all column names or for none", names, remedy, TypeError)
    if not any(text):
        return [None] * len(names)
    twice = sorted({n for n in names if names.count(n) > 1}) if len(set(names)) < len(names) else []
    must(not twice, "X", "have distinct column names", f"{listed(twice)} more than once")
    return names


def _filled(shape: tuple[int, ...]) -> None:
    """There is something to learn from; in the words that scikit-learn's checks look for."""
    for n, what, kind in zip(shape, ("rows", "columns"), ("sample", "feature"), strict=True):
        got = f"0 {kind}(s) (shape={tuple(shape)}) while a minimum of 1 is required"
        must(n, "X", f"have {what}", got)


def _array(X: Any, dtype: Any = None) -> Array:
    """`X` as an array (N, D)."""
    remedy = "Use X.toarray()."
    sparse = hasattr(X, "toarray") and not isinstance(X, np.ndarray)
    must(not sparse, "X", "be dense", "a sparse matrix", remedy, TypeError)
    x = np.asarray(X, dtype)
    remedy = "Reshape your data with X.reshape(-1, 1) for one column or X.reshape(1, -1) for a row."
    must(x.ndim == 2, "X", "have two axes, rows and columns", f"shape {x.shape}", remedy)
    return x


def _numbers(x: Array) -> Array:
    """The array as floats, itself where it holds float32 or float64 already."""
    if x.dtype in (np.float32, np.float64):
        return x
    if x.dtype.kind == "c":
        raise refusal("X", "hold real numbers", "complex ones", "Complex data not supported.")
    remedy = "Convert dates to numbers first; text needs a pandas DataFrame, to be categories."
    must(x.dtype.kind in "biufOUST", "X", "hold numbers", x.dtype, remedy, TypeError)
    try:
        return x.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise refusal("X", "hold numbers", f"others ({error})", remedy, kind) from error


def _describe(values: Any, j: int, name: str | None) -> Column:
    """The column that `values`, a pandas Series, is."""
    label = _label(j, name)
    kind = _dtype_kind(values, label)
    gap = bool(values.isna().any())
    if kind in "iuf":
        return Column(name, "numeric", (), gap)
    if kind == "b":
        return Column(name, "categorical", (False, True), gap)
    index, found = _factorize(values, label)
    declared = str(values.dtype) == "category"  # numbers called categories stay so
    if found and all(isinstance(v, bool) for v in found):
        return Column(name, "categorical", (False, True), gap)
    if found and not declared and not any(_float(v) is None for v in found):
        return Column(name, "numeric", (), gap)
    counts = np.bincount(index[index >= 0], minlength=len(found))
    often = np.sort(np.argsort(-counts, kind="stable")[:KEPT])
    if len(found) > KEPT:  # names and numbers of rows are no kinds of rows
        often = often[counts[often] > 1]
    kept = [found[i] for i in often]
    for v in kept:
        plain = isinstance(v, str) or (isinstance(v, int | float) and abs(v) < float("inf"))
        remedy = "Convert it to numbers or text."
        got = f"{v!r} in column {label}"
        must(plain, "X", "hold finite numbers, booleans or text", got, remedy, TypeError)
    with suppress(TypeError):  # text among numbers has no order but that of arrival
        kept = sorted(kept)
    return Column(name, "categorical", tuple(kept), gap)


def _encode(values: Any, column: Column, label: str) -> Array:
    """Values (N,) of one column, a Series or an array of objects, as numbers."""
    kind = _dtype_kind(values, label)
    if column.kind == "numeric" and kind in "biuf":
        plain = isinstance(values.dtype, np.dtype)
        return values.to_numpy() if plain else values.to_numpy(np.float64, na_value=np.nan)
    index, found = _factorize(values, label)
    if column.kind == "categorical":
        at = {c: float(i) for i, c in enumerate(column.categories)}
        found = [truth(v) for v in found] if column.categories == (False, True) else found
        numbers: list[float | None] = [at.get(v, float(len(at))) for v in found]
    else:
        numbers = [_float(v) for v in found]
        if None in numbers:
            got = f"{found[numbers.index(None)]!r}"
            remedy = "Training saw numbers there; convert it with pandas.to_numeric."
            raise refusal("X", f"hold numbers in column {label}", got, remedy)
    return np.array([*numbers, np.nan], np.float64)[index]  # index -1, missing, is the last


def _dtype_kind(values: Any, label: str) -> str:
    kind = str(values.dtype.kind)
    if kind in "mMc":
        remedy = "Convert it to numbers, such as days since a date."
        remedy = "Complex data not supported." if kind == "c" else remedy
        got = f"{values.dtype} in column {label}"
        raise refusal("X", "hold numbers, booleans or text", got, remedy, TypeError)
    return kind


def _factorize(values: Any, label: str) -> tuple[NDArray[np.intp], list[Any]]:
    """Index (N,) into the distinct values, in order of arrival, -1 where missing; and those."""
    try:
        if hasattr(values, "factorize"):
            index, distinct = values.factorize()
            return index, [_plain(v) for v in distinct]
        at: dict[Any, int] = {}
        seen = [-1 if _missing(v) else at.setdefault(_plain(v), len(at)) for v in values.tolist()]
        return np.array(seen, np.intp), list(at)
    except TypeError as error:
        what = f"hold numbers, booleans or text in column {label}"
        raise refusal("X", what, f"others ({error})", error=TypeError) from error


def truth(value: Any) -> Any:
    """True and False from their names."""
    word = value.strip().lower() if isinstance(value, str) else ""
    return {"true": True, "false": False}.get(word, value)


def _missing(v: Any) -> bool:
    """None, NaN, or pandas' NA and NaT, known by their names for want of pandas."""
    gone = v is None or type(v).__name__ in ("NAType", "NaTType")
    return gone or (isinstance(v, float | np.floating) and bool(np.isnan(v)))


def _plain(v: Any) -> Any:
    return v.item() if isinstance(v, np.generic) else v


def _float(v: Any) -> float | None:
    """The number that `v` is, None for text or what is no number."""
    try:
        return None if isinstance(v, str | bytes) else float(v)
    except (TypeError, ValueError, OverflowError):
        return None


def _label(j: int, name: str | None) -> str:
    return str(j) if name is None else repr(name)


def listed(names: Iterable[Any], most: int = 5) -> str:
    """Some names, and how many more there are."""
    words = [repr(n) for n in names]
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if words[most:] else "")
