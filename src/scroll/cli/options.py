"""The options of the commands with their help texts, and readers of lists between commas."""

from pathlib import Path
from typing import Annotated, TypeAlias

from typer import Argument, Option

from .._core.checks import require

# several commands
Model: TypeAlias = Annotated[Path, Argument(help="Model file written by scroll fit.")]
Json: TypeAlias = Annotated[bool, Option("--json", help="Print the result as one JSON object.")]

# scroll demo
Picture: TypeAlias = Annotated[
    Path | None,
    Option("--output", "-o", help="File for the picture: .png, .pdf or .svg. Default: demo.png."),
]

# scroll fit
Train: TypeAlias = Annotated[
    Path, Argument(help="Training table: .csv, .csv.gz, .tsv, .tsv.gz or .parquet.")
]
Target: TypeAlias = Annotated[str, Option(help="Target column. Several numeric columns: a,b.")]
ModelOutput: TypeAlias = Annotated[
    Path, Option("--output", "-o", help="File to write the model to.")
]
Task: TypeAlias = Annotated[
    str,
    Option(
        help="regression, classification or auto. auto follows --likelihood, --ordered and "
        "--levels; otherwise it classifies text, categories and booleans, and regresses numbers."
    ),
]
Likelihood: TypeAlias = Annotated[
    str,
    Option(
        help="For numbers: gaussian (default); for counts poisson or negbinomial, or with extra "
        "zeros zip or zinb. For classes: ova (default), gaussreg or ordinal."
    ),
]
Members: TypeAlias = Annotated[
    int | None,
    Option(help="Networks per kind of body, each with a fold held out. Default: set by --recipe."),
]
Covariance: TypeAlias = Annotated[
    str,
    Option(help="Covariance of the last layer's weights: auto, full, lowrank, diag or none."),
]
Routing: TypeAlias = Annotated[
    str,
    Option(
        help="Belief to predict with: free (trained on the score), closed (the posterior), hybrid "
        "(posterior mean, free variance), or auto, which decides on held-out rows."
    ),
]
Recipe: TypeAlias = Annotated[
    str,
    Option(
        help="default; fast: seconds, for exploring; best: more networks, for those who can wait; "
        "paper: the settings of the paper."
    ),
]
Map: TypeAlias = Annotated[
    str,
    Option(
        "--map",
        help="Scale to train a numeric target on: identity, log, log1p, logit, or auto, which "
        "decides on held-out rows. Predictions keep the units of the table.",
    ),
]
Tails: TypeAlias = Annotated[
    str,
    Option(
        help="Tails of a numeric target: gaussian, student, lapse (a share of rows has larger "
        "errors), or auto, which decides on held-out rows."
    ),
]
Censored: TypeAlias = Annotated[
    str,
    Option(
        help="Column that marks censored targets: 1 if the true value is at least the target, -1 "
        "if at most, 0 if it is exact."
    ),
]
Body: TypeAlias = Annotated[
    str,
    Option(
        help="Network below the last layer: auto, smooth, deep, swell, waves, matern, linear, or "
        "the widths of its layers: 64,32."
    ),
]
Ordered: TypeAlias = Annotated[
    bool,
    Option("--ordered", help="The classes are ordered. Sorted order, unless --levels is given."),
]
Levels: TypeAlias = Annotated[
    str, Option(help="Ordered classes, from lowest to highest: low,mid,high.")
]
ClassWeight: TypeAlias = Annotated[
    str, Option(help="balanced: give every class the same total weight.")
]
Weight: TypeAlias = Annotated[str, Option(help="Column with one weight per row.")]
Drop: TypeAlias = Annotated[str, Option(help="Columns to leave out of the model: a,b.")]
HeldOut: TypeAlias = Annotated[
    Path | None,
    Option("--eval", help="Validation table for early stopping and model choice."),
]
Seed: TypeAlias = Annotated[
    int, Option(help="Random seed. The same seed and data give the same model.")
]
MaxSteps: TypeAlias = Annotated[
    int | None, Option(help="Maximum number of training steps. Default: set by --recipe.")
]
Quiet: TypeAlias = Annotated[bool, Option("--quiet", help="Show no progress and no summary.")]

# scroll predict
NewRows: TypeAlias = Annotated[
    Path, Argument(help="Table to predict. Columns are matched by name, in any order.")
]
TableOutput: TypeAlias = Annotated[
    Path | None,
    Option(
        "--output", "-o", help="File for the predictions. Default: print CSV to standard output."
    ),
]
Interval: TypeAlias = Annotated[
    float | None, Option(help="Coverage of the interval from lower to upper. Default: 0.9.")
]
Quantiles: TypeAlias = Annotated[
    str, Option(help="Add one column per quantile level, such as 0.05,0.5,0.95.")
]
Ood: TypeAlias = Annotated[
    bool, Option("--ood", help="Add the column ood_score: high for rows unlike the training rows.")
]
Keep: TypeAlias = Annotated[
    bool, Option("--keep", help="Copy the columns of the input table to the output.")
]

# scroll evaluate
Scored: TypeAlias = Annotated[Path, Argument(help="Table with the target column.")]
Renamed: TypeAlias = Annotated[
    str, Option(help="Target column in this table, if it has another name than in training.")
]
Plots: TypeAlias = Annotated[Path | None, Option(help="Folder for calibration plots.")]

# scroll export
Onnx: TypeAlias = Annotated[Path, Argument(help="File to write the ONNX model to.")]
OnnxQuantiles: TypeAlias = Annotated[str, Option(help="Quantile levels the ONNX model outputs.")]


def split_names(text: str) -> list[str]:
    """Return the names between commas, without empty ones."""
    return [name.strip() for name in text.split(",") if name.strip()]


def quantile_levels(text: str) -> list[float]:
    """Return the quantile levels between commas; refuse others than distinct ones in (0, 1)."""
    try:
        levels = [float(level) for level in split_names(text)]
    except ValueError:
        levels = []
    ok = levels and all(0 < q < 1 for q in levels) and len({*levels}) == len(levels)
    want = "be distinct levels strictly between 0 and 1, such as 0.05,0.5,0.95"
    require(ok, "--quantiles", want, repr(text))
    return levels
