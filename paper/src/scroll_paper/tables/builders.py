"""Builders of the experiments' tables: each turns records into tables."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean

from ..data.datasets import SETS
from ..data.encoders import ENCODERS
from ..models.method import Setting
from ..models.methods import TABLE_METHODS
from . import rows
from .check_rows import one_way
from .rows import Row, RowGroup
from .selection import Selection, Values, Where
from .significance import changed
from .table import Block, Cell, Label, Table, cell, table


@dataclass(frozen=True)
class Scope:
    """The part of an experiment that is asked for.

    Args:
        sets: data sets.
        seeds: random seeds of the splits.
        methods: rows; None is all of them.
        added: rows of methods from elsewhere, to stand below the experiment's own.
    """

    sets: tuple[str, ...]
    seeds: tuple[int, ...]
    methods: tuple[str, ...] | None = None
    added: tuple[Row, ...] = ()

    def wants(self, row: Row) -> bool:
        """Return True if a row is among the methods asked for."""
        return self.methods is None or row.method in self.methods

    def headings(self) -> dict[str, str]:
        """Return the column heading of each data set: its own if no other has the same."""
        known = {name: SETS[name].heading or name for name in self.sets}
        count = Counter(known.values())
        return {name: head if count[head] == 1 else name for name, head in known.items()}


Build = Callable[[Selection, Scope], list[Table]]


def setting(name: str, method: str, where: Where) -> Setting:
    """Return the setting of a row on a data set; a batch that holds all rows is no batch."""
    odd = {k: v for k, v in where.items() if k in Setting._fields}
    if odd.get("batch", 0) >= SETS[name].train_rows:
        del odd["batch"]
    return Setting(name, method, **odd)


def row_values(found: Selection, scope: Scope, row: Row, name: str, metric: str = "nll") -> Values:
    """Return a metric of a row by seed, on one data set.

    Args:
        found: the records.
        scope: whose seeds to show.
        row: of a table.
        name: of the data set.
        metric: to show, unless the row has its own.
    """
    ways = [way for where in row.at(name) for way in _fixed(row.method, name, where)]
    return found.values(name, row.method, ways, scope.seeds, row.metric or metric)


def _fixed(method: str, name: str, where: Where) -> list[Where]:
    """Return the settings of the records: one per value of the method's own grid, if it has one."""
    odd = setting(name, method, where).odd()
    fixed = odd | {k: v for k, v in where.items() if k in ("architecture", "knob")}
    if "knob" in where:
        return [fixed]
    knobs = TABLE_METHODS[method].training.knobs(name)
    return [fixed if knob is None else {**fixed, "knob": knob} for knob in knobs]


def by_set(
    name: str,
    title: str,
    blocks: Iterable[RowGroup],
    metric: str,
    *,
    show_se: bool = False,
    closed: bool = False,
) -> Build:
    """Return the builder of a table with one column per data set.

    Args:
        name: of the table and of its files.
        title: above the table.
        blocks: its rows.
        metric: that it shows.
        show_se: show standard errors too.
        closed: take no rows of added methods.
    """
    own = tuple(blocks)

    def build(found: Selection, scope: Scope) -> list[Table]:
        heads = scope.headings()
        more = () if closed or not scope.added else (RowGroup(scope.added),)

        def line(row: Row) -> dict[str, Values]:
            return {heads[s]: row_values(found, scope, row, s, metric) for s in scope.sets}

        filled = [
            Block({row.label: line(row) for row in block.rows if scope.wants(row)}, block.ranked)
            for block in (*own, *more)
        ]
        filled = [block for block in filled if block.rows]
        columns = tuple(heads.values())
        return [table(name, title, columns, filled, show_se=show_se)] if filled else []

    return build


def several(*builders: Build) -> Build:
    """Return a builder of the tables of all builders."""
    return lambda found, scope: [t for build in builders for t in build(found, scope)]


def optimism(found: Selection, scope: Scope) -> list[Table]:
    """Train and test NLL of two routes, and the gap between them."""
    blocks, heads = [], scope.headings()
    for row in filter(scope.wants, rows.OPTIMISM.rows):
        kinds = ("train", "test", "gap")
        lines: dict[Label, dict[str, Cell]] = {(str(row.label), kind): {} for kind in kinds}
        for s in scope.sets:
            test = row_values(found, scope, row, s)
            train = row_values(found, scope, row, s, "train_nll")
            gap = {seed: test[seed] - train[seed] for seed in test.keys() & train.keys()}
            for kind, values in zip(kinds, (train, test, gap), strict=True):
                lines[str(row.label), kind][heads[s]] = cell(values)
        blocks.append(lines)
    title = "Train and test NLL of the free and the closed route (Full, relu+LN)"
    return [Table("appendix_traintest_gap", title, tuple(heads.values()), blocks)]


def batching(found: Selection, scope: Scope) -> list[Table]:
    """Change in NLL from full batches to mini-batches of 256 rows."""
    lines: dict[Label, dict[str, Cell]] = {}
    heads = scope.headings()
    for row in filter(scope.wants, rows.BATCHING.rows):
        lines[row.label] = {}
        for s in scope.sets:
            full = row_values(found, scope, row, s)
            batched = row._replace(where={**row.where, **rows.SMALL_BATCH})
            part = row_values(found, scope, batched, s)
            both = {seed: part[seed] - full[seed] for seed in part.keys() & full.keys()}
            lines[row.label][heads[s]] = cell(both, signed=True, star=changed(part, full))
    title = "Mini-batches of 256 against full batches (relu+LN): change in test NLL"
    return [Table("appendix_batching", title, tuple(heads.values()), [lines])]


