"""docs/results.md: the claims of the paper and its tables beside ours, from the records."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from .claims.claim import Evidence
from .claims.lists import CLAIMS
from .claims.page import page
from .prose import fill
from .registry import EXPERIMENTS
from .tables import published
from .tables.experiment import Results
from .tables.table import Label, Table, path, to_markdown


def report(folder: Path) -> str:
    """Return the page, from the records in a folder alone."""
    results = Results(folder)
    every = {name: experiment.report(results) for name, experiment in EXPERIMENTS.items()}
    sections = {name: section for name, section in every.items() if section is not None}
    evidence = Evidence(table for section in sections.values() for table in section.tables)
    lines = [remark("introduction", evidence), "", "## Claims", "", *page(CLAIMS, evidence)]
    lines += ["", "## Agreement", "", *agreement({n: s.tables for n, s in sections.items()})]
    lines += ["", remark("protocol", evidence)]
    for name, section in sections.items():
        lines += ["", f"## {name}", "", f"`scroll bench {name}`: {section.about}."]
        for table in section.tables:
            lines += ["", *_section(table)]
        if words := remark(name, evidence):
            lines += ["", words]
    return "\n".join(lines) + "\n"


def agreement(parts: Mapping[str, list[Table]]) -> Iterator[str]:
    """Yield the lines of the table that counts, per table, the numbers that agree.

    Args:
        parts: tables by experiment.
    """
    yield "| table | measured numbers | agree | |"
    yield "|---|---:|---:|---:|"
    total, right = 0, 0
    for name, tables in parts.items():
        for table in (t for t in tables if t.name in published.names()):
            found = published.agreements(table)
            agree = sum(a.agrees for a in found)
            total, right = total + len(found), right + agree
            yield _count(f"[{name}](#{name}): {table.name}", len(found), agree)
    yield _count("all (rows that stand in two tables count twice)", total, right)


def _count(name: str, found: int, agree: int) -> str:
    share = f"{100 * agree / found:.0f} %" if found else "--"
    return f"| {name} | {found} | {agree} | {share} |"


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


def remark(name: str, evidence: Evidence) -> str:
    """Return the remark on an experiment from `remarks/`, filled in, or an empty text.

    Args:
        name: of the experiment.
        evidence: the tables of the report.
    """
    file = files("scroll_paper") / "remarks" / f"{name}.md"
    return fill(file.read_text("utf-8").strip(), evidence) if file.is_file() else ""
