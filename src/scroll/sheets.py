"""Tables on disk: CSV and Parquet as frames, columns by name, files written whole or not at all.

Rows of a file are counted from 1, without the header.
"""

import gzip
import io
import os
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import error as ZlibError

from .checks import must, refusal
from .estimators.persist import written
from .estimators.table import Table, listed

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
        return frame, frame.drop(columns=[n for n in aside if n in frame]).to_numpy()
    wanted = [c.name for c in table.columns]
    absent = [name for name in wanted if name not in frame]
    got = f"none called {listed(absent)}; it has {listed(frame, 30)}"
    must(not absent, str(path), "have the columns of training", got, "Add or rename them.")
    extra = [name for name in frame if name not in wanted and name not in aside]
    if extra:
        note(f"{path} has columns that the model does not know, ignored: {listed(extra, 30)}")
    for column in table.columns:
        values = frame[column.name]
        if column.kind == "numeric":
            frame[column.name] = numeric(values, path)
        elif True in column.categories and values.dtype.kind != "b":
            frame[column.name] = values.astype(object).map(_truth)
    return frame, frame[wanted]


def _truth(value: Any) -> Any:
    """True and False from their names, as pandas reads a column of nothing else."""
    word = value.strip().lower() if isinstance(value, str) else ""
    return {"true": True, "false": False}.get(word, value)


def read(path: Path, dtype: dict[str, type] | None = None) -> Any:
    """The frame of a CSV or Parquet file."""
    pd, suffix = library("pandas"), _suffix(str(path), path)
    must(path.is_file(), "table", "be a file", path, error=FileNotFoundError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            if suffix == ".parquet":
                frame = pd.read_parquet(path, engine=library("pyarrow").__name__)
            else:
                # to the last bit: the same numbers give the same model, whatever the format
                how = {"index_col": False, "low_memory": False, "float_precision": "round_trip"}
                sep = "\t" if "tsv" in suffix else ","
                frame = pd.read_csv(path, sep=sep, dtype=dtype, **how)
    except (ValueError, OSError, EOFError, ZlibError, pd.errors.ParserWarning) as error:
        got = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise refusal(str(path), "be a table that can be read", got) from error
    must(len(frame), str(path), "hold rows", "a header only")
    frame.columns = [str(name) for name in frame.columns]
    return frame


def write(frame: Any, path: Path) -> None:
    """Write a frame to a CSV or Parquet file, whole or not at all."""
    suffix = _suffix("--output", path)
    if suffix == ".parquet":
        into = io.BytesIO()
        library("pyarrow")
        frame.to_parquet(into, engine="pyarrow", index=False)
        content = into.getvalue()
    else:
        content = text(frame, "\t" if "tsv" in suffix else ",").encode()
    written(path, gzip.compress(content, mtime=0) if suffix.endswith(".gz") else content)


def text(frame: Any, sep: str = ",") -> str:
    """A frame as CSV."""
    return str(frame.to_csv(index=False, sep=sep, lineterminator="\n"))


def _suffix(name: str, path: Path) -> str:
    found = [suffix for suffix in TABLES if path.name.lower().endswith(suffix)]
    must(found, name, f"end in {', '.join(TABLES)}", path.name)
    return found[0]


def library(name: str) -> Any:
    """pandas or pyarrow, imported only where a table is read or written."""
    try:
        return import_module(name)
    except ImportError as missing:
        remedy = "Install it with pip install 'scroll-torch[tables]'."
        raise refusal(name, "be installed for tables", "none", remedy, ImportError) from missing


def free(output: Path, *inputs: Path | None, table: bool = False) -> None:
    """There is a place for an output; asked before the work, which may be long."""
    remedy = f"Create {output.parent} first."
    must(output.parent.is_dir(), "--output", "lie in a folder that exists", output, remedy)
    must(not output.is_dir(), "--output", "be a file", f"the folder {output}")
    ok = os.access(output.parent, os.W_OK)
    must(ok, "--output", "lie in a folder that can be written to", output, "Choose another place.")
    if table:
        _suffix("--output", output)
    same = output.exists() and any(i and i.exists() and output.samefile(i) for i in inputs)
    must(not same, "--output", "be another file than those that are read", output)


def numeric(values: Any, path: Path) -> Any:
    """A column of numbers, also of text that reads as numbers."""
    if values.dtype.kind in "biuf":
        return values
    numbers = library("pandas").to_numeric(values.astype(object), errors="coerce")
    bad = (numbers.isna() & values.notna()).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        got = f"{values.iloc[row]!r} in row {row + 1} of {path}"
        raise refusal(values.name, "hold numbers", got, "Correct it, or leave it empty.")
    return numbers
