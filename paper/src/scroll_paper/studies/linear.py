"""App. linear_routing: the two routes at depth zero, where both are classical estimators.

The features are the inputs, psi(x) = x. The free route with a diagonal S is the random-coefficient
model of Hildreth and Houck, with a learned prior; the closed route is empirical Bayes.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from scroll import RegressionHead, refit
from scroll.training.batches import Rows
from scroll.training.network import Network, stack

from ..data.sources import Say
from ..grid.lbfgs import quasi_newton
from ..models.baselines import bayesian_head
from ..tables.table import Cell, Label, Table, cell
from .drawing import BOUND, FREE, TRUTH, picture
from .study import against_paper

ROWS, INPUTS, SEEDS = 4000, 5, range(10)
NOISES: dict[str, Callable[[Tensor], Tensor]] = {
    "heteroscedastic": lambda x: 0.3 + 1.5 * x[..., 0].abs(),
    "homoscedastic": lambda x: torch.ones_like(x[..., 0]),
}
GAP = "free minus oracle"


class Fitted(NamedTuple):
    """What both routes say about the test rows of each data set, (R, N).

    Attributes:
        x: test inputs, (R, N, D).
        nll: mean test NLL by route, (R,); of the "oracle", which has the true variance and the
            mean of the free route, too.
        var: predictive variance by route; of the "truth", too.
        belief: the learned variances of the weights, (R, D).
    """

    x: Tensor
    nll: dict[str, Tensor]
    var: dict[str, Tensor]
    belief: Tensor


def linear(output: Path, quick: bool, say: Say) -> list[Table]:
    """Fit both routes to both kinds of noise; draw `linear.png`."""
    rows, seeds = (400, SEEDS[:2]) if quick else (ROWS, SEEDS)
    found = {}
    for name, noise in NOISES.items():
        say(f"linear: {name} noise")
        found[name] = fitted(noise, rows, seeds)
    draw(found, output / "linear")
    lines: dict[Label, Mapping[str, Cell]] = {
        (name, route): {
            "test NLL": cell(dict(enumerate(nll.tolist())), digits=4),
            "correlation with the true variance": _correlation(of, route),
        }
        for name, of in found.items()
        for route, nll in of.nll.items()
    }
    count = f"{len(seeds)} data sets of {rows} rows"
    columns = ["test NLL", "correlation with the true variance"]
    return [
        Table("linear", f"Depth zero, {count}", columns, [lines], show_se=True),
        against_paper("linear_claims", f"Depth zero, {count}", "linear", claims(found)),
    ]


def data(part: int, noise: Callable[[Tensor], Tensor], rows: int, seeds: Sequence[int]) -> Rows:
    """Draw y = w'x + sd(x) e, w, x and e standard normal, in float64.

    Args:
        part: 0 for training rows, 1 for test rows.
        noise: sd(x).
        rows: per data set.
        seeds: one per data set.
    """
    xs, ys = [], []
    for seed in seeds:
        g = torch.Generator().manual_seed(seed)
        w = torch.randn(INPUTS, generator=g, dtype=torch.float64)
        g.manual_seed(1_000 + 2 * seed + part)
        x = torch.randn(rows, INPUTS, generator=g, dtype=torch.float64)
        e = torch.randn(rows, generator=g, dtype=torch.float64)
        xs.append(x)
        ys.append(x @ w + noise(x) * e)
    return Rows(torch.stack(xs), torch.stack(ys))


def fitted(noise: Callable[[Tensor], Tensor], rows: int, seeds: Sequence[int]) -> Fitted:
    """Fit both routes to a data set per seed, each to its optimum.

    Args:
        noise: standard deviation of the noise, of the inputs.
        rows: training rows, and as many test rows.
        seeds: one per data set.
    """
    train, test = (data(part, noise, rows, seeds) for part in (0, 1))
    closed = refit(_head((len(seeds),)).double(), *train[:2])
    singles = free_route(train, seeds)
    with torch.no_grad():
        frees = [one(test.x[i : i + 1]) for i, one in enumerate(singles)]
        mean, var = (torch.cat([getattr(p, k) for p in frees]) for k in ("mean", "variance"))
        each = torch.eye(INPUTS, dtype=torch.float64)  # its projections are the weights
        beliefs = [bayesian_head(one).belief().project(each).var[:, 0] for one in singles]
        bound, truth = closed(test.x), noise(test.x).square()
    predictives = {"free": (mean, var), "closed": (bound.mean, bound.variance)}
    nll = {k: gaussian_nll(test.y, *p) for k, p in {**predictives, "oracle": (mean, truth)}.items()}
    variances = {k: p[1] for k, p in predictives.items()}
    return Fitted(test.x, nll, {**variances, "truth": truth}, torch.cat(beliefs))


def free_route(rows: Rows, seeds: Sequence[int]) -> list[Network]:
    """Return the network of each data set at the least loss that quasi-Newton finds.

    Args:
        rows: training rows, one data set per seed.
        seeds: of the initial values.
    """
    networks = stack(lambda lead: Network(nn.Identity(), _head(lead)), seeds)
    return [done.network for done in quasi_newton(networks, rows, rows)]


def gaussian_nll(y: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """Return the mean of -log N(y; mean, var) over the last axis."""
    return 0.5 * ((2 * torch.pi * var).log() + (y - mean).square() / var).mean(-1)


def claims(found: Mapping[str, Fitted]) -> dict[str, Cell]:
    """Return the numbers of the text."""
    noisy, even = (found[name] for name in NOISES)
    cells: dict[str, Tensor] = {
        "heteroscedastic, free": noisy.nll["free"],
        "heteroscedastic, closed": noisy.nll["closed"],
        f"heteroscedastic, {GAP}": noisy.nll["free"] - noisy.nll["oracle"],
        "variance of the first weight": noisy.belief[:, 0],
        "variance of the second weight": noisy.belief[:, 1],
        "homoscedastic, free": even.nll["free"],
        "homoscedastic, closed": even.nll["closed"],
        "homoscedastic, free minus closed": even.nll["free"] - even.nll["closed"],
        "greatest variance of a weight, homoscedastic": even.belief.amax(-1),
    }
    out = {k: cell(dict(enumerate(v.tolist())), digits=4) for k, v in cells.items()}
    same = cells["homoscedastic, free minus closed"].abs() < 5e-5
    out["data sets on which both agree to four decimals"] = Cell(float(same.sum()), digits=0)
    out["correlation of free and true variance"] = _correlation(noisy, "free")
    return out


def _correlation(of: Fitted, route: str) -> Cell:
    """Return the correlation of a route's variances with the true ones; none if these are equal."""
    truth = of.var["truth"]
    if route == "oracle" or float(truth.var()) == 0:
        return Cell(None)
    each = [
        float(torch.corrcoef(torch.stack(pair))[0, 1])
        for pair in zip(of.var[route], truth, strict=True)
    ]
    return cell(dict(enumerate(each)), digits=4)


