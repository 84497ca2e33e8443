"""How well code lengths and validation scores rank networks."""

from collections.abc import Callable, Iterable
from math import isfinite

from scipy.stats import spearmanr

from ...models.methods import TABLE_METHODS
from .. import cell_rows
from ..builders import Scope
from ..records import Record
from ..selection import Selection, Values
from ..table import Cell, Label, Table, cell


def code_ranks(found: Selection, scope: Scope) -> list[Table]:
    """Rank correlation of code length and validation NLL with test NLL, over the same networks."""
    lines: dict[Label, dict[str, Cell]] = {}
    heads = scope.headings()
    wanted = tuple(m for m in cell_rows.CODED if scope.methods is None or m in scope.methods)
    each = {str(TABLE_METHODS[m].label): (m,) for m in wanted}
    for label, methods in (each | {"Routes and bodies": wanted}).items():
        for kind, score in {"code length": _code, "validation NLL": _val}.items():
            lines[label, kind] = {
                heads[s]: cell(_agreement(found, scope, s, methods, score), digits=2)
                for s in scope.sets
            }
    title = "Rank correlation with the test NLL over the networks of a seed, mean over seeds"
    return [Table("codes_ranks", title, tuple(heads.values()), [lines])]


def _code(record: Record) -> float:
    return float(record["metrics"]["code"])


def _val(record: Record) -> float:
    return float(record["val"])


def _agreement(
    found: Selection, scope: Scope, name: str, methods: Iterable[str], score: Callable[..., float]
) -> Values:
    """Return, by seed, the rank correlation of a score of networks with their test NLL."""
    fits = [r for m in methods for r in found.fits(name, m, {}, scope.seeds)]
    each: dict[int, float] = {}
    for seed in scope.seeds:
        pairs = [(score(r), r["metrics"]["nll"]) for r in fits if r["fit"]["seed"] == seed]
        if len(pairs) > 2 and all(isfinite(x) for pair in pairs for x in pair):
            each[seed] = float(spearmanr(*zip(*pairs, strict=True)).statistic)
    return each