def trajectory(found: Selection, scope: Scope) -> list[Table]:
    """NLL by depth; the best depth of each family is marked."""
    lines: dict[Label, dict[str, Cell]] = {}
    wanted = {c: row for c, row in rows.TRAJECTORY.items() if scope.wants(row)}
    for s, head in scope.headings().items():
        each = {c: row_values(found, scope, row, s) for c, row in wanted.items()}
        means = {c: m for c, v in each.items() if v and isfinite(m := fmean(v.values()))}
        lines[head] = {}
        for column, values in each.items():
            family = [m for c, m in means.items() if c.split()[0] == column.split()[0]]
            best = column in means and means[column] == min(family)
            lines[head][column] = cell(values, mark="best" if best else "")
    title = "Depth of the body: linear, one and two hidden layers (test NLL)"
    return [Table("depth_trajectory", title, tuple(wanted), [lines])]


def loo_gap(found: Selection, scope: Scope) -> list[Table]:
    """Difference between the shared score and leave-one-out, on trained features."""
    lines: dict[Label, dict[str, Cell]] = {}
    for s, head in scope.headings().items():
        n = SETS[s].train_rows
        fits = found.fits(s, "loo-gap", {}, scope.seeds)
        each = {
            k: dict(enumerate(r["metrics"][k] for r in fits)) for k in ("gap", "d_eff", "h_max")
        }
        gap = cell(each["gap"], digits=4)
        rate = 50 / n
        lines[head] = {
            "N_train": Cell(float(n), digits=0),
            "H/N": Cell(rate),
            "d_eff": cell(each["d_eff"], digits=1),
            "h_max": Cell(max(each["h_max"].values()), digits=2) if fits else Cell(None),
            "gap/plate (nats)": gap,
            "gap/(H/N)": cell({k: v / rate for k, v in each["gap"].items()}, digits=2),
        }
    title = "Eq. shared_loo_gap on trained features; the mean is over all fits"
    columns = ("N_train", "H/N", "d_eff", "h_max", "gap/plate (nats)", "gap/(H/N)")
    return [Table("loo_gap", title, columns, [lines], given=columns[:2])]


def scale(found: Selection, scope: Scope) -> list[Table]:
    """Large data sets, with the cost of each row."""
    title = "Large tables and frozen features: runs and passes per architecture, test NLL"
    heads = scope.headings()
    made = _with_costs("table_scale_nll", title, rows.SCALE, heads, "nll", found, scope)
    return [replace(made, note=_encoders(scope.sets))]


def ood(found: Selection, scope: Scope) -> list[Table]:
    """Out-of-distribution detection, and the NLL of the test rows."""
    heads = {s: SETS[s].kind or head for s, head in scope.headings().items()}
    against = "; ".join(f"{heads[s]}: {s} against {SETS[s].foreign}" for s in scope.sets)
    note = ". ".join(filter(None, (against, _encoders(scope.sets))))
    return [
        replace(_with_costs(name, title, rows.OOD, heads, metric, found, scope), note=note)
        for name, title, metric in (
            ("ood", "AUROC of the epistemic variance, out-of-distribution rows", "auroc"),
            ("ood_nll", "Test NLL of the same networks, in-distribution rows", "nll"),
        )
    ]


def text_shift(found: Selection, scope: Scope) -> list[Table]:
    """Out-of-distribution detection on text with each way of scaling by itself."""
    (name,) = scope.sets
    ways = ("short steps", "even rows")
    blocks = []
    for pair in zip(*map(one_way, range(2)), strict=True):
        lines: dict[Label, dict[str, Values]] = {}
        for both in zip(*(group.rows for group in pair), strict=True):
            if scope.wants(both[0]):
                lines[both[0].label] = {
                    f"{metric.upper()}, {way}": row_values(found, scope, row, name, metric)
                    for metric in ("auroc", "nll")
                    for way, row in zip(ways, both, strict=True)
                }
        if lines:
            blocks.append(Block(lines, pair[0].ranked))
    columns = tuple(f"{metric}, {way}" for metric in ("AUROC", "NLL") for way in ways)
    title = "SICK against AG News: each way of scaling by itself"
    return [table("ood_text", title, columns, blocks, greatest=columns[:2])]


def _encoders(sets: Iterable[str]) -> str:
    """Name the encoder of each data set that is made of features."""
    made = {s: SETS[s].encoder for s in sets if SETS[s].encoder}
    return "; ".join(f"{s} by {ENCODERS[e].about}" for s, e in made.items())


def _with_costs(
    name: str,
    title: str,
    blocks: Iterable[RowGroup],
    heads: Mapping[str, str],
    metric: str,
    found: Selection,
    scope: Scope,
) -> Table:
    """Return a table with one column per data set, under `heads`, after two columns of costs."""
    costs, filled = ("Train", "Infer"), []
    for block in (*blocks, RowGroup(scope.added)):
        lines: dict[Label, Mapping[str, Values]] = {}
        for row in filter(scope.wants, block.rows):
            known = zip(costs, TABLE_METHODS[row.method].costs, strict=True)
            each = {head: dict.fromkeys(scope.seeds, float(n)) for head, n in known}
            values = {heads[s]: row_values(found, scope, row, s, metric) for s in scope.sets}
            lines[row.label] = {**each, **values}
        if lines:
            filled.append(Block(lines, block.ranked))
    columns = (*costs, *heads.values())
    most = columns if metric == "auroc" else ()
    return table(name, title, columns, filled, counts=costs, greatest=most)
