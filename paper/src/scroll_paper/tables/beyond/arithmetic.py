"""The spread of results due to rounding, beside the spread over seeds.

The same fit is repeated with initial parameters that differ in their last bits (`Setting.ulps`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scroll.training.bodies import ARCHITECTURES

from ...models.methods import TABLE_METHODS
from ..builders import Scope
from ..rows import Row
from ..selection import Selection, Values, Where
from ..table import Cell, Label, Table

ULPS = (0, 1, 2, 3)  # 0 is the run of all other tables
METHODS = ("scroll-full", "scroll-diag", "closed-full", "mvn")
ROWS = tuple(
    Row((TABLE_METHODS[m].label, f"{k} ulps"), m, {"ulps": k} if k else {})
    for m in METHODS
    for k in ULPS
)
MUCH = 0.5  # of the spread over seeds; a row whose rounding exceeds it is starred


class Spread(NamedTuple):
    """Standard deviations of a score y, by seed s and perturbation k.

    Args:
        seeds: over seeds of one run: sqrt(mean_k var_s y).
        rounding: over perturbations of one seed: sqrt(mean_s var_k y).
        mean: over perturbations of the mean over seeds: sqrt(var_k mean_s y).
        n_seeds: number of seeds.
    """

    seeds: float
    rounding: float
    mean: float
    n_seeds: int


def spread(runs: Sequence[Values]) -> Spread | None:
    """Return the spreads of scores by seed, one mapping per perturbation; None if too few.

    Only seeds with all perturbations count; there must be two of each.
    """
    shared = sorted(set(runs[0]).intersection(*runs[1:])) if runs else []
    if len(runs) < 2 or len(shared) < 2:
        return None
    y = np.array([[run[seed] for seed in shared] for run in runs], float)
    with np.errstate(invalid="ignore"):  # inf - inf, if a run diverged
        seeds, rounding = (float(np.sqrt(y.var(axis, ddof=1).mean())) for axis in (1, 0))
        return Spread(seeds, rounding, float(y.mean(1).std(ddof=1)), len(shared))


def spreads(found: Selection, scope: Scope) -> list[Table]:
    """Return the spreads of test NLL: with the selected body, and with each body."""
    note = (
        f"{len(ULPS)} runs per seed, whose initial parameters differ by a factor 1 + k eps, "
        f"k = {', '.join(map(str, ULPS))}. *: rounding exceeds {MUCH:g} of the spread over seeds."
    )
    bodies = {a: {"architecture": a} for a in ARCHITECTURES}
    title = "Standard deviations of test NLL over seeds and over last bits"
    return [
        _table("arithmetic", f"{title}, selected body", {"": {}}, note, found, scope),
        _table("arithmetic_bodies", f"{title}, by body", bodies, note, found, scope),
    ]


def _table(
    name: str, title: str, bodies: Mapping[str, Where], note: str, found: Selection, scope: Scope
) -> Table:
    heads, blocks = scope.headings(), []
    for method in METHODS:
        rows = [row for row in ROWS if row.method == method and scope.wants(row)]
        block: dict[Label, dict[str, Cell]] = {}
        for body, where in bodies.items() if rows else ():
            ways = [{**row.where, **where} for row in rows]
            for s, head in heads.items():
                runs = [found.values(s, method, [way], scope.seeds) for way in ways]
                for kind, one in _cells(spread(runs)).items():
                    label = (TABLE_METHODS[method].label, *filter(None, (body,)), kind)
                    block.setdefault(label, {})[head] = one
        if block:
            blocks.append(block)
    return Table(name, title, tuple(heads.values()), blocks, note=note)


def _cells(at: Spread | None) -> dict[str, Cell]:
    kinds = ("over seeds", "over last bits", "of the mean over seeds")
    if at is None:
        return dict.fromkeys(kinds, Cell(None))
    star = at.rounding > MUCH * at.seeds
    each = zip((at.seeds, at.rounding, at.mean), (False, star, False), strict=True)
    cells = [Cell(x, count=at.n_seeds, star=starred) for x, starred in each]
    return dict(zip(kinds, cells, strict=True))
