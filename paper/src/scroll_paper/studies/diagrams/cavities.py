"""Fig. cavity: which points has the belief seen that scores point n? (Def. cavity)

An arrow from point i into w means that the score's mean of point n moves with y_i. So the arrows
are derivatives of the library's own cavities; nothing about a cavity is written here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import grad

from scroll.beliefs import Problem
from scroll.beliefs.covariances import Diag
from scroll.factors import Gaussian
from scroll.objectives import Cavity
from scroll.objectives.cavities import CAVITIES
from scroll.objectives.routes import ROUTES

from ...data.sources import Say
from ...tables.table import Cell, Label, Table
from ..drawing import FREE, GREY, blank, picture

POINTS, SCORED = 5, 2  # point 3 is scored, counted from 0 here
ROUNDING = 1e-12


def cavities(output: Path, quick: bool, say: Say) -> list[Table]:
    """Differentiate each cavity by the targets, and draw `cavities.png`."""
    say("cavities: derivatives of the scored mean by the targets")
    found = {cavity.name: influence(cavity) for cavity in CAVITIES}
    draw(CAVITIES, found, output / "cavities")
    columns = [f"y{i + 1}" for i in range(POINTS)]
    rows: dict[Label, dict[str, Cell]] = {
        name: dict(zip(columns, map(Cell, each.tolist()), strict=True))
        for name, each in found.items()
    }
    title = f"Derivative of the mean that scores point {SCORED + 1} by each target"
    return [Table("cavities", title, columns, [rows])]


def influence(cavity: Cavity, points: int = POINTS, scored: int = SCORED) -> Tensor:
    """d m_n / d y_i of the cavity's belief for point n, i = 1..N, under a route that gives it.

    Args:
        cavity: whose belief.
        points: N.
        scored: n, counted from 0.
    """
    g = torch.Generator().manual_seed(0)
    psi = torch.randn(points, 3, generator=g, dtype=torch.float64)
    y = torch.randn(1, points, generator=g, dtype=torch.float64)
    route = next(r for r in ROUTES if r.needs_every_row and cavity.needs in r.gives)
    one = psi.new_ones(1)
    p = Problem(psi, y, Gaussian(one), one, added=Diag(psi.new_ones(1, 3)))

    def mean(targets: Tensor) -> Tensor:
        posed = p._replace(y=targets)
        return cavity(route(posed), posed).mean[0, scored]

    found: Tensor = grad(mean)(y)
    return found[0]


def partners(cavity: Cavity) -> list[str]:
    """Return the names of our routes that give what a cavity needs."""
    return [route.name for route in ROUTES if cavity.needs in route.gives]


def draw(shown: Sequence[Cavity], found: dict[str, Tensor], path: Path) -> None:
    """Draw the graph of each cavity, with the routes that it can be combined with."""
    with picture(path, 1, len(shown), (4 * len(shown), 3.6)) as axes:
        for letter, ax, cavity in zip("abcdefgh", axes[0], shown, strict=False):
            seen = (found[cavity.name].abs() > ROUNDING).tolist()
            _graph(ax, seen)
            points = ", ".join(str(i + 1) for i, s in enumerate(seen) if s)
            ax.set_title(f"({letter}) {cavity.name}: point {SCORED + 1} is\nscored by {points}")
            prior = "contains the prior" if cavity.contains_prior else "prior term separate"
            text = f"{prior}\nroutes: " + _lines(partners(cavity))
            ax.text(0, -0.7, text, ha="center", va="top", size=11)


def _graph(ax: Any, seen: Sequence[bool]) -> None:
    """Draw w, the points, an arrow into w for each that was seen, and one to the scored point."""
    blank(ax)
    ax.set(xlim=(-2.6, 2.6), ylim=(-1.7, 2.6))
    ring = {"boxstyle": "circle,pad=0.35", "fc": "white", "ec": "black", "lw": 2}
    ax.text(0, 2.0, "w", ha="center", va="center", size=15, bbox=ring, zorder=3)
    for i, used in enumerate(seen):
        x, scored = i - SCORED, i == SCORED
        color = FREE if scored else ("black" if used else GREY)
        lw = 2.5 if scored else 1.5
        box = {"boxstyle": "round,pad=0.35", "ec": color, "fc": "white", "lw": lw}
        ax.text(x, 0, str(i + 1), ha="center", va="center", size=14, color=color, bbox=box)
        shift = -0.16 if scored else 0.0
        if used:
            _arrow(ax, (x + shift, 0.35), (0.24 * x + shift, 1.6), "black", "-")
        if scored:
            _arrow(ax, (0.16 * used, 1.55), (0.16 * used, 0.4), FREE, "-", 3.0)


def _arrow(
    ax: Any,
    start: tuple[float, float],
    end: tuple[float, float],
    color: str,
    ls: str,
    lw: float = 1.6,
) -> None:
    look = {"arrowstyle": "-|>", "color": color, "ls": ls, "lw": lw, "mutation_scale": 14}
    ax.annotate("", xy=end, xytext=start, arrowprops=look)


def _lines(words: Sequence[str], per_line: int = 3) -> str:
    """Return words with commas, a few per line."""
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return ",\n".join(lines)
