"""What `scroll bench` does: words in, progress on the way, tables out."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from scroll._core.checks import must, one_of, refusal
from scroll._core.files import write
from scroll.training.progress import progress

from .deep import endtoend
from .deep.endtoend import END_TO_END
from .grid import run
from .grid.engines import engine as named
from .grid.experiments import EXPERIMENTS
from .report import report
from .studies.registry import STUDIES
from .tables import published
from .tables.builders import Scope
from .tables.table import Table, to_csv, to_markdown, to_rich, to_text

if TYPE_CHECKING:
    from rich.console import Console


def listed(console: "Console") -> None:
    """All experiments, with what each asks."""
    every: dict[str, Any] = {**EXPERIMENTS, **END_TO_END, **STUDIES}
    for name, experiment in every.items():
        console.print(f"[bold]{name:17}[/bold] {experiment.about}", soft_wrap=True)


def asked(
    experiment: str, sets: str, methods: str, seeds: str, quick: bool, data: Path | None = None
) -> Scope:
    """The scope in a user's words."""
    one_of("experiment", experiment, [*EXPERIMENTS, *END_TO_END, *STUDIES, "list", "report"])
    folder = None if data is None else str(data)
    return run.scope(experiment, _words(sets), _words(methods), _seeds(seeds), quick, folder)


def trained(
    experiment: str,
    scope: Scope,
    results: Path,
    device: str,
    data: Path | None,
    workers: int,
    console: "Console",
    engine: str = "local",
    download: bool = False,
) -> None:
    """Train what is missing, with its progress on `console`."""
    cluster = named(engine)
    where = _device(device)
    must(data is None or data.is_dir(), "data", "be a folder", data, error=FileNotFoundError)
    folder = None if data is None else str(data)
    must(workers >= 0, "workers", "be zero or more", workers)
    must(
        cluster.local or not workers, "workers", f"be left out with --engine {engine}", workers,
        "A cluster has as many as it has.",
    )  # fmt: skip
    run.train(
        experiment,
        scope,
        results,
        torch.device(where),
        folder,
        workers=workers or ((os.cpu_count() or 1) if where == "cpu" else 1),
        say=partial(console.out, highlight=False),
        watch=lambda work: progress(console, work.fits),
        engine=cluster,
        download=download,
    )


def _device(given: str) -> str:
    """The device asked for, or the best there is."""
    where = given or ("cuda" if torch.cuda.is_available() else "cpu")
    one_of("device", where, ("cpu", "cuda"))
    must(
        where == "cpu" or torch.cuda.is_available(), "device", "be one that is there", repr(where),
        "Use --device cpu.",
    )  # fmt: skip
    return where


def ended(
    name: str,
    methods: str,
    seeds: str,
    results: Path,
    output: Path,
    consoles: "tuple[Console, Console]",
    *,
    device: str,
    data: Path | None,
    compare: bool,
    dry: bool,
    **other: object,
) -> None:
    """Train the networks of a table end to end, if they are lacking, and print it.

    `other` are options of the experiments that train stacks, which these networks do not have.
    """
    for option, given in other.items():
        must(not given, f"--{option}", f"be left out for {name!r}", given)
    say = partial(consoles[1].out, highlight=False)
    if not dry:
        where = torch.device(_device(device))
        endtoend.train(name, results, _words(methods), _seeds(seeds), data, where, say)
    found = endtoend.shown(name, results, _seeds(seeds), _words(methods))
    _tables(found, output, compare, consoles[0])


def shown(
    experiment: str,
    scope: Scope,
    results: Path,
    output: Path,
    compare: bool,
    console: "Console",
    errors: "Console | None" = None,
) -> None:
    """Print the tables, and write each as CSV and Markdown; on `errors`, the lines skipped."""
    say = partial(errors.out, highlight=False) if errors else None
    _tables(run.tables(experiment, scope, results, say), output, compare, console)


def _tables(tables: "list[Table]", output: Path, compare: bool, console: "Console") -> None:
    for table in tables:
        beside = published.beside(table) if compare else table
        _print(console, beside)
        _write(output / f"{table.name}.csv", to_csv(table))
        _write(output / f"{table.name}.md", to_markdown(beside))
    console.out(f"Written to {output}/ as CSV and Markdown.", highlight=False)


def studied(
    name: str,
    output: Path,
    quick: bool,
    console: "Console",
    errors: "Console",
    **other: object,
) -> None:
    """Run a study; print its tables and write them beside its pictures.

    `other` are options of the experiments that keep records, which a study does not have.
    """
    for option, given in other.items():
        must(not given, f"--{option}", f"be left out for the study {name!r}", given)
    output.mkdir(parents=True, exist_ok=True)
    for table in STUDIES[name].run(output, quick, partial(errors.out, highlight=False)):
        _print(console, table)
        _write(output / f"{table.name}.csv", to_csv(table))
        _write(output / f"{table.name}.md", to_markdown(table))
    console.out(f"Written to {output}/.", highlight=False)


def reported(results: Path, page: Path, console: "Console") -> None:
    """Write all tables beside the paper's onto one page."""
    _write(page, report(results))
    console.print(f"Written to {page}", highlight=False)


def _print(console: "Console", table: Table) -> None:
    """As wide as it is, where no screen ends."""
    if console.is_terminal:
        console.print(to_rich(table))
    else:
        console.out(to_text(table, styled=False), highlight=False)


def _write(path: Path, text: str) -> None:
    """Write a text file and its folder, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, text.encode())


def _words(text: str) -> list[str] | None:
    """What stands between commas; nothing is None."""
    return [word.strip() for word in text.split(",") if word.strip()] if text else None


def _seeds(text: str) -> list[int] | None:
    """5-24, or 5,6,9; nothing is None."""
    if not text:
        return None
    found: list[int] = []
    try:
        for part in filter(None, text.split(",")):
            low, _, high = part.partition("-")
            found += range(int(low), int(high or low) + 1)
    except ValueError:
        raise refusal("seeds", "read like 5-24 or 5,6,9", repr(text)) from None
    return found
