"""A table of results as a value, and how it is rendered."""

import csv
import io
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from scroll._core.checks import one_of, require

from .significance import Values, marks

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Label = str | tuple[str, ...]  # ("SCROLL-Ens", "moment") takes two columns
STYLES = {"": "", "best": "bold", "tied": "italic", "top": "underline"}
MARKDOWN = {"": "{}", "best": "**{}**", "tied": "*{}*", "top": "<u>{}</u>"}


@dataclass(frozen=True)
class Cell:
    """A mean over seeds, its standard error, and how it is shown; without a mean, as "--".

    The values by seed are kept for paired tests (`scroll_paper.claims`); equal cells may differ in
    them.
    """

    mean: float | None
    se: float | None = None
    count: int = 0
    mark: str = ""
    digits: int = 3
    signed: bool = False
    star: bool = False
    values: Values = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        one_of("mark", self.mark, STYLES)


Cells = Mapping[Label, Mapping[str, Cell]]


@dataclass(frozen=True)
class Block:
    """Values by row, column and seed.

    Args:
        rows: the values; what is missing makes an empty cell.
        ranked: True, jointly with all other ranked blocks: best bold, tied italic; False, by
            itself: best underlined; None, not at all.
    """

    rows: Mapping[Label, Mapping[str, Values]]
    ranked: bool | None = True


@dataclass(frozen=True)
class Table:
    """Cells by row and column, with a rule between blocks of rows; those missing are empty.

    The note goes below. Columns in `given` hold numbers that were not measured: settings, counts.
    """

    name: str
    title: str
    columns: Sequence[str]
    blocks: Sequence[Cells]
    show_se: bool = False
    note: str = ""
    given: Collection[str] = ()


def path(label: Label) -> tuple[str, ...]:
    """Return the levels of a label."""
    return (label,) if isinstance(label, str) else label


def cell(
    values: Values, *, mark: str = "", digits: int = 3, signed: bool = False, star: bool = False
) -> Cell:
    """Return a cell with the mean, standard error std(ddof=1) / sqrt(n) and number n of values.

    Args:
        values: by seed.
        mark: of `STYLES`.
        digits: to show.
        signed: show the sign of positive numbers.
        star: show a star.
    """
    x, n = np.array(list(values.values()), float), len(values)
    with np.errstate(invalid="ignore"):  # inf - inf, if a run diverged
        mean = float(x.mean()) if n else None
        se = float(x.std(ddof=1)) / math.sqrt(n) if n > 1 else None
    return Cell(mean, se, n, mark, digits, signed, star, values)


def table(
    name: str,
    title: str,
    columns: Sequence[str],
    blocks: Sequence[Block],
    *,
    show_se: bool = False,
    digits: int = 3,
    counts: Collection[str] = (),
    greatest: Collection[str] = (),
    note: str = "",
) -> Table:
    """Return the table of `blocks`, with the best of each column marked.

    Args:
        name: of the table and of its files.
        title: above the table.
        columns: in order.
        blocks: rows of values.
        show_se: show standard errors.
        digits: of the means.
        counts: columns of whole numbers, which are given and not marked.
        greatest: columns in which the greatest mean is best; elsewhere the least is.
        note: below the table.
    """
    labels = [path(label) for block in blocks for label in block.rows]
    require(len(set(labels)) == len(labels), "blocks", "name each row once", labels)
    cells: list[dict[Label, dict[str, Cell]]] = [{k: {} for k in b.rows} for b in blocks]
    for column in columns:
        ranks, places = ({}, 0)
        if column not in counts:
            ranks, places = _ranks(blocks, column, column in greatest), digits
        for block, out in zip(blocks, cells, strict=True):
            for label, row in block.rows.items():
                values, mark = row.get(column, {}), ranks.get(label, "")
                out[label][column] = cell(values, mark=mark, digits=places)
    return Table(name, title, columns, cells, show_se, note, tuple(counts))


