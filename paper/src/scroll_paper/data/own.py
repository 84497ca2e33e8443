"""A user's own data set: a CSV or Parquet file and the name of its target, "mine.csv:target"."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scroll._core.checks import comma_list, require

from .datasets import SETS, DataSet
from .files import checksum

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
MOST_LEVELS = 100  # of a column of text
FEWEST_ROWS = 20
REMEDY = "Fill or drop such rows: the tables are made without imputation."


@dataclass(frozen=True)
class OwnFile:
    """A file with a header, the column to predict, and whether that holds labels."""

    path: Path
    target: str
    labels: bool

    def __call__(self) -> Array:
        """Return the rows as numbers, target last; it is the `read` of a `DataSet`."""
        return np.column_stack([*self.columns().values()])

    def columns(self) -> dict[str, Array]:
        """Return the columns as numbers by name, target last.

        Columns of text become one column of 0 and 1 per value; the values of a target with labels
        become 0, 1, ... in sorted order.
        """
        frame = self._frame()
        found = {k: v for name in frame for k, v in self._coded(frame[name], str(name))}
        return found | {self.target: self._answers(frame[self.target])}

    def _frame(self) -> "pd.DataFrame":
        from scroll.cli.table_files import read

        frame: pd.DataFrame = read(self.path)
        has = f"none; it has {comma_list(frame, 30)}"
        require(self.target in frame, str(self.path), f"have the column {self.target!r}", has)
        require(frame.shape[1] > 1, str(self.path), "have columns beside the target", "none")
        require(
            len(frame) >= FEWEST_ROWS,
            str(self.path),
            f"hold at least {FEWEST_ROWS} rows, which are split 60/20/20",
            len(frame),
        )
        return frame

    def _coded(self, column: "pd.Series", name: str) -> Iterator[tuple[str, Array]]:
        """Yield the numbers of an input column: itself, or one column per value of a text."""
        if name == self.target:
            return
        self._complete(column, name)
        if column.dtype.kind in "biuf":
            yield name, column.to_numpy(np.float64)
            return
        text = column.astype(str).to_numpy()
        levels = np.unique(text)
        require(
            len(levels) <= MOST_LEVELS,
            str(self.path),
            f"have at most {MOST_LEVELS} different texts in {name!r}",
            len(levels),
            "Leave out identifiers and free text.",
        )
        for level in levels:
            yield f"{name}={level}", (text == level).astype(np.float64)

    def _answers(self, column: "pd.Series") -> Array:
        self._complete(column, self.target)
        if self.labels:
            levels, codes = np.unique(column.to_numpy(), return_inverse=True)
            want = f"have 2 to {MOST_LEVELS} classes in {self.target!r}"
            got = f"{len(levels)}: {comma_list(levels.tolist())}"
            require(2 <= len(levels) <= MOST_LEVELS, str(self.path), want, got)
            return codes.reshape(-1).astype(np.float64)
        require(
            column.dtype.kind in "biuf",
            str(self.path),
            f"have numbers in {self.target!r}",
            comma_list(column.unique().tolist()),
            "Labels go with the experiments of classification.",
        )
        return column.to_numpy(np.float64)

    def _complete(self, column: "pd.Series", name: str) -> None:
        """Refuse missing and infinite values."""
        gaps = int(column.isna().sum())
        require(not gaps, str(self.path), f"have no missing values in {name!r}", gaps, REMEDY)
        if column.dtype.kind == "f":
            bad = int((~np.isfinite(column.to_numpy())).sum())
            require(not bad, str(self.path), f"be finite in {name!r}", f"{bad} infinite values")


def is_own(word: str) -> bool:
    """Return True if a word of `--sets` names a file, as "mine.csv:target" does."""
    path, colon, _ = word.rpartition(":")
    return bool(colon and Path(path).suffix)


def add(word: str, labels: bool) -> str:
    """Add a user's file to `SETS`, and return the name under which its results are recorded.

    The name holds a digest of the content, so that another content is another data set.

    Args:
        word: "mine.csv:target".
        labels: whether the target holds labels.
    """
    path, _, target = word.rpartition(":")
    require(target, word, "name the target after a colon", "nothing", "Write mine.csv:price.")
    own = OwnFile(Path(path).expanduser().resolve(), target, labels)
    columns = own.columns()
    rows = np.column_stack([*columns.values()])
    digest = hashlib.sha256(",".join(columns).encode() + rows.tobytes()).hexdigest()[:8]
    stem = own.path.name.partition(".")[0]
    name = "-".join((_safe(stem), _safe(target), digest))
    SETS[name] = DataSet(
        own.path.name, len(rows), rows.shape[1] - 1, checksum(rows), target,
        ",".join(c.replace(",", ";") for c in [*columns][:-1]), str(own.path), own,
        int(rows[:, -1].max()) + 1 if labels else 0, heading=f"{stem}:{target}", own=True,
    )  # fmt: skip
    return name


def _safe(text: str) -> str:
    """Return a text as part of a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:40] or "x"
