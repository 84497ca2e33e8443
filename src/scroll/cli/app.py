"""The command `scroll`."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..training.progress import clock, ticking
from .plugins import add_commands
from .usage import Commands, refuse

FORMATS = (".png", ".pdf", ".svg")
LONG = 1000  # characters of a value that are printed for people; --json prints them all
Model = Annotated[Path, typer.Argument(help="A model that scroll fit has written.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

app = typer.Typer(
    cls=Commands,
    help="Honest predictive distributions from a neural network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from .._core.versions import __version__

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
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the picture: demo.png.")
    ] = None,
) -> None:
    """Fit two small data sets by both routes: print their scores, draw a picture."""
    wanted, output = output is not None, output or Path("demo.png")
    if not output.parent.is_dir():
        refuse(
            f"`--output` must lie in a folder that exists, but got {output}. "
            f"Create {output.parent} first."
        )
    if output.suffix not in FORMATS:
        refuse(f"`--output` must end in {', '.join(FORMATS)}, but got {output.name}.")
    try:
        from .demo import run

        if wanted:
            from ..integrations.plots import pyplot

            pyplot()  # refuse now, not after the work
        run(output, Console())
    except (ImportError, OSError, ValueError) as error:
        refuse(str(error))


@app.command()
def fit(
    train: Annotated[Path, typer.Argument(help="A table: .csv, .csv.gz, .tsv or .parquet.")],
    target: Annotated[str, typer.Option(help="Its column to predict; several numbers: a,b.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
    task: Annotated[
        str,
        typer.Option(
            help="regression or classification; auto goes by --likelihood, then classifies a "
            "target of text, categories or booleans, and regresses numbers."
        ),
    ] = "auto",
    likelihood: Annotated[
        str,
        typer.Option(
            help="gaussian, poisson or negbinomial; of classes ova, gaussreg or ordinal. The "
            "first by default."
        ),
    ] = "",
    members: Annotated[
        int | None, typer.Option(help="Networks in the ensemble: 1 for numbers, 5 for classes.")
    ] = None,
    covariance: Annotated[str, typer.Option(help="auto, full, diag, lowrank or none.")] = "auto",
    routing: Annotated[str, typer.Option(help="auto, free, closed or hybrid.")] = "auto",
    recipe: Annotated[str, typer.Option(help="default or paper.")] = "default",
    body: Annotated[
        str, typer.Option(help="auto, smooth, swell, waves, matern, linear, or widths.")
    ] = "auto",
    ordered: Annotated[
        bool, typer.Option("--ordered", help="The classes have an order, by default their sorting.")
    ] = False,
    levels: Annotated[str, typer.Option(help="That order, lowest first: low,mid,high.")] = "",
    class_weight: Annotated[
        str, typer.Option(help="balanced: rare classes weigh as much as frequent ones.")
    ] = "",
    weight: Annotated[str, typer.Option(help="Column with the rows' weights.")] = "",
    drop: Annotated[str, typer.Option(help="Columns not to learn from, by commas.")] = "",
    held: Annotated[
        Path | None, typer.Option("--eval", help="A table to stop and choose by.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same model.")] = 0,
    max_steps: Annotated[
        int | None, typer.Option(help="Training steps, at most; the recipe's own by default.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
    as_json: Json = False,
) -> None:
    """Fit a model to a table and write it to one file."""
    bar = sys.stdout.isatty() and not quiet and not as_json
    with _readable(), nullcontext() if bar or quiet else ticking(_still_fitting):
        from . import tabular

        found = tabular.fit(
            train, target, output, _note, task=task, likelihood=likelihood, n_members=members,
            covariance=covariance, routing=routing, recipe=recipe, body=body, ordered=ordered,
            levels=levels, class_weight=class_weight, weight=weight, drop=drop, held=held,
            random_state=seed, max_steps=max_steps,
            verbose=int(bar),
        )  # fmt: skip
        if as_json or not quiet:
            _show(found, as_json)


@app.command()
def predict(
    model: Model,
    table: Annotated[Path, typer.Argument(help="New rows; columns are found by name.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; else CSV is printed.")
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Coverage of lower and upper, 0.9 by default.")
    ] = None,
    quantiles: Annotated[str, typer.Option(help="Further columns, such as 0.05,0.5.")] = "",
    ood: Annotated[bool, typer.Option("--ood", help="Say how strange each row is.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the table's own columns.")] = False,
) -> None:
    """Predict new rows: mean, std and interval, or a class and its probabilities."""
    with _readable():
        from . import table_files, tabular

        if output is not None:
            table_files.free(output, model, table, table=True)
        options: dict[str, Any] = {"interval": interval, "quantiles": quantiles}
        options["typed"] = output is not None and output.suffix == ".parquet"
        found = tabular.predict(model, table, _note, ood=ood, keep=keep, **options)
        if output is None:
            typer.echo(table_files.text(found), nl=False)
        else:
            table_files.write(found, output)


@app.command()
def evaluate(
    model: Model,
    table: Annotated[Path, typer.Argument(help="Rows with the target.")],
    target: Annotated[str, typer.Option(help="Where it has another name.")] = "",
    plots: Annotated[Path | None, typer.Option(help="Folder for pictures.")] = None,
    as_json: Json = False,
) -> None:
    """Score a model on a table that holds the target."""
    with _readable():
        from . import tabular

        _show(tabular.evaluate(model, table, _note, target=target, plots=plots), as_json)


@app.command()
def export(
    model: Model,
    output: Annotated[Path, typer.Argument(help="Where to write the ONNX graph.")],
    quantiles: Annotated[str, typer.Option(help="That the graph gives.")] = "0.05,0.5,0.95",
) -> None:
    """Write a model as an ONNX graph."""
    with _readable():
        from . import tabular

        tabular.export(model, output, quantiles)


@app.command()
def info(model: Model, as_json: Json = False) -> None:
    """Say what a model knows: its task, columns, members and scores."""
    with _readable():
        from . import tabular

        _show(tabular.info(model), as_json)


@contextmanager
def _readable() -> Iterator[None]:
    """Errors as one line; a reader that has gone away is no error of ours."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ImportError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        refuse(" ".join(str(error).split()))


def _note(message: str) -> None:
    typer.echo(f"note: {' '.join(message.split())}", err=True)


def _still_fitting(seconds: float) -> None:
    _note(f"still fitting after {clock(seconds)}")


def _show(found: dict[str, Any], as_json: bool) -> None:
    typer.echo(json.dumps(found, allow_nan=False) if as_json else _lines(found))


def _lines(found: dict[str, Any], indent: str = "") -> str:
    """Names and values, one a line, as a person reads them."""
    out, width = [], max(map(len, found), default=0)
    for name, value in found.items():
        if isinstance(value, dict):
            out += [f"{indent}{name}", _lines(value, f"{indent}  ")]
        elif name == "columns" and isinstance(value, list):
            out += [f"{indent}{name}", *(f"{indent}  {_column(column)}" for column in value)]
        else:
            some = ", ".join(map(str, value)) if isinstance(value, list) else value
            text = f"{some + 0.0:.4g}" if isinstance(some, float) else str(some)  # no -0
            text = f"{text[:LONG]} ..." if len(text) > LONG else text
            out.append(f"{indent}{name.replace('_', ' '):{width}}  {text}")
    return "\n".join(out)


def _column(column: dict[str, Any]) -> str:
    kinds = f", {len(column['categories'])} kinds" if column["categories"] else ""
    gaps = ", with gaps" if column["missing"] else ""
    return f"{column['name'] or '(no name)'}  {column['kind']}{kinds}{gaps}"


add_commands(app)
