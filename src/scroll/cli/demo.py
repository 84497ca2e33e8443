"""`scroll demo`: both routes on a toy and on a small real table, in under a minute."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from ..fitting.split import sixty_twenty_twenty
from ..heads.named import RegressionHead
from ..integrations.plots import predictive_band, pyplot, save
from ..predictive import Normal
from ..predictive.metrics import calibration_error, nll, rmse
from ..training.batches import Rows
from ..training.bodies import MLP
from ..training.loop import Watch, train
from ..training.network import Network, stack
from ..training.progress import Update, progress
from ..training.settings import Settings

ROUTES = {"scroll": "free (score)", "closed": "closed (posterior)"}
SEEDS = range(5)
SETTINGS = Settings(steps=3000, lr=0.01, every=10, patience=30)


class Split(NamedTuple):
    """Training, validation and test rows of each of R seeds; y in units of `unit` (R, 1)."""

    train: Rows
    val: Rows
    test: Rows
    unit: Tensor


def toy_mean(x: Tensor) -> Tensor:
    """Return the toy's true mean."""
    return torch.sin(1.5 * x)


def toy_std(x: Tensor) -> Tensor:
    """Return the toy's true standard deviation: small in the middle, large at the ends."""
    return 0.1 + 0.9 * (x / 3) ** 2


def toy(n: int = 400) -> Split:
    """Draw x uniform on [-3, 3] and y = toy_mean(x) + toy_std(x) e, n rows per part and seed."""

    def rows(part: int) -> Rows:
        gs = [torch.Generator().manual_seed(3 * seed + part) for seed in SEEDS]
        x = torch.stack([6 * torch.rand(n, 1, generator=g) - 3 for g in gs])
        e = torch.stack([torch.randn(n, generator=g) for g in gs])
        return Rows(x, toy_mean(x[..., 0]) + toy_std(x[..., 0]) * e)

    return Split(rows(0), rows(1), rows(2), torch.ones(len(SEEDS), 1))


class Bumps(nn.Module):
    """A fixed body: Gaussian bumps along x, (..., N, 1) -> (..., N, 16)."""

    features = 16

    def forward(self, x: Tensor) -> Tensor:
        centres = torch.linspace(-3.5, 3.5, self.features)
        return torch.exp(-0.5 * ((x - centres) / 0.7) ** 2)


def diabetes() -> Split:
    """Return scikit-learn's diabetes table, split 60/20/20, standardised by its training rows."""
    from sklearn.datasets import load_diabetes

    x, y = (torch.as_tensor(a).float() for a in load_diabetes(return_X_y=True))
    parts: list[list[Rows]] = [[], [], []]
    units = []
    for seed in SEEDS:
        chosen = sixty_twenty_twenty(range(len(y)), seed)
        fold = chosen[0]
        inputs = (x - x[fold].mean(0)) / x[fold].std(0)
        target = (y - y[fold].mean()) / y[fold].std()
        for part, index in zip(parts, chosen, strict=True):
            part.append(Rows(inputs[index], target[index]))
        units.append(y[fold].std())
    rows, val, test = (
        Rows(*(torch.stack(t) for t in zip(*(rows[:2] for rows in part), strict=True)))
        for part in parts
    )
    return Split(rows, val, test, torch.stack(units)[:, None])


Body = Callable[[tuple[int, ...]], nn.Module]
PROBLEMS: dict[str, tuple[Callable[[], Split], Body, int]] = {
    "toy": (toy, lambda lead: Bumps(), Bumps.features),
    "diabetes": (diabetes, lambda lead: MLP(10, 50, 1, "tanh+LN", lead), 50),
}


def fit(name: str, method: str, split: Split, watch: Watch | None = None) -> Network:
    """Train one network per seed, all together; keep each where its validation NLL was best.

    Args:
        name: the problem.
        method: a row of `scroll.METHODS`.
        split: the rows of the problem.
        watch: called with the number of networks that have stopped, and the best score.
    """
    _, body, features = PROBLEMS[name]

    def make(lead: tuple[int, ...]) -> Network:
        return Network(body(lead), RegressionHead(features, method=method, replicates=lead))

    return train(stack(make, SEEDS), split.train, split.val, SETTINGS, watch=watch).network


