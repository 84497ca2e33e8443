"""Read and write tables on disk: CSV and Parquet, columns by name, text cells as numbers.

Rows of a file are counted from 1, without the header.
"""

import gzip
import io
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeAlias
from zlib import error as ZlibError

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._core import files
from .._core.checks import comma_list, invalid, require, short_repr
from ..tables.cells import Cells, Counts, deliberate, numbers, numeric
from ..tables.cells import read as read_cells
from ..tables.columns import TableSchema
from ..tables.frames import Array, duplicates, factorize

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TABLES = (*TEXT, ".parquet")
Note: TypeAlias = Callable[[str], None]
Dtype: TypeAlias = type | Mapping[str, type] | None


def matched(
    path: Path, schema: TableSchema, known: Sequence[str], note: Note
) -> tuple[pd.DataFrame, pd.DataFrame | Array]:
    """Read a file and pick the columns of a schema by name.

    Args:
        path: the file.
        schema: the columns of training. If they have no names, all columns but `known` are taken.
        known: other columns that may be there, such as the target.
        note: called with the names of all further columns, which are ignored.

    Returns:
        The frame of the file, and its columns in the order of training.
    """
    # A column that held text in training is read as text, even if it holds numbers here.
    texts = [c for c in schema.columns if any(isinstance(v, str | bool) for v in c.categories)]
    frame = read(path, {c.name: str for c in texts if c.name is not None})
    if not schema.named:
        x = frame.drop(columns=[n for n in known if n in frame])
        return frame, x.assign(**{name: _numbers(x[name], path, note) for name in x}).to_numpy()
    wanted = [c.name for c in schema.columns]
    absent = [name for name in wanted if name not in frame]
    got = f"none called {comma_list(absent)}; it has {comma_list(frame, 30)}"
    require(not absent, str(path), "have the columns of training", got, "Add or rename them.")
    extra = [name for name in frame if name not in wanted and name not in known]
    if extra:
        note(f"{path} has columns that the model does not know, ignored: {comma_list(extra, 30)}")
    for name in [c.name for c in schema.columns if c.kind == "numeric"]:
        frame[name] = _numbers(frame[name], path, note)
    return frame, frame[wanted]


def _numbers(values: pd.Series, path: Path, note: Note) -> pd.Series | NDArray[np.float64]:
    """Return a column as numbers; cells that are not numbers become missing, with a note."""
    if values.dtype.kind in "biuf":
        return values
    cells, index, _ = cells_of(values)
    found, remarks = numbers(cells, index, f"{short_repr(values.name)} of {path}", 1)
    for remark in remarks:
        note(remark)
    return found


def with_numbers(
    frame: pd.DataFrame, names: Sequence[str], path: Path, note: Note, gaps: bool = True
) -> pd.DataFrame:
    """Return the frame with text columns that hold numbers converted to numbers.

    Integers in a text column of a Parquet file are codes, and stay text.

    Args:
        frame: the table.
        names: the columns to convert.
        path: of the file, for messages.
        note: called with the cells that are not numbers and so become missing values.
        gaps: whether a column with such cells is converted; otherwise it stays text.
    """
    frame = frame.copy(deep=False)
    for name in names:
        values = frame[name]
        if values.dtype.kind != "O" or str(values.dtype) == "category":
            continue
        cells, _, counts = cells_of(values)
        broken = cells.marks or cells.unreadable
        codes = path.suffix == ".parquet" and deliberate(cells)
        if numeric(cells, counts) and (gaps or not broken) and not codes:
            frame[name] = _numbers(values, path, note)
    return frame


def cells_of(values: pd.Series) -> tuple[Cells, NDArray[np.intp], Counts]:
    """Return a column's distinct values as numbers, each row's index, and each value's count."""
    index, found = factorize(values, short_repr(values.name))
    return read_cells(found), index, np.bincount(index[index >= 0], minlength=len(found))


def as_written(path: Path, typed: bool) -> pd.DataFrame:
    """Read a file with the exact text of its cells; with `typed`, as numbers and text."""
    return read(path) if typed else read(path, str, keep_default_na=False)


