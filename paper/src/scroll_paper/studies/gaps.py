"""Where a richer family would pay: the routing gap and the representation gap of each data set.

Both are in nats per test row, about one network trained by the free route (SCROLL-Full):

- The routing gap is what binding costs: the NLL of the posterior on the same features, with its
  noise and prior precision by evidence, minus the NLL of the free belief (Lem. routing).
- The representation gap is what the free variance V misses: the NLL of the free predictive minus
  that of N(mean, V e^g), g a boosted function of the inputs, the mean and V, fitted to squared
  residuals of held-out rows. A constant g repairs a part of it, the scale; the rest is the shape,
  which only another family of variances can learn.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scroll.heads import RegressionHead
from scroll.posterior.posterior import refit
from scroll.predictive import Normal
from scroll.training.batches import Rows
from scroll.training.bodies import MLP
from scroll.training.loop import train
from scroll.training.network import Network, stack
from scroll.training.settings import Settings

from ..data.datasets import UCI
from ..data.protocol import Folds
from ..data.sources import Say
from ..grid.run import RowSource, reader
from ..models.baselines import bayesian_head
from ..tables.table import Cell, Label, Table, cell
from .drawing import BOUND, FREE, GREY, picture

Array = NDArray[np.float64]
SEEDS, WIDTH, BATCH = (5, 6, 7, 8, 9), 50, 256
QUICK = ("yacht", "boston")
MUCH = 0.2  # nats of representation gap that the title names
TREES = 60  # most trees of the variance model
COLUMNS = ("free NLL", "routing gap", "representation gap", "of it, scale")


class Scores(NamedTuple):
    """Scores of each seed, (R,).

    Args:
        free: test NLL of the free route.
        routing: the routing gap.
        representation: the representation gap.
        scale: what a constant factor on the variance saves.
    """

    free: Tensor
    routing: Tensor
    representation: Tensor
    scale: Tensor


def gaps(output: Path, quick: bool, say: Say) -> list[Table]:
    """Return the table of both gaps by data set, and draw it.

    Args:
        output: folder for the picture.
        quick: take two data sets, two seeds and few steps.
        say: takes a line per data set.
    """
    names, seeds, steps = (QUICK, SEEDS[:2], 200) if quick else (UCI, SEEDS, 1500)
    read = reader(RowSource(None, torch.device("cpu")), say)
    found: dict[str, Scores] = {}
    for name in names:
        say(f"gaps: {name}")
        found[name] = measured(scaled(read(name, seeds)), seeds, steps)
    rows: dict[Label, dict[str, Cell]] = {
        name: {
            column: cell(by_seed(x, seeds), signed=column != "free NLL")
            for column, x in zip(COLUMNS, at, strict=True)
        }
        for name, at in found.items()
    }
    draw(found, output / "gaps")
    title = f"SCROLL-Full (relu+LN), {len(seeds)} seeds: nats per test row, standardised target"
    return [Table("gaps", title, COLUMNS, [rows], show_se=True)]


def by_seed(x: Tensor, seeds: Sequence[int]) -> dict[int, float]:
    """Return a score of each seed by seed."""
    return dict(zip(seeds, x.tolist(), strict=True))


def scaled(folds: Folds) -> Folds:
    """Divide targets by their deviation on the training rows; gaps do not depend on the unit."""
    std = folds.train.y.std(-1, keepdim=True)
    return Folds(*(Rows(r.x, r.y / std) for r in folds[:3]))


def measured(folds: Folds, seeds: Sequence[int], steps: int) -> Scores:
    """Train one network per seed by the free route, and measure both gaps on its test rows."""
    rows, held, test, _ = folds
    inputs, n = rows.x.shape[-1], rows.y.shape[1]

    def make(lead: tuple[int, ...]) -> Network:
        head = RegressionHead(WIDTH, covariance="full", floor=1e-6, bias=False, replicates=lead)
        return Network(MLP(inputs, WIDTH, replicates=lead), head)

    how = Settings(
        steps, lr=0.01, every=25, patience=20, batch=BATCH if n > BATCH else None,
        schedule="one-cycle",
    )  # fmt: skip
    network = train(stack(make, seeds), rows, held, how, seeds=seeds).network
    with torch.no_grad():
        free, between = network(test.x), network(held.x)
        score = -free.log_prob(test.y).mean(-1)
        bound = refit(bayesian_head(network), network.body(rows.x), rows.y)
        closed = -bound(network.body(test.x)).log_prob(test.y).mean(-1)
    at = list(zip(_described(between, held), _described(free, test), strict=True))
    by_trees, by_factor = (
        torch.tensor([gain(*first, *second, trees) for first, second in at]) for trees in (TREES, 0)
    )
    return Scores(score, closed - score, by_trees, by_factor)


def _described(at: Normal, rows: Rows) -> list[tuple[Array, Array]]:
    """Return, for each seed, the inputs of the variance model and r^2/V of each row."""
    share = (rows.y - at.mean).square() / at.variance
    seen = torch.cat([rows.x, torch.stack([at.mean, at.variance.log()], -1)], -1)
    return [(x.double().numpy(), u.double().numpy()) for x, u in zip(seen, share, strict=True)]


def gain(seen: Array, share: Array, inputs: Array, target: Array, trees: int = TREES) -> float:
    """Return the mean NLL that a variance model saves on rows (inputs, target).

    The rows are cut into halves; the model of one half is fitted to the other and to the rows
    (seen, share).

    Args:
        seen: inputs of further rows, (M, D).
        share: their squared residuals over the variance V, (M,).
        inputs: inputs of the rows to score, (N, D).
        target: their squared residuals over V, (N,).
        trees: most trees of the model; without any it is a constant factor.
    """
    saved = np.empty_like(target)
    half = np.arange(len(target)) % 2 == 0
    for part in (half, ~half):
        x, u = np.concatenate([seen, inputs[~part]]), np.concatenate([share, target[~part]])
        ratio = variance_ratio(x, u, inputs[part], trees)
        saved[part] = (target[part] - target[part] / ratio - np.log(ratio)) / 2
    return float(saved.mean())


def variance_ratio(x: Array, u: Array, new: Array, trees: int = TREES, parts: int = 3) -> Array:
    """Return e^g at new rows, the ratio of the variance that rows (x, u) support to V.

    The Gamma deviance of u = r^2/V under mean e^g is twice the Gaussian NLL of r. Cross-fitting
    chooses among e^g = 1, a constant, and 1 to `trees` trees, so that few rows change little.
    """
    losses = np.zeros(trees + 2)
    for k in range(parts):
        out = np.arange(len(u)) % parts == k
        stages = _stages(x[~out], u[~out], trees, x[out])
        losses += (u[out] / stages + np.log(stages)).sum(1)
    best = int(losses.argmin())
    return _stages(x, u, max(best - 1, 0), new)[best]


def _stages(x: Array, u: Array, trees: int, new: Array) -> Array:
    """Return e^g at new rows, as one, as a constant and after each tree, (trees + 2, N)."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    base = [np.ones(len(new)), np.full(len(new), u.mean())]
    if trees == 0:
        return np.stack(base)
    model = HistGradientBoostingRegressor(
        loss="gamma", max_iter=trees, max_leaf_nodes=8, min_samples_leaf=10,
        l2_regularization=1.0, early_stopping=False, random_state=0,
    )  # fmt: skip
    model.fit(x, np.maximum(u, np.finfo(float).tiny))  # a Gamma variable is positive
    return np.stack([*base, *model.staged_predict(new)])


