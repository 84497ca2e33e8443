"""Tables on disk: CSV and Parquet as frames, columns by name, targets as numbers or labels, files
written whole or not at all.

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

import numpy as np
import torch

from . import atomic
from .checks import must, refusal
from .estimators.table import Table, listed

TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
TABLES = (*TEXT, ".parquet")
KINDS = {"boolean": "booleans", "string": "text", "categorical": "categories"} | dict.fromkeys(
    ("integer", "floating", "mixed-integer-float", "decimal"), "numbers"
)
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
    return frame, frame[wanted]


def as_written(path: Path, typed: bool) -> Any:
    """The frame of a file with the very text of its cells, unless types are asked for."""
    return read(path) if typed else read(path, str, keep_default_na=False)


def read(path: Path, dtype: Any = None, **parse: Any) -> Any:
    """The frame of a CSV or Parquet file; of the latter, which has types, as it is."""
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
                frame = pd.read_csv(path, sep=sep, dtype=dtype, **how, **parse)
    except (ValueError, OSError, EOFError, ZlibError, pd.errors.ParserWarning) as error:
        got = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise refusal(str(path), "be a table that can be read", got) from error
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
    atomic.write(path, gzip.compress(content, mtime=0) if suffix.endswith(".gz") else content)


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
    """Check, before work that may take long, that an output can be written and is no input."""
    ok = os.access(atomic.destination(output, "--output").parent, os.W_OK)
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


def kind_of(frame: Any, targets: Sequence[str], path: Path) -> str:
    """What the targets hold, once it is known that nothing is missing."""
    for name in targets:
        must(name in frame, str(path), "hold the target", f"none called {name!r}")
        gone = frame[name].isna().to_numpy()
        got = f"{gone.sum()} missing in {path}, the first in row {gone.argmax() + 1}"
        must(not gone.any(), name, "have a value in every row", got, "Drop or fill such rows.")
    infer = library("pandas").api.types.infer_dtype
    found = {name: infer(frame[name]) for name in targets}
    for name, kind in found.items():
        must(kind in KINDS, name, "hold numbers, text or booleans to be a target", kind)
    return next((KINDS[k] for k in found.values() if KINDS[k] != "numbers"), "numbers")


def classes(frame: Any, name: str) -> Any:
    """A column of labels as integers, booleans or text."""
    return _labels(frame[name].tolist(), name)


def repeated(y: Any, name: str) -> None:
    """Labels are seen again; numbers that are written as no number is are not."""
    found = len({*y.tolist()}) if y.dtype.kind == "U" else 0
    must(
        found <= max(20, len(y) / 2),
        "--target",
        "hold numbers, or labels that repeat",
        f"{found} different ones in {len(y)} rows of {name!r}, such as {y.tolist()[0]!r}",
        "If they are numbers, take units and separators out of them first.",
    )


def _labels(values: list[Any], name: str) -> Any:
    labels = np.asarray(values)
    if labels.dtype.kind == "f":
        whole = bool((labels == labels.round()).all())
        must(whole, name, "hold whole numbers, text or booleans to be classes", "fractions")
        return labels.astype(np.int64)
    return labels if labels.dtype.kind in "biuU" else labels.astype(str)


def order(frame: Any, name: str, levels: Sequence[str]) -> Any:
    """The order of a column's labels: that of `levels`, or its own; True where it has none."""
    found = classes(frame, name)
    if levels:
        at = {str(label): label for label in np.unique(found).tolist()}
        gaps = [level for level in levels if level not in at]  # levels that no row has
        text = found.dtype.kind == "U" or not gaps
        ok = text or all(gap.lstrip("-").isdecimal() for gap in gaps)
        must(ok, "--levels", f"name classes of {name}, {listed(at, 10)}", listed(gaps))
        return [at[level] if level in at else level if text else int(level) for level in levels]
    dtype = frame[name].dtype
    ranked = getattr(dtype, "ordered", False)
    return _labels(dtype.categories.tolist(), name).tolist() if ranked else True


def positions(classes: Any, labels: Any, path: Path) -> torch.Tensor:
    """Labels as 0..K-1; classes that look like numbers are known by either form."""
    at = {key: k for k, c in enumerate(classes.tolist()) for key in (str(c), c)}
    found = [at.get(label, at.get(str(label), -1)) for label in labels.tolist()]
    got = f"{listed({str(v) for v, k in zip(labels, found, strict=True) if k < 0})} in {path}"
    must(
        -1 not in found,
        "target",
        f"hold the classes of training, {listed(classes.tolist(), 10)}",
        got,
    )
    return torch.tensor(found)


def numbers(frame: Any, targets: Sequence[str], path: Path) -> Any:
    """Columns of finite numbers, (N,) or (N, K)."""
    y = np.stack([numeric(frame[name], path).to_numpy(np.float64) for name in targets], -1)
    for name, column in zip(targets, y.T, strict=True):
        bad = ~np.isfinite(column)
        got = f"{column[bad.argmax()]} in row {bad.argmax() + 1} of {path}"
        must(not bad.any(), name, "hold finite numbers", got)
    return y[:, 0] if len(targets) == 1 else y
