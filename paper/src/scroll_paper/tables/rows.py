"""The rows of the tables: the paper's labels, and the settings that their records have."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from scroll.training.bodies import ARCHITECTURES

from ..data.datasets import SETS
from ..models.methods import TABLE_METHODS
from .selection import Where
from .table import Label

TWO_LAYER_KNOB = 1e-3  # the one weight of the baselines at depth two; see docs/results.md
Ways = Callable[[str], tuple[Where, ...]]


def no_more(name: str) -> tuple[Where, ...]:
    """Return one way without further settings, whatever the data set."""
    return ({},)


class Row(NamedTuple):
    """A row of a table.

    Args:
        label: the paper's label.
        method: name of the method in the records.
        where: settings that differ from the headline's; `architecture` and `knob` fix those.
        metric: the metric to show; None is the table's.
        ways: returns, for a data set, the further settings; of several, each seed takes the one
            with the better validation objective.
    """

    label: Label
    method: str
    where: Where = MappingProxyType({})
    metric: str | None = None
    ways: Ways = no_more

    def at(self, name: str) -> list[Where]:
        """Return the settings on a data set: one, or several to choose from."""
        return [{**self.where, **way} for way in self.ways(name)]


class RowGroup(NamedTuple):
    """Rows between two rules, and how they are ranked (see `table.Block`)."""

    rows: tuple[Row, ...]
    ranked: bool | None = True

    def with_(self, where: Where = MappingProxyType({}), ways: Ways | None = None) -> "RowGroup":
        """Return the same rows in another setting."""
        return RowGroup(
            tuple(
                row._replace(where={**row.where, **where}, ways=ways or row.ways)
                for row in self.rows
            ),
            self.ranked,
        )


def flat(*blocks: RowGroup) -> tuple[Row, ...]:
    """Return the rows of all groups."""
    return tuple(row for block in blocks for row in block.rows)


def group(
    *methods: str, ranked: bool | None = True, where: Where = MappingProxyType({})
) -> RowGroup:
    """Return one row per method, under the method's own label."""
    return RowGroup(tuple(Row(TABLE_METHODS[m].label, m, where) for m in methods), ranked)


def labelled(
    rows: Mapping[str, str], ranked: bool | None = True, where: Where = MappingProxyType({})
) -> RowGroup:
    """Return rows under labels of this table: {label: method}."""
    return RowGroup(tuple(Row(label, m, where) for label, m in rows.items()), ranked)


def by_body(method: str) -> RowGroup:
    """Return one row per architecture of one method."""
    return RowGroup(tuple(Row(a, method, {"architecture": a}) for a in ARCHITECTURES))


SCROLL = group("scroll-full", "scroll-diag", "scroll-none")
OURS = group("hybrid-full", "hybrid-diag", "free-hybrid", ranked=None)
FLOOR = group("mean", ranked=None)
REFERENCES = group("map", "laplace-full", "vbll", "mvn")
HEADLINE = (
    SCROLL,
    REFERENCES,
    labelled({"Exact corner (Full)": "seq-full"}),
    group("scroll-ens", "deep-ensemble", "mvn-ens", "mc-dropout", ranked=False),
    group("gp-rbf", ranked=None),
    OURS,
    FLOOR,
)
CORNERS = group(
    *("closed-full", "loo-full", "seq-full", "elbo-full"),
    *("closed-diag", "loo-diag", "seq-diag"),
)
VBLL_REFERENCE = labelled({"VBLL (ref)": "vbll"}, ranked=None)
ATTRIBUTION = (SCROLL, CORNERS, VBLL_REFERENCE, OURS)
_MIXED = {"SCROLL-Ens": "scroll-ens", "Deep Ensemble": "deep-ensemble", "MVN-Ens": "mvn-ens"}
MIXTURE = RowGroup(
    tuple(
        Row((label, how), method, metric=metric)
        for label, method in _MIXED.items()
        for how, metric in (("moment", "nll"), ("mixture", "nll_mixture"))
    ),
    None,
)
PRIOR = (
    RowGroup(
        (
            Row("SCROLL-Full (learned alpha)", "scroll-full"),
            *group("fixed-alpha-full", "no-prior-full", "kl-full", "fixed-kl-full").rows,
        )
    ),
    RowGroup(
        (
            Row("SCROLL-Diag (learned alpha)", "scroll-diag"),
            *group("fixed-alpha-diag", "no-prior-diag", "kl-diag", "fixed-kl-diag").rows,
        )
    ),
    labelled({"MVN (free var., tuned lambda)": "mvn"}),
)
PLAIN = {"architecture": "relu+LN"}
NEVER_STOP = {"patience": 2000, "steps": 10_000}  # as many checks as there are
_FLOORS: Mapping[int, Where] = {k: {} if k == 4 else {"floor": 10.0**-k} for k in (6, 5, 4, 3, 2)}
_PATIENCE: Mapping[str, Where] = {
    "patience 5": {"patience": 10},
    "patience 50 (shipped)": {},
    "patience 200": {"patience": 400},
    "no early stop": NEVER_STOP,
}
SENSITIVITY = (
    RowGroup(
        tuple(
            Row(f"eps=10^-{k}{' (shipped)' if k == 4 else ''}", "scroll-full", {**PLAIN, **floor})
            for k, floor in _FLOORS.items()
        ),
        None,
    ),
    RowGroup(
        tuple(Row(label, "scroll-full", {**PLAIN, **how}) for label, how in _PATIENCE.items()),
        None,
    ),
)
OPTIMISM = labelled({"Free (shipped)": "scroll-full", "Closed route": "closed-full"}, where=PLAIN)
BATCHING = group("scroll-full", "scroll-diag", "scroll-none", "map", where=PLAIN)
SMALL_BATCH = {"batch": 256}
DEEP = {"depth": 2}
DEEP_REFERENCE = {**DEEP, "knob": TWO_LAYER_KNOB}
DEEP_ATTRIBUTION = (
    SCROLL.with_(DEEP),
    RowGroup(CORNERS.rows[:-1]).with_(DEEP),
    VBLL_REFERENCE.with_(DEEP_REFERENCE),
)
DEEP_BASELINES = (
    SCROLL.with_(DEEP),
    group("map", "vbll", "mvn", where=DEEP_REFERENCE),
    RowGroup(
        (
            *group("scroll-ens", where=DEEP).rows,
            *group("deep-ensemble", "mc-dropout", where=DEEP_REFERENCE).rows,
        ),
        False,
    ),
)
DEPTHS: Mapping[str, Where] = {"lin": {"depth": 0}, "1L": {}, "2L": DEEP}
TRAJECTORY = {
    f"{family} {name}": Row(f"{family} {name}", f"scroll-{family.lower()}", where)
    for family in ("Full", "Diag", "None")
    for name, where in DEPTHS.items()
}
LARGE = {"width": 100, "batch": 1024, "steps": 3000, "every": 25}
# On the features of a large encoder training ends after a few steps: check as on small sets.
FREQUENT_CHECKS = {"every": 5}


