"""Tables of any library: frames of pandas, polars and pyarrow as columns; arrays and lists.

Libraries are known by what their frames can do, so that none is imported before it is needed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._core.checks import comma_list, invalid, require, short_repr
from .cells import read

Array: TypeAlias = NDArray[Any]
TableLike: TypeAlias = object  # a data frame of any library, or an array or lists (N, D)


class Series(Protocol):
    """A column of pandas."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of the values; an extension of numpy's, which also has a `kind`."""

    def to_numpy(self, dtype: object = None, *, na_value: object = ...) -> Array:
        """Return the values as an array."""

    def factorize(self) -> tuple[NDArray[np.intp], Sequence[object]]:
        """Return the index of each value among the distinct ones, and those."""

    def __len__(self) -> int: ...


class _Rows(Protocol):
    def __getitem__(self, at: tuple[slice, int]) -> Series: ...


class _Pandas(Protocol):
    """A data frame of pandas."""

    columns: Sequence[object]
    shape: tuple[int, int]
    iloc: _Rows

    def __len__(self) -> int: ...


class _Numpy(Protocol):
    def to_numpy(self) -> Array: ...


class _Polars(Protocol):
    """A data frame of polars."""

    columns: Sequence[str]
    height: int

    def get_column(self, name: str) -> _Numpy: ...


class _ArrowType(Protocol):
    value_type: object


class _ArrowColumn(_Numpy, Protocol):
    type: _ArrowType

    def cast(self, to: object) -> _Numpy: ...


class _Arrow(Protocol):
    """A table of pyarrow."""

    columns: Sequence[_ArrowColumn]
    column_names: Sequence[str]
    num_rows: int


Values: TypeAlias = Series | Array  # one column: numbers, booleans or objects


@dataclass(frozen=True)
class Frame:
    """Columns and their names: all text, or all None as for a frame made of an array.

    Attributes:
        names: of the columns.
        columns: their values.
        declared: whether each column is declared to hold categories, whatever its values are.
        n_rows: number of rows.
    """

    names: list[str] | list[None]
    columns: Sequence[Values]
    declared: list[bool]
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.n_rows, len(self.columns)

    @property
    def named(self) -> bool:
        """True if the columns have names."""
        return bool(self.names) and self.names[0] is not None

    @property
    def single(self) -> bool:
        """True if all columns are float32."""
        return all(values.dtype == np.float32 for values in self.columns)


def frame_of(X: TableLike) -> Frame | None:
    """Return the columns of a data frame; None for an array or a list."""
    if isinstance(X, Frame):
        return X
    if _is_pandas(X):
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        declared = [str(values.dtype) == "category" for values in columns]
        return Frame(_checked(X.columns), columns, declared, len(X))
    if hasattr(X, "collect_schema") and not hasattr(X, "get_column"):
        raise invalid("X", "be a frame in memory", "a lazy one", "Use X.collect().", TypeError)
    if _is_polars(X):
        arrays = [X.get_column(name).to_numpy() for name in X.columns]
        return Frame(_checked(X.columns), arrays, [False] * len(arrays), X.height)
    streams = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")
    if streams and any(hasattr(X, name) for name in ("column_names", "columns", "schema")):
        return _of_arrow(_arrow(X))
    return None


def _is_pandas(X: TableLike) -> TypeGuard[_Pandas]:
    return all(hasattr(X, name) for name in ("columns", "dtypes", "iloc"))


def _is_polars(X: TableLike) -> TypeGuard[_Polars]:
    return hasattr(X, "get_column")


def _arrow(X: TableLike) -> _Arrow:
    """Return a frame of another library as a table of pyarrow."""
    try:
        pyarrow, interchange = import_module("pyarrow"), import_module("pyarrow.interchange")
    except ImportError as missing:
        remedy = "Install it with pip install 'scroll-torch[arrow]', or use X.to_pandas()."
        want = f"be installed for a frame of type {type(X).__name__}"
        raise invalid("pyarrow", want, "none", remedy, ImportError) from missing
    if isinstance(X, pyarrow.Table):
        table: _Arrow = X
    elif hasattr(X, "__arrow_c_stream__"):
        table = pyarrow.table(X)
    else:
        table = interchange.from_dataframe(X)
    return table


def _of_arrow(table: _Arrow) -> Frame:
    """Return the columns of a pyarrow table; dictionary-encoded ones are declared categories."""
    declared = [hasattr(column.type, "index_type") for column in table.columns]
    columns = [
        (column.cast(column.type.value_type) if category else column).to_numpy()
        for column, category in zip(table.columns, declared, strict=True)
    ]
    return Frame(_checked(table.column_names), columns, declared, table.num_rows)


