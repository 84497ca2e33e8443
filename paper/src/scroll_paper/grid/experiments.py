"""The experiments by name: which fits each needs, and the tables that its records make."""

from dataclasses import dataclass
from typing import Any

from scroll.training.bodies import ARCHITECTURES

from ..data.datasets import LABELLED, UCI
from ..models.methods import METHODS
from ..tables import builders
from ..tables import table_rows as lines
from ..tables.builders import Make, Scope, by_set, setting, several
from ..tables.table_rows import ENSEMBLES, Row, Rows
from .plan import Work

SEEDS = tuple(range(5, 25))
TRAINED_AS = {  # whose networks a row is made of, where not its own
    "laplace-full": "map",
    "deep-ensemble": "map",
    "mvn-ens": "mvn",
    "scroll-ens": "scroll-full",
    "free-hybrid": "scroll-full-refit",
    "free-refit": "scroll-full-routed",
    "free-refit-inputs": "scroll-full-routed",
    "loo-gap": "scroll-full-refit",
    "softmax-laplace": "softmax",
    "softmax-ensemble": "softmax",
}
SLOW = {"seq-diag": ("yacht", "concrete", "energy", "wine", "boston")}  # a step a row; as printed
SLOW_SEEDS = SEEDS[:5]


@dataclass(frozen=True)
class Experiment:
    """A question of the paper.

    Args:
        about: it, in a line.
        rows: all lines of its tables; they say what is to be trained.
        tables: made of records alone.
        sets: that it is usually run on.
        seeds: that it is usually run with.
        only: the sets that it can be run on; none is all.
    """

    about: str
    rows: tuple[Row, ...]
    tables: Make
    sets: tuple[str, ...] = UCI
    seeds: tuple[int, ...] = SEEDS
    only: tuple[str, ...] = ()

    def methods(self) -> list[str]:
        """The methods of its rows."""
        return list(dict.fromkeys(row.method for row in self.rows))

    def works(self, scope: Scope) -> list[Work]:
        """The fits that its rows need, a set after the other: its folds are made once."""
        found: dict[Any, Work] = {}
        for row in filter(scope.wants, self.rows):
            stem = TRAINED_AS.get(row.method, row.method)
            body = row.where.get("architecture")
            grid = (row.where["knob"],) if "knob" in row.where else None
            members = METHODS[stem].members if row.method in ENSEMBLES else 1
            seeds = tuple(s for s in scope.seeds if stem not in SLOW or s in SLOW_SEEDS)
            sets = [s for s in scope.sets if s in SLOW.get(stem, scope.sets) and seeds]
            for made in (setting(s, stem, where) for s in sets for where in row.at(s)):
                bodies = (body,) if body else ARCHITECTURES
                at = (made, bodies, grid)
                if at not in found or found[at].members < members:
                    found[at] = Work(made, seeds, bodies, grid, members)
        return sorted(found.values(), key=lambda work: scope.sets.index(work.setting.set))


def _rows(*blocks: Rows) -> tuple[Row, ...]:
    return tuple(row for block in blocks for row in block.rows)


_HEADLINE = _rows(*lines.HEADLINE)
_TEN = SEEDS[:10]
_LABELLED = (*LABELLED, "wine_six")
_OTHERS = tuple(a for a in ARCHITECTURES if a != "relu+LN")

EXPERIMENTS: dict[str, Experiment] = {
    "headline": Experiment(
        "SCROLL against tuned references and ensembles: NLL, calibration error, RMSE",
        _HEADLINE,
        several(
            by_set("headline_nll", "Test NLL", lines.HEADLINE, "nll"),
            by_set("table1_headline_caliberr", "Calibration error", lines.HEADLINE, "caliberr"),
            by_set("headline_rmse", "Test RMSE", lines.HEADLINE, "rmse"),
            by_set("mean_baseline_note", "The sanity floor, test NLL", (lines.FLOOR,), "nll"),
        ),
    ),
    "attribution": Experiment(
        "the design space: route, cavity and score by themselves",
        _rows(*lines.ATTRIBUTION),
        several(
            by_set("appendix_attribution_full_nll", "Test NLL", lines.ATTRIBUTION, "nll"),
            by_set("appendix_attribution_full_rmse", "Test RMSE", lines.ATTRIBUTION, "rmse"),
        ),
    ),
    "ens-mixture": Experiment(
        "ensembles scored by their moments and as the exact mixture",
        lines.MIXTURE.rows,
        by_set("appendix_ens_mixture", "Test NLL of ensembles", (lines.MIXTURE,), "nll"),
    ),
    "prior-ablation": Experiment(
        "the prior term learned, fixed, left out, or a KL",
        _rows(*lines.PRIOR),
        by_set("appendix_prior_ablation", "Test NLL", lines.PRIOR, "nll"),
    ),
    "architecture": Experiment(
        "the four bodies one by one",
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
    "sensitivity": Experiment(
        "the floor on the covariance and the patience",
        _rows(*lines.SENSITIVITY),
        by_set(
            "appendix_sensitivity", "SCROLL-Full (relu+LN), test NLL", lines.SENSITIVITY, "nll",
            show_se=True,
        ),
    ),
    "traintest-gap": Experiment(
        "whether the free route overfits its score", lines.OPTIMISM, builders.optimism
    ),
    "batching": Experiment(
        "mini-batches against full batches",
        (
            *lines.BATCHING,
            *(row._replace(where={**row.where, **lines.SMALL_BATCH}) for row in lines.BATCHING),
        ),
        builders.batching,
    ),
    "two-layer": Experiment(
        "the design space and the references at depth two",
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
        seeds=_TEN,
    ),
    "depth-trajectory": Experiment(
        "linear, one and two hidden layers", tuple(lines.TRAJECTORY.values()), builders.trajectory,
        seeds=_TEN,
    ),
    "loo-gap": Experiment(
        "the shared score against leave-one-out on trained features",
        (Row("loo-gap", "loo-gap"),), builders.loo_gap, seeds=_TEN,
    ),
    "classification": Experiment(
        "nine heads for labels and their references, relu+LN: NLL, ECE",
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
    ),
    "classification-0l": Experiment(
        "the nine heads on the inputs themselves",
        _rows(*lines.classification(0)),
        by_set(
            "appendix_classification_0l_nll", "Depth zero, test NLL", lines.classification(0),
            "nll",
        ),
        sets=LABELLED,
    ),
    "classification-2l": Experiment(
        "heads for labels and references at depth two, relu+LN: NLL, ECE",
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
    ),
    "classification-bodies": Experiment(
        "heads for labels and references on the three other bodies, one and two layers: NLL",
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
    "scale": Experiment(
        "large tables and frozen features, in mini-batches of 1024",
        _rows(*lines.SCALE),
        builders.scale,
        sets=("california", "protein", "year", "flights", "sick", "utkface"),
    ),
    "ood": Experiment(
        "rows from elsewhere told by their epistemic variance, and what that costs",
        _rows(*lines.SHIFT),
        builders.shift,
        sets=tuple(lines.KINDS),
        seeds=_TEN,
        only=tuple(lines.FOREIGN),
    ),
}  # fmt: skip
QUICK = Scope(
    ("yacht", "boston"),
    SEEDS[:5],
    (
        *("scroll-full", "scroll-diag", "scroll-none", "map", "mvn"),
        *("closed-full", "free-refit", "free-refit-inputs"),  # of those that have them
    ),
)
