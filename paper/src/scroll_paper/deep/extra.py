"""Tables about CIFAR-10 that the paper gives in its text: temperatures, and time per epoch."""

from collections.abc import Mapping, Sequence

from ..tables.records import Record
from ..tables.selection import Values
from ..tables.table import Block, Label, Table, table


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
