"""The lines of the tables: the paper's labels, and where in the records their values are."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from scroll.training.bodies import ARCHITECTURES

from .selection import Where
from .table import Label

ENSEMBLES = ("scroll-ens", "deep-ensemble", "mvn-ens", "softmax-ensemble")
TWO_LAYER_KNOB = 1e-3  # the one weight of the references at depth two; see docs/results.md


class Row(NamedTuple):
    """A line of a table.

    Args:
        label: the paper's.
        method: as recorded.
        where: what is unlike the headline's setting; `architecture` and `knob` fix those.
        metric: None is the table's.
        on: what else is unlike it on some of the sets.
        either: on some sets, settings of which validation takes the better one, seed by seed.
    """

    label: Label
    method: str
    where: Where = MappingProxyType({})
    metric: str | None = None
    on: Mapping[str, Where] = MappingProxyType({})
    either: Mapping[str, tuple[Where, ...]] = MappingProxyType({})

    def at(self, name: str) -> list[dict[str, Any]]:
        """What is unlike the headline's setting on a set: one way, or several to choose from."""
        ways: tuple[Where, ...] = self.either.get(name, ({},))
        return [{**self.where, **self.on.get(name, {}), **way} for way in ways]


class Rows(NamedTuple):
    """Rows between two rules, and how they are ranked; see `tables.Block`."""

    rows: tuple[Row, ...]
    ranked: bool | None = True


def at(block: Rows, **where: Any) -> Rows:
    """The same rows in another setting."""
    return Rows(
        tuple(row._replace(where={**row.where, **where}) for row in block.rows), block.ranked
    )


def by_body(method: str) -> Rows:
    """One method, an architecture a row."""
    return Rows(tuple(Row(a, method, {"architecture": a}) for a in ARCHITECTURES))


SCROLL = Rows(
    (
        Row("SCROLL-Full", "scroll-full"),
        Row("SCROLL-Diag", "scroll-diag"),
        Row("SCROLL-None", "scroll-none"),
    )
)
OURS = Rows(
    (
        Row("Hybrid-Full", "hybrid-full"),
        Row("Hybrid-Diag", "hybrid-diag"),
        Row("SCROLL-Full, then hybrid", "free-hybrid"),
    ),
    None,
)
FLOOR = Rows((Row("Mean predictor", "mean"),), None)
HEADLINE = (
    SCROLL,
    Rows(
        (
            Row("MAP", "map"),
            Row("Laplace-Full", "laplace-full"),
            Row("VBLL", "vbll"),
            Row("MVN", "mvn"),
        )
    ),
    Rows((Row("Exact corner (Full)", "seq-full"),)),
    Rows(
        (
            Row("SCROLL-Ens (5x)", "scroll-ens"),
            Row("Deep Ensemble", "deep-ensemble"),
            Row("MVN-Ens (5x)", "mvn-ens"),
            Row("MC Dropout", "mc-dropout"),
        ),
        False,
    ),
    Rows((Row("GP-RBF", "gp-rbf"),), None),
    OURS,
    FLOOR,
)
CORNERS = Rows(
    (
        Row("Full closed", "closed-full"),
        Row("Full LOO", "loo-full"),
        Row("Full seq", "seq-full"),
        Row("Full ELBO", "elbo-full"),
        Row("Diag closed", "closed-diag"),
        Row("Diag LOO", "loo-diag"),
        Row("Diag seq", "seq-diag"),
    )
)
ATTRIBUTION = (SCROLL, CORNERS, Rows((Row("VBLL (ref)", "vbll"),), None), OURS)
_MIXED = {"SCROLL-Ens": "scroll-ens", "Deep Ensemble": "deep-ensemble", "MVN-Ens": "mvn-ens"}
MIXTURE = Rows(
    tuple(
        Row((label, how), method, metric=metric)
        for label, method in _MIXED.items()
        for how, metric in (("moment", "nll"), ("mixture", "nll_mixture"))
    ),
    None,
)
PRIOR = (
    Rows(
        (
            Row("SCROLL-Full (learned alpha)", "scroll-full"),
            Row("Full, fixed alpha (tuned)", "fixed-alpha-full"),
            Row("Full, no prior (tuned lambda)", "no-prior-full"),
            Row("Full, KL regulariser (PPGPR)", "kl-full"),
        )
    ),
    Rows(
        (
            Row("SCROLL-Diag (learned alpha)", "scroll-diag"),
            Row("Diag, fixed alpha (tuned)", "fixed-alpha-diag"),
            Row("Diag, no prior (tuned lambda)", "no-prior-diag"),
        )
    ),
    Rows((Row("MVN (free var., tuned lambda)", "mvn"),)),
)


