"""`python -m scroll_paper bench ...` runs the commands from a source tree, not installed."""

import typer

from scroll.cli.usage import Commands

from .app import bench, records

app = typer.Typer(
    cls=Commands,
    help="Reproduce the tables and figures of the paper.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(bench)
app.command()(records)

if __name__ == "__main__":
    app(prog_name="python -m scroll_paper")
