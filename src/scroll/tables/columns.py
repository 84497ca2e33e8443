"""The columns of a training table, and later tables as numbers by the same columns."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from .._core.checks import comma_list, invalid, require, short_repr
from .categories import Category, matcher
from .cells import Cells, deliberate, numbers, numeric, quantities, read
from .frames import (
    Array,
    TableLike,
    Values,
    as_array,
    as_floats,
    factorize,
    floats,
    frame_of,
    kind_of,
)

Kind: TypeAlias = Literal["numeric", "categorical"]
Json: TypeAlias = dict[str, Any]

KEPT = 50  # most frequent categories of a column; rarer ones are encoded like unseen ones
UNSEEN = 0.01  # share of rows with unseen categories above which there is a remark
UNSEEN_ROWS = 5  # number of such rows from which on there is a remark


@dataclass
class Remarks:
    """Messages for the user about a table: cells and columns in doubt, unseen categories."""

    cells: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: of the column; None if the columns have no names.
        kind: whether its values are numbers or categories.
        categories: those that are encoded; of a boolean (False, True).
        missing: whether training saw missing values.
        unlisted: share of the training rows whose category was too rare to be encoded.
    """

    name: str | None
    kind: Kind
    categories: tuple[Category, ...] = ()
    missing: bool = False
    unlisted: float = 0.0


@dataclass(frozen=True)
class TableSchema:
    """The columns of a training table.

    Attributes:
        columns: one entry per column.
        named: whether columns of later frames are matched by name.
    """

    columns: tuple[Column, ...]
    named: bool = False

    @classmethod
    def of(cls, X: TableLike, remarks: Remarks | None = None) -> "TableSchema":
        """Return the columns of a data frame, or of an array of numbers (N, D).

        Args:
            X: the table.
            remarks: collects what the user should know about it.
        """
        frame, remarks = frame_of(X), remarks or Remarks()
        if frame is not None:
            _filled(frame.shape)
            parts = zip(frame.columns, frame.names, frame.declared, strict=True)
            columns = [
                _describe(values, _label(j, name), name, declared, remarks)
                for j, (values, name, declared) in enumerate(parts)
            ]
            return cls(tuple(columns), frame.named)
        x = as_floats(as_array(X))
        _filled(x.shape)
        gaps = (bool(np.isnan(column).any()) for column in x.T)
        return cls(tuple(Column(None, "numeric", (), gap) for gap in gaps))

    def codes(
        self, X: TableLike, estimator: str = "model", remarks: Remarks | None = None
    ) -> Array:
        """Return a table as numbers (N, D): categories as their index, missing values as NaN.

        Unseen or unlisted categories have the index len(categories). Columns of a frame are found
        by name, in any order; those of an array by position. An array of float32 or float64 is
        returned as it is, not copied; a frame of float32 columns as float32; all else as float64.

        Args:
            X: the table.
            estimator: name of the estimator, for error messages.
            remarks: collects what the user should know about the table.
        """
        frame, remarks = frame_of(X), remarks or Remarks()
        textual = any(c.kind == "categorical" for c in self.columns)
        if frame is None:
            x = as_array(X, object if textual else None)
            self._same_number(x.shape[1], estimator)
            if not textual:
                return self._finite(as_floats(x))
            columns: Sequence[Values] = list(x.T)
        elif self.named and frame.named:
            columns = [frame.columns[at] for at in self._matched(frame.names)]
        else:
            self._same_number(len(frame.columns), estimator)
            columns = frame.columns
        _filled((len(columns[0]), len(columns)))
        single = frame is not None and frame.single
        codes = np.empty((len(columns[0]), len(columns)), np.float32 if single else np.float64)
        for j, (values, column) in enumerate(zip(columns, self.columns, strict=True)):
            codes[:, j] = _encode(values, column, _label(j, column.name), remarks)
        return self._finite(codes)

    def _same_number(self, found: int, estimator: str) -> None:
        """Refuse another number of columns, in the words that scikit-learn's checks expect."""
        if found != len(self.columns):
            raise ValueError(
                f"X has {found} features, but {estimator} is expecting "
                f"{len(self.columns)} features as input"
            )

    def new_gaps(self, codes: Array) -> list[str | int]:
        """Return the columns, by name or position, whose first missing values are in these codes.

        Args:
            codes: of new rows, (N, D).
        """
        gone = np.flatnonzero(np.isnan(codes).any(axis=0))
        some = ((j, self.columns[j]) for j in gone.tolist() if not self.columns[j].missing)
        return [j if c.name is None else c.name for j, c in some]

    def to_json(self) -> Json:
        """Return the schema as plain JSON; `from_json` reads it."""
        columns = [{**asdict(c), "categories": list(c.categories)} for c in self.columns]
        return {"named": self.named, "columns": columns}

    @classmethod
    def from_json(cls, data: Json) -> "TableSchema":
        """Return the schema that `to_json` wrote."""
        columns = (Column(**{**c, "categories": tuple(c["categories"])}) for c in data["columns"])
        return cls(tuple(columns), data["named"])

    def _matched(self, names: Sequence[str | None]) -> list[int]:
        """Return the positions of the columns among `names`."""
        at = {name: j for j, name in enumerate(names)}
        known = [c.name for c in self.columns]
        absent, extra = [n for n in known if n not in at], [n for n in names if n not in known]
        if absent or extra:
            got = " and ".join(
                f"{which} {comma_list(some)}"
                for which, some in (("none called", absent), ("unknown", extra))
                if some
            )
            remedy = "Add or rename the first." if absent else ""
            remedy += " Drop the unknown ones." if extra else ""
            raise invalid("X", "have the columns of training", got, remedy.strip())
        return [at[n] for n in known]

    def _finite(self, codes: Array) -> Array:
        infinite = np.isinf(codes)
        if infinite.any():
            j = int(infinite.any(0).argmax())
            raise invalid(
                "X",
                "be finite",
                f"infinity in column {_label(j, self.columns[j].name)}",
                "Missing values are NaN; cap or drop others.",
            )
        return codes