PLAIN = {"architecture": "relu+LN"}
EVER = {"patience": 2000, "steps": 10_000}  # looks; as many as there are
SENSITIVITY = (
    Rows(
        tuple(
            Row(f"eps=10^-{k}{' (shipped)' if k == 4 else ''}", "scroll-full", PLAIN | floor)
            for k, floor in ((k, {} if k == 4 else {"floor": 10.0**-k}) for k in (6, 5, 4, 3, 2))
        ),
        None,
    ),
    Rows(
        (
            Row("patience 5", "scroll-full", PLAIN | {"patience": 10}),
            Row("patience 50 (shipped)", "scroll-full", PLAIN),
            Row("patience 200", "scroll-full", PLAIN | {"patience": 400}),
            Row("no early stop", "scroll-full", PLAIN | EVER),
        ),
        None,
    ),
)
OPTIMISM = (
    Row("Free (shipped)", "scroll-full", PLAIN),
    Row("Closed route", "closed-full", PLAIN),
)
BATCHING = (
    *(row._replace(where=PLAIN) for row in SCROLL.rows),
    Row("MAP", "map", PLAIN),
)
SMALL_BATCH = {"batch": 256}
DEEP = {"depth": 2}
DEEP_REFERENCE = DEEP | {"knob": TWO_LAYER_KNOB}
DEEP_ATTRIBUTION = (
    at(SCROLL, **DEEP),
    at(Rows(CORNERS.rows[:-1]), **DEEP),
    Rows((Row("VBLL (ref)", "vbll", DEEP_REFERENCE),), None),
)
DEEP_BASELINES = (
    at(SCROLL, **DEEP),
    Rows(
        (
            Row("MAP", "map", DEEP_REFERENCE),
            Row("VBLL", "vbll", DEEP_REFERENCE),
            Row("MVN", "mvn", DEEP_REFERENCE),
        )
    ),
    Rows(
        (
            Row("SCROLL-Ens (5x)", "scroll-ens", DEEP),
            Row("Deep Ensemble", "deep-ensemble", DEEP_REFERENCE),
            Row("MC Dropout", "mc-dropout", DEEP_REFERENCE),
        ),
        False,
    ),
)
DEPTHS = {"lin": {"depth": 0}, "1L": {}, "2L": DEEP}
TRAJECTORY = {
    f"{family} {name}": Row(f"{family} {name}", f"scroll-{family.lower()}", where)
    for family in ("Full", "Diag", "None")
    for name, where in DEPTHS.items()
}
LARGE = {"width": 100, "batch": 1024, "steps": 3000, "every": 25}
ENCODED = ("sick", "utkface", "sick_bert", "utkface_resnet")
OFTEN = {"every": 5}  # as the small sets: on features of a large encoder all is over in a few steps
ON_SCALE: dict[str, Where] = {
    "year": {"steps": 9000},
    **{name: {"unit_rows": True, **OFTEN} for name in ENCODED},
}
SCALE = tuple(
    Rows(tuple(row._replace(where=LARGE, on=ON_SCALE) for row in block.rows), block.ranked)
    for block in (
        SCROLL,
        HEADLINE[1],
        Rows(
            (
                Row("SCROLL-Ens", "scroll-ens"),
                Row("Deep Ensemble", "deep-ensemble"),
                Row("MC Dropout", "mc-dropout"),
            ),
            False,
        ),
    )
)
FOREIGN = {  # what is told from the test rows of a set
    "sick": "ag_news",
    "utkface": "cifar10",
    "wine": "wine_white",
    "sick_bert": "ag_news_bert",
    "utkface_resnet": "cifar10_resnet",
}
KINDS = {"sick": "Text", "utkface": "Vision", "wine": "Wine"}  # as the paper heads its columns


