"""The rows of experiments that decide where the records and the paper disagree."""

from collections.abc import Iterable

from ..models.methods import LAMBDAS, TABLE_METHODS
from .rows import ALL_ROWS, IN_BATCHES, OOD, PLAIN, Row, RowGroup, Ways, group


def weights(knobs: Iterable[float]) -> Ways:
    """Return ways that differ in the value of the hyper-parameter."""
    found = tuple({"knob": knob} for knob in knobs)
    return lambda name: found


KL = (
    group("scroll-full", "kl-full", "fixed-alpha-full", "fixed-kl-full"),
    group("scroll-diag", "kl-diag", "fixed-alpha-diag", "fixed-kl-diag"),
)
STARTS = tuple(
    RowGroup(
        tuple(
            Row((kind, start), f"{kind.lower()}-{method}", {"depth": 0})
            for start, method in (
                ("None", "none"),
                ("Full from 0.1", "full"),
                ("Full from 1e-4", "full-point"),
            )
        ),
        None,
    )
    for kind in ("OvA", "Ordinal")
)
PRECISIONS = tuple(
    RowGroup(
        (Row((name, "float64"), method), Row((name, "float32"), f"{method}-single")),
        None,
    )
    for name, method in (("Full closed", "closed-full"), ("Full LOO", "loo-full"))
)
_PENALTIES = (1e-3, 1e-2, 0.1, 1.0)
PENALISED = RowGroup(
    tuple(
        Row((label, how), method, PLAIN, ways=ways)
        for label, method in (("CE-softmax", "softmax"), ("Laplace", "softmax-laplace"))
        for how, ways in (
            ("weight 0.1", weights((0.1,))),
            ("weight by validation", weights(_PENALTIES)),
        )
    ),
    None,
)
OFFSETS = (
    RowGroup(
        (
            Row(("MVN", "without"), "mvn-plain"),
            Row(("MVN", "with"), "mvn"),
        ),
        None,
    ),
    *(
        RowGroup((Row((name, "without"), method), Row((name, "with"), f"{method}-offset")), None)
        for name, method in (
            ("SCROLL-Full", "scroll-full"),
            ("SCROLL-Diag", "scroll-diag"),
            ("SCROLL-None", "scroll-none"),
        )
    ),
)
HALF_OFFSET = group("mvn-plain", "mvn-half", "mvn", ranked=None)
LONGER = {"steps": 10_000}
STEPS = tuple(
    RowGroup(
        (
            Row((TABLE_METHODS[m].label, "6,000 steps"), m),
            Row((TABLE_METHODS[m].label, "10,000 steps"), m, LONGER),
        ),
        None,
    )
    for m in ("scroll-full", "scroll-diag", "scroll-none", "map", "vbll", "mvn")
)
_LOWER = (1e-7, 1e-6, 1e-5)  # below the grid of the paper
WIDER_GRID = RowGroup(
    (
        Row("VBLL, weights from 1e-4", "vbll"),
        Row("VBLL, weights from 1e-7", "vbll", ways=weights((*_LOWER, *LAMBDAS))),
        Row("SCROLL-Full", "scroll-full"),
    )
)


WAYS = ("short steps", "even rows")  # of scaling the step on features of a large encoder


def _way(ways: Ways, way: int) -> Ways:
    """Return one of the ways alone, or the only one."""
    return lambda name: (ways(name)[min(way, len(ways(name)) - 1)],)


def one_way(way: int) -> tuple[RowGroup, ...]:
    """Rows of the out-of-distribution table on features of text, with one way of scaling alone."""
    return tuple(
        RowGroup(tuple(row._replace(ways=_way(row.ways, way)) for row in block.rows), block.ranked)
        for block in OOD
    )


CLOSED = tuple(
    RowGroup(
        (
            Row(("Full closed, all rows", name), "closed-full", ways=_way(ALL_ROWS, way)),
            Row(("Full closed, batches", name), "batch-closed-full", ways=_way(IN_BATCHES, way)),
        ),
        None,
    )
    for way, name in enumerate(WAYS)
)
