"""The commands `scroll bench` and `scroll records` (entry-point group `scroll.commands`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scroll.cli.usage import refuse

RESULTS, TABLES = Path("results"), Path("tables")


@contextmanager
def _one_line() -> Iterator[None]:
    """Errors that a user can mend, as one line on stderr with exit code 2."""
    try:
        yield
    except (ImportError, OSError, ValueError) as error:
        refuse(str(error))
    except (MemoryError, RuntimeError) as error:  # a device or a worker that gave up
        refuse(f"{error}\nThe records so far are kept: the same command continues from there.")


Name = Annotated[
    str,
    typer.Argument(
        help="Name of the experiment. `list` shows all; `report` writes docs/results.md."
    ),
]
Sets = Annotated[
    str,
    typer.Option(help="Data sets, separated by commas: names, or your own files: mine.csv:target."),
]
Methods = Annotated[str, typer.Option(help="Methods, separated by commas.")]
Seeds = Annotated[str, typer.Option(help="Random seeds of the splits: 5-24, or 5,6,9.")]
Device = Annotated[str, typer.Option(help="cpu or cuda. Default: cuda if available.")]
Quick = Annotated[bool, typer.Option("--quick", help="Run a small part, in minutes.")]
Compare = Annotated[bool, typer.Option("--compare", help="Show the paper's numbers beside ours.")]
Dry = Annotated[
    bool, typer.Option("--tables", help="Train nothing; print the tables from the records.")
]
Data = Annotated[Path | None, typer.Option(help="Folder with the data sets.")]
Records = Annotated[Path, typer.Option(help="Folder of the records.")]
Output = Annotated[
    Path,
    typer.Option("--output", "-o", help="Folder for CSV and Markdown; for `report`, the file."),
]
Workers = Annotated[int, typer.Option(help="Worker processes; one per core on a CPU by default.")]
Engine = Annotated[
    str, typer.Option(help="local, or a cluster: dask:tcp://HOST:8786, ray:HOST:6379.")
]
Download = Annotated[
    bool, typer.Option("--download", help="Allow downloading the weights of encoders.")
]


def bench(
    experiment: Name,
    sets: Sets = "",
    methods: Methods = "",
    seeds: Seeds = "",
    device: Device = "",
    quick: Quick = False,
    compare: Compare = False,
    tables: Dry = False,
    data: Data = None,
    results: Records = RESULTS,
    output: Output = TABLES,
    workers: Workers = 0,
    engine: Engine = "local",
    download: Download = False,
) -> None:
    """Reproduce a table of the paper: run the missing experiments and print it."""
    with _one_line():
        from . import command
        from .tables.experiment import Request

        request = Request(
            command.words(sets), command.words(methods), command.numbers(seeds), device, quick,
            compare, tables, data, results, output, workers, engine, download,
        )  # fmt: skip
        command.bench(experiment, request, Console(), Console(stderr=True))


def records(
    files: Annotated[list[Path], typer.Argument(help="Record files to add.")],
    into: Annotated[Path, typer.Option(help="Folder to append to.")] = RESULTS,
    supersede: Annotated[
        bool,
        typer.Option(
            "--supersede",
            help="Replace records of the same fit; the older ones move to readings/.",
        ),
    ] = False,
) -> None:
    """Merge record files: append the records that the folder does not have yet."""
    with _one_line():
        from .tables import records as tool

        other = tool.differing(files, into)
        added = tool.merge(files, into)
        for line in tool.skipped([p for file in files for p in tool.load(file).problems]):
            typer.echo(line, err=True)
        typer.echo(f"{added} records added to {into}")
        if other and supersede:
            replaced = tool.supersede(other, into)
            typer.echo(f"{replaced} records replaced; the older ones are in {into}/readings")
        elif other:
            typer.echo(
                f"{len(other)} records left out: {into} has other results of the same fits, and "
                "the first record stands. --supersede moves the older ones to readings/."
            )
