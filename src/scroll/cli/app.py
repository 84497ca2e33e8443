"""The command `scroll`: its commands, and how their results are printed."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ..training.progress import clock, ticking
from . import options as o
from .plugins import add_commands
from .usage import Commands, refuse

FORMATS = (".png", ".pdf", ".svg")
LONG = 1000  # characters of a value that are printed for people; --json prints all of them

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
def demo(output: o.Picture = None) -> None:
    """Fit two small data sets in under a minute; print their scores and draw a picture."""
    picture = Path("demo.png") if output is None else output
    if not picture.parent.is_dir():
        refuse(
            f"`--output` must lie in a folder that exists, but got {picture}. "
            f"Create {picture.parent} first."
        )
    if picture.suffix not in FORMATS:
        refuse(f"`--output` must end in {', '.join(FORMATS)}, but got {picture.name}.")
    with _one_line_errors():
        from ..integrations.plots import pyplot
        from .demo import run

        if output is not None:
            pyplot()  # a picture that was asked for: refuse before the work, not after it
        run(picture, Console())


@app.command()
def fit(
    train: o.Train,
    target: o.Target,
    output: o.ModelOutput,
    task: o.Task = "auto",
    likelihood: o.Likelihood = "",
    members: o.Members = None,
    covariance: o.Covariance = "auto",
    routing: o.Routing = "auto",
    recipe: o.Recipe = "default",
    body: o.Body = "auto",
    target_map: o.Map = "auto",
    tails: o.Tails = "auto",
    censored: o.Censored = "",
    ordered: o.Ordered = False,
    levels: o.Levels = "",
    class_weight: o.ClassWeight = "",
    weight: o.Weight = "",
    drop: o.Drop = "",
    held_out: o.HeldOut = None,
    seed: o.Seed = 0,
    max_steps: o.MaxSteps = None,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
) -> None:
    """Fit a model to a table and write it to one file."""
    bar = sys.stdout.isatty() and not quiet and not as_json
    with _one_line_errors(), nullcontext() if bar or quiet else ticking(_still_fitting):
        from .fit import Request, fit_table

        request = Request(
            train, target, output, held_out, task, likelihood, ordered, levels, class_weight,
            weight, drop, seed, members, covariance, routing, recipe, body, max_steps,
            target_map, tails, censored,
        )  # fmt: skip
        found = fit_table(request, _note, show_bar=bar)
        if as_json or not quiet:
            _print(found, as_json)


@app.command()
def predict(
    model: o.Model,
    table: o.NewRows,
    output: o.TableOutput = None,
    interval: o.Interval = None,
    quantiles: o.Quantiles = "",
    ood: o.Ood = False,
    keep: o.Keep = False,
) -> None:
    """Predict new rows: mean, std and interval, or the class and its probabilities."""
    with _one_line_errors():
        from . import table_files
        from .predict import predict_table

        if output is not None:
            table_files.check_table_output(output, model, table)
        levels = o.quantile_levels(quantiles) if quantiles else []
        typed = output is not None and output.suffix == ".parquet"
        found = predict_table(model, table, _note, interval, levels, ood, keep, typed)
        if output is None:
            typer.echo(table_files.to_csv(found), nl=False)
        else:
            table_files.write(found, output)


@app.command()
def evaluate(
    model: o.Model,
    table: o.Scored,
    target: o.Renamed = "",
    censored: o.Censored = "",
    plots: o.Plots = None,
    as_json: o.Json = False,
) -> None:
    """Score a model on a table that holds the target."""
    with _one_line_errors():
        from .evaluate import evaluate_table

        found = evaluate_table(model, table, _note, o.split_names(target), plots, censored)
        _print(found, as_json)


@app.command()
def export(model: o.Model, output: o.Onnx, quantiles: o.OnnxQuantiles = "0.05,0.5,0.95") -> None:
    """Convert a model to ONNX."""
    with _one_line_errors():
        from .models import load_model
        from .table_files import check_output

        levels = o.quantile_levels(quantiles)
        check_output(output, model)
        load_model(model).export_onnx(output, tuple(levels))


@app.command()
def info(model: o.Model, as_json: o.Json = False) -> None:
    """Describe a model: its task, columns, members and held-out scores."""
    with _one_line_errors():
        from .models import describe_file

        _print(describe_file(model), as_json)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Print errors as one line with exit code 2; a closed pipe is not our error."""
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


def _print(found: Mapping[str, object], as_json: bool) -> None:
    typer.echo(json.dumps(found, allow_nan=False) if as_json else _lines(found))


def _lines(found: Mapping[str, object], indent: str = "") -> str:
    """Return names and values for people, one per line."""
    out, width = [], max(map(len, found), default=0)
    for name, value in found.items():
        if isinstance(value, dict):
            out += [f"{indent}{name}", _lines(value, f"{indent}  ")]
        elif name == "columns" and isinstance(value, list):
            out += [f"{indent}{name}", *(f"{indent}  {_column(column)}" for column in value)]
        else:
            out.append(f"{indent}{name.replace('_', ' '):{width}}  {_value(value)}")
    return "\n".join(out)


def _value(value: object) -> str:
    """Return a value as text: four digits, commas in lists, at most `LONG` characters."""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    if isinstance(value, float):
        text = f"{value + 0.0:.4g}"  # no -0
    return f"{text[:LONG]} ..." if len(text) > LONG else text


def _column(column: Mapping[str, Any]) -> str:
    """Return one column of a model as text: name, kind, number of categories, gaps."""
    kinds = f", {len(column['categories'])} kinds" if column["categories"] else ""
    gaps = ", with gaps" if column["missing"] else ""
    return f"{column['name'] or '(no name)'}  {column['kind']}{kinds}{gaps}"


add_commands(app)
