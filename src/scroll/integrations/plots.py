"""Plots of predictives and scores. Needs the extra `scroll-torch[plots]`.

Each function draws into `ax`, by default the current axes, and returns it. Data are tensors, arrays
or lists of N rows; of several outputs, give one at a time.
"""

from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core.checks import finite, positive_int, require
from .._core.files import write
from ..predictive import Distribution, Numeric
from ..predictive.metrics import LEVELS, calibration_error, coverage, step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Data = Tensor | ArrayLike
GREY = "0.6"


def pyplot() -> ModuleType:
    """Import and return matplotlib.pyplot."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise ImportError(
            "`matplotlib` must be installed to plot, but got none. "
            "Install it with pip install 'scroll-torch[plots]'."
        ) from missing
    return plt


def save(figure: "Figure", path: Path, dpi: int = 200) -> None:
    """Write a figure to a file, completely or not at all; the suffix of `path` is the format."""
    content = BytesIO()
    figure.savefig(content, dpi=dpi, format=path.suffix[1:])
    write(path, content.getvalue())


def predictive_band(
    x: Data,
    predictive: Distribution,
    *,
    width: float = 2.0,
    color: str = "C0",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the predictive mean over x, and a band of +-`width` standard deviations.

    Args:
        x: input of each row, (N,).
        predictive: of one output.
        width: half width of the band, in standard deviations.
        color: of the line and the band.
        ax: where to draw.
    """
    line = _rows_of(predictive, x, "x").numpy()
    order = line.argsort(kind="stable")  # of shuffled rows, a line and not a scribble
    line, mean, std = (a[order] for a in (line, *_moments(predictive)))
    ax = _axes(ax)
    label = f"mean ± {width:g} sd"
    ax.fill_between(line, mean - width * std, mean + width * std, color=color, alpha=0.2, lw=0)
    ax.plot(line, mean, color=color, lw=2, label=label)
    return ax


def calibration_curve(
    predictive: Numeric, y: Data, *, color: str = "C0", ax: "Axes | None" = None
) -> "Axes":
    """Draw empirical against nominal coverage of central intervals; above the diagonal, too wide.

    The numbers are those of `metrics.coverage`, which is made for a real y. For few levels or small
    counts even the true predictive lies off the diagonal: use `pit_histogram` for those.

    Args:
        predictive: of one output.
        y: target of each row, (N,).
        color: of the curve.
        ax: where to draw. A second curve in the same axes shares the diagonal.
    """
    y = _rows_of(predictive, y)
    levels = (0.0, *LEVELS, 1.0)
    share = [float(coverage(predictive, y, level)) for level in levels]
    ax = _axes(ax)
    # a second model joins the first one's diagonal
    if "calibrated" not in ax.get_legend_handles_labels()[1]:
        ax.plot([0, 1], [0, 1], color=GREY, lw=1, label="calibrated")
    label = f"calibration error {float(calibration_error(predictive, y)):.3f}"
    ax.plot(levels, share, "o-", color=color, ms=4, lw=1.5, label=label)
    ax.set(xlabel="nominal coverage", ylabel="share of rows inside", aspect="equal")
    ax.legend(frameon=False)
    return ax


def pit_histogram(
    predictive: Numeric, y: Data, *, bins: int = 20, color: str = "C0", ax: "Axes | None" = None
) -> "Axes":
    """Draw the density of u_n = P(. <= y_n), which is uniform if the predictive is calibrated.

    A hump in the middle means too wide, a bowl too narrow. The band contains each bar of a
    calibrated model 9 times in 10, so expect two of 20 bars outside. For levels and counts,
    u_n = (F(y_n) + F(y_n - 1)) / 2 is the middle of the step; where the steps are wider than the
    bars, the band does not apply.

    Args:
        predictive: of one output.
        y: target of each row, (N,).
        bins: number of bars.
        color: of the bars.
        ax: where to draw.
    """
    from scipy.stats import binom

    positive_int("bins", bins)
    y = _rows_of(predictive, y)
    below, upto = step(predictive, y)
    share, edges = np.histogram(_numpy((below + upto) / 2), bins, (0, 1), density=True)
    low, high = binom.ppf([0.05, 0.95], len(y), 1 / bins) * bins / len(y)
    ax = _axes(ax)
    ax.stairs(share, edges, fill=True, color=color, alpha=0.5, label=f"{len(y)} rows")
    ax.fill_between([0, 1], low, high, color=GREY, alpha=0.4, lw=0, label="90 % if calibrated")
    ax.plot([0, 1], [1, 1], color="0.3", lw=1)
    ax.set(xlabel="predicted probability of a smaller y", ylabel="density", xlim=(0, 1))
    ax.set_ylim(0, 1.25 * max(share.max(), high))  # room for the legend
    ax.legend(frameon=False, loc="upper center", ncols=2)
    return ax