def to_rich(table: Table) -> "RichTable":
    """Return the table for a terminal: best bold, tied italic, top underlined."""
    from rich.table import Table as RichTable
    from rich.text import Text

    title, caption = (Text(words) if words else None for words in (table.title, table.note))
    shown = RichTable(title=title, caption=caption)
    for column in _header(table):
        shown.add_column(Text(column), justify="right" if column else "left")
    for block in table.blocks:
        for labels, cells in _lines(table, block):
            texts = [Text.assemble((_number(c), STYLES[c.mark]), _error(table, c)) for c in cells]
            shown.add_row(*map(Text, labels), *texts)
        shown.add_section()
    return shown


def to_text(table: Table, *, styled: bool = True) -> str:
    """Return the text that a terminal shows, as wide as needed; `styled` adds escape codes."""
    from rich.console import Console

    out = io.StringIO()
    codes: Literal["standard"] | None = "standard" if styled else None  # whatever TERM says
    Console(file=out, color_system=codes, width=10_000, height=100).print(to_rich(table))
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def to_markdown(table: Table) -> str:
    """Return title, pipe table and note in Markdown: **best**, *tied*, <u>top</u>."""
    lines = [_header(table), ["---:" if column else "---" for column in _header(table)]]
    for block in table.blocks:
        for labels, cells in _lines(table, block):
            numbers = [MARKDOWN[c.mark].format(_number(c).replace("*", "\\*")) for c in cells]
            errors = [_error(table, c) for c in cells]
            lines.append([*labels, *map("".join, zip(numbers, errors, strict=True))])
    pipes = ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines]
    note = ["", table.note] if table.note else []
    return "\n".join([*([table.title, ""] if table.title else []), *pipes, *note]) + "\n"


def to_csv(table: Table) -> str:
    """Return CSV with one line per cell at full precision: row, column, mean, se, count, mark.

    The levels of a label are joined by " / "; a star is one more mark, "star".
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("row", "column", "mean", "se", "count", "mark"))
    for block in table.blocks:
        for label, row in block.items():
            for column in table.columns:
                c = row.get(column, Cell(None))
                mark = f"{c.mark}{' star' if c.star else ''}".strip()
                writer.writerow((" / ".join(path(label)), column, c.mean, c.se, c.count, mark))
    return out.getvalue()


def _ranks(blocks: Sequence[Block], column: str, greatest: bool) -> dict[Label, str]:
    """Return the marks of one column."""
    joint: dict[Label, Values] = {}
    tops: dict[Label, str] = {}
    sign = -1 if greatest else 1
    for block in blocks:
        part: dict[Label, Values] = {
            label: {seed: sign * x for seed, x in row.get(column, {}).items()}
            for label, row in block.rows.items()
        }
        if block.ranked:
            joint |= part
        elif block.ranked is False:
            tops |= {label: "top" for label, mark in marks(part).items() if mark == "best"}
    return tops | marks(joint)


def _header(table: Table) -> list[str]:
    depths = [len(path(label)) for block in table.blocks for label in block]
    return [""] * max(depths, default=1) + list(table.columns)


def _lines(table: Table, block: Cells) -> Iterator[tuple[list[str], list[Cell]]]:
    """Yield labels and cells of each row; a level that repeats the row above is left blank."""
    depth = len(_header(table)) - len(table.columns)
    above: tuple[str, ...] = ()
    for label, row in block.items():
        levels = path(label) + ("",) * (depth - len(path(label)))
        same = [levels[:i] == above[:i] for i in range(1, depth)]
        shown = ["" if s else level for s, level in zip([*same, False], levels, strict=True)]
        yield shown, [row.get(c, Cell(None)) for c in table.columns]
        above = levels


def _number(cell: Cell) -> str:
    """Return the mean in digits, with its star."""
    if cell.mean is None:
        return "--"
    mean = round(cell.mean, cell.digits) + 0.0  # no "-0.000"
    return f"{mean:{'+' if cell.signed else ''}.{cell.digits}f}{'*' if cell.star else ''}"


def _error(table: Table, cell: Cell) -> str:
    return f" ± {cell.se:.{cell.digits}f}" if table.show_se and cell.se is not None else ""
