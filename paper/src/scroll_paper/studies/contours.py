"""App. classification_details: does the uncertain band between two moons widen away from them?

The band at distance r is where 0.1 < P(class 1) < 0.9 on the circle of radius r about the centre
of the data; its size is its total arc length, in units of the inputs, which are centred and not
scaled. The paper's body is one ReLU layer of 50 units without biases: its features grow in
proportion to the distance, so that a point mass keeps a band of one width, and a covariance keeps
one of a constant angle. A SiLU network with biases is the counter-example.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from scroll.training.batches import Rows
from scroll.training.bodies import MLP
from scroll.training.loop import train
from scroll.training.network import stack

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
# Body and whether the head has a bias.
NETWORKS: dict[str, tuple[Body, bool]] = {
    "ReLU without biases": (lambda lead: MLP(2, 50, 1, "relu", lead), False),
    "SiLU with biases": (BODIES["SiLU network"], True),
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
    body, bias = NETWORKS[name]
    rows, held = (centred(moons(part, seeds)) for part in (0, 1))
    recipe = replace(SETTINGS, steps=100) if quick else SETTINGS
    say(f"contours, {name}: MAP")
    penalties = PENALTIES[::2] if quick else PENALTIES
    point = map_network(maker(body, *POINT, bias=bias), rows, held, seeds, penalties, recipe)
    with torch.no_grad():
        about = laplace(point, rows)
    found: dict[str, Predict] = {
        "MAP": point,
        "Laplace": lambda x: laplace_predictive(point, about, x),
    }
    for method in ("SCROLL-None", "SCROLL-Diag", "SCROLL-Full"):
        say(f"contours, {name}: {method}")
        make = maker(body, method.partition("-")[2].lower(), bias=bias)
        found[method] = train(stack(make, seeds), rows, held, recipe).network
    return found


def centred(rows: Rows) -> Rows:
    """Return rows with the centre of the data at zero."""
    return Rows(rows.x - torch.tensor(CENTRE).to(rows.x), rows.y)


def circle(radius: float, count: int, seeds: int = 1) -> Tensor:
    """Return equally spaced inputs on a circle about zero, (R, count, 2)."""
    angle = 2 * torch.pi * torch.arange(count) / count
    return radius * torch.stack([angle.cos(), angle.sin()], -1).expand(seeds, -1, -1)


def arc(predict: Predict, radius: float, seeds: int) -> Tensor:
    """Return the length of the arc with 0.1 < P(class 1) < 0.9 on a circle about zero, (R,).

    Each end of the arc is known up to 2 pi r / 36,000.
    """
    p = predict(circle(radius, ANGLES, seeds)).probs[..., 1]
    return 2 * torch.pi * radius * ((p > 0.1) & (p < 0.9)).double().mean(-1)


def measured(predict: Predict, seeds: Sequence[int]) -> dict[str, Tensor]:
    """Return arcs, the mean confidence on the widest circle and the test NLL, (R,) each."""
    test, far = centred(moons(2, seeds, TEST_ROWS)), circle(RADII[-1], ANGLES, len(seeds))
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
    data = centred(moons(0, seeds))
    with picture(path, len(NETWORKS), len(SHOWN) + 1, (14, 7)) as axes:
        for line, name in zip(axes, NETWORKS, strict=True):
            for ax, method in zip(line, SHOWN, strict=False):
                _map(ax, found[name, method], data, 41 if quick else FINENESS)
                near, far = (float(each[name, method][c].mean()) for c in COLUMNS[:3:2])
                ends = f"{near:.1f}\nat {RADII[0]:g}, {far:.1f} at {RADII[-1]:g}"
                ax.set_title(f"{method}: arc {ends}")
            _curves(line[-1], {m: found[name, m] for m in LOOKS}, len(seeds), 4 if quick else 12)
            line[0].set_ylabel(name, weight="bold")
        axes[0, -1].set_title("Length of the arc\nagainst the distance")
        axes[0, -1].legend(loc="upper left", fontsize=9)


def _map(ax: Any, predict: Predict, data: Rows, fineness: int) -> None:
    """Draw the band between the classes of the first seed, white, with two of the circles."""
    line = torch.linspace(-REACH, REACH, fineness)
    grid = torch.cartesian_prod(line, line).expand(len(data.y), -1, -1)
    p = predict(grid).probs[0, :, 1].view(fineness, fineness).T
    ax.contourf(line, line, p, [0, 0.1, 0.9, 1], colors=["#BFD9EA", "white", "#F7DFAE"])
    ax.contour(line, line, p, [0.5], colors="k", linewidths=1)
    for label, (color, marker) in enumerate(((FREE, "o"), (BOUND, "s"))):
        ax.plot(*data.x[0, data.y[0] == label].T, marker, color=color, ms=2, mew=0)
    for radius in RADII[:2]:
        ax.plot(*circle(radius, 361)[0].T, color=GREY, ls="--", lw=1)
    ax.set(aspect="equal", xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=[], yticks=[])


def _curves(ax: Any, found: Mapping[str, Predict], seeds: int, count: int) -> None:
    """Draw the mean arc of each method against the distance."""
    radii = torch.logspace(0, 2, count).tolist()
    for method, predict in found.items():
        arcs = [float(arc(predict, r, seeds).mean()) for r in radii]
        ax.plot(radii, arcs, label=method, **{**LOOKS[method], "lw": 1.6, "ms": 5})
    ax.plot(radii, [2 * torch.pi * r for r in radii], color=GREY, lw=1, label="whole circle")
    ax.set(xscale="log", yscale="log", xlabel="distance from the centre", ylabel="arc length")