def _head(lead: tuple[int, ...]) -> RegressionHead:
    return RegressionHead(INPUTS, covariance="diag", bias=False, replicates=lead)


def draw(found: Mapping[str, Fitted], path: Path) -> None:
    """Draw the predictive standard deviation of both routes over x_1, for the first data set."""
    gains = {k: float((f.nll["closed"] - f.nll["free"]).mean()) for k, f in found.items()}
    titles = [
        f"(a) Noise grows with |x₁|:\nfree gains {gains['heteroscedastic']:.3f} nat",
        f"(b) Constant noise: the routes\ndiffer by {abs(gains['homoscedastic']):.4f} nat",
    ]
    with picture(path, 1, 2, (10, 4.2), sharex=True, sharey=True) as axes:
        for ax, title, of in zip(axes[0], titles, found.values(), strict=True):
            x = of.x[0, :, 0]
            order = x.argsort()
            for route, color, marker in (("closed", BOUND, "s"), ("free", FREE, "o")):
                std = of.var[route][0].sqrt()
                look = {"ms": 2.5, "alpha": 0.4, "mew": 0, "rasterized": True}
                ax.plot(x, std, marker, color=color, label=route, **look)
            std = of.var["truth"][0].sqrt()
            ax.plot(x[order], std[order], color=TRUTH, ls="--", lw=1.5, label="truth")
            ax.set(title=title, xlabel="x₁", ylim=(0, None))
        axes[0, 0].set_ylabel("predictive sd")
        shown = axes[0, 0].legend(loc="upper center", markerscale=3)
        for handle in shown.legend_handles:
            handle.set_alpha(1)
