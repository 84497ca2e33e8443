"""Claims that a study decides: routing against selection, one input, no network, two moons."""

from ..checks import counted
from ..claim import Claim, Evidence, Outcome
from .sections import LABELS, PROOFS, SPACE

GAPS, LINEAR, TOY = "routing_vs_selection_claims", "linear_claims", "toy"
MOONS, NAIVE = "two_moons_contours", "naive_corner"
PLAIN, FAR = "ReLU without biases", ("arc at 1.5", "arc at 50")
ROUTING = "routing-vs-selection"


def slope(evidence: Evidence) -> Outcome:
    """The routing gap against the Jensen gap, over seven levels of noise."""
    found = evidence.mean(GAPS, "slope of the routing gap against the Jensen gap", "ours")
    rho = evidence.mean(GAPS, "correlation", "ours")
    cases = {"slope within 0.05 of 0.91": abs(found - 0.91) <= 0.05, "correlation": rho >= 0.99}
    return counted(cases, words=f"slope {found:.3f}, correlation {rho:.4f};")


def flat(evidence: Evidence) -> Outcome:
    """The mean selection gap where there are many rows per feature."""
    gap = evidence.mean(GAPS, "largest |mean selection gap| at N/H = 50", "ours")
    return counted({"below 0.001": gap < 1e-3}, words=f"{gap:.5f} nat;")


def grows(evidence: Evidence) -> Outcome:
    """The size of the selection gap with many and with few rows per feature."""
    rows = (f"RMS selection gap at N/H = {ratio}" for ratio in ("50", "1.5"))
    many, few = (evidence.mean(GAPS, row, "ours") for row in rows)
    cases = {"below 0.002 at 50": many < 2e-3, "above 0.1 at 1.5": few > 0.1}
    return counted(cases, words=f"{many:.5f} and {few:.3f}, a factor of {few / many:.0f};")


def equal_routes(evidence: Evidence) -> Outcome:
    """Free minus closed on even noise, without a network."""
    gap = evidence.mean(LINEAR, "homoscedastic, free minus closed", "ours")
    cases = {"to three decimals": abs(gap) < 5e-4, "to four": abs(gap) < 5e-5}
    return counted(cases, words=f"free minus closed {gap:+.4f}; equal")


def follows(evidence: Evidence) -> Outcome:
    """The predictive deviation of both routes against the true one, on one input."""
    column = "correlation with the true sd"
    free, closed = (evidence.mean(TOY, route, "test NLL") for route in ("free", "closed"))
    rho = evidence.mean(TOY, "free", column)
    cases = {"free follows the noise": rho >= 0.9, "free ahead": free < closed}
    return counted(cases, words=f"correlation {rho:.3f}, NLL {free:.3f} and {closed:.3f};")


def widens(evidence: Evidence) -> Outcome:
    """The arc on which a class is uncertain, near the data and far from them."""
    arcs = {
        row: [evidence.mean(MOONS, f"{PLAIN} / {row}", column) for column in FAR]
        for row in ("MAP", "SCROLL-Full")
    }
    sure = evidence.mean(MOONS, f"{PLAIN} / MAP", "confidence at 50")
    shown = ", ".join(f"{row} {near:.1f} to {far:.1f}" for row, (near, far) in arcs.items())
    cases = {
        "MAP sure far away": sure >= 0.99,
        "MAP's arc does not grow": arcs["MAP"][1] <= 1.5 * arcs["MAP"][0],
        "Full's arc grows": arcs["SCROLL-Full"][1] >= 5 * arcs["SCROLL-Full"][0],
    }
    return counted(cases, words=f"arc at 1.5 and 50: {shown};")


def diverges(evidence: Evidence) -> Outcome:
    """The test NLL of the naive cell as the paper has it, from each start, beside SCROLL's."""
    column, base = "test NLL", evidence.mean(NAIVE, "SCROLL / small S", "test NLL")
    found = {
        row: evidence.mean(NAIVE, row, column)
        for row in evidence.rows(NAIVE)
        if row.startswith("naive, variance alone")
    }
    cases = {row: not x <= 10 * base for row, x in found.items()}  # NaN diverged
    return counted(cases, words=f"SCROLL {base:.2f}; ten times as high, or not finite:")


CLAIMS = [
    Claim(
        PROOFS,
        "Figure (toy): on one input the free band follows the noise, the closed one does not.",
        follows,
        "toy",
    ),
    Claim(
        PROOFS,
        "The naive leave-one-out cell of a free belief diverges, or has ten times the NLL.",
        diverges,
        "naive-corner",
    ),
    Claim(
        SPACE,
        "Proposition (routing and selection): the routing gap follows the Jensen gap, with a slope "
        "of 0.91 and a correlation of 0.998.",
        slope,
        ROUTING,
    ),
    Claim(
        SPACE,
        "With 50 rows per feature the selection gap is below 0.001 nat at every level of noise.",
        flat,
        ROUTING,
    ),
    Claim(
        SPACE,
        "The size of the selection gap grows from 0.0004 nat at N/H = 50 to 0.19 at N/H = 1.5.",
        grows,
        ROUTING,
    ),
    Claim(
        SPACE,
        "On even noise, without a network, both routes have the same NLL to four decimals.",
        equal_routes,
        "linear",
    ),
    Claim(
        LABELS,
        "Figure (two moons): far from the data MAP is sure, and the uncertain region of SCROLL "
        "grows.",
        widens,
        "two-moons",
    ),
]
