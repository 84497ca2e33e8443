"""Claims of the main text about the eight UCI sets."""

from ...tables.significance import marks
from ..checks import averages, counted, each, every
from ..claim import Claim, Evidence, Outcome
from ..comparisons import ahead, best_of, never_best
from .sections import COST, INTRODUCTION, LIMITS, WHY

FULL, DIAG, NONE = "SCROLL-Full", "SCROLL-Diag", "SCROLL-None"
THREE = (FULL, DIAG, NONE)
TUNED = ("MAP", "Laplace-Full", "VBLL", "MVN")
ENSEMBLE = "SCROLL-Ens (5x)"
MULTI = ("Deep Ensemble", "MVN-Ens (5x)", "MC Dropout")
CORNER = "Exact corner (Full)"
NLL, CAL, RMSE = "headline_nll", "table1_headline_caliberr", "headline_rmse"
MIX = "appendix_ens_mixture"
SETS = ("yacht", "concrete", "energy", "kin8nm", "naval", "power", "wine", "boston")
BUT_NAVAL = tuple(name for name in SETS if name != "naval")


def mixture(evidence: Evidence) -> Outcome:
    """The exact mixture of SCROLL members against a normal distribution with its moments."""
    gaps = {
        c: evidence.mean(MIX, "SCROLL-Ens / mixture", c)
        - evidence.mean(MIX, "SCROLL-Ens / moment", c)
        for c in evidence.columns(MIX)
    }
    cases = {c: gap < 0 for c, gap in gaps.items()}
    return counted(cases, words=f"mixture minus moments {averages(list(gaps.values()))}; better on")


def wins_without_offset(evidence: Evidence, column: str) -> bool:
    """SCROLL-Full is best or tied with the best, where MVN has no offset either."""
    rows = {row: evidence.values(NLL, row, column) for row in (FULL, *TUNED)}
    rows["MVN"] = evidence.values("offset_nll", "MVN / without", column)
    return marks(rows)[FULL] != ""


def lead_on_naval(evidence: Evidence) -> Outcome:
    """The lead of the best SCROLL variant over the best tuned method on naval."""
    ours, theirs = (
        min(evidence.mean(NLL, row, "naval") for row in rows) for rows in (THREE, TUNED)
    )
    corner = evidence.mean(NLL, CORNER, "naval")
    cases = {"a lead of 0.9 (at least 0.7)": theirs - ours >= 0.7, "corner ahead": corner < ours}
    return counted(cases, words=f"lead {theirs - ours:.2f}, corner {ours - corner:.2f} further;")


def covariances(evidence: Evidence) -> Outcome:
    """Of the three variants, Full and Diag share the best places and None has none."""
    best = {}
    for column in evidence.columns(NLL):
        means = {row: evidence.mean(NLL, row, column) for row in THREE}
        best[column] = min(means, key=means.__getitem__)
    cases = {column: row != NONE for column, row in best.items()}
    tally = ", ".join(f"{row} {list(best.values()).count(row)}" for row in THREE)
    return counted(cases, words=f"best of the three: {tally}; None not best on")


def tracks_vbll(evidence: Evidence) -> Outcome:
    """The exact corner is nearer to VBLL than to SCROLL-Full."""
    cases = {}
    for column in BUT_NAVAL:
        corner, vbll, full = (evidence.mean(NLL, row, column) for row in (CORNER, "VBLL", FULL))
        cases[column] = abs(corner - vbll) < abs(corner - full)
    return counted(cases, words="nearer to VBLL than to SCROLL-Full on")


