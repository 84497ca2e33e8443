"""The command `scroll`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

FORMATS = (".png", ".pdf", ".svg")

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


def _refuse(message: str) -> None:
    """One readable line, exit code 2."""
    typer.echo(f"scroll: {message}", err=True)
    raise typer.Exit(2)
