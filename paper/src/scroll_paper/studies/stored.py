"""Tables of studies as strict JSON: results/studies/NAME.json, written whole by each full run."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scroll._core.checks import invalid
from scroll._core.files import write

from ..tables.records import Record
from ..tables.table import Cell, Label, Table, path

_SHOWN = ("mean", "se", "count", "mark", "digits", "signed", "star")


def file_of(folder: Path, name: str) -> Path:
    """Return the file of a study's tables in a folder of records."""
    return folder / "studies" / f"{name}.json"


def save(file: Path, tables: Sequence[Table], made: Record) -> None:
    """Write tables to a file, in place of those that it held.

    Args:
        file: that `load` reads.
        tables: of one study; values by seed are not kept.
        made: how they were made: seconds, device and versions.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"tables": [_plain(table) for table in tables], **made}
    write(file, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def load(file: Path) -> list[Table]:
    """Read the tables of a file; none if there is no file."""
    if not file.exists():
        return []
    try:
        return [_table(entry) for entry in json.loads(file.read_text("utf-8"))["tables"]]
    except (KeyError, TypeError, ValueError) as error:
        remedy = "Remove it and run the study again."
        raise invalid(str(file), "hold tables of a study", error, remedy) from error


def _plain(table: Table) -> Record:
    return {
        "name": table.name,
        "title": table.title,
        "columns": list(table.columns),
        "show_se": table.show_se,
        "note": table.note,
        "given": list(table.given),
        "blocks": [
            [[list(path(label)), {c: _entry(cell) for c, cell in row.items()}] for label, row in b]
            for b in (block.items() for block in table.blocks)
        ],
    }


def _entry(cell: Cell) -> Record:
    usual = Cell(None)
    shown = {name: getattr(cell, name) for name in _SHOWN}
    odd = {name: value for name, value in shown.items() if value != getattr(usual, name)}
    spelled = {k: str(x) for k, x in odd.items() if isinstance(x, float) and not math.isfinite(x)}
    return {**odd, **spelled}


def _table(entry: dict[str, Any]) -> Table:
    blocks = [{_label(levels): _row(row) for levels, row in block} for block in entry["blocks"]]
    return Table(**{**entry, "blocks": blocks})


def _label(levels: list[str]) -> Label:
    return levels[0] if len(levels) == 1 else tuple(levels)


def _row(row: dict[str, dict[str, Any]]) -> dict[str, Cell]:
    return {
        column: Cell(**{"mean": None, **fields, **_numbers(fields)})
        for column, fields in row.items()
    }


def _numbers(fields: dict[str, Any]) -> dict[str, float]:
    """Read the numbers that are not finite."""
    return {k: float(fields[k]) for k in ("mean", "se") if isinstance(fields.get(k), str)}