def draw(found: dict[str, Scores], path: Path) -> None:
    """Draw both gaps of each data set as bars, those with most to represent on top."""
    names = sorted(found, key=lambda name: float(found[name].representation.mean()))
    place = np.arange(len(names))
    kinds = (
        ("routing gap: what binding costs", 0.2, BOUND, [found[n].routing for n in names]),
        ("representation gap: shape", -0.2, FREE, [found[n].representation for n in names]),
    )
    with picture(path, 1, 1, (7.6, 1.4 + 0.55 * len(found))) as axes:
        ax = axes[0, 0]
        for label, shift, color, values in kinds:
            mean = [float(v.mean()) for v in values]
            error = {"xerr": [_error(v) for v in values], "error_kw": {"lw": 1, "capsize": 2}}
            ax.barh(place + shift, mean, 0.38, color=color, label=label, **error)
        scale = [float(found[n].scale.mean()) for n in names]
        look = {"color": "white", "edgecolor": FREE, "hatch": "////"}
        ax.barh(place - 0.2, scale, 0.38, label="representation gap: scale", **look)
        ax.axvline(0, color=GREY, lw=0.8)
        ax.set_yticks(place, names)
        ax.set_xlabel("nats per test row, standard errors over seeds")
        ax.legend(loc="lower right")
        much = [n for n in reversed(names) if float(found[n].representation.mean()) > MUCH]
        ax.set_title(f"A richer family of variances would pay on {', '.join(much) or 'no set'}")


def _error(values: Tensor) -> float:
    """Return the standard error of a mean."""
    return float(values.std()) / len(values) ** 0.5
