"""The main job in a minute: both routes on a toy and on a small real table."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn

from .head import Head
from .heads import RegressionHead
from .metrics import calibration_error, nll, rmse
from .plots import predictive_band, pyplot
from .predictive import Normal

ROUTES = {"scroll": "free (score)", "closed": "closed (posterior)"}
SEEDS = range(5)
Rows = tuple[Tensor, Tensor]


class Split(NamedTuple):
    """Rows to train on, to stop by and to report; y in units of `unit`."""

    train: Rows
    val: Rows
    test: Rows
    unit: float = 1.0


def toy_mean(x: Tensor) -> Tensor:
    """The toy's true mean."""
    return torch.sin(1.5 * x)


def toy_std(x: Tensor) -> Tensor:
    """The toy's true standard deviation: small in the middle, large at the ends."""
    return 0.1 + 0.9 * (x / 3) ** 2


def toy(seed: int, n: int = 400) -> Split:
    """x uniform on [-3, 3], y = toy_mean(x) + toy_std(x) e."""
    g = torch.Generator().manual_seed(seed)

    def rows() -> Rows:
        x = 6 * torch.rand(n, generator=g) - 3
        return x, toy_mean(x) + toy_std(x) * torch.randn(n, generator=g)

    return Split(rows(), rows(), rows())


class Bumps(nn.Module):
    """A fixed body: Gaussian bumps along x, (N,) -> (N, 16)."""

    features = 16

    def forward(self, x: Tensor) -> Tensor:
        centres = torch.linspace(-3.5, 3.5, self.features)
        return torch.exp(-0.5 * ((x[:, None] - centres) / 0.7) ** 2)


def diabetes(seed: int) -> Split:
    """The table that scikit-learn bundles, 60/20/20, standardised on its training rows."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    x, y = (torch.as_tensor(a).float() for a in load_diabetes(return_X_y=True))
    rest, test = train_test_split(range(len(y)), test_size=0.2, random_state=seed)
    train, val = train_test_split(rest, test_size=0.25, random_state=seed)
    x = (x - x[train].mean(0)) / x[train].std(0)
    level, unit = y[train].mean(), y[train].std()
    y = (y - level) / unit
    return Split((x[train], y[train]), (x[val], y[val]), (x[test], y[test]), float(unit))


class Network(nn.Module):
    """A small trained body: one hidden layer of 50, normalised."""

    features = 50

    def __init__(self, inputs: int):
        super().__init__()
        norm = nn.LayerNorm(self.features, elementwise_affine=False)
        self.layers = nn.Sequential(nn.Linear(inputs, self.features), nn.Tanh(), norm)

    def forward(self, x: Tensor) -> Tensor:
        psi: Tensor = self.layers(x)
        return psi


class Fit(NamedTuple):
    """A trained body and head."""

    body: nn.Module
    head: Head

    def __call__(self, x: Tensor) -> Normal:
        with torch.no_grad():
            predictive: Normal = self.head(self.body(x))
        return predictive


def fit(make_body: Callable[[], nn.Module], method: str, split: Split, seed: int) -> Fit:
    """Adam on one batch; the belief of best validation score is kept."""
    torch.manual_seed(seed)
    body = make_body()
    head = RegressionHead(int(body.features), method=method)  # type: ignore[arg-type]
    (x, y), (x_val, y_val) = split.train, split.val
    adam = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
    now, best, kept, since = Fit(body, head), float("inf"), None, 0
    for step in range(3000):
        adam.zero_grad()
        decay = sum((p.square().sum() for p in body.parameters()), torch.zeros(()))
        (head.loss(body(x), y, total=len(y)) + 0.01 * decay / len(y)).backward()
        adam.step()
        if step % 10 == 0:
            if method == "closed":
                head.condition(body(x), y)
            reached, since = float(nll(now(x_val), y_val)), since + 1
            if reached < best:
                best, kept, since = reached, copy.deepcopy(now), 0
            if since >= 30:
                break
    return kept or now


def scores(predict: Fit | Callable[[Tensor], Normal], split: Split) -> Tensor:
    """NLL, RMSE and calibration error on the test rows, in the units of the data."""
    (x, y), unit = split.test, split.unit
    p = predict(x)
    p, y = Normal(p.mean * unit, p.noise_var * unit**2, p.belief_var * unit**2), y * unit
    return torch.stack([nll(p, y), rmse(p, y), calibration_error(p, y)])


def mean_predictor(split: Split) -> Callable[[Tensor], Normal]:
    """N(mean, var) of the training targets, whatever x is."""
    y = split.train[1]

    def predict(x: Tensor) -> Normal:
        one = torch.ones(len(x))
        return Normal(y.mean() * one, y.var() * one, 0 * one)

    return predict


def run(output: Path, console: Console) -> None:
    """Fit, print the table, draw the figure."""
    problems: dict[str, tuple[Callable[[int], Split], Callable[[], nn.Module]]] = {
        "toy": (toy, Bumps),
        "diabetes": (diabetes, lambda: Network(10)),
    }
    table = Table(title=f"Held-out scores, mean over {len(SEEDS)} seeds (lower is better)")
    for column in ("data", "belief", "NLL", "RMSE", "calibration error"):
        table.add_column(column, justify="left" if column in ("data", "belief") else "right")
    toys: dict[str, Fit] = {}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("fitting", total=len(problems) * len(ROUTES) * len(SEEDS))
        for name, (data, body) in problems.items():
            splits = [data(seed) for seed in SEEDS]
            rows = {}
            for method, label in ROUTES.items():
                fits = []
                for seed, split in zip(SEEDS, splits, strict=True):
                    fits.append(fit(body, method, split, seed))
                    progress.advance(task)
                rows[label] = [scores(f, s) for f, s in zip(fits, splits, strict=True)]
                if name == "toy":
                    toys[method] = fits[0]
            rows["mean predictor"] = [scores(mean_predictor(s), s) for s in splits]
            for label, each in rows.items():
                mean = torch.stack(each).mean(0).tolist()
                table.add_row(name, label, *(f"{v:.3f}" for v in mean))
            table.add_section()
    console.print(table)
    draw(toys, toy(SEEDS[0]), output)
    console.print(f"The two routes on the toy: {output}")


def draw(fits: dict[str, Fit], split: Split, output: Path) -> None:
    """The paper's two panels: the closed band is constant, the free band tracks the noise."""
    plt = pyplot()
    x = torch.linspace(-3, 3, 300)
    titles = {
        "closed": "(a) closed: bound to the posterior\nthe band ignores the noise",
        "scroll": "(b) free: trained on the score\nthe band tracks the noise",
    }
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for ax, (method, title), color in zip(axes, titles.items(), ("C3", "C0"), strict=True):
        ax.plot(*(t.numpy() for t in split.train), ".", color="0.6", ms=3, label="data")
        predictive_band(x, fits[method](x), color=color, ax=ax)
        ax.plot(x, toy_mean(x), "k--", lw=1.2, label="true mean")
        for sign in (-2, 2):
            edge = toy_mean(x) + sign * toy_std(x)
            ax.plot(x, edge, "k:", lw=1, label="true ± 2 sd" if sign > 0 else None)
        ax.set(title=title, xlabel="x", xlim=(-3, 3))
    axes[0].set_ylabel("y")
    axes[0].legend(loc="lower left", fontsize=8, ncols=2)
    partial = output.with_name(f".{output.name}.partial")
    figure.savefig(partial, dpi=150, format=output.suffix[1:])
    partial.replace(output)
    plt.close(figure)
