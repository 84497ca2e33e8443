"""The experiments by name: which fits each needs, and the tables that its records make."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from typing import Any

from ..bodies import ARCHITECTURES
from . import layout
from .datasets import SETS, UCI
from .index import Index, Values, Where
from .layout import ENSEMBLES, Row, Rows
from .methods import METHODS, Setting
from .significance import changed
from .tables import Block, Cell, Table, cell, table
from .work import Work

SEEDS = tuple(range(5, 25))
TRAINED_AS = {  # whose networks a row is made of, where not its own
    "laplace-full": "map",
    "deep-ensemble": "map",
    "mvn-ens": "mvn",
    "scroll-ens": "scroll-full",
    "free-hybrid": "scroll-full-refit",
    "loo-gap": "scroll-full-refit",
}
SLOW = {"seq-diag": ("yacht", "concrete", "energy", "wine", "boston")}  # a step a row; as printed
SLOW_SEEDS = SEEDS[:5]


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


@dataclass(frozen=True)
class Experiment:
    """A question of the paper.

    Args:
        about: it, in a line.
        rows: all lines of its tables; they say what is to be trained.
        tables: made of records alone.
        sets: that it is usually run on.
        seeds: that it is usually run with.
    """

    about: str
    rows: tuple[Row, ...]
    tables: Make
    sets: tuple[str, ...] = UCI
    seeds: tuple[int, ...] = SEEDS

    def methods(self) -> list[str]:
        """The methods of its rows."""
        return list(dict.fromkeys(row.method for row in self.rows))

    def works(self, scope: Scope) -> list[Work]:
        """The fits that its rows need."""
        found: dict[Any, Work] = {}
        for row in filter(scope.wants, self.rows):
            stem = TRAINED_AS.get(row.method, row.method)
            body = row.where.get("architecture")
            grid = (row.where["knob"],) if "knob" in row.where else None
            members = METHODS[stem].members if row.method in ENSEMBLES else 1
            for name in scope.sets:
                seeds = tuple(s for s in scope.seeds if stem not in SLOW or s in SLOW_SEEDS)
                if name not in SLOW.get(stem, scope.sets) or not seeds:
                    continue
                bodies = (body,) if body else ARCHITECTURES
                work = Work(_setting(name, stem, row.where), seeds, bodies, grid, members)
                at = (work.setting, bodies, grid)
                if at not in found or found[at].members < members:
                    found[at] = work
        return list(found.values())


def _setting(name: str, method: str, where: Where) -> Setting:
    """The setting of a row on a set; a batch that holds all rows is no batch."""
    odd = {k: v for k, v in where.items() if k in Setting._fields}
    if odd.get("batch", 0) >= train_rows(name):
        del odd["batch"]
    return Setting(name, method, **odd)


def train_rows(name: str) -> int:
    """60 % of a set, as the splits round it."""
    rest = SETS[name].rows - -(-SETS[name].rows // 5)
    return rest - -(-rest // 4)


def _rows(*blocks: Rows) -> tuple[Row, ...]:
    return tuple(row for block in blocks for row in block.rows)


def _values(index: Index, scope: Scope, row: Row, name: str, metric: str = "nll") -> Values:
    fixed = {k: v for k, v in row.where.items() if k in ("architecture", "knob")}
    where = _setting(name, row.method, row.where).odd() | fixed
    return index.values(name, row.method, where, scope.seeds, row.metric or metric)


def _by_set(name: str, title: str, blocks: Iterable[Rows], metric: str, **how: Any) -> Make:
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


def _several(*makers: Make) -> Make:
    return lambda index, scope: [t for make in makers for t in make(index, scope)]


def _optimism(index: Index, scope: Scope) -> list[Table]:
    """Train and test NLL of two routes, and the gap between them."""
    blocks = []
    for row in filter(scope.wants, layout.OPTIMISM):
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


def _batching(index: Index, scope: Scope) -> list[Table]:
    """The change in NLL from all rows a step to 256."""
    lines: dict[Any, dict[str, Cell]] = {}
    for row in filter(scope.wants, layout.BATCHING):
        lines[row.label] = {}
        for s in scope.sets:
            full = _values(index, scope, row, s)
            batched = row._replace(where={**row.where, **layout.SMALL_BATCH})
            part = _values(index, scope, batched, s)
            both = {seed: part[seed] - full[seed] for seed in part.keys() & full.keys()}
            lines[row.label][s] = cell(both, signed=True, star=changed(part, full))
    title = "Mini-batches of 256 against full batches (relu+LN): change in test NLL"
    return [Table("appendix_batching", title, scope.sets, [lines])]


def _trajectory(index: Index, scope: Scope) -> list[Table]:
    """NLL by depth; the best depth of each family is marked."""
    lines: dict[Any, dict[str, Cell]] = {}
    wanted = {c: row for c, row in layout.TRAJECTORY.items() if scope.wants(row)}
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


def _loo_gap(index: Index, scope: Scope) -> list[Table]:
    """What the shared cavity owes to leaving one out, on trained features."""
    lines: dict[Any, dict[str, Cell]] = {}
    for s in scope.sets:
        n = train_rows(s)
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


def _scale(index: Index, scope: Scope) -> list[Table]:
    """Large sets, with what each row costs."""
    blocks = []
    for block in (layout.at(b, **layout.AT_SCALE) for b in layout.SCALE):
        rows = {}
        for row in filter(scope.wants, block.rows):
            runs = dict.fromkeys(scope.seeds, float(layout.PASSES[row.method][0]))
            passes = dict.fromkeys(scope.seeds, float(layout.PASSES[row.method][1]))
            found = {s: _values(index, scope, row, s) for s in scope.sets}
            rows[row.label] = {"Train": runs, "Infer": passes, **found}
        if rows:
            blocks.append(Block(rows, block.ranked))
    title = "Large tables: training runs and passes per architecture, test NLL"
    columns = ("Train", "Infer", *scope.sets)
    return [table("table_scale_nll", title, columns, blocks, counts=("Train", "Infer"))]


_HEADLINE = _rows(*layout.HEADLINE)
_TEN = SEEDS[:10]

EXPERIMENTS: dict[str, Experiment] = {
    "headline": Experiment(
        "SCROLL against tuned references and ensembles: NLL, calibration error, RMSE",
        _HEADLINE,
        _several(
            _by_set("headline_nll", "Test NLL", layout.HEADLINE, "nll"),
            _by_set("table1_headline_caliberr", "Calibration error", layout.HEADLINE, "caliberr"),
            _by_set("headline_rmse", "Test RMSE", layout.HEADLINE, "rmse"),
            _by_set("mean_baseline_note", "The sanity floor, test NLL", (layout.FLOOR,), "nll"),
        ),
    ),
    "attribution": Experiment(
        "the design space: route, cavity and score by themselves",
        _rows(*layout.ATTRIBUTION),
        _several(
            _by_set("appendix_attribution_full_nll", "Test NLL", layout.ATTRIBUTION, "nll"),
            _by_set("appendix_attribution_full_rmse", "Test RMSE", layout.ATTRIBUTION, "rmse"),
        ),
    ),
    "ens-mixture": Experiment(
        "ensembles scored by their moments and as the exact mixture",
        layout.MIXTURE.rows,
        _by_set("appendix_ens_mixture", "Test NLL of ensembles", (layout.MIXTURE,), "nll"),
    ),
    "prior-ablation": Experiment(
        "the prior term learned, fixed, left out, or a KL",
        _rows(*layout.PRIOR),
        _by_set("appendix_prior_ablation", "Test NLL", layout.PRIOR, "nll"),
    ),
    "architecture": Experiment(
        "the four bodies one by one",
        _rows(layout.by_body("scroll-full"), layout.by_body("scroll-diag")),
        _several(
            _by_set(
                "appendix_arch_full_nll", "SCROLL-Full, test NLL by body",
                (layout.by_body("scroll-full"),), "nll",
            ),
            _by_set(
                "appendix_arch_diag_nll", "SCROLL-Diag, test NLL by body",
                (layout.by_body("scroll-diag"),), "nll",
            ),
        ),
    ),
    "sensitivity": Experiment(
        "the floor on the covariance and the patience",
        _rows(*layout.SENSITIVITY),
        _by_set(
            "appendix_sensitivity", "SCROLL-Full (relu+LN), test NLL", layout.SENSITIVITY, "nll",
            show_se=True,
        ),
    ),
    "traintest-gap": Experiment(
        "whether the free route overfits its score", layout.OPTIMISM, _optimism
    ),
    "batching": Experiment(
        "mini-batches against full batches",
        (
            *layout.BATCHING,
            *(row._replace(where={**row.where, **layout.SMALL_BATCH}) for row in layout.BATCHING),
        ),
        _batching,
    ),
    "two-layer": Experiment(
        "the design space and the references at depth two",
        _rows(*layout.DEEP_ATTRIBUTION, *layout.DEEP_BASELINES),
        _several(
            _by_set("appendix_2l_nll", "Depth two, test NLL", layout.DEEP_ATTRIBUTION, "nll"),
            _by_set(
                "appendix_2l_baselines_nll", "Depth two, test NLL", layout.DEEP_BASELINES, "nll"
            ),
            _by_set(
                "appendix_2l_baselines_caliberr", "Depth two, calibration error",
                layout.DEEP_BASELINES, "caliberr",
            ),
        ),
        seeds=_TEN,
    ),
    "depth-trajectory": Experiment(
        "linear, one and two hidden layers", tuple(layout.TRAJECTORY.values()), _trajectory,
        seeds=_TEN,
    ),
    "loo-gap": Experiment(
        "the shared score against leave-one-out on trained features",
        (Row("loo-gap", "loo-gap"),), _loo_gap, seeds=_TEN,
    ),
    "scale": Experiment(
        "large tables in mini-batches of 1024",
        _rows(*(layout.at(b, **layout.AT_SCALE) for b in layout.SCALE)),
        _scale,
        sets=("california", "protein"),
    ),
}  # fmt: skip
QUICK = Scope(
    ("yacht", "boston"), SEEDS[:5], ("scroll-full", "scroll-diag", "scroll-none", "map", "mvn")
)