def read(path: Path, dtype: Dtype = None, keep_default_na: bool = True) -> pd.DataFrame:
    """Read a CSV or Parquet file.

    Args:
        path: the file.
        dtype: type of all columns or of some, for CSV; Parquet has types of its own.
        keep_default_na: whether texts such as NA are missing values, for CSV.
    """
    suffix = _suffix(str(path), path)
    require(path.is_file(), "table", "be a file", path, error=FileNotFoundError)
    # round_trip: the same numbers to the last bit, and so the same model, whatever the format
    how = {"index_col": False, "low_memory": False, "float_precision": "round_trip"} | {
        "sep": "\t" if "tsv" in suffix else ","
    }
    with _readable(path):
        repeated = duplicates(_header(path, suffix, how))
    remedy = "Rename or remove them."
    require(
        not repeated, str(path), "have distinct columns", f"{comma_list(repeated)} twice", remedy
    )
    with _readable(path):
        if suffix == ".parquet":
            frame = pd.read_parquet(path, engine=_pyarrow().__name__)
        else:
            frame = pd.read_csv(path, dtype=dtype, keep_default_na=keep_default_na, **how)
    require(len(frame), str(path), "hold rows", "a header only")
    frame.columns = [str(name) for name in frame.columns]
    alone = frame.columns[0] if frame.shape[1] == 1 else ""
    require(
        not {";", "\t", "|"} & {*alone},
        str(path),
        "have commas between its columns (.csv) or tabs (.tsv)",
        f"the header {alone!r}",
        "Write it with these, or rename it.",
    )
    return frame


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of the libraries that read tables into one error that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            yield
    except (ValueError, OSError, EOFError, ZlibError, pd.errors.ParserWarning) as error:
        got = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        remedy = "Save it as text in UTF-8." if isinstance(error, UnicodeError) else ""
        raise invalid(str(path), "be a table that can be read", got, remedy) from error


def _header(path: Path, suffix: str, how: Mapping[str, object]) -> list[str]:
    """Return the names of the columns exactly as in the file, without empty ones."""
    if suffix == ".parquet":
        return [str(name) for name in _pyarrow("pyarrow.parquet").read_schema(path).names]
    _check_text(path)
    plain = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
    row = pd.read_csv(path, **how, **plain).iloc[0]
    return [name for name in row.tolist() if name]


def _check_text(path: Path) -> None:
    """Refuse a file with NUL bytes, where pandas would cut cells short."""
    zipped = path.name.lower().endswith(".gz")
    with gzip.open(path, "rb") if zipped else open(path, "rb") as file:
        while part := file.read(1 << 20):
            if b"\0" in part:
                raise UnicodeError("NUL bytes, as in files that are binary or in UTF-16")


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame to a CSV or Parquet file, completely or not at all."""
    suffix = _suffix("--output", path)
    if suffix == ".parquet":
        into = io.BytesIO()
        _pyarrow()
        frame.to_parquet(into, engine="pyarrow", index=False)
        content = into.getvalue()
    else:
        content = to_csv(frame, "\t" if "tsv" in suffix else ",").encode()
    files.write(path, gzip.compress(content, mtime=0) if suffix.endswith(".gz") else content)


def to_csv(frame: pd.DataFrame, sep: str = ",") -> str:
    """Return a frame as CSV text."""
    return str(frame.to_csv(index=False, sep=sep, lineterminator="\n"))


def _suffix(name: str, path: Path) -> str:
    """Return the suffix of a table's path; refuse others."""
    found = [suffix for suffix in TABLES if path.name.lower().endswith(suffix)]
    require(found, name, f"end in {', '.join(TABLES)}", path.name)
    return found[0]


def _pyarrow(name: str = "pyarrow") -> ModuleType:
    """Import pyarrow, or a module of it, which only Parquet files need."""
    try:
        import_module("pyarrow")
        return import_module(name)
    except ImportError as missing:
        remedy = "Install it with pip install 'scroll-torch[arrow]', or use CSV."
        want = "be installed for Parquet files"
        raise invalid("pyarrow", want, "none", remedy, ImportError) from missing


def check_output(output: Path, *inputs: Path | None) -> None:
    """Check, before work that may take long, that a file can be written and is not an input."""
    ok = os.access(files.destination(output, "--output").parent, os.W_OK)
    require(
        ok, "--output", "lie in a folder that can be written to", output, "Choose another place."
    )
    same = output.exists() and any(i and i.exists() and output.samefile(i) for i in inputs)
    require(not same, "--output", "be another file than those that are read", output)


def check_table_output(output: Path, *inputs: Path) -> None:
    """Check an output as `check_output` does, and that its name is that of a table."""
    check_output(output, *inputs)
    _suffix("--output", output)
