"""Data sets from their publishers: the UCI repository, OpenML and scikit-learn."""

from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import PurePosixPath
from urllib.request import urlopen
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Read = Callable[[], Array]


def uci(
    path: str,
    member: str = "",
    *,
    delimiter: str | None = None,
    skiprows: int = 0,
    usecols: Iterable[int] | None = None,
) -> tuple[str, Read]:
    """Return the address of a UCI file, and a function that downloads its numbers.

    Args:
        path: below the repository's public folder.
        member: the file to take out of a zip archive.
        delimiter: between columns; None is white space.
        skiprows: lines to leave out at the top.
        usecols: columns to take, in this order; None is all.
    """
    columns = None if usecols is None else tuple(usecols)
    url = f"https://archive.ics.uci.edu/static/public/{path}"

    def read() -> Array:
        with urlopen(url, timeout=60) as reply:
            data = reply.read()
        if member:
            archive = ZipFile(BytesIO(data))
            data = archive.read({PurePosixPath(p).name: p for p in archive.namelist()}[member])
        return np.loadtxt(
            BytesIO(data), delimiter=delimiter, skiprows=skiprows, usecols=columns, ndmin=2
        )

    return url, read


def openml(number: int, labels: str = "") -> tuple[str, Read]:
    """Return the address of an OpenML table, and a function that downloads it.

    `labels` names the classes in the order of their codes.
    """

    def read() -> Array:
        from sklearn.datasets import fetch_openml

        # The other parser needs pandas; this one gives nominal columns as codes 0, 1, ...
        got = fetch_openml(data_id=number, as_frame=False, parser="liac-arff", cache=False)
        names = labels.split()
        target = [names.index(str(t)) for t in got.target] if names else got.target
        rows = np.column_stack([got.data, target]).astype(np.float64)
        for column, levels in got.categories.items():
            at = got.feature_names.index(column)
            rows[:, at] = np.array(levels, np.float64)[rows[:, at].astype(int)]
        return rows

    return f"https://www.openml.org/d/{number}", read


def california() -> Array:
    """Download the California housing table of scikit-learn."""
    from sklearn.datasets import fetch_california_housing

    return np.column_stack(fetch_california_housing(return_X_y=True))
