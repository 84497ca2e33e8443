"""App. classification_details: does the uncertain band between two moons widen away from them?

The band at distance r is where 0.1 < P(class 1) < 0.9 on the circle of radius r about the centre of
the data; its size is its total arc length, in units of the inputs. The paper's network is trained
as its tables are: one ReLU layer of 50 units, no biases, inputs standardised. Its features grow in
proportion to the distance. So the band of a point mass keeps its width, and that of a belief with
a covariance keeps its angle. Beside it stands a SiLU network with biases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from scroll.training.batches import Rows
from scroll.training.bodies import MLP
from scroll.training.loop import train
from scroll.training.network import stack
from scroll.training.settings import Settings

from ..data.sources import Say
from ..tables.table import Block, Table, table
from .drawing import BOUND, FREE, GREY, THIRD, TRUTH, picture
from .moons import (
    BODIES,
    CENTRE,
    PENALTIES,
    POINT,
    SEEDS,
    SETTINGS,
    TEST_ROWS,
    Body,
    Predict,
    confidence,
    laplace,
    laplace_predictive,
    maker,
    map_network,
    moons,
)

RADII, ANGLES = (1.5, 6.0, 50.0), 36_000
REACH, FINENESS = 8.0, 161  # of the maps


class Recipe(NamedTuple):
    """A network and its training.

    Attributes:
        body: makes the body.
        bias: whether the head has a bias.
        settings: of training.
    """

    body: Body
    bias: bool
    settings: Settings


NETWORKS = {
    "ReLU without biases": Recipe(lambda lead: MLP(2, 50, 1, "relu", lead), False, Settings()),
    "SiLU with biases": Recipe(BODIES["SiLU network"], True, SETTINGS),
}
LOOKS: dict[str, dict[str, Any]] = {
    "MAP": {"color": TRUTH, "ls": ":", "marker": "x"},
    "Laplace": {"color": BOUND, "ls": "--", "marker": "s"},
    "SCROLL-None": {"color": GREY, "ls": "-.", "marker": "d"},
    "SCROLL-Diag": {"color": THIRD, "ls": "--", "marker": "^"},
    "SCROLL-Full": {"color": FREE, "ls": "-", "marker": "o"},
}
SHOWN = ("MAP", "SCROLL-None", "SCROLL-Full")
COLUMNS = (*(f"arc at {r:g}" for r in RADII), f"confidence at {RADII[-1]:g}", "test NLL")

Fits = Mapping[tuple[str, str], Predict]  # by body and method


def two_moons(output: Path, quick: bool, say: Say) -> list[Table]:
    """Answer both questions: how confident is each method far away, and does the band widen?"""
    seeds = SEEDS[:1] if quick else SEEDS
    return [confidence(output, quick, say), contours(output, quick, seeds, say)]


def contours(output: Path, quick: bool, seeds: Sequence[int], say: Say) -> Table:
    """Measure the band of each body and method, and draw `two-moons-contours`.

    Args:
        output: folder of the picture.
        quick: train for a few steps only.
        seeds: of the data and of the networks.
        say: takes lines about progress.
    """
    found = {
        (name, method): predict
        for name in NETWORKS
        for method, predict in models(name, quick, seeds, say).items()
    }
    with torch.no_grad():
        each = {label: measured(predict, seeds) for label, predict in found.items()}
        draw(found, each, seeds, output / "two-moons-contours", quick)
    rows = {
        label: {column: dict(zip(seeds, of.tolist(), strict=True)) for column, of in row.items()}
        for label, row in each.items()
    }
    blocks = [Block({k: v for k, v in rows.items() if k[0] == name}, None) for name in NETWORKS]
    whole = ", ".join(f"{2 * torch.pi * r:.0f}" for r in RADII)
    title = (
        f"Two moons, {len(seeds)} seeds: length of the arc with 0.1 < P(class 1) < 0.9 at a "
        f"distance from the centre; whole circles are {whole}"
    )
    return table("two_moons_contours", title, COLUMNS, blocks, show_se=True)


def models(name: str, quick: bool, seeds: Sequence[int], say: Say) -> dict[str, Predict]:
    """Train every method on one body, and return their predictives.

    Args:
        name: of `NETWORKS`.
        quick: train for a few steps only.
        seeds: of the data and of the networks.
        say: takes lines about progress.
    """
    body, bias, settings = NETWORKS[name]
    recipe = replace(settings, steps=100) if quick else settings
    mean, std = moments(moons(0, seeds))
    unit = lambda x: (x - mean) / std
    rows, held = (raw._replace(x=unit(raw.x)) for raw in (moons(part, seeds) for part in (0, 1)))
    say(f"contours, {name}: MAP")
    penalties = PENALTIES[::2] if quick else PENALTIES
    point = map_network(maker(body, *POINT, bias=bias), rows, held, seeds, penalties, recipe)
    with torch.no_grad():
        about = laplace(point, rows)
    fits: dict[str, Predict] = {
        "MAP": point,
        "Laplace": lambda x: laplace_predictive(point, about, x),
    }
    for method in ("SCROLL-None", "SCROLL-Diag", "SCROLL-Full"):
        say(f"contours, {name}: {method}")
        make = maker(body, method.partition("-")[2].lower(), bias=bias)
        fits[method] = train(stack(make, seeds), rows, held, recipe).network

    def of_raw(fit: Predict) -> Predict:
        return lambda x: fit(unit(x))

    return {method: of_raw(fit) for method, fit in fits.items()}


def moments(rows: Rows) -> tuple[Tensor, Tensor]:
    """Return means and standard deviations of the columns of each data set, (R, 1, D)."""
    return rows.x.mean(-2, keepdim=True), rows.x.std(-2, correction=0, keepdim=True)


def circle(radius: float, count: int, seeds: int = 1) -> Tensor:
    """Return equally spaced inputs on a circle about the centre of the data, (R, count, 2)."""
    angle = 2 * torch.pi * torch.arange(count) / count
    points = radius * torch.stack([angle.cos(), angle.sin()], -1)
    return (torch.tensor(CENTRE) + points).expand(seeds, -1, -1)


def arc(predict: Predict, radius: float, seeds: int) -> Tensor:
    """Return the length of the arc with 0.1 < P(class 1) < 0.9 on a circle, (R,).

    Each end of the arc is known up to 2 pi r / 36,000.
    """
    p = predict(circle(radius, ANGLES, seeds)).probs[..., 1]
    return 2 * torch.pi * radius * ((p > 0.1) & (p < 0.9)).double().mean(-1)


def measured(predict: Predict, seeds: Sequence[int]) -> dict[str, Tensor]:
    """Return arcs, the mean confidence on the widest circle and the test NLL, (R,) each."""
    test, far = moons(2, seeds, TEST_ROWS), circle(RADII[-1], ANGLES, len(seeds))
    arcs = [arc(predict, r, len(seeds)) for r in RADII]
    confidence = predict(far).probs.amax(-1).mean(-1)
    nll = -predict(test.x).log_prob(test.y).mean(-1)
    return dict(zip(COLUMNS, (*arcs, confidence, nll), strict=True))


def draw(
    found: Fits,
    each: Mapping[tuple[str, str], Mapping[str, Tensor]],
    seeds: Sequence[int],
    path: Path,
    quick: bool,
) -> None:
    """Draw the bands of the first seed, and the arcs of all methods against the distance.

    Args:
        found: predictives.
        each: what was measured of them.
        seeds: of the data.
        path: of the picture.
        quick: draw coarsely.
    """
    data = moons(0, seeds)
    with picture(path, len(NETWORKS), len(SHOWN) + 1, (13, 7)) as axes:
        for line, name in zip(axes, NETWORKS, strict=True):
            for ax, method in zip(line, SHOWN, strict=False):
                _map(ax, found[name, method], data, 41 if quick else FINENESS)
                near, far = (float(each[name, method][c].mean()) for c in COLUMNS[:3:2])
                ends = f"{near:.1f}\nat {RADII[0]:g}, {far:.1f} at {RADII[-1]:g}"
                ax.set_title(f"{method}: arc {ends}")
            _curves(line[-1], {m: found[name, m] for m in LOOKS}, len(seeds), 4 if quick else 12)
            line[0].set_ylabel(name, weight="bold")
            full, point = (each[name, m] for m in (SHOWN[-1], SHOWN[0]))
            times = [float(of[COLUMNS[2]].mean() / of[COLUMNS[0]].mean()) for of in (full, point)]
            ends = f"{times[0]:.1f}, MAP {times[1]:.1f} times as long"
            line[-1].set_title(f"From {RADII[0]:g} to {RADII[-1]:g}: Full\n{ends}")
        shown = axes[0, -1].get_legend_handles_labels()
        axes[0, -1].figure.legend(*shown, loc="outside lower right", ncols=len(shown[1]))


def _map(ax: Any, predict: Predict, data: Rows, fineness: int) -> None:
    """Draw the band between the classes of the first seed, white, with two of the circles."""
    across, up = (torch.linspace(c - REACH, c + REACH, fineness) for c in CENTRE)
    grid = torch.cartesian_prod(across, up).expand(len(data.y), -1, -1)
    p = predict(grid).probs[0, :, 1].view(fineness, fineness).T
    ax.contourf(across, up, p, [0, 0.1, 0.9, 1], colors=["#BFD9EA", "white", "#F7DFAE"])
    ax.contour(across, up, p, [0.5], colors="k", linewidths=1)
    for label, (color, marker) in enumerate(((FREE, "o"), (BOUND, "s"))):
        ax.plot(*data.x[0, data.y[0] == label].T, marker, color=color, ms=2, mew=0)
    for radius in RADII[:2]:
        ax.plot(*circle(radius, 361)[0].T, color=GREY, ls="--", lw=1)
    ax.set(aspect="equal", xticks=[], yticks=[])


def _curves(ax: Any, found: Mapping[str, Predict], seeds: int, count: int) -> None:
    """Draw the mean arc of each method against the distance."""
    radii = torch.logspace(0, 2, count).tolist()
    for method, predict in found.items():
        arcs = [float(arc(predict, r, seeds).mean()) for r in radii]
        ax.plot(radii, arcs, label=method, **{**LOOKS[method], "lw": 1.6, "ms": 5})
    ax.plot(radii, [2 * torch.pi * r for r in radii], color=GREY, lw=1, label="whole circle")
    ax.set(xscale="log", yscale="log", xlabel="distance from the centre", ylabel="arc length")
