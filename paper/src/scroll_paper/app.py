"""The commands `scroll bench` and `scroll records` (entry-point group `scroll.commands`)."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scroll.cli.usage import refuse

RESULTS, TABLES, REPORT = Path("results"), Path("tables"), Path("docs/results.md")


def bench(
    experiment: Annotated[
        str, typer.Argument(help="Its name; `list` shows all, `report` writes them up.")
    ],
    sets: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = "",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "",
    seeds: Annotated[str, typer.Option(help="Seeds: 5-24, or 5,6,9.")] = "",
    device: Annotated[str, typer.Option(help="cpu or cuda; the best there is by default.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="A small part, in minutes.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Beside the paper's.")] = False,
    dry: Annotated[bool, typer.Option("--tables", help="Train nothing; tables only.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with the data sets.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of the records.")] = RESULTS,
    output: Annotated[Path, typer.Option("--output", "-o", help="For CSV and Markdown.")] = TABLES,
    workers: Annotated[int, typer.Option(help="Processes; on a CPU one a core by default.")] = 0,
    engine: Annotated[
        str, typer.Option(help="local, or a cluster: dask:tcp://HOST:8786, ray:HOST:6379.")
    ] = "local",
    download: Annotated[
        bool, typer.Option("--download", help="Let an encoder's weights be fetched.")
    ] = False,
) -> None:
    """Check a table of the paper: train what the records lack, print the table from them."""
    try:
        from . import command
        from .deep.endtoend import END_TO_END
        from .studies.registry import STUDIES

        if experiment == "list":
            command.listed(Console())
            return
        if experiment == "report":
            command.reported(results, REPORT if output == TABLES else output, Console())
            return
        errors = Console(stderr=True)
        if experiment in STUDIES:
            command.studied(
                experiment, output, quick, Console(), errors, sets=sets, methods=methods,
                seeds=seeds, device=device, compare=compare, tables=dry, data=data, workers=workers,
                engine="" if engine == "local" else engine, download=download,
            )  # fmt: skip
            return
        if experiment in END_TO_END:
            command.ended(
                experiment, methods, seeds, results, output, (Console(), errors), device=device,
                data=data, compare=compare, dry=dry, sets=sets, quick=quick, workers=workers,
                engine="" if engine == "local" else engine, download=download,
            )  # fmt: skip
            return
        asked = command.asked(experiment, sets, methods, seeds, quick, data)
        if not dry:
            command.trained(
                experiment, asked, results, device, data, workers, errors, engine, download
            )
        told = errors if dry else None  # training has said it
        command.shown(experiment, asked, results, output, compare, Console(), told)
    except (ImportError, OSError, ValueError) as error:
        refuse(str(error))
    except (MemoryError, RuntimeError) as error:  # a device or a worker that gave up
        refuse(f"{error}\nWhat was recorded is kept: the same command goes on from there.")


def records(
    files: Annotated[list[Path], typer.Argument(help="Record files from elsewhere.")],
    into: Annotated[Path, typer.Option(help="The folder to append to.")] = RESULTS,
) -> None:
    """Append the records of other files that are not there yet."""
    try:
        from .tables.records import load, merge, skipped

        added = merge(files, into)
        for line in skipped([p for file in files for p in load(file).problems]):
            typer.echo(line, err=True)
        typer.echo(f"{added} records added to {into}")
    except (OSError, ValueError) as error:
        refuse(str(error))
