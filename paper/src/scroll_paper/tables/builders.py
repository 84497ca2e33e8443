"""The tables of the experiments, made of records alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Any

from ..data.datasets import SETS
from ..data.encoders import ENCODERS
from ..models.methods import Setting
from . import table_rows
from .selection import Index, Values, Where
from .significance import changed
from .table import Block, Cell, Table, cell, table
from .table_rows import Row, Rows


@dataclass(frozen=True)
class Scope:
    """What of an experiment is asked for."""

    sets: tuple[str, ...]
    seeds: tuple[int, ...]
    methods: tuple[str, ...] | None = None  # None is all of them

    def wants(self, row: Row) -> bool:
        """Whether a row is among the methods asked for."""
        return self.methods is None or row.method in self.methods


Make = Callable[[Index, Scope], list[Table]]


def setting(name: str, method: str, where: Where) -> Setting:
    """The setting of a row on a set; a batch that holds all rows is no batch."""
    odd = {k: v for k, v in where.items() if k in Setting._fields}
    if odd.get("batch", 0) >= SETS[name].train_rows:
        del odd["batch"]
    return Setting(name, method, **odd)


def _values(index: Index, scope: Scope, row: Row, name: str, metric: str = "nll") -> Values:
    fixed = {k: v for k, v in row.where.items() if k in ("architecture", "knob")}
    ways = [setting(name, row.method, where).odd() | fixed for where in row.at(name)]
    return index.values(name, row.method, ways, scope.seeds, row.metric or metric)


def by_set(name: str, title: str, blocks: Iterable[Rows], metric: str, **how: Any) -> Make:
    """A table with sets along the top."""
    blocks = tuple(blocks)

    def make(index: Index, scope: Scope) -> list[Table]:
        filled = [
            Block(
                {
                    row.label: {s: _values(index, scope, row, s, metric) for s in scope.sets}
                    for row in block.rows
                    if scope.wants(row)
                },
                block.ranked,
            )
            for block in blocks
        ]
        filled = [block for block in filled if block.rows]
        return [table(name, title, scope.sets, filled, **how)] if filled else []

    return make


def several(*makers: Make) -> Make:
    """The tables of all of them."""
    return lambda index, scope: [t for make in makers for t in make(index, scope)]


def optimism(index: Index, scope: Scope) -> list[Table]:
    """Train and test NLL of two routes, and the gap between them."""
    blocks = []
    for row in filter(scope.wants, table_rows.OPTIMISM):
        kinds = ("train", "test", "gap")
        lines: dict[Any, dict[str, Cell]] = {(str(row.label), kind): {} for kind in kinds}
        for s in scope.sets:
            test = _values(index, scope, row, s)
            train = _values(index, scope, row, s, "train_nll")
            gap = {seed: test[seed] - train[seed] for seed in test.keys() & train.keys()}
            for kind, values in zip(kinds, (train, test, gap), strict=True):
                lines[str(row.label), kind][s] = cell(values)
        blocks.append(lines)
    title = "Train and test NLL of the free and the closed route (Full, relu+LN)"
    return [Table("appendix_traintest_gap", title, scope.sets, blocks)]


def batching(index: Index, scope: Scope) -> list[Table]:
    """The change in NLL from all rows a step to 256."""
    lines: dict[Any, dict[str, Cell]] = {}
    for row in filter(scope.wants, table_rows.BATCHING):
        lines[row.label] = {}
        for s in scope.sets:
            full = _values(index, scope, row, s)
            batched = row._replace(where={**row.where, **table_rows.SMALL_BATCH})
            part = _values(index, scope, batched, s)
            both = {seed: part[seed] - full[seed] for seed in part.keys() & full.keys()}
            lines[row.label][s] = cell(both, signed=True, star=changed(part, full))
    title = "Mini-batches of 256 against full batches (relu+LN): change in test NLL"
    return [Table("appendix_batching", title, scope.sets, [lines])]


def trajectory(index: Index, scope: Scope) -> list[Table]:
    """NLL by depth; the best depth of each family is marked."""
    lines: dict[Any, dict[str, Cell]] = {}
    wanted = {c: row for c, row in table_rows.TRAJECTORY.items() if scope.wants(row)}
    for s in scope.sets:
        found = {c: _values(index, scope, row, s) for c, row in wanted.items()}
        means = {c: m for c, v in found.items() if v and isfinite(m := fmean(v.values()))}
        lines[s] = {}
        for column, values in found.items():
            family = [m for c, m in means.items() if c.split()[0] == column.split()[0]]
            best = column in means and means[column] == min(family)
            lines[s][column] = cell(values, mark="best" if best else "")
    title = "Depth of the body: linear, one and two hidden layers (test NLL)"
    return [Table("depth_trajectory", title, tuple(wanted), [lines])]


def loo_gap(index: Index, scope: Scope) -> list[Table]:
    """What the shared cavity owes to leaving one out, on trained features."""
    lines: dict[Any, dict[str, Cell]] = {}
    for s in scope.sets:
        n = SETS[s].train_rows
        found = index.fits(s, "loo-gap", {}, scope.seeds)
        each = {
            k: dict(enumerate(r["metrics"][k] for r in found)) for k in ("gap", "d_eff", "h_max")
        }
        gap = cell(each["gap"], digits=4)
        rate = 50 / n
        lines[s] = {
            "N_train": Cell(float(n), digits=0),
            "H/N": Cell(rate),
            "d_eff": cell(each["d_eff"], digits=1),
            "h_max": Cell(max(each["h_max"].values()), digits=2) if found else Cell(None),
            "gap/plate (nats)": gap,
            "gap/(H/N)": Cell(None if gap.mean is None else gap.mean / rate, digits=2),
        }
    title = "Eq. shared_loo_gap on trained features, a fit an entry of the mean"
    columns = ("N_train", "H/N", "d_eff", "h_max", "gap/plate (nats)", "gap/(H/N)")
    return [Table("loo_gap", title, columns, [lines])]


def scale(index: Index, scope: Scope) -> list[Table]:
    """Large sets, with what each row costs."""
    title = "Large tables and frozen features: runs and passes per architecture, test NLL"
    heads = {s: s for s in scope.sets}
    note = _encoders(scope.sets)
    return [
        _with_costs("table_scale_nll", title, table_rows.SCALE, heads, "nll", index, scope, note)
    ]


def shift(index: Index, scope: Scope) -> list[Table]:
    """How well rows from elsewhere are told, and what the rows at home are predicted at."""
    heads = {s: table_rows.KINDS.get(s, s) for s in scope.sets}
    against = "; ".join(f"{heads[s]}: {s} against {table_rows.FOREIGN[s]}" for s in scope.sets)
    note = ". ".join(filter(None, (against, _encoders(scope.sets))))
    return [
        _with_costs(name, title, table_rows.SHIFT, heads, metric, index, scope, note)
        for name, title, metric in (
            ("ood", "AUROC of the epistemic variance, rows from elsewhere", "auroc"),
            ("ood_nll", "Test NLL of the same, rows at home", "nll"),
        )
    ]


def _encoders(sets: Iterable[str]) -> str:
    """Whose features they are, where they are any."""
    made = {s: SETS[s].encoder for s in sets if SETS[s].encoder}
    return "; ".join(f"{s} by {ENCODERS[e].about}" for s, e in made.items())


def _with_costs(
    name: str,
    title: str,
    blocks: Iterable[Rows],
    heads: dict[str, str],
    metric: str,
    index: Index,
    scope: Scope,
    note: str,
) -> Table:
    """A table with sets along the top, under `heads`, after what each row costs."""
    filled = []
    for block in blocks:
        rows = {}
        for row in filter(scope.wants, block.rows):
            known = zip(("Train", "Infer"), table_rows.PASSES[row.method], strict=True)
            each = {head: dict.fromkeys(scope.seeds, float(n)) for head, n in known}
            found = {heads[s]: _values(index, scope, row, s, metric) for s in scope.sets}
            rows[row.label] = {**each, **found}
        if rows:
            filled.append(Block(rows, block.ranked))
    costs = ("Train", "Infer")
    columns = (*costs, *heads.values())
    most = columns if metric == "auroc" else ()
    return table(name, title, columns, filled, counts=costs, greatest=most, note=note)
