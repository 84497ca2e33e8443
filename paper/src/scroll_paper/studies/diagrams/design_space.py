"""Fig. lead_map: the design space, drawn from `scroll.METHODS` (App. design_space).

The axes are the parts that the methods use: a row per route, a column per cavity, and in each cell
the methods by score and prior term. A combination that `Objective` refuses shows its reason.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from scroll.objectives import METHODS, Objective

from ...data.sources import Say
from ...tables.table import Cell, Label, Table
from ..drawing import FREE, blank, picture

Methods = Mapping[str, Objective]
WIDTH = 34  # letters per line of a cell
INK, PALE, REFUSED = "0.35", "#E3EFF7", "0.93"


class Group(NamedTuple):
    """Methods of one cell with the same score and prior term.

    Attributes:
        score: name of the score.
        prior: name of the prior term.
        methods: their names, without the covariance.
        rows: how many rows of `METHODS` they have.
    """

    score: str
    prior: str
    methods: tuple[str, ...]
    rows: int


class Place(NamedTuple):
    """One cell of route x cavity.

    Attributes:
        route: name of the route.
        cavity: name of the cavity.
        groups: the methods in it.
        refusal: why the two cannot be combined, or "".
    """

    route: str
    cavity: str
    groups: tuple[Group, ...]
    refusal: str


def design_space(output: Path, quick: bool, say: Say) -> list[Table]:
    """List every cell of the design space with its methods, and draw `design-space.png`."""
    say("design space: the cells of METHODS")
    found = places(METHODS)
    draw(found, priors(METHODS), output / "design-space")
    rows: dict[Label, dict[str, Cell]] = {}
    for place in found:
        at = (place.route, place.cavity)
        named = {(f"{g.score} + {g.prior}", ", ".join(g.methods)): g.rows for g in place.groups}
        why = ("refused", place.refusal) if place.refusal else ("open", "no method yet")
        for words, count in (named or {why: 0}).items():
            rows[at + words] = {"rows of METHODS": Cell(count, digits=0)}
    title = "Route, cavity, score + prior term and methods of each cell"
    return [Table("design_space", title, ["rows of METHODS"], [rows])]


def places(methods: Methods) -> list[Place]:
    """Return every cell of route x cavity, by the parts that the methods use.

    Args:
        methods: objectives by "method-covariance".
    """
    routes = {o.route.name: o.route for o in methods.values()}
    cavities = {o.cavity.name: o.cavity for o in methods.values()}
    return [
        Place(
            route,
            cavity,
            groups({k: o for k, o in methods.items() if _at(o) == (route, cavity)}),
            refusal([_message(r, c, o.prior) for o in methods.values()]),
        )
        for route, r in routes.items()
        for cavity, c in cavities.items()
    ]


def groups(methods: Methods) -> tuple[Group, ...]:
    """Return methods by score and prior term, in order."""
    found: dict[tuple[str, str], list[str]] = {}
    for key, o in methods.items():
        found.setdefault((o.score.name, o.prior.name), []).append(key.rpartition("-")[0])
    return tuple(
        Group(*terms, tuple(dict.fromkeys(names)), len(names)) for terms, names in found.items()
    )


def refusal(messages: Sequence[str]) -> str:
    """Return the reason in error messages, one per prior term; "" if some term is accepted.

    The reason stands after the name of the refused part; without one, it is what that part must do.
    """
    if not all(messages):
        return ""
    must, _, got = messages[0].partition(", but got ")
    reason = got.partition(". Use ")[0].partition(": ")[2]
    return (reason or must.replace("`", "")).removesuffix(".")


def priors(methods: Methods) -> dict[str, list[str]]:
    """Return the names of the prior terms that each cavity can be combined with."""
    routes = {o.route.name: o.route for o in methods.values()}
    terms = {o.prior.name: o.prior for o in methods.values()}
    return {
        name: [
            term for term, prior in terms.items()
            if not all(_message(route, cavity, prior) for route in routes.values())
        ]
        for name, cavity in {o.cavity.name: o.cavity for o in methods.values()}.items()
    }  # fmt: skip


def draw(found: Sequence[Place], terms: Mapping[str, Sequence[str]], path: Path) -> None:
    """Draw the map, with rows as high as their text.

    Args:
        found: the cells, route by route.
        terms: prior terms by cavity.
        path: of the picture.
    """
    lines: dict[str, int] = {}
    for place in found:
        lines[place.route] = max(lines.get(place.route, 0), len(_text(place)))
    heights = {route: count + 1.2 for route, count in lines.items()}
    heads = {c: _head(c, names) for c, names in terms.items()}
    top = max(map(len, heads.values())) + 0.6
    total = top + sum(heights.values())
    with picture(path, 1, 1, (2.8 * (len(heads) + 0.5), 0.205 * total + 0.7)) as axes:
        ax = axes[0, 0]
        blank(ax)
        ax.set(xlim=(-0.5, len(heads)), ylim=(total, 0))
        free, count = sum(not p.refusal for p in found), sum(map(_rows, found))
        ax.set_title(
            f"{free} of {len(found)} pairs of route (rows) and cavity (columns) are possible,\n"
            f"in them the {count} rows of METHODS (small: score + prior term)"
        )
        for column, (cavity, head) in enumerate(heads.items()):
            _write(ax, column + 0.03, 0.3, [(line, i == 0) for i, line in enumerate(head)])
            at = top
            for route, height in heights.items():
                (place,) = (p for p in found if (p.route, p.cavity) == (route, cavity))
                _box(ax, column, at, height, place)
                if column == 0:
                    _write(ax, -0.48, at + 0.5, [(w, True) for w in route.split("_")])
                at += height


def _box(ax: Any, column: int, at: float, height: float, place: Place) -> None:
    """Draw one cell."""
    from matplotlib.patches import Rectangle

    refused = bool(place.refusal)
    fill, edge = (REFUSED, "0.8") if refused else (PALE, FREE)
    box = Rectangle((column + 0.01, at + 0.1), 0.97, height - 0.2, fc=fill, ec=edge)
    ax.add_patch(box).set_hatch("///" if refused else None)
    _write(ax, column + 0.03, at + 0.5, _text(place), refused)


def _text(place: Place) -> list[tuple[str, bool]]:
    """Return the lines of a cell, and whether each is bold."""
    if place.refusal:
        return [(line, False) for line in wrap(f"refused: {place.refusal}", WIDTH)]
    if not place.groups:
        return [("open: no method yet", False)]
    lines = []
    for g in place.groups:
        lines += [(line, True) for line in wrap(", ".join(g.methods), WIDTH - 4)]
        lines += [(f"{g.score} + {g.prior}", False)]
    return lines


def _head(cavity: str, terms: Sequence[str]) -> list[str]:
    """Return the lines above a column."""
    return [cavity, *wrap(f"prior terms: {', '.join(terms)}", WIDTH)]


def _write(
    ax: Any, x: float, y: float, lines: Sequence[tuple[str, bool]], backed: bool = False
) -> None:
    """Write lines of text downwards, some of them bold; `backed` hides what is behind them."""
    box = {"fc": REFUSED, "ec": "none", "pad": 1.5} if backed else None
    for i, (line, bold) in enumerate(lines):
        weight, color = ("bold", "black") if bold else ("normal", INK)
        look = {"weight": weight, "color": color, "bbox": box}
        ax.text(x, y + i, line, va="top", size=11 if bold else 10.5, **look)


def _rows(place: Place) -> int:
    return sum(g.rows for g in place.groups)


def _at(o: Objective) -> tuple[str, str]:
    return o.route.name, o.cavity.name


def _message(route: Any, cavity: Any, prior: Any) -> str:
    """Return the error of the combination, or ""."""
    try:
        Objective(route, cavity, prior=prior)
    except ValueError as error:
        return str(error)
    return ""
