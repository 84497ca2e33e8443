"""The rows of new cells of the design space, beside those that they are compared with."""

from ..data.datasets import SETS
from ..models.methods import TABLE_METHODS
from ..models.reports.refits import ABOUT_MODE
from .rows import LARGE, PLAIN, RowGroup, Ways, group, labelled
from .selection import Where

LAYERS = (
    group("scroll-full", "scroll-diag"),
    group("two-beliefs-full", "two-beliefs-diag", "two-beliefs-full-alpha"),
)


def in_batches(name: str) -> tuple[Where, ...]:
    """Batches of 256, or of 32 where they would be more than a quarter of the rows."""
    return ({"batch": 256 if SETS[name].train_rows >= 1024 else 32},)


def _batched(*methods: str, how: Ways) -> RowGroup:
    """Return rows of methods in mini-batches, under labels that say so."""
    rows = {f"{TABLE_METHODS[m].label}, in batches": m for m in methods}
    return labelled(rows).with_(ways=how)


BATCHED = (
    *("block-hybrid-full", "block-hybrid-diag"),
    *("batch-hybrid-full", "batch-hybrid-diag"),
)
CELLS = (  # new cells of the design space beside those that they are compared with
    group("scroll-full", "scroll-diag"),
    group("closed-full", "closed-diag"),
    group("hybrid-full", "hybrid-diag"),
    group("prequential-full", "prequential-diag"),
    _batched("scroll-full", "scroll-diag", *BATCHED, how=in_batches),
)
CODED = ("prequential-full", "prequential-diag", "coded-evidence", "coded-hybrid-diag")
CODES = tuple(group(m, f"{m}-by-code", f"{m}-all-rows", ranked=None) for m in CODED)
REFERENCES_SINCE = (
    group("scroll-full", "scroll-diag"),
    group("kl-full", "ppgpr-full", "kl-diag", "ppgpr-diag"),
    group("seq-full", "exact-crps", "free-crps", "free-hybrid"),
)
CELLS_LARGE = (group("scroll-full", "scroll-diag", *BATCHED).with_(LARGE),)


def about_mode(kind: str) -> RowGroup:
    """Rows of a free head for labels, beside refits about the mode of its posterior."""
    names = (*ABOUT_MODE, "diag", "none")
    return group(*(f"{kind}-{name}" for name in names), where=PLAIN)


def newton_trained(kind: str) -> RowGroup:
    """Rows of a head for labels that is trained through Laplace's posterior."""
    names = ("closed-full", "loo-full", "hybrid-full", "hybrid-diag")
    return group(*(f"{kind}-laplace-{name}" for name in names), where=PLAIN)


FREE_LABELS = group("ova-full-refit", "ordinal-full-refit", ranked=None, where=PLAIN)
LABEL_CELLS = tuple(about_mode(kind) for kind in ("ova", "ordinal"))
TRAINED_LABEL_CELLS = tuple(
    block for kind in ("ova", "ordinal")
    for block in (group(f"{kind}-full", where=PLAIN), newton_trained(kind))
)  # fmt: skip
