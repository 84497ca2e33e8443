"""docs/results.md: every table beside the paper's, generated from the records."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from .deep.endtoend import END_TO_END, shown
from .grid.experiments import EXPERIMENTS, Experiment
from .grid.plan import missing
from .tables import published, records
from .tables.builders import Scope
from .tables.selection import Index
from .tables.table import Label, Table, path, to_markdown


def report(results: Path) -> str:
    """The page, from the records in a folder alone."""
    found = records.load(results).records
    index, done = Index(found), records.done(found)
    scopes = {name: _complete(experiment, done) for name, experiment in EXPERIMENTS.items()}
    parts = {
        name: EXPERIMENTS[name].tables(index, scope) if scope.sets else []
        for name, scope in scopes.items()
    }
    about = {
        name: f"{EXPERIMENTS[name].about}; "
        + (f"{len(scope.seeds)} seeds" if scope.sets else "no set is complete yet")
        for name, scope in scopes.items()
    }
    for name, deep in END_TO_END.items():
        parts[name] = shown(name, results, None)
        about[name] = deep.about
    lines = [_remark("introduction"), "", *_summary(parts)]
    for name, tables in parts.items():
        lines += ["", f"## {name}", "", f"`scroll bench {name}`: {about[name]}."]
        for table in tables:
            lines += ["", *_section(table)]
        if words := _remark(name):
            lines += ["", words]
    return "\n".join(lines) + "\n"


def _complete(experiment: Experiment, done: set[str]) -> Scope:
    """The sets on which every row has ten seeds, or all, and the seeds that they share."""
    seeds = {
        name: {
            seed
            for seed in experiment.seeds
            if not missing(experiment.works(Scope((name,), (seed,))), done)
        }
        for name in experiment.sets
    }
    enough = min(10, len(experiment.seeds))
    sets = tuple(name for name, found in seeds.items() if len(found) >= enough)
    return Scope(sets, tuple(sorted(set(experiment.seeds).intersection(*(seeds[s] for s in sets)))))


def _summary(parts: dict[str, list[Table]]) -> Iterator[str]:
    yield "| table | figures | agree |"
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
    yield "<details><summary>Beside the paper</summary>"
    yield ""
    yield to_markdown(replace(beside, title="", note="")).strip()
    yield ""
    yield "</details>"
    yield ""
    found = published.agreements(table)
    apart = [a for a in found if not a.agrees]
    yield f"{len(found) - len(apart)} of {len(found)} figures agree with the paper's."
    if apart:
        yield (
            "Apart: "
            + "; ".join(
                f"{_name(a.row)} on {a.column} {a.ours:.3f} (paper {a.paper:.3f})" for a in apart
            )
            + "."
        )


def _name(label: Label) -> str:
    return ", ".join(path(label))


def _remark(name: str) -> str:
    """What a person has to say about an experiment, from `remarks/`; it may be nothing."""
    file = files("scroll_paper") / "remarks" / f"{name}.md"
    return file.read_text("utf-8").strip() if file.is_file() else ""
