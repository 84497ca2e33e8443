"""Fig. pred_evidence_toy: the two routes on one input, with noise that depends on it.

y = 1.5 sin(1.2 x) + s(x) e, s(x) = 0.1 + 0.6 sin^2 x, x uniform on [-3, 3], e ~ N(0, 1).
Both routes have the same features, Gaussian bumps along x, and a full covariance.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from scroll import RegressionHead
from scroll.integrations.plots import predictive_band
from scroll.predictive import Normal
from scroll.training.batches import Rows
from scroll.training.network import Network, stack

from ..data.sources import Say
from ..grid.lbfgs import quasi_newton
from ..tables.table import Block, Label, Table, table
from .drawing import BOUND, FREE, GREY, TRUTH, picture

ROWS, SEEDS, REACH, BUMPS = 400, range(5), 3.0, 13
# Both are trained to their optima by quasi-Newton: "closed" on the exact evidence.
ROUTES = {"closed": "evidence", "free": "scroll"}
COLUMNS = ("test NLL", "RMSE", "correlation with the true sd", "coverage of ±2 sd")
TITLES = {
    "closed": "(a) Closed: one band for all x,\ntoo wide and too narrow",
    "free": "(b) Free: the band follows\nthe noise",
}


def toy(output: Path, quick: bool, say: Say) -> list[Table]:
    """Fit both routes, draw `toy.png`, and compare them with the truth on new rows."""
    seeds = SEEDS[:1] if quick else SEEDS
    found = {}
    for route, method in ROUTES.items():
        say(f"toy: {route} route")
        found[route] = fitted(method, seeds)
    x = torch.linspace(-REACH, REACH, 2001, dtype=torch.float64)[:, None]
    with torch.no_grad():
        draw({route: nets[0](x[None]) for route, nets in found.items()}, x, output / "toy")
        rows: dict[Label, dict[str, dict[int, float]]] = {
            route: scores([net(x[None]) for net in nets], x, seeds) for route, nets in found.items()
        }
        rows["truth"] = scores([truth(x[None]) for _ in seeds], x, seeds)
    title = f"One input, {ROWS} rows; expectations over new rows, {len(seeds)} data sets"
    return [table("toy", title, COLUMNS, [Block(rows, None)], show_se=True)]


def true_mean(x: Tensor) -> Tensor:
    """E[y | x], (..., N, 1) -> (..., N)."""
    return 1.5 * (1.2 * x[..., 0]).sin()


def true_std(x: Tensor) -> Tensor:
    """s(x), (..., N, 1) -> (..., N)."""
    return 0.1 + 0.6 * x[..., 0].sin().square()


def truth(x: Tensor) -> Normal:
    """Return the distribution that the rows are drawn from."""
    mean = true_mean(x)
    return Normal(mean, true_std(x).square(), torch.zeros_like(mean))


def data(seeds: Sequence[int], rows: int = ROWS) -> Rows:
    """Return rows for each seed, in float64."""
    sets = []
    for seed in seeds:
        g = torch.Generator().manual_seed(seed)
        x = REACH * (2 * torch.rand(rows, 1, generator=g, dtype=torch.float64) - 1)
        e = torch.randn(rows, generator=g, dtype=torch.float64)
        sets.append((x, true_mean(x) + true_std(x) * e))
    return Rows(*(torch.stack(part) for part in zip(*sets, strict=True)))


class Bumps(nn.Module):
    """A fixed body: Gaussian bumps along one input, (..., N, 1) -> (..., N, H)."""

    features = BUMPS

    def forward(self, x: Tensor) -> Tensor:
        centre = torch.linspace(-REACH, REACH, self.features, dtype=x.dtype)
        return (-((x - centre) ** 2) / (2 * (2 * REACH / (self.features - 1)) ** 2)).exp()


def fitted(method: str, seeds: Sequence[int]) -> list[Network]:
    """Return the network of each seed at its optimum.

    Args:
        method: of `METHODS`, with a full covariance.
        seeds: of the data and of the networks.
    """

    def make(lead: tuple[int, ...]) -> Network:
        head = RegressionHead(Bumps.features, 1, "full", method, bias=False, replicates=lead)
        return Network(Bumps(), head)

    rows = data(seeds)
    return [done.network for done in quasi_newton(stack(make, seeds), rows, rows)]


def scores(found: Sequence[Normal], x: Tensor, seeds: Sequence[int]) -> dict[str, dict[int, float]]:
    """Return expectations over y and a grid of x for each seed.

    Args:
        found: predictives at `x`, (1, N), one per seed.
        x: the grid, (N, 1).
        seeds: one per predictive.
    """
    mean, std = true_mean(x), true_std(x)
    out: dict[str, dict[int, float]] = {column: {} for column in COLUMNS}
    for seed, p in zip(seeds, found, strict=True):
        guess, spread = p.mean[0], p.variance[0]
        square = std.square() + (mean - guess).square()
        nll = 0.5 * ((2 * torch.pi * spread).log() + square / spread)
        ends = [(guess + side * spread.sqrt() - mean) / std for side in (2, -2)]
        inside = torch.special.ndtr(ends[0]) - torch.special.ndtr(ends[1])
        alike = torch.corrcoef(torch.stack([spread.sqrt(), square.sqrt()]))[0, 1]
        each = (nll.mean(), square.mean().sqrt(), alike, inside.mean())
        for column, number in zip(COLUMNS, each, strict=True):
            out[column][seed] = float(number)
    return out


def draw(found: Mapping[str, Normal], x: Tensor, path: Path) -> None:
    """Draw the band of each route for the first data set, and that of the truth."""
    rows = data(SEEDS[:1])
    mean, std = true_mean(x), true_std(x)
    with picture(path, 1, 2, (10, 4.2), sharex=True, sharey=True) as axes:
        for ax, color, (route, p) in zip(axes[0], (BOUND, FREE), found.items(), strict=True):
            ax.plot(rows.x[0, :, 0], rows.y[0], ".", color=GREY, ms=4)
            one = Normal(p.mean[0], p.variance[0], torch.zeros_like(p.mean[0]))
            predictive_band(x[:, 0], one, color=color, ax=ax)
            for side, label in ((-2, "true mean ± 2 sd"), (2, None)):
                ax.plot(x, mean + side * std, color=TRUTH, ls="--", lw=1.2, label=label)
            ax.set(title=TITLES[route], xlabel="x")
            ax.legend(loc="upper left")
        axes[0, 0].set(ylabel="y", xlim=(-REACH, REACH), ylim=(-3.4, 4))
