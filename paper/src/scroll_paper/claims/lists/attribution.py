"""Claims of the appendices about the eight UCI sets: attribution, prior, stability, depth."""

from ..checks import counted, every, span
from ..claim import Claim, Evidence, Outcome
from ..comparisons import ahead, best_of, difference, equal
from .headline import BUT_NAVAL, DIAG, FULL, THREE
from .sections import ATTRIBUTION, BODY, PROOFS

GRID_NLL, GRID_RMSE = "appendix_attribution_full_nll", "appendix_attribution_full_rmse"
CORNERS = ("Full closed", "Full LOO", "Full seq", "Diag closed", "Diag LOO")
ARCH_FULL, ARCH_DIAG = "appendix_arch_full_nll", "appendix_arch_diag_nll"
BODIES = ("relu", "relu+LN", "tanh", "tanh+LN")
GAP = "loo_gap"


def rate(evidence: Evidence) -> Outcome:
    """The gap per row, divided by H/N, lies in the printed range on every set."""
    found = {row: evidence.mean(GAP, row, "gap/(H/N)") for row in evidence.rows(GAP)}
    cases = {row: 0.55 <= x <= 0.96 for row, x in found.items()}
    near = {row: 0.5 <= x <= 1.1 for row, x in found.items()}
    words = f"{span(list(found.values()), '.2f')} (0.5 to 1.1 on {sum(near.values())}); printed on"
    return counted(cases, words=words)


def shared_is_better_on_naval(evidence: Evidence) -> Outcome:
    """On naval the closed method is more than a nat ahead of its leave-one-out twin."""
    gaps = {
        family: evidence.mean(GRID_NLL, f"{family} LOO", "naval")
        - evidence.mean(GRID_NLL, f"{family} closed", "naval")
        for family in ("Full", "Diag")
    }
    shown = ", ".join(f"{family} {gap:+.2f}" for family, gap in gaps.items())
    return counted({k: gap > 1 for k, gap in gaps.items()}, words=f"LOO minus closed: {shown};")


def mean_cost(row: str, printed: float) -> Claim:
    """A relu body without selection costs little on average."""

    def check(evidence: Evidence) -> Outcome:
        cost = evidence.mean("fixed_body", row, "mean")
        cases = {f"at most {printed + 0.02:.2f}": cost <= printed + 0.02}
        return counted(cases, words=f"mean cost {cost:+.3f} nat;")

    return Claim(
        BODY,
        f"A relu body without selection costs {row} {printed} nat on average.",
        check,
        "in-text",
        why="On energy early stopping ends relu while it still improves.",
    )


CLAIMS = [
    Claim(
        PROOFS,
        "The gap between shared and leave-one-out score follows H/N, with a factor of 0.55 to "
        "0.96 on every set.",
        rate,
        "loo-gap",
    ),
    Claim(
        ATTRIBUTION,
        "Closed and leave-one-out agree within noise on six sets.",
        equal(GRID_NLL, "Full closed", "Full LOO", 6),
        "attribution",
    ),
    Claim(
        ATTRIBUTION,
        "On naval, leave-one-out is more than a nat behind closed.",
        shared_is_better_on_naval,
        "attribution",
        why="Both are computed in float64 here.",
    ),
    Claim(
        ATTRIBUTION,
        "On yacht, leave-one-out is 0.4 nat behind closed (Full).",
        difference(GRID_NLL, "Full LOO", "Full closed", 0.2, 0.6, ("yacht",)),
        "attribution",
    ),
    Claim(
        ATTRIBUTION,
        "The ELBO with the same free parameters is worse than SCROLL-Full on all sets but energy.",
        every(
            ahead(GRID_NLL, FULL, "Full ELBO", 7),
            ahead(GRID_NLL, "Full ELBO", FULL, columns=("energy",)),
        ),
        "attribution",
    ),
    Claim(
        ATTRIBUTION,
        "No posterior has a better NLL than the best free method, except on naval, and on energy "
        "by little.",
        best_of(
            GRID_NLL,
            THREE,
            CORNERS,
            6,
            tuple(c for c in BUT_NAVAL if c != "energy"),
            tied=False,
        ),
        "attribution",
    ),
    Claim(
        ATTRIBUTION,
        "Posteriors have the best RMSE: one of them is best or tied on every set but kin8nm.",
        best_of(GRID_RMSE, CORNERS, THREE, 7),
        "attribution",
    ),
    Claim(
        BODY,
        "A relu body, with or without layer normalisation, is best or tied on seven sets, for Full "
        "and for Diag.",
        every(
            best_of(ARCH_FULL, BODIES[:2], BODIES, 7),
            best_of(ARCH_DIAG, BODIES[:2], BODIES, 7),
        ),
        "architecture",
    ),
    Claim(
        BODY,
        "Plain relu is best on four sets for Full and on five for Diag.",
        every(
            best_of(ARCH_FULL, ("relu",), BODIES, 4, tied=False),
            best_of(ARCH_DIAG, ("relu",), BODIES, 5, tied=False),
        ),
        "architecture",
    ),
    mean_cost(FULL, 0.06),
    mean_cost(DIAG, 0.02),
    Claim(
        BODY,
        "Energy alone prefers tanh+LN, for both variants.",
        every(
            best_of(ARCH_FULL, ("tanh+LN",), BODIES, columns=("energy",), tied=False),
            best_of(ARCH_DIAG, ("tanh+LN",), BODIES, columns=("energy",), tied=False),
        ),
        "architecture",
    ),
    Claim(
        BODY,
        "Layer normalisation helps on kin8nm and hurts on power and naval.",
        every(
            ahead(ARCH_FULL, "relu+LN", "relu", columns=("kin8nm",)),
            ahead(ARCH_DIAG, "relu+LN", "relu", columns=("kin8nm",)),
            ahead(ARCH_FULL, "relu", "relu+LN", columns=("power", "naval")),
            ahead(ARCH_DIAG, "relu", "relu+LN", columns=("power", "naval")),
        ),
        "architecture",
    ),
]