NEVER = never_best(NLL, "MVN", (*THREE, "MAP", "Laplace-Full", "VBLL", CORNER))
CLAIMS = [
    Claim(
        INTRODUCTION,
        "Free routing has a lower NLL than the exact evidence corner on all sets but naval.",
        ahead(NLL, FULL, CORNER, 7),
        "headline",
    ),
    Claim(
        INTRODUCTION,
        "With five members of its own, SCROLL leads the ensembles in NLL on seven sets.",
        best_of(NLL, (ENSEMBLE,), (ENSEMBLE, *MULTI), 7, tied=False),
        "headline",
        why="MVN has an offset here, and so have its members.",
    ),
    Claim(
        INTRODUCTION,
        "SCROLL needs one training run per architecture and one pass; tuned methods need four.",
        lambda evidence: counted(
            {
                **{row: evidence.mean("table_scale_nll", row, "Train") == 1 for row in THREE},
                **{row: evidence.mean("table_scale_nll", row, "Train") == 4 for row in TUNED},
            },
            words="as stated for",
        ),
        "scale",
    ),
    Claim(
        COST,
        "SCROLL-Full has the best NLL, or is tied with it, on seven sets, against MAP, Laplace, "
        "VBLL and MVN.",
        best_of(NLL, (FULL,), TUNED, 7),
        "headline",
        why="MVN has an offset here; see the claims with `offset`.",
    ),
    Claim(
        COST,
        "SCROLL-Full has the best calibration error, or is tied with it, on six sets.",
        best_of(CAL, (FULL,), TUNED, 6),
        "headline",
    ),
    Claim(
        COST,
        "The best of the three variants wins or ties on NLL on all eight sets and on calibration "
        "on seven.",
        every(best_of(NLL, THREE, TUNED, 8), best_of(CAL, THREE, TUNED, 7)),
        "headline",
        why="MVN has an offset here; see the claims with `offset`.",
    ),
    Claim(
        COST,
        "The best of the three variants is outright best on six sets, for NLL and for calibration.",
        every(best_of(NLL, THREE, TUNED, 6, tied=False), best_of(CAL, THREE, TUNED, 6, tied=False)),
        "headline",
    ),
    Claim(
        COST,
        "The exact mixture of the SCROLL members has a lower NLL than its moments on every set.",
        mixture,
        "ens-mixture",
    ),
    Claim(
        COST,
        "A single SCROLL-Full is better calibrated than its own ensemble.",
        ahead(CAL, FULL, ENSEMBLE),
        "headline",
    ),
    Claim(
        COST,
        "MVN (with an offset) never has the best NLL.",
        NEVER,
        "headline",
        why="See the next three claims.",
    ),
    Claim(
        COST,
        "Without an offset, as in SCROLL, MVN never has a better NLL than all three variants.",
        never_best("offset_nll", "MVN / without", tuple(f"{row} / without" for row in THREE)),
        "offset",
    ),
    Claim(
        COST,
        "Against an MVN without an offset, and the other tuned methods, SCROLL-Full is best or "
        "tied on seven sets.",
        each(NLL, wins_without_offset, 7, words="SCROLL-Full best or tied on"),
        "offset",
    ),
    Claim(
        COST,
        "SCROLL-Full is ahead of MVN on six sets: without an offset, and with one in both.",
        every(
            ahead("offset_nll", f"{FULL} / without", "MVN / without", 6, SETS),
            ahead("offset_nll", f"{FULL} / with", "MVN / with", 6, SETS),
        ),
        "offset",
    ),
    Claim(
        WHY,
        "The exact corner pays with worse calibration than SCROLL-Full.",
        ahead(CAL, FULL, CORNER, 7),
        "headline",
    ),
    Claim(
        WHY,
        "The exact corner has a lower RMSE than SCROLL-Full.",
        ahead(RMSE, CORNER, FULL, 7),
        "headline",
    ),
    Claim(WHY, "The exact corner behaves like VBLL.", tracks_vbll, "headline"),
    Claim(
        WHY,
        "Full and Diag share the wins among the variants; None takes none.",
        covariances,
        "headline",
    ),
    Claim(
        LIMITS,
        "On concrete VBLL is the better calibrated method.",
        ahead(CAL, "VBLL", FULL, columns=("concrete",)),
        "headline",
    ),
    Claim(
        LIMITS,
        "On naval SCROLL leads the tuned methods by about 0.9 nat, and the exact corner is better "
        "still.",
        lead_on_naval,
        "headline",
        why="On naval the step size decides the results of Diag and None.",
    ),
]