def on_scale(name: str) -> tuple[Where, ...]:
    """Settings of the table of large sets: more steps on the largest, rows of length one on
    features."""
    if SETS[name].encoder:
        return ({"unit_rows": True, **FREQUENT_CHECKS},)
    return ({"steps": 9000} if SETS[name].large else {},)


_SCALE_ENSEMBLES = {"SCROLL-Ens": "scroll-ens", "Deep Ensemble": "deep-ensemble",
    "MC Dropout": "mc-dropout"}  # fmt: skip
SCALE = tuple(
    block.with_(LARGE, on_scale)
    for block in (SCROLL, REFERENCES, labelled(_SCALE_ENSEMBLES, ranked=False))
)
# A step moves a hidden unit by the rate times |x|_1, which without the scaling of rows to length
# one is sqrt(D) times as much: either the rate makes up for it, or all rows are divided by that.
IN_HAND: tuple[Where, ...] = ({"short_steps": True}, {"even_rows": True})


def with_foreign(name: str, batch: int | None = None) -> tuple[Where, ...]:
    """Settings of the out-of-distribution tables; a `batch` of None is a small body's."""
    foreign = {"foreign": SETS[name].foreign}
    if batch is None or not SETS[name].encoder:
        return (foreign,)
    large = {**foreign, **LARGE, **FREQUENT_CHECKS, "batch": batch}
    return tuple({**large, **way} for way in IN_HAND)


IN_BATCHES = partial(with_foreign, batch=LARGE["batch"])
ALL_ROWS = partial(with_foreign, batch=0)  # a posterior of all rows cannot be in batches
OOD = (
    SCROLL.with_(ways=IN_BATCHES),
    group("closed-full", "closed-diag").with_(ways=ALL_ROWS),
    group("laplace-full", "vbll", "map", "mvn", "deep-ensemble", "mc-dropout").with_(
        ways=IN_BATCHES
    ),
    group("free-refit", "free-refit-inputs", ranked=None).with_(ways=IN_BATCHES),
    group("inputs", ranked=None).with_(ways=with_foreign),
)


def classification(depth: int, body: str = "relu+LN") -> tuple[RowGroup, ...]:
    """Rows for labels at a depth: the nine heads and, where there is a body, the baselines."""
    fixed: Where = {} if depth == 0 else {"architecture": body}
    where = {**fixed, **({} if depth == 1 else {"depth": depth})}
    nine = tuple(
        group(*(f"{kind}-{cov}" for cov in ("full", "diag", "none")), where=where)
        for kind in ("ova", "ordinal", "gaussreg")
    )
    if depth == 0:
        return nine
    baselines = group("softmax", "vbll-softmax", "softmax-laplace", where=where)
    return (*nine, baselines, group("softmax-ensemble", "softmax-dropout", where=where))
