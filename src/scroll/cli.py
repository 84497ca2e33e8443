"""The command `scroll`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

FORMATS = (".png", ".pdf", ".svg")
RESULTS, TABLES, REPORT = Path("results"), Path("tables"), Path("docs/results.md")

app = typer.Typer(
    help="Honest predictive distributions from a neural network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from . import __version__

        typer.echo(f"scroll {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Honest predictive distributions from a neural network."""


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to draw.")] = Path(
        "demo.png"
    ),
) -> None:
    """Fit a toy and a small real table by both routes; print a table, draw a figure."""
    if not output.parent.is_dir():
        _refuse(
            f"`--output` must lie in a folder that exists, but got {output}. "
            f"Create {output.parent} first."
        )
    if output.suffix not in FORMATS:
        _refuse(f"`--output` must end in {', '.join(FORMATS)}, but got {output.name}.")
    try:
        from .demo import run

        run(output, Console())
    except (ImportError, OSError, ValueError) as error:
        _refuse(str(error))


@app.command()
def bench(
    experiment: Annotated[
        str, typer.Argument(help="Its name; `list` shows all, `report` writes them up.")
    ],
    sets: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = "",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "",
    seeds: Annotated[str, typer.Option(help="Seeds: 5-24, or 5,6,9.")] = "",
    device: Annotated[str, typer.Option(help="cpu or cuda; the best there is by default.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="A small part, in a minute.")] = False,
    compare: Annotated[bool, typer.Option("--compare", help="Beside the paper's.")] = False,
    dry: Annotated[bool, typer.Option("--tables", help="Train nothing; tables only.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with the data sets.")] = None,
    results: Annotated[Path, typer.Option(help="Folder of the records.")] = RESULTS,
    output: Annotated[Path, typer.Option("--output", "-o", help="For CSV and Markdown.")] = TABLES,
    workers: Annotated[int, typer.Option(help="Processes; on a CPU one a core by default.")] = 0,
) -> None:
    """Check a table of the paper: train what the records lack, print the table from them."""
    try:
        from .bench import command

        if experiment == "list":
            command.listed(Console())
            return
        if experiment == "report":
            command.reported(results, REPORT if output == TABLES else output, Console())
            return
        asked, errors = command.asked(experiment, sets, methods, seeds, quick), Console(stderr=True)
        if not dry:
            command.trained(experiment, asked, results, device, data, workers, errors)
        told = errors if dry else None  # training has said it
        command.shown(experiment, asked, results, output, compare, Console(), told)
    except (ImportError, OSError, ValueError) as error:
        _refuse(str(error))
    except (MemoryError, RuntimeError) as error:  # a device or a worker that gave up
        _refuse(f"{error}\nWhat was recorded is kept: the same command goes on from there.")


@app.command()
def records(
    files: Annotated[list[Path], typer.Argument(help="Record files from elsewhere.")],
    into: Annotated[Path, typer.Option(help="The folder to append to.")] = RESULTS,
) -> None:
    """Append the records of other files that are not there yet."""
    try:
        from .bench.records import load, merge, skipped

        added = merge(files, into)
        for line in skipped([p for file in files for p in load(file).problems]):
            typer.echo(line, err=True)
        typer.echo(f"{added} records added to {into}")
    except (OSError, ValueError) as error:
        _refuse(str(error))


def _refuse(message: str) -> None:
    """One readable line, exit code 2."""
    typer.echo(f"scroll: {message}", err=True)
    raise typer.Exit(2)
