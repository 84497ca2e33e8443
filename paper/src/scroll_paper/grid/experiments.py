"""The experiments of the grid by name."""

from dataclasses import replace

from scroll.training.bodies import ARCHITECTURES

from ..data.datasets import LABELLED, SETS
from ..tables import arithmetic, builders
from ..tables import cell_rows as cells
from ..tables import rows as lines
from ..tables.builders import by_set, several
from ..tables.codes import code_ranks
from ..tables.rows import Row, RowGroup
from .experiment import SEEDS, GridExperiment


def _rows(*blocks: RowGroup) -> tuple[Row, ...]:
    return tuple(row for block in blocks for row in block.rows)


_HEADLINE = _rows(*lines.HEADLINE)
_TEN = SEEDS[:10]
_LABELLED = (*LABELLED, "wine_six")
_OTHERS = tuple(a for a in ARCHITECTURES if a != "relu+LN")

GRID: dict[str, GridExperiment] = {
    "headline": GridExperiment(
        "SCROLL against tuned baselines and ensembles: NLL, calibration error, RMSE",
        _HEADLINE,
        several(
            by_set("headline_nll", "Test NLL", lines.HEADLINE, "nll"),
            by_set("table1_headline_caliberr", "Calibration error", lines.HEADLINE, "caliberr"),
            by_set("headline_rmse", "Test RMSE", lines.HEADLINE, "rmse"),
            by_set(
                "mean_baseline_note", "The mean predictor, test NLL", (lines.FLOOR,), "nll",
                closed=True,
            ),
        ),
        where={},
    ),
    "attribution": GridExperiment(
        "the design space: the effect of route, cavity and score",
        _rows(*lines.ATTRIBUTION),
        several(
            by_set("appendix_attribution_full_nll", "Test NLL", lines.ATTRIBUTION, "nll"),
            by_set("appendix_attribution_full_rmse", "Test RMSE", lines.ATTRIBUTION, "rmse"),
        ),
        where={},
    ),
    "cells": GridExperiment(
        "new cells of the design space: NLL, calibration error, RMSE",
        _rows(*cells.CELLS),
        several(
            by_set("cells_nll", "Test NLL", cells.CELLS, "nll"),
            by_set("cells_caliberr", "Calibration error", cells.CELLS, "caliberr"),
            by_set("cells_rmse", "Test RMSE", cells.CELLS, "rmse"),
        ),
        where={},
    ),
    "cells-large": GridExperiment(
        "hybrids in mini-batches of 1024 on large tables",
        _rows(*cells.CELLS_LARGE),
        several(
            by_set("cells_large_nll", "Test NLL", cells.CELLS_LARGE, "nll"),
            by_set("cells_large_rmse", "Test RMSE", cells.CELLS_LARGE, "rmse"),
        ),
        where=lines.LARGE,
        sets=("california", "protein"),
    ),
    "code-length": GridExperiment(
        "whether the prequential code length can take the place of validation rows",
        _rows(*cells.CODES),
        several(
            by_set("codes_nll", "Test NLL", cells.CODES, "nll"),
            by_set("codes_code", "Code length, nats per row", cells.CODES, "code"),
            code_ranks,
        ),
        where={},
    ),
    "ens-mixture": GridExperiment(
        "ensembles scored as a normal distribution with their moments and as the exact mixture",
        lines.MIXTURE.rows,
        by_set("appendix_ens_mixture", "Test NLL of ensembles", (lines.MIXTURE,), "nll"),
    ),
    "prior-ablation": GridExperiment(
        "prior term: learned, fixed, left out, or KL",
        _rows(*lines.PRIOR),
        several(
            by_set("appendix_prior_ablation", "Test NLL", lines.PRIOR, "nll"),
            by_set("prior_ablation_caliberr", "Calibration error", lines.PRIOR, "caliberr"),
        ),
        where={},
    ),
    "references": GridExperiment(
        "references since the paper: decoupled KL weight, LOO-CRPS scale",
        _rows(*cells.REFERENCES_SINCE),
        several(
            by_set("references_nll", "Test NLL", cells.REFERENCES_SINCE, "nll"),
            by_set(
                "references_caliberr", "Calibration error", cells.REFERENCES_SINCE, "caliberr"
            ),
        ),
    ),
    "cells-labels": GridExperiment(
        "labels: Laplace's posterior and its hybrid on the features of free heads, relu+LN",
        _rows(*cells.LABEL_CELLS),
        several(
            by_set("cells_labels_nll", "Test NLL", cells.LABEL_CELLS, "nll"),
            by_set("cells_labels_ece", "Calibration error of labels", cells.LABEL_CELLS, "ece"),
        ),
        sets=_LABELLED,
    ),
    "cells-labels-trained": GridExperiment(
        "labels: heads trained through Laplace's posterior, relu+LN",
        _rows(*cells.TRAINED_LABEL_CELLS),
        by_set("cells_labels_trained_nll", "Test NLL", cells.TRAINED_LABEL_CELLS, "nll"),
        sets=_LABELLED,
        seeds=SEEDS[:5],
    ),
    "architecture": GridExperiment(
        "the four architectures of the body, one by one",
        _rows(lines.by_body("scroll-full"), lines.by_body("scroll-diag")),
        several(
            by_set(
                "appendix_arch_full_nll", "SCROLL-Full, test NLL by body",
                (lines.by_body("scroll-full"),), "nll",
            ),
            by_set(
                "appendix_arch_diag_nll", "SCROLL-Diag, test NLL by body",
                (lines.by_body("scroll-diag"),), "nll",
            ),
        ),
    ),
    "sensitivity": GridExperiment(
        "sensitivity to the floor on the covariance and to the patience",
        _rows(*lines.SENSITIVITY),
        by_set(
            "appendix_sensitivity", "SCROLL-Full (relu+LN), test NLL", lines.SENSITIVITY, "nll",
            show_se=True,
        ),
    ),
    "offset": GridExperiment(
        "a learned offset of the last layer: MVN and SCROLL without and with it",
        _rows(*cells.OFFSETS),
        several(
            by_set("offset_nll", "Test NLL", cells.OFFSETS, "nll", show_se=True),
            by_set("offset_caliberr", "Calibration error", cells.OFFSETS, "caliberr"),
        ),
    ),
    "steps": GridExperiment(
        "whether more steps change the sets on which training ends at the cap",
        _rows(*cells.STEPS),
        by_set("steps_nll", "Test NLL", cells.STEPS, "nll", show_se=True),
        sets=("power", "naval"),
    ),
    "vbll-grid": GridExperiment(
        "VBLL with smaller weights on its KL than the paper's grid has",
        _rows(cells.WIDER_GRID),
        by_set("vbll_grid_nll", "Test NLL", (cells.WIDER_GRID,), "nll", show_se=True),
    ),
    "traintest-gap": GridExperiment(
        "whether the free route overfits its score", lines.OPTIMISM.rows, builders.optimism
    ),
    "batching": GridExperiment(
        "mini-batches against full batches",
        (
            *lines.BATCHING.rows,
            *lines.BATCHING.with_(lines.SMALL_BATCH).rows,
        ),
        builders.batching,
    ),
    "two-layer": GridExperiment(
        "the design space and the baselines at depth two",
        _rows(*lines.DEEP_ATTRIBUTION, *lines.DEEP_BASELINES),
        several(
            by_set("appendix_2l_nll", "Depth two, test NLL", lines.DEEP_ATTRIBUTION, "nll"),
            by_set(
                "appendix_2l_baselines_nll", "Depth two, test NLL", lines.DEEP_BASELINES, "nll"
            ),
            by_set(
                "appendix_2l_baselines_caliberr", "Depth two, calibration error",
                lines.DEEP_BASELINES, "caliberr",
            ),
        ),
        where=lines.DEEP,
    ),
    "depth-trajectory": GridExperiment(
        "linear, one and two hidden layers", tuple(lines.TRAJECTORY.values()), builders.trajectory,
    ),
    "loo-gap": GridExperiment(
        "the shared score against leave-one-out on trained features",
        (Row("loo-gap", "loo-gap"),), builders.loo_gap, seeds=_TEN,
    ),
    "cells-layers": GridExperiment(
        "a belief over the weights of the last hidden layer, too: NLL, calibration error, RMSE",
        _rows(*cells.LAYERS),
        several(
            by_set("cells_layers_nll", "Test NLL", cells.LAYERS, "nll"),
            by_set("cells_layers_caliberr", "Calibration error", cells.LAYERS, "caliberr"),
            by_set("cells_layers_rmse", "Test RMSE", cells.LAYERS, "rmse"),
        ),
        where={},
    ),
    "arithmetic": GridExperiment(
        "the spread of results due to rounding beside the spread over seeds",
        arithmetic.ROWS, arithmetic.spreads, seeds=_TEN,
    ),
    "classification": GridExperiment(
        "nine classification heads and their baselines, relu+LN: NLL, ECE",
        _rows(*lines.classification(1)),
        several(
            by_set(
                "appendix_classification_nll", "Test NLL", lines.classification(1), "nll"
            ),
            by_set(
                "appendix_classification_ece", "Calibration error of labels",
                lines.classification(1), "ece",
            ),
        ),
        sets=_LABELLED,
        where=lines.PLAIN,
    ),
    "classification-0l": GridExperiment(
        "the nine classification heads directly on the inputs",
        _rows(*lines.classification(0)),
        by_set(
            "appendix_classification_0l_nll", "Depth zero, test NLL", lines.classification(0),
            "nll",
        ),
        sets=LABELLED,
        where={"depth": 0},
    ),
    "classification-2l": GridExperiment(
        "classification heads and baselines at depth two, relu+LN: NLL, ECE",
        _rows(*lines.classification(2)),
        several(
            by_set(
                "appendix_classification_2l_nll", "Depth two, test NLL",
                lines.classification(2), "nll",
            ),
            by_set(
                "appendix_classification_2l_ece", "Depth two, calibration error of labels",
                lines.classification(2), "ece",
            ),
        ),
        sets=_LABELLED,
        where={**lines.PLAIN, **lines.DEEP},
    ),
    "classification-bodies": GridExperiment(
        "classification heads and baselines on the three other bodies, one and two layers: NLL",
        _rows(*(b for d in (1, 2) for a in _OTHERS for b in lines.classification(d, a))),
        several(
            *(
                by_set(
                    f"classification_{depth}l_{body.replace('+', '_').lower()}",
                    f"{body}, depth {depth}, test NLL", lines.classification(depth, body), "nll",
                )
                for depth in (1, 2) for body in _OTHERS
            )
        ),
        sets=_LABELLED,
        seeds=SEEDS[:5],
    ),
    "scale": GridExperiment(
        "large tables and frozen features, in mini-batches of 1024",
        _rows(*lines.SCALE),
        builders.scale,
        where=lines.LARGE,
        ways=lines.on_scale,
        sets=("california", "protein", "year", "flights", "sick", "utkface"),
    ),
    "ood": GridExperiment(
        "out-of-distribution detection by epistemic variance, and its cost in NLL",
        _rows(*lines.OOD),
        builders.ood,
        sets=("sick", "utkface", "wine"),
        seeds=_TEN,
        only=tuple(name for name, spec in SETS.items() if spec.foreign),
        where={},
        ways=lines.IN_BATCHES,
    ),
    "text-shift": GridExperiment(
        "out-of-distribution detection on text, with each way of scaling the inputs by itself",
        _rows(*(block for way in range(2) for block in lines.one_way(way))),
        builders.text_shift,
        sets=("sick",),
        seeds=_TEN,
        only=("sick",),
    ),
}  # fmt: skip
GRID |= {name: replace(experiment, name=name) for name, experiment in GRID.items()}