def _filled(shape: tuple[int, ...]) -> None:
    """Require rows and columns, in the words that scikit-learn's checks expect."""
    for n, what, kind in zip(shape, ("rows", "columns"), ("sample", "feature"), strict=True):
        got = f"0 {kind}(s) (shape={tuple(shape)}) while a minimum of 1 is required"
        require(n, "X", f"have {what}", got)


def _describe(
    values: Values, label: str, name: str | None, declared: bool, remarks: Remarks
) -> Column:
    """Return the description of a column of a frame."""
    kind = kind_of(values, label)
    if kind in "biuf" and not declared:
        gap = bool(np.isnan(floats(values)).any())
        return Column(name, "numeric", (), gap) if kind != "b" else _boolean(name, gap)
    index, found = factorize(values, label)
    gap = bool((index < 0).any())
    if found and all(isinstance(v, bool) for v in found):
        return _boolean(name, gap)
    counts = np.bincount(index[index >= 0], minlength=len(found))
    cells = read(found)
    if not declared and not deliberate(cells) and numeric(cells, counts):
        return Column(name, "numeric", (), gap or bool(cells.marks or cells.unreadable))
    kept = _kept(found, counts, label)
    if not declared and found:
        remarks.cells += _doubts(cells, counts, kept, label)
    unlisted = float(np.isin(index, kept, invert=True)[index >= 0].mean()) if found else 0.0
    categories = [cast(Category, found[i]) for i in kept]  # as `_kept` has checked
    with suppress(TypeError):  # text among numbers has no order but that of arrival
        categories = sorted(categories)
    return Column(name, "categorical", tuple(categories), gap, unlisted)


def _boolean(name: str | None, gap: bool) -> Column:
    return Column(name, "categorical", (False, True), gap)


def _kept(found: list[object], counts: Array, label: str) -> list[int]:
    """Return the positions of the categories to keep: the most frequent, in order of arrival."""
    frequent = np.sort(np.argsort(-counts, kind="stable")[:KEPT])
    if len(found) > KEPT:  # a value that occurs once may be a row's name: no category
        frequent = frequent[counts[frequent] > 1]
    for value in (found[i] for i in frequent):
        number = isinstance(value, int | float) and abs(value) < float("inf")
        got = f"{short_repr(value)} in column {label}"
        want, remedy = "hold finite numbers, booleans or text", "Convert it to numbers or text."
        require(number or isinstance(value, str), "X", want, got, remedy, TypeError)
    return frequent.tolist()


def _doubts(cells: Cells, counts: Array, kept: list[int], label: str) -> list[str]:
    """Return remarks on a column that is read as categories and may be meant otherwise."""
    example = quantities(cells, counts)
    if example:
        return [
            f"Column {label} is read as categories, because of cells such as {example}. If it "
            "holds quantities, write plain numbers, without units and with a decimal point."
        ]
    if not kept:
        return [
            f"Nothing is learned from column {label}: it holds {len(cells.values)} different "
            f"texts, such as {short_repr(cells.values[0])}, none of them twice. Drop it, or "
            "convert it to numbers (dates to days since a date)."
        ]
    return []


def _encode(values: Values, column: Column, label: str, remarks: Remarks) -> Array:
    """Return the values (N,) of one column as numbers."""
    kind = kind_of(values, label)
    if column.kind == "numeric" and kind in "biuf":
        return floats(values)
    index, found = factorize(values, label)
    if column.kind == "numeric":
        codes, messages = numbers(read(found), index, label)
        remarks.cells += messages
        return codes
    match, none = matcher(column.categories), len(column.categories)
    at = np.array([*map(match, found), -1])[index]  # index -1, missing, is the last
    _note_unseen(column, label, at, [v for v in found if match(v) == none], remarks)
    return np.where(at < 0, np.nan, at)


def _note_unseen(
    column: Column, label: str, at: Array, unseen: list[object], remarks: Remarks
) -> None:
    """Remark on unseen categories, if they are more than a few."""
    n_unseen, present = int((at == len(column.categories)).sum()), int((at >= 0).sum())
    if n_unseen < UNSEEN_ROWS or n_unseen <= (UNSEEN + 2 * column.unlisted) * present:
        return
    many = f"Most rows of column {label} ({n_unseen} of {present}) hold"
    some = f"{n_unseen} of {present} rows of column {label} hold"
    known = f", such as {short_repr(column.categories[0])}" if column.categories else ""
    remarks.unseen.append(
        f"{many if 2 * n_unseen > present else some} categories that training never saw, such as "
        f"{comma_list(unseen, 3)}: they are encoded as none of the known ones{known}. Check their "
        "spelling, or fit on rows that hold them."
    )


def _label(j: int, name: str | None) -> str:
    return str(j) if name is None else repr(name)
