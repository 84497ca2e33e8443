"""Files of data sets: gzip CSV with a header, or arrays in .npz; read, checked and written."""

import gzip
import hashlib
import warnings
import zlib
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from scroll._core.checks import invalid, require
from scroll._core.files import replacing

Array = NDArray[np.float64]


def checksum(rows: Array) -> str:
    """Return a digest of the values as float32; it depends on the order of columns, not of rows."""
    values = rows.astype("<f4") + 0  # -0 is 0
    return hashlib.sha256(values[np.lexsort(values.T)].tobytes()).hexdigest()[:16]


def read(path: Path, file: str, header: str, remedy: str) -> Array:
    """Return the rows of a file of a data set, target last.

    Args:
        path: of the file.
        file: its name in error messages.
        header: the names of its columns, separated by commas.
        remedy: what to do if it is not such a file.
    """
    arrays = path.suffix == ".npz"
    try:
        found, rows = _arrays(path) if arrays else _lines(path)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, BadZipFile) as error:
        got = f"{path}: {error}".rstrip(".")
        what = "hold the arrays X, y and names" if arrays else "be a gzip CSV of numbers"
        raise invalid(file, what, got, remedy) from None
    require(found == header, file, f"have the header {header}", found[:99] or "nothing", remedy)
    return rows


def _lines(path: Path) -> tuple[str, Array]:
    with gzip.open(path, "rt", encoding="utf-8") as text, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if there are no rows: they are counted later
        return text.readline().strip(), np.loadtxt(text, delimiter=",", ndmin=2)


def _arrays(path: Path) -> tuple[str, Array]:
    with path.open("rb") as whole, np.load(whole, allow_pickle=False) as file:
        rows = np.column_stack([file["X"], file["y"]]).astype(np.float64)
        return ",".join([*file["names"].tolist(), "target"]), rows


def save(path: Path, header: str, rows: Array) -> None:
    """Write a data set completely or not at all, also if two processes do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        if path.suffix == ".npz":
            names, single = np.array(header.split(",")[:-1]), rows.astype(np.float32)
            np.savez_compressed(file, X=single[:, :-1], y=single[:, -1], names=names)
        else:
            with gzip.open(file, "wt", encoding="utf-8") as text:
                text.write(f"{header}\n")
                np.savetxt(text, rows, fmt="%s", delimiter=",")  # the digits that read back
