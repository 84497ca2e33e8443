"""Experiments that decide where the records and the paper disagree."""

from ..data.datasets import LABELLED
from ..tables import builders
from ..tables import check_rows as lines
from ..tables.beyond import arithmetic
from ..tables.builders import by_set, several
from ..tables.rows import flat
from .experiment import SEEDS, GridExperiment

_TEN = SEEDS[:10]

CHECKS = {
    "kl-alpha": GridExperiment(
        "the KL with a prior precision that is learned or tuned, beside log Z_w",
        flat(*lines.KL),
        several(
            by_set("kl_alpha_nll", "Test NLL", lines.KL, "nll"),
            by_set("kl_alpha_caliberr", "Calibration error", lines.KL, "caliberr"),
        ),
    ),
    "laplace-grid": GridExperiment(
        "whether Laplace gains from a weight that is chosen by validation",
        lines.PENALISED.rows,
        by_set("laplace_grid_nll", "Test NLL", (lines.PENALISED,), "nll", show_se=True),
        sets=LABELLED,
    ),
    "offset": GridExperiment(
        "a learned offset of the last layer: MVN and SCROLL without and with it",
        flat(*lines.OFFSETS),
        several(
            by_set("offset_nll", "Test NLL", lines.OFFSETS, "nll", show_se=True),
            by_set("offset_caliberr", "Calibration error", lines.OFFSETS, "caliberr"),
        ),
    ),
    "mvn-offset": GridExperiment(
        "MVN without an offset, with one of its log variance, and with both",
        lines.HALF_OFFSET.rows,
        by_set("mvn_offset_nll", "Test NLL", (lines.HALF_OFFSET,), "nll", show_se=True),
    ),
    "precision": GridExperiment(
        "posteriors computed in float32: where closed and leave-one-out part",
        flat(*lines.PRECISIONS),
        by_set("precision_nll", "Test NLL", lines.PRECISIONS, "nll", show_se=True),
        sets=("naval", "yacht", "boston"),
    ),
    "steps": GridExperiment(
        "whether more steps change the sets on which training ends at the cap",
        flat(*lines.STEPS),
        by_set("steps_nll", "Test NLL", lines.STEPS, "nll", show_se=True),
        sets=("power", "naval"),
    ),
    "vbll-grid": GridExperiment(
        "VBLL with smaller weights on its KL than the paper's grid has",
        flat(lines.WIDER_GRID),
        by_set("vbll_grid_nll", "Test NLL", (lines.WIDER_GRID,), "nll", show_se=True),
    ),
    "arithmetic": GridExperiment(
        "the spread of results due to rounding beside the spread over seeds",
        arithmetic.ROWS, arithmetic.spreads, seeds=_TEN,
    ),
    "classification-0l-start": GridExperiment(
        "whether a full covariance at depth zero depends on its initial value",
        flat(*lines.STARTS),
        by_set("classification_0l_start_nll", "Depth zero, test NLL", lines.STARTS, "nll",
               show_se=True),
        sets=LABELLED,
    ),
    "closed-batches": GridExperiment(
        "the closed route on text, trained in mini-batches of 1,024 with sums over the other rows",
        flat(*lines.CLOSED),
        several(
            by_set("closed_batches_auroc", "AUROC", lines.CLOSED, "auroc", show_se=True),
            by_set("closed_batches_nll", "Test NLL", lines.CLOSED, "nll", show_se=True),
        ),
        sets=("sick",),
        seeds=_TEN,
        only=("sick",),
    ),
    "text-shift": GridExperiment(
        "out-of-distribution detection on text, with each way of scaling the inputs by itself",
        flat(*(block for way in range(2) for block in lines.one_way(way))),
        builders.text_shift,
        sets=("sick",),
        seeds=_TEN,
        only=("sick",),
    ),
}  # fmt: skip