# A step moves a hidden unit by the rate times |x|_1, which without the scaling of rows to length
# one is sqrt(D) times as much: the rate makes up for it, or all rows are divided by that.
IN_HAND: tuple[Where, ...] = ({"short_steps": True}, {"even_rows": True})


def _shifted(*rows: Row, batch: int = LARGE["batch"], ranked: bool | None = True) -> Rows:
    """The rows of a shift; a posterior of all rows cannot be in batches."""
    deep = {**LARGE, **OFTEN, "batch": batch}
    on = {s: {"foreign": f, **(deep if s in ENCODED else {})} for s, f in FOREIGN.items()}
    either = dict.fromkeys(ENCODED, IN_HAND)
    return Rows(tuple(row._replace(on=on, either=either) for row in rows), ranked)


SHIFT = (
    _shifted(*SCROLL.rows),
    _shifted(Row("Full closed", "closed-full"), Row("Diag closed", "closed-diag"), batch=0),
    _shifted(
        Row("Laplace-Full", "laplace-full"),
        Row("VBLL", "vbll"),
        Row("MAP", "map"),
        Row("MVN", "mvn"),
        Row("Deep Ensemble", "deep-ensemble"),
        Row("MC Dropout", "mc-dropout"),
    ),
    _shifted(
        Row("SCROLL-Full, then refit", "free-refit"),
        Row("SCROLL-Full, refit with inputs", "free-refit-inputs"),
        ranked=None,
    ),
    Rows(
        (
            Row(
                "Linear in the inputs", "inputs", on={s: {"foreign": f} for s, f in FOREIGN.items()}
            ),
        ),
        None,
    ),
)
PASSES = {  # training runs per architecture, and passes at inference
    "scroll-full": (1, 1),
    "scroll-diag": (1, 1),
    "scroll-none": (1, 1),
    "map": (4, 1),
    "laplace-full": (4, 1),
    "vbll": (4, 1),
    "mvn": (4, 1),
    "scroll-ens": (5, 5),
    "deep-ensemble": (20, 5),
    "mc-dropout": (4, 50),
    "closed-full": (1, 1),
    "closed-diag": (1, 1),
    "free-refit": (1, 1),
    "free-refit-inputs": (1, 1),
    "inputs": (1, 1),
}


def _nine(**where: Any) -> tuple[Rows, ...]:
    """The heads for labels: three likelihoods, three covariances."""
    return tuple(
        Rows(
            tuple(
                Row(f"{label}-{cov}", f"{label}-{cov}".lower(), where)
                for cov in ("Full", "Diag", "None")
            )
        )
        for label in ("OvA", "Ordinal", "GaussReg")
    )


def classification(depth: int, body: str = "relu+LN") -> tuple[Rows, ...]:
    """Labels at a depth: the nine heads, and where there is a body the references."""
    if depth == 0:
        return _nine(depth=0)
    where = {"architecture": body} | ({} if depth == 1 else {"depth": depth})
    return (
        *_nine(**where),
        Rows(
            (
                Row("CE-softmax", "softmax", where),
                Row("VBLL", "vbll-softmax", where),
                Row("Laplace", "softmax-laplace", where),
            )
        ),
        Rows(
            (
                Row("DeepEns(M=5)", "softmax-ensemble", where),
                Row("MC-Dropout", "softmax-dropout", where),
            )
        ),
    )