def scores(predictive: Normal, split: Split) -> list[float]:
    """Return NLL, RMSE and calibration error on the test rows, in the units of the data."""
    p, y, unit = predictive, split.test.y * split.unit, split.unit
    p = Normal(p.mean * unit, p.noise_var * unit**2, p.belief_var * unit**2)
    return [float(metric(p, y).mean()) for metric in (nll, rmse, calibration_error)]


def mean_predictor(split: Split) -> Normal:
    """Return N(mean, var) of the training targets, for every x."""
    y, one = split.train.y, torch.ones_like(split.test.y)
    return Normal(y.mean(-1, keepdim=True) * one, y.var(-1, keepdim=True) * one, 0 * one)


class Results(NamedTuple):
    """What the demo shows: test scores by (data, belief), and each route's fit of the toy."""

    scores: dict[tuple[str, str], list[float]]
    toy: Rows  # the training rows of the toy
    bands: dict[str, Normal]  # by method: the predictive of the first seed on `GRID`


GRID = torch.linspace(-3, 3, 300)


def run(output: Path, console: Console) -> None:
    """Fit both routes to both data sets, print their test scores, and draw the toy.

    Args:
        output: file for the picture, which needs matplotlib.
        console: to print on.
    """
    total = len(PROBLEMS) * len(ROUTES) * len(SEEDS)
    with progress(console, total, "networks") as update, torch.no_grad():
        found = _fit_all(update)
    console.print(_table(found))
    try:
        draw(found, output)
    except ImportError:  # of matplotlib
        console.print("No picture: install matplotlib with pip install 'scroll-torch\\[plots]'.")
    else:
        console.print(f"The two routes on the toy: {output}")


def _fit_all(update: Update) -> Results:
    """Fit both routes to both data sets; call `update` with the number of networks done."""
    found, bands, trained_on, done = {}, {}, {}, 0
    for name, (data, _, _) in PROBLEMS.items():
        split = data()
        trained_on[name] = split.train
        for method, label in ROUTES.items():

            def watch(stopped: int, best: float, before: int = done) -> None:
                update(before + stopped)

            with torch.enable_grad():
                network = fit(name, method, split, watch)
            done += len(SEEDS)
            found[name, label] = scores(network(split.test.x), split)
            if name == "toy":
                bands[method] = _first(network(GRID[:, None].expand(len(SEEDS), -1, 1)))
        found[name, "mean predictor"] = scores(mean_predictor(split), split)
    return Results(found, trained_on["toy"], bands)


def _table(found: Results) -> Table:
    """Return the scores as a table, one section per data set."""
    table = Table(title=f"Held-out scores, mean over {len(SEEDS)} seeds (lower is better)")
    for column in ("data", "belief", "NLL", "RMSE", "calibration error"):
        table.add_column(column, justify="left" if column in ("data", "belief") else "right")
    for name in PROBLEMS:
        for (data, label), values in found.scores.items():
            if data == name:
                table.add_row(name, label, *(f"{value:.3f}" for value in values))
        table.add_section()
    return table


def _first(p: Normal) -> Normal:
    """Return the predictive of the first seed."""
    return Normal(p.mean[0], p.noise_var[0], p.belief_var[0])


def draw(found: Results, output: Path) -> None:
    """Draw the paper's two panels: the closed band is constant, the free band tracks the noise."""
    plt, x, data = pyplot(), GRID, found.toy
    titles = {
        "closed": "(a) closed: bound to the posterior\nthe band ignores the noise",
        "scroll": "(b) free: trained on the score\nthe band tracks the noise",
    }
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for ax, (method, title), color in zip(axes, titles.items(), ("C3", "C0"), strict=True):
        ax.plot(data.x[0, :, 0], data.y[0], ".", color="0.6", ms=3, label="data")
        predictive_band(x, found.bands[method], color=color, ax=ax)
        ax.plot(x, toy_mean(x), "k--", lw=1.2, label="true mean")
        for sign in (-2, 2):
            edge = toy_mean(x) + sign * toy_std(x)
            ax.plot(x, edge, "k:", lw=1, label="true ± 2 sd" if sign > 0 else None)
        ax.set(title=title, xlabel="x", xlim=(-3, 3))
    axes[0].set_ylabel("y")
    axes[0].legend(loc="lower left", fontsize=8, ncols=2)
    save(figure, output, dpi=150)
    plt.close(figure)
