"""The experiments of the grid by name; here are those of the paper."""

from dataclasses import replace

from scroll.training.bodies import ARCHITECTURES

from ..data.datasets import LABELLED, SETS
from ..tables import builders
from ..tables import rows as lines
from ..tables.builders import by_set, several
from ..tables.rows import Row, flat
from .cells import CELLS
from .checks import CHECKS
from .experiment import SEEDS, GridExperiment

_HEADLINE = flat(*lines.HEADLINE)
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
        flat(*lines.ATTRIBUTION),
        several(
            by_set("appendix_attribution_full_nll", "Test NLL", lines.ATTRIBUTION, "nll"),
            by_set("appendix_attribution_full_rmse", "Test RMSE", lines.ATTRIBUTION, "rmse"),
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
        flat(*lines.PRIOR),
        several(
            by_set("appendix_prior_ablation", "Test NLL", lines.PRIOR, "nll"),
            by_set("prior_ablation_caliberr", "Calibration error", lines.PRIOR, "caliberr"),
        ),
        where={},
    ),
    "architecture": GridExperiment(
        "the four architectures of the body, one by one",
        flat(lines.by_body("scroll-full"), lines.by_body("scroll-diag")),
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
        flat(*lines.SENSITIVITY),
        by_set(
            "appendix_sensitivity", "SCROLL-Full (relu+LN), test NLL", lines.SENSITIVITY, "nll",
            show_se=True,
        ),
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
        flat(*lines.DEEP_ATTRIBUTION, *lines.DEEP_BASELINES),
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
    "classification": GridExperiment(
        "nine classification heads and their baselines, relu+LN: NLL, ECE",
        flat(*lines.classification(1)),
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
        flat(*lines.classification(0)),
        by_set(
            "appendix_classification_0l_nll", "Depth zero, test NLL", lines.classification(0),
            "nll",
        ),
        sets=LABELLED,
        where={"depth": 0},
    ),
    "classification-2l": GridExperiment(
        "classification heads and baselines at depth two, relu+LN: NLL, ECE",
        flat(*lines.classification(2)),
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
        flat(*(b for d in (1, 2) for a in _OTHERS for b in lines.classification(d, a))),
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
        flat(*lines.SCALE),
        builders.scale,
        where=lines.LARGE,
        ways=lines.on_scale,
        sets=("california", "protein", "year", "flights", "sick", "utkface"),
    ),
    "ood": GridExperiment(
        "out-of-distribution detection by epistemic variance, and its cost in NLL",
        flat(*lines.OOD),
        builders.ood,
        sets=("sick", "utkface", "wine"),
        seeds=_TEN,
        only=tuple(name for name, spec in SETS.items() if spec.foreign),
        where={},
        ways=lines.IN_BATCHES,
    ),
    **CHECKS,
    **CELLS,
}  # fmt: skip
GRID |= {name: replace(experiment, name=name) for name, experiment in GRID.items()}