def as_array(X: TableLike, dtype: DTypeLike | None = None) -> Array:
    """Return `X` as an array (N, D)."""
    remedy = "Use X.toarray()."
    sparse = hasattr(X, "toarray") and not isinstance(X, np.ndarray)
    require(not sparse, "X", "be dense", "a sparse matrix", remedy, TypeError)
    x = np.asarray(X, dtype)
    remedy = "Reshape your data with X.reshape(-1, 1) for one column or X.reshape(1, -1) for a row."
    require(x.ndim == 2, "X", "have two axes, rows and columns", f"shape {x.shape}", remedy)
    return x


def as_floats(x: Array) -> Array:
    """Return the array as floats; itself if it holds float32 or float64 already."""
    if x.dtype in (np.float32, np.float64):
        return x
    if x.dtype.kind == "c":
        raise invalid("X", "hold real numbers", "complex ones", "Complex data not supported.")
    remedy = "Convert dates to numbers first; text needs a data frame, to be read as categories."
    require(x.dtype.kind in "biufOUST", "X", "hold numbers", x.dtype, remedy, TypeError)
    try:
        return x.astype(np.float64)
    except (TypeError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise invalid("X", "hold numbers", f"others ({error})", remedy, kind) from error
    except ValueError as error:
        cells = read(x.ravel().tolist())
        first = min((*cells.unreadable, *cells.marks, *cells.grouped), default=0)
        row, column = divmod(first, x.shape[1])
        got = f"{short_repr(cells.values[first])} in row {row}, column {column}"
        raise invalid("X", "hold numbers", got, remedy) from error


def holds_text(X: TableLike) -> bool:
    """Return whether an array, or a list of rows, holds text."""
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind in ("O", ""):
        rows = X if isinstance(X, list | tuple | np.ndarray) else ()
        return any(isinstance(v, str) for row in rows for v in _cells(row))
    return kind in "US"


def _cells(row: object) -> Iterator[object]:
    yield from row if isinstance(row, list | tuple | np.ndarray) else (row,)


def typed(X: TableLike) -> TableLike:
    """Return a list of rows with text as an array of objects, so that its numbers stay numbers."""
    return np.array(X, dtype=object) if isinstance(X, list | tuple) and holds_text(X) else X


def _checked(given: Sequence[object]) -> list[str] | list[None]:
    """Return column names, text and distinct; None each if they are not text."""
    names = [name for name in given if isinstance(name, str)]
    remedy = "Convert them with X.columns = X.columns.astype(str)."
    alike = len(names) in (0, len(given))
    want = "have text for all column names or for none"
    require(alike, "X", want, list(given), remedy, TypeError)
    repeated = duplicates(names)
    require(
        not repeated, "X", "have distinct column names", f"{comma_list(repeated)} more than once"
    )
    return names or [None] * len(given)


def duplicates(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def kind_of(values: Values, label: str) -> str:
    """Return numpy's letter for the kind of a column; refuse dates and complex numbers."""
    kind = str(values.dtype.kind)
    if kind in "mMc":
        remedy = "Convert it to numbers, such as days since a date."
        remedy = "Complex data not supported." if kind == "c" else remedy
        got = f"{values.dtype} in column {label}"
        raise invalid("X", "hold numbers, booleans or text", got, remedy, TypeError)
    return kind


def floats(values: Values) -> Array:
    """Return a column of numbers or booleans as an array, NaN where a value is missing."""
    if isinstance(values, np.ndarray):
        return values
    plain = isinstance(values.dtype, np.dtype)
    return values.to_numpy() if plain else values.to_numpy(np.float64, na_value=np.nan)


def factorize(values: Values, label: str) -> tuple[NDArray[np.intp], list[object]]:
    """Return the index (N,) of each value among the distinct values, and those.

    Distinct values are in order of arrival; the index of a missing value is -1.
    """
    try:
        if not isinstance(values, np.ndarray):
            index, distinct = values.factorize()
            return index, [_plain(v) for v in distinct]
        at: dict[object, int] = {}
        seen = [-1 if missing(v) else at.setdefault(_plain(v), len(at)) for v in values.tolist()]
        return np.array(seen, np.intp), list(at)
    except TypeError as error:
        what = f"hold numbers, booleans or text in column {label}"
        raise invalid("X", what, f"others ({error})", error=TypeError) from error


def missing(value: object) -> bool:
    """Return whether a value is None, NaN, or pandas' NA or NaT, known by the name of its type."""
    gone = value is None or type(value).__name__ in ("NAType", "NaTType")
    return gone or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value
