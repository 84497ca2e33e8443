"""Experiments on cells of the design space that the paper leaves open."""

from ..data.datasets import LABELLED
from ..tables import cell_rows as lines
from ..tables.beyond.codes import code_ranks
from ..tables.builders import by_set, several
from ..tables.rows import LARGE, flat
from .experiment import SEEDS, GridExperiment

_LABELLED = (*LABELLED, "wine_six")

CELLS = {
    "cells": GridExperiment(
        "new cells of the design space: NLL, calibration error, RMSE",
        flat(*lines.CELLS),
        several(
            by_set("cells_nll", "Test NLL", lines.CELLS, "nll"),
            by_set("cells_caliberr", "Calibration error", lines.CELLS, "caliberr"),
            by_set("cells_rmse", "Test RMSE", lines.CELLS, "rmse"),
        ),
        where={},
    ),
    "cells-large": GridExperiment(
        "hybrids in mini-batches of 1024 on large tables",
        flat(*lines.CELLS_LARGE),
        several(
            by_set("cells_large_nll", "Test NLL", lines.CELLS_LARGE, "nll"),
            by_set("cells_large_rmse", "Test RMSE", lines.CELLS_LARGE, "rmse"),
        ),
        where=LARGE,
        sets=("california", "protein"),
    ),
    "code-length": GridExperiment(
        "whether the prequential code length can take the place of validation rows",
        flat(*lines.CODES),
        several(
            by_set("codes_nll", "Test NLL", lines.CODES, "nll"),
            by_set("codes_code", "Code length, nats per row", lines.CODES, "code"),
            code_ranks,
        ),
        where={},
    ),
    "references": GridExperiment(
        "references since the paper: decoupled KL weight, LOO-CRPS scale",
        flat(*lines.REFERENCES_SINCE),
        several(
            by_set("references_nll", "Test NLL", lines.REFERENCES_SINCE, "nll"),
            by_set(
                "references_caliberr", "Calibration error", lines.REFERENCES_SINCE, "caliberr"
            ),
        ),
    ),
    "cells-labels": GridExperiment(
        "labels: Laplace's posterior and its hybrid on the features of free heads, relu+LN",
        flat(*lines.LABEL_CELLS),
        several(
            by_set("cells_labels_nll", "Test NLL", lines.LABEL_CELLS, "nll"),
            by_set("cells_labels_ece", "Calibration error of labels", lines.LABEL_CELLS, "ece"),
            by_set("cells_labels_alpha", "Learned prior precision", (lines.FREE_LABELS,), "alpha"),
        ),
        sets=_LABELLED,
    ),
    "cells-labels-trained": GridExperiment(
        "labels: heads trained through Laplace's posterior, relu+LN",
        flat(*lines.TRAINED_LABEL_CELLS),
        by_set("cells_labels_trained_nll", "Test NLL", lines.TRAINED_LABEL_CELLS, "nll"),
        sets=_LABELLED,
        seeds=SEEDS[:5],
    ),
    "cells-layers": GridExperiment(
        "a belief over the weights of the last hidden layer, too: NLL, calibration error, RMSE",
        flat(*lines.LAYERS),
        several(
            by_set("cells_layers_nll", "Test NLL", lines.LAYERS, "nll"),
            by_set("cells_layers_caliberr", "Calibration error", lines.LAYERS, "caliberr"),
            by_set("cells_layers_rmse", "Test RMSE", lines.LAYERS, "rmse"),
        ),
        where={},
    ),
}  # fmt: skip
