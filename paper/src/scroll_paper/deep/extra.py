"""Tables about CIFAR-10 that the paper gives in its text: temperatures, and time per epoch."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from ..tables.records import Record
from ..tables.selection import Values
from ..tables.table import Block, Cell, Label, Table, table


def temperatures(oracle: Mapping[str, Values], held: Mapping[str, Values]) -> list[Table]:
    """Return the table of fitted temperatures by head: on the test images, and on held-out ones.

    Args:
        oracle: temperatures by head and seed, fitted on the test images.
        held: the same, fitted on held-out images.
    """
    rows: dict[Label, Mapping[str, Values]] = {
        label: {"T*": oracle[label], "T held out": held[label]} for label in oracle if oracle[label]
    }
    title = "Temperatures with the best NLL"
    made = table(
        "cifar_temperature", title, ("T*", "T held out"), [Block(rows, None)], show_se=True
    )
    return [made] if rows else []


def speed(records: Mapping[str, Sequence[Record]]) -> list[Table]:
    """Return the table of seconds per epoch by head, of the records that have them.

    Args:
        records: by head.
    """
    rows: dict[Label, Mapping[str, Values]] = {}
    for label, found in records.items():
        each = {
            int(r["fit"]["seed"]): r["seconds"] / len(r["scores"])
            for r in found
            if r.get("seconds") and r.get("scores")
        }
        if each:
            rows[label] = {"seconds per epoch": each}
    title = "Time per epoch; compare runs of one machine and one day only"
    made = table("cifar_seconds", title, ("seconds per epoch",), [Block(rows, None)], show_se=True)
    return [made] if rows else []


_USUAL = {"set", "method", "seed", "anneal_head"}  # fields that all these records have
INTERPRETATIONS: Mapping[str, Mapping[str, object]] = {
    "mean over classes, prior over rows, full rate (with a bias)": {},
    "the same, a quarter of the rate for the precisions": {"alpha_rate": 0.25},
    "mean over classes, prior over rows and classes": {"prior_plates": True},
    "sum over classes, as in `head.loss`": {"mean_outputs": False},
}
"""Readings of the loss that were tried on seed 0, and the fields of their records."""


def interpretations(records: Iterable[Record]) -> list[Table]:
    """Return the table of validation NLL by interpretation of the loss and by covariance.

    Args:
        records: of CIFAR-10, those of `results/readings/` among them.
    """
    heads = {"None": "ova-none", "Diag": "ova-diag", "Full": "ova-full"}
    known = {
        (r["fit"]["method"], *sorted((k, v) for k, v in r["fit"].items() if k not in _USUAL)): r
        for r in records
        if r["fit"]["seed"] == 0
    }
    rows: dict[Label, dict[str, Cell]] = {}
    for words, odd in INTERPRETATIONS.items():
        each = {k: known.get((m, *sorted(odd.items()))) for k, m in heads.items()}
        values = {k: r["val"] for k, r in each.items() if r is not None and "val" in r}
        cells = {k: Cell(values.get(k)) for k in heads}
        whole = len(values) == len(heads)
        rows[words] = {**cells, "mean": Cell(fmean(values.values()) if whole else None)}
    title = "Interpretations of the loss of OvA heads, seed 0: validation NLL"
    made = Table("cifar_interpretations", title, (*heads, "mean"), [rows])
    return [made] if sum(row["mean"].mean is not None for row in rows.values()) > 1 else []
