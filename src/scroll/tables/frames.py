"""Data frames of any library as named columns: pandas, polars, pyarrow and what it can read.

Libraries are known by what their frames can do, so that none is imported before it is needed.
"""

from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core.checks import listed, must, refusal

Array: TypeAlias = NDArray[Any]
TableLike: TypeAlias = object  # a data frame of any library, or an array or lists (N, D)
Values = Any  # one column: a pandas Series, or an array of numbers, booleans or objects


@dataclass(frozen=True)
class Frame:
    """Columns and their names: all text, or all None as for a frame made of an array.

    `declared` says which columns are declared to hold categories, whatever their values are.
    """

    names: list[Any]
    columns: list[Values]
    declared: list[bool]
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.columns)

    @property
    def named(self) -> bool:
        return self.names[:1] not in ([], [None])

    @property
    def single(self) -> bool:
        """True if all columns are float32."""
        return all(values.dtype == np.float32 for values in self.columns)


def frame_of(X: Any) -> Frame | None:
    """The columns of a data frame; None if `X` is none, but an array or a list."""
    if isinstance(X, Frame):
        return X
    if all(hasattr(X, name) for name in ("columns", "dtypes", "iloc")):  # pandas
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        declared = [str(values.dtype) == "category" for values in columns]
        return Frame(_checked(list(X.columns)), columns, declared, len(X))
    if hasattr(X, "collect_schema") and not hasattr(X, "get_column"):
        raise refusal("X", "be a frame in memory", "a lazy one", "Use X.collect().", TypeError)
    if hasattr(X, "get_column"):  # polars
        columns = [X.get_column(name).to_numpy() for name in X.columns]
        return Frame(_checked(list(X.columns)), columns, [False] * len(columns), X.height)
    streams = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")
    if streams and any(hasattr(X, name) for name in ("column_names", "columns", "schema")):
        return _of_arrow(_arrow(X))
    return None


def _arrow(X: Any) -> Any:
    """A frame of another library as a table of pyarrow."""
    try:
        pyarrow, interchange = import_module("pyarrow"), import_module("pyarrow.interchange")
    except ImportError as missing:
        remedy = "Install it with pip install 'scroll-torch[arrow]', or use X.to_pandas()."
        want = f"be installed for a frame of type {type(X).__name__}"
        raise refusal("pyarrow", want, "none", remedy, ImportError) from missing
    if isinstance(X, pyarrow.Table):
        return X
    return pyarrow.table(X) if hasattr(X, "__arrow_c_stream__") else interchange.from_dataframe(X)


def _of_arrow(table: Any) -> Frame:
    """The columns of a pyarrow table; what is dictionary encoded is declared as categories."""
    declared = [hasattr(column.type, "index_type") for column in table.columns]
    columns = [
        (column.cast(column.type.value_type) if category else column).to_numpy()
        for column, category in zip(table.columns, declared, strict=True)
    ]
    return Frame(_checked(list(table.column_names)), columns, declared, table.num_rows)


def holds_text(X: Any) -> bool:
    """Whether an array, or a list of rows, holds text."""
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind in ("O", ""):
        rows = X if isinstance(X, list | tuple | np.ndarray) else ()
        return any(isinstance(v, str) for row in rows for v in _cells(row))
    return kind in "US"


def _cells(row: Any) -> Any:
    return row if isinstance(row, list | tuple | np.ndarray) else (row,)


def typed(X: Any) -> Any:
    """A list of rows with text as an array of objects, so that its numbers stay numbers."""
    return np.array(X, dtype=object) if isinstance(X, list | tuple) and holds_text(X) else X


def _checked(names: list[Any]) -> list[Any]:
    """Column names, text and distinct; None each where they are not text."""
    text = [isinstance(name, str) for name in names]
    remedy = "Convert them with X.columns = X.columns.astype(str)."
    mixed = any(text) and not all(text)
    must(not mixed, "X", "have text for all column names or for none", names, remedy, TypeError)
    if not any(text):
        return [None] * len(names)
    repeated = duplicates(names)
    must(not repeated, "X", "have distinct column names", f"{listed(repeated)} more than once")
    return names


def duplicates(names: list[str]) -> list[str]:
    """Names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def kind_of(values: Values, label: str) -> str:
    """The kind of a column's dtype, as numpy has it; dates and complex numbers are refused."""
    kind = str(values.dtype.kind)
    if kind in "mMc":
        remedy = "Convert it to numbers, such as days since a date."
        remedy = "Complex data not supported." if kind == "c" else remedy
        got = f"{values.dtype} in column {label}"
        raise refusal("X", "hold numbers, booleans or text", got, remedy, TypeError)
    return kind


def floats(values: Values) -> Array:
    """A column of numbers or booleans as an array, NaN where a value is missing."""
    if isinstance(values, np.ndarray):
        return values
    plain = isinstance(values.dtype, np.dtype)
    found: Array = values.to_numpy() if plain else values.to_numpy(np.float64, na_value=np.nan)
    return found


def factorize(values: Values, label: str) -> tuple[NDArray[np.intp], list[Any]]:
    """Index (N,) into the distinct values, in order of arrival, -1 where missing; and those."""
    try:
        if hasattr(values, "factorize"):
            index, distinct = values.factorize()
            return index, [_plain(v) for v in distinct]
        at: dict[Any, int] = {}
        seen = [-1 if missing(v) else at.setdefault(_plain(v), len(at)) for v in values.tolist()]
        return np.array(seen, np.intp), list(at)
    except TypeError as error:
        what = f"hold numbers, booleans or text in column {label}"
        raise refusal("X", what, f"others ({error})", error=TypeError) from error


def missing(v: Any) -> bool:
    """True for None, NaN, and pandas' NA and NaT, which are known by their type's name."""
    gone = v is None or type(v).__name__ in ("NAType", "NaTType")
    return gone or (isinstance(v, float | np.floating) and bool(np.isnan(v)))


def _plain(v: Any) -> Any:
    return v.item() if isinstance(v, np.generic) else v
