"""docs/results.md: every table beside the paper's, generated from the records."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from .registry import EXPERIMENTS
from .tables import published
from .tables.experiment import Results
from .tables.table import Label, Table, path, to_markdown


def report(folder: Path) -> str:
    """Return the page, from the records in a folder alone."""
    results = Results(folder)
    every = {name: experiment.report(results) for name, experiment in EXPERIMENTS.items()}
    sections = {name: section for name, section in every.items() if section is not None}
    lines = [_remark("introduction"), "", *_summary({n: s.tables for n, s in sections.items()})]
    for name, section in sections.items():
        lines += ["", f"## {name}", "", f"`scroll bench {name}`: {section.about}."]
        for table in section.tables:
            lines += ["", *_section(table)]
        if words := _remark(name):
            lines += ["", words]
    return "\n".join(lines) + "\n"


def _summary(parts: dict[str, list[Table]]) -> Iterator[str]:
    yield "| table | numbers | agree |"
    yield "|---|---:|---:|"
    for name, tables in parts.items():
        for table in (t for t in tables if t.name in published.names()):
            found = published.agreements(table)
            yield f"| {name}: {table.name} | {len(found)} | {sum(a.agrees for a in found)} |"


def _section(table: Table) -> Iterator[str]:
    yield f"### {table.title} (`{table.name}`)"
    yield ""
    yield to_markdown(replace(table, title="")).strip()
    if table.name not in published.names():
        return
    beside = published.beside(table)
    yield ""
    yield "<details><summary>Compared with the paper</summary>"
    yield ""
    yield to_markdown(replace(beside, title="", note="")).strip()
    yield ""
    yield "</details>"
    yield ""
    found = published.agreements(table)
    apart = [a for a in found if not a.agrees]
    yield f"{len(found) - len(apart)} of {len(found)} numbers agree with the paper's."
    if apart:
        yield (
            "Different: "
            + "; ".join(
                f"{_name(a.row)} on {a.column} {a.ours:.3f} (paper {a.paper:.3f})" for a in apart
            )
            + "."
        )


def _name(label: Label) -> str:
    return ", ".join(path(label))


def _remark(name: str) -> str:
    """Return the remark on an experiment from `remarks/`, or an empty text."""
    file = files("scroll_paper") / "remarks" / f"{name}.md"
    return file.read_text("utf-8").strip() if file.is_file() else ""
