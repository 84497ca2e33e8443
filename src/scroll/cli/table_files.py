"""Tables on disk: CSV and Parquet files as frames, columns by name, text cells as numbers.

Rows of a file are counted from 1, without the header.
"""

import gzip
import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import error as ZlibError

import numpy as np
import pandas as pd

from .._core import files
from .._core.checks import listed, must, quoted, refusal
from ..tables.cells import Cells, deliberate, numbers, numeric
from ..tables.cells import read as read_cells
from ..tables.columns import Table
from ..tables.frames import duplicates, factorize

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TABLES = (*TEXT, ".parquet")
Note = Callable[[str], None]


def matched(path: Path, table: Table, aside: Sequence[str], note: Note) -> tuple[Any, Any]:
    """A file's frame, and of it the columns of `table`, picked by name.

    Others are ignored and named in a note, but for those that stand `aside`.
    """
    # A column of texts that happens to hold numbers here is still one of texts.
    texts = [c for c in table.columns if any(isinstance(v, str | bool) for v in c.categories)]
    frame = read(path, {c.name: str for c in texts if c.name is not None})
    if not table.named:
        x = frame.drop(columns=[n for n in aside if n in frame])
        return frame, x.assign(**{name: _numbers(x[name], path, note) for name in x}).to_numpy()
    wanted = [c.name for c in table.columns]
    absent = [name for name in wanted if name not in frame]
    got = f"none called {listed(absent)}; it has {listed(frame, 30)}"
    must(not absent, str(path), "have the columns of training", got, "Add or rename them.")
    extra = [name for name in frame if name not in wanted and name not in aside]
    if extra:
        note(f"{path} has columns that the model does not know, ignored: {listed(extra, 30)}")
    for name in [c.name for c in table.columns if c.kind == "numeric"]:
        frame[name] = _numbers(frame[name], path, note)
    return frame, frame[wanted]


def _numbers(values: Any, path: Path, note: Note) -> Any:
    """A column that held numbers in training; cells that are none are missing, with a note."""
    if values.dtype.kind in "biuf":
        return values
    cells, index, _ = cells_of(values)
    found, remarks = numbers(cells, index, f"{quoted(values.name)} of {path}", 1)
    for remark in remarks:
        note(remark)
    return found


def numbered(frame: Any, names: Sequence[str], path: Path, note: Note, gaps: bool = True) -> Any:
    """The frame with columns of text that hold numbers as numbers.

    Cells that are none become missing values, with a note. Without `gaps` columns that have such
    cells stay text. Whole numbers in a text column of a Parquet file are codes, and stay text.
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


def cells_of(values: Any) -> tuple[Cells, Any, Any]:
    """A column's distinct values as numbers, the rows' index into them, and how often each is."""
    index, found = factorize(values, quoted(values.name))
    return read_cells(found), index, np.bincount(index[index >= 0], minlength=len(found))


def as_written(path: Path, typed: bool) -> Any:
    """The frame of a file with the very text of its cells, unless types are asked for."""
    return read(path) if typed else read(path, str, keep_default_na=False)


def read(path: Path, dtype: Any = None, **parse: Any) -> Any:
    """The frame of a CSV or Parquet file; of the latter, which has types, as it is."""
    suffix = _suffix(str(path), path)
    must(path.is_file(), "table", "be a file", path, error=FileNotFoundError)
    # to the last bit: the same numbers give the same model, whatever the format
    how = {"index_col": False, "low_memory": False, "float_precision": "round_trip"}
    how["sep"] = "\t" if "tsv" in suffix else ","
    with _readable(path):
        repeated = duplicates(_header(path, suffix, how))
    remedy = "Rename or remove them."
    must(not repeated, str(path), "have distinct columns", f"{listed(repeated)} twice", remedy)
    with _readable(path):
        if suffix == ".parquet":
            frame = pd.read_parquet(path, engine=_pyarrow().__name__)
        else:
            frame = pd.read_csv(path, dtype=dtype, **how, **parse)
    must(len(frame), str(path), "hold rows", "a header only")
    frame.columns = [str(name) for name in frame.columns]
    alone = frame.columns[0] if frame.shape[1] == 1 else ""
    must(
        not {";", "\t", "|"} & {*alone},
        str(path),
        "have commas between its columns (.csv) or tabs (.tsv)",
        f"the header {alone!r}",
        "Write it with these, or rename it.",
    )
    return frame


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Errors of the libraries that read tables, as a refusal of the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            yield
    except (ValueError, OSError, EOFError, ZlibError, pd.errors.ParserWarning) as error:
        got = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        remedy = "Save it as text in UTF-8." if isinstance(error, UnicodeError) else ""
        raise refusal(str(path), "be a table that can be read", got, remedy) from error


def _header(path: Path, suffix: str, how: dict[str, Any]) -> list[str]:
    """The names of the columns as they stand in the file, without empty ones."""
    if suffix == ".parquet":
        return [str(name) for name in _pyarrow("pyarrow.parquet").read_schema(path).names]
    _check_text(path)
    plain = {"header": None, "nrows": 1, "dtype": str, "keep_default_na": False}
    row = pd.read_csv(path, **how, **plain).iloc[0]
    return [name for name in row.tolist() if name]


def _check_text(path: Path) -> None:
    """Refuse a file with NUL bytes, at which pandas would cut cells short."""
    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rb") as file:
        while part := file.read(1 << 20):
            if b"\0" in part:
                raise UnicodeError("NUL bytes, as in files that are binary or in UTF-16")


def write(frame: Any, path: Path) -> None:
    """Write a frame to a CSV or Parquet file, whole or not at all."""
    suffix = _suffix("--output", path)
    if suffix == ".parquet":
        into = io.BytesIO()
        _pyarrow()
        frame.to_parquet(into, engine="pyarrow", index=False)
        content = into.getvalue()
    else:
        content = text(frame, "\t" if "tsv" in suffix else ",").encode()
    files.write(path, gzip.compress(content, mtime=0) if suffix.endswith(".gz") else content)


def text(frame: Any, sep: str = ",") -> str:
    """A frame as CSV."""
    return str(frame.to_csv(index=False, sep=sep, lineterminator="\n"))


def _suffix(name: str, path: Path) -> str:
    found = [suffix for suffix in TABLES if path.name.lower().endswith(suffix)]
    must(found, name, f"end in {', '.join(TABLES)}", path.name)
    return found[0]


def _pyarrow(name: str = "pyarrow") -> Any:
    """Import pyarrow, or a module of it, which only Parquet files need."""
    try:
        import_module("pyarrow")
        return import_module(name)
    except ImportError as missing:
        remedy = "Install it with pip install 'scroll-torch[arrow]', or use CSV."
        want = "be installed for Parquet files"
        raise refusal("pyarrow", want, "none", remedy, ImportError) from missing


def free(output: Path, *inputs: Path | None, table: bool = False) -> None:
    """Check, before work that may take long, that an output can be written and is no input."""
    ok = os.access(files.destination(output, "--output").parent, os.W_OK)
    must(ok, "--output", "lie in a folder that can be written to", output, "Choose another place.")
    if table:
        _suffix("--output", output)
    same = output.exists() and any(i and i.exists() and output.samefile(i) for i in inputs)
    must(not same, "--output", "be another file than those that are read", output)