def spread_against_residual(
    predictive: Distribution,
    y: Data,
    *,
    bins: int = 10,
    color: str = "C0",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw |y_n - E y_n| over sd y_n, and their root mean squares in quantile bins of sd y_n.

    E (y - E y)^2 = var y within every bin of a calibrated model, so its points lie on the diagonal.

    Args:
        predictive: of one output.
        y: target of each row, (N,).
        bins: number of bins.
        color: of the rows.
        ax: where to draw.
    """
    positive_int("bins", bins)
    y = _rows_of(predictive, y)
    mean, std = _moments(predictive)
    residual = np.abs(y.numpy() - mean)
    rms = _binned_rms(std, residual, bins)
    shown = (std > 0) & (residual > 0)  # a logarithm has no place for zeros
    hidden = f", {np.sum(~shown)} at zero not shown" if not shown.all() else ""
    ax, label = _axes(ax), f"rows{hidden}"
    ax.plot(std[shown], residual[shown], "o", color=color, alpha=0.35, ms=3, mew=0, label=label)
    some = std[shown] if shown.any() else std
    ends = [some.min() / 1.25, some.max() * 1.25]  # of one constant deviation still a line
    ax.plot(ends, ends, color="0.3", lw=1, label="calibrated")
    ax.plot(*rms.T, "o", color="C1", ms=7, mec="white", label="root mean square in a bin")
    if shown.any():
        ax.set_xscale("log", nonpositive="mask", subs=[2, 5])
        ax.set_yscale("log", nonpositive="mask")
        for side in ("major", "minor"):  # deviations often span less than a decade
            getattr(ax.xaxis, f"set_{side}_formatter")("{x:g}")
    ax.set(xlabel="predicted standard deviation", ylabel="distance of y from its mean")
    ax.legend(frameon=False)
    return ax


def ood_histogram(
    usual: Data,
    strange: Data | None = None,
    threshold: float | None = None,
    *,
    bins: int = 40,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the share of rows by out-of-distribution score, and a threshold.

    Args:
        usual: scores of in-distribution rows, (N,).
        strange: scores of other rows, if there are any.
        threshold: where to draw the line; by default, 95 % of the usual rows lie below it.
        bins: number of bars.
        ax: where to draw.
    """
    positive_int("bins", bins)
    groups = {"usual": _rows("usual", usual).numpy()}
    if strange is not None:
        groups["strange"] = _rows("strange", strange).numpy()
    line = f"threshold {threshold:g}" if threshold is not None else "95 % of usual rows"
    cut = float(np.quantile(groups["usual"], 0.95)) if threshold is None else threshold
    scores = np.concatenate(list(groups.values()))
    log = min(scores.min(), cut) > 0
    to, back = (np.log10, lambda e: 10**e) if log else (np.asarray, np.asarray)
    edges = np.histogram_bin_edges(to(scores), bins)  # equal bars on the axis as it is drawn
    ax, top = _axes(ax), 0.0
    for (name, score), color in zip(groups.items(), ("C0", "C1"), strict=False):
        share = np.histogram(to(score), edges)[0] / len(score)
        top = max(top, share.max())
        label = f"{name} rows, {100 * np.mean(score > cut):.0f} % above"
        ax.stairs(share, back(edges), fill=True, color=color, alpha=0.5, label=label)
    ax.axvline(cut, color="0.3", lw=1, ls="--", label=line)
    ax.set(xlabel="OOD score", ylabel="share of rows", xscale="log" if log else "linear")
    ax.set_ylim(0, 1.35 * top)  # room for the legend
    ax.legend(frameon=False)
    return ax


def _axes(ax: "Axes | None") -> "Axes":
    return ax if ax is not None else pyplot().gca()


def _numpy(t: Tensor) -> NDArray[np.float64]:
    return t.detach().cpu().double().numpy()


def _moments(predictive: Distribution) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return _numpy(predictive.mean), _numpy(predictive.stddev)


def _binned_rms(
    std: NDArray[np.float64], residual: NDArray[np.float64], bins: int
) -> NDArray[np.float64]:
    """Return the root mean squares of both in quantile bins of `std`, (bins, 2).

    Rows of equal deviation share a bin, so one constant deviation is one point.
    """
    inner = np.unique(np.quantile(std, np.linspace(0, 1, bins + 1)[1:-1]))
    group = np.searchsorted(inner, std, side="right")
    return np.array([[_rms(std[group == g]), _rms(residual[group == g])] for g in np.unique(group)])


def _rms(a: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(a**2)))


def _rows(name: str, data: Data) -> Tensor:
    """Return `data` as finite numbers, one per row, in float64 on the CPU."""
    array = _numpy(data) if isinstance(data, Tensor) else np.array(data, float, order="C")
    remedy = f"Use {name}.squeeze(-1)." if array.ndim == 2 and array.shape[1] == 1 else ""
    ok = array.ndim == 1 and array.size > 0
    require(ok, name, "hold one number per row, shape (N,)", f"shape {array.shape}", remedy)
    rows = torch.as_tensor(array)
    finite(name, rows)
    return rows


def _rows_of(predictive: Distribution, data: Data, name: str = "y") -> Tensor:
    """Return `data`, whose rows must be those of a predictive of one output."""
    shape = tuple(predictive.mean.shape)
    want, remedy = "have one output, a mean of shape (N,)", "Give one output at a time."
    require(len(shape) == 1, "predictive", want, f"shape {shape}", remedy)
    rows = _rows(name, data)
    got = tuple(rows.shape)
    require(got == shape, name, f"have the shape {shape} of the predictive", got)
    return rows
