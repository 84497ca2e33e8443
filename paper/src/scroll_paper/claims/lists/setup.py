"""Claims of the appendices on the set-up and on point estimates: floor, counts, regret, RMSE."""

from ...tables.significance import p_value
from ..checks import as_printed, counted, each, every, span
from ..claim import Claim, Evidence, Outcome
from ..comparisons import LEVEL, ahead, best_of
from .headline import CORNER, DIAG, ENSEMBLE, FULL, MIX, MULTI, NLL, NONE, RMSE, THREE, TUNED
from .sections import POINT, SETUP


def shift_of_mixture(evidence: Evidence) -> Outcome:
    """The size of the change from moments to mixture, of every ensemble."""
    names = ("SCROLL-Ens", "MVN-Ens", "Deep Ensemble")
    gaps = {
        f"{name} on {c}": abs(
            evidence.mean(MIX, f"{name} / mixture", c) - evidence.mean(MIX, f"{name} / moment", c)
        )
        for name in names
        for c in evidence.columns(MIX)
    }
    cases = {k: gap <= 0.11 for k, gap in gaps.items()}
    return counted(cases, words=f"largest change {max(gaps.values()):.3f}; at most 0.11 in")


def clears_the_floor(evidence: Evidence) -> Outcome:
    """Every method is ahead of the mean predictor, except SCROLL-Full and VBLL on naval."""
    exceptions = {(FULL, "naval"), ("VBLL", "naval")}
    cases = {}
    for row in (*THREE, *TUNED, CORNER, ENSEMBLE, *MULTI, "GP-RBF"):
        for column in evidence.columns(NLL):
            below = evidence.mean(NLL, row, column) < evidence.mean(NLL, "Mean predictor", column)
            printed_exception = (row, column) in exceptions or (row, column) == (ENSEMBLE, "naval")
            cases[f"{row} on {column}"] = below != printed_exception
    return counted(cases, words="as printed in")


def low_regret(evidence: Evidence) -> Outcome:
    """The median regret of selection is zero and its mean at most 0.09 for each method."""
    rows = [row for row in evidence.rows("regret") if row not in MULTI]
    means = {row: evidence.mean("regret", row, "mean") for row in rows}
    cases = {
        row: mean <= 0.09 and evidence.mean("regret", row, "median") < 5e-4
        for row, mean in means.items()
    }
    return counted(cases, words=f"means {span(list(means.values()), '.3f')}; as printed for")


def tied_counts(evidence: Evidence) -> Outcome:
    """Diag alone, against the tuned methods."""
    found = [
        evidence.mean("wins", DIAG, f"{metric}: best or tied") for metric in ("NLL", "calibration")
    ]
    cases = {"NLL on five": found[0] >= 5, "calibration on six": found[1] >= 6}
    return counted(cases, words=f"NLL {found[0]:.0f}, calibration {found[1]:.0f} of 8;")


def tracks_map(evidence: Evidence, column: str) -> bool:
    """SCROLL-None has the RMSE of MAP within a twentieth, or within the test."""
    none, other = (evidence.mean(RMSE, row, column) for row in (NONE, "MAP"))
    p = p_value(
        evidence.values(RMSE, NONE, column), evidence.values(RMSE, "MAP", column), "two-sided"
    )
    return abs(none - other) <= 0.05 * other or not p < LEVEL


CLAIMS = [
    Claim(
        SETUP,
        "The splits are the paper's: the mean predictor has the printed NLL on every set.",
        as_printed("mean_baseline_note"),
        "headline",
    ),
    Claim(
        SETUP,
        "Every method is ahead of the mean predictor on every set, except SCROLL-Full (also as an "
        "ensemble) and VBLL on naval.",
        clears_the_floor,
        "headline",
    ),
    Claim(
        SETUP,
        "Against the multi-pass methods too, SCROLL-Full is best or tied in NLL on four sets.",
        best_of(NLL, (FULL,), (*TUNED, *MULTI), 4),
        "headline",
        why="MVN and its ensemble have an offset here.",
    ),
    Claim(
        SETUP,
        "SCROLL-Diag alone is best or tied on five sets for NLL and on six for calibration.",
        tied_counts,
        "in-text",
        why="MVN has an offset here; see the claims with `offset`.",
    ),
    Claim(
        SETUP,
        "Choosing the architecture by validation costs a median of zero and a mean of at most "
        "0.09 nat, for every method.",
        low_regret,
        "in-text",
    ),
    Claim(
        SETUP,
        "Exact mixture instead of moments changes no ensemble by more than 0.11 nat.",
        shift_of_mixture,
        "ens-mixture",
    ),
    Claim(
        POINT,
        "SCROLL-None has the RMSE of MAP.",
        each(RMSE, tracks_map, words="within 5 %, or not separated, on"),
        "headline",
    ),
    Claim(
        POINT,
        "SCROLL-Full and Diag have a higher RMSE than MAP on yacht and concrete.",
        every(
            ahead(RMSE, "MAP", FULL, columns=("yacht", "concrete")),
            ahead(RMSE, "MAP", DIAG, columns=("yacht", "concrete")),
        ),
        "headline",
    ),
    Claim(
        POINT,
        "Deep Ensembles have the best RMSE of the multi-pass methods.",
        best_of(RMSE, ("Deep Ensemble",), (ENSEMBLE, *MULTI), 5, tied=False),
        "headline",
    ),
]
