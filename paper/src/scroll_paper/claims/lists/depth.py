"""Claims about depth: linear, one and two hidden layers, on the eight UCI sets."""

from ..checks import counted, every
from ..claim import Claim, Evidence, Outcome
from ..comparisons import ahead, best_of, difference
from .headline import ENSEMBLE, SETS, THREE
from .sections import TRAJECTORY, TWO

CELLS, REFERENCES = "appendix_2l_nll", "appendix_2l_baselines_nll"
CALIBRATION, DEPTHS = "appendix_2l_baselines_caliberr", "depth_trajectory"
POSTERIORS = ("Full closed", "Full LOO", "Full seq", "Diag closed", "Diag LOO")
SINGLE = ("MAP", "VBLL", "MVN")
FAMILIES = ("Full", "Diag", "None")


def by_set(evidence: Evidence, name: str, column: str) -> float:
    """Return a mean of the table that has the sets along its side."""
    return evidence.mean(DEPTHS, name, column)


def known(evidence: Evidence) -> list[str]:
    """Return the sets with records."""
    return [name for name in SETS if name in evidence.rows(DEPTHS)]


def linear_best(evidence: Evidence) -> Outcome:
    """At depth zero, Full or Diag is ahead of None on every set but naval."""
    cases: dict[str, bool | None] = dict.fromkeys(SETS)
    for name in known(evidence):
        full, diag, none = (by_set(evidence, name, f"{family} lin") for family in FAMILIES)
        cases[name] = (min(full, diag) < none) != (name == "naval")
    return counted(cases, words="as printed (None ahead on naval alone) on")


def front_loaded(evidence: Evidence) -> Outcome:
    """The first layer brings at least 60 % of the gain from linear to two layers."""
    cases: dict[str, bool | None] = {}
    for name in ("energy", "kin8nm", "boston"):
        if name not in known(evidence):
            cases[name] = None
            continue
        linear, one, two = (by_set(evidence, name, f"Full {d}") for d in ("lin", "1L", "2L"))
        cases[name] = linear - one >= 0.6 * (linear - min(one, two))
    return counted(cases, words="at least 60 % with SCROLL-Full on")


def yacht_keeps_gaining(evidence: Evidence) -> Outcome:
    """On yacht the second layer still helps every family."""
    cases = {
        family: by_set(evidence, "yacht", f"{family} 2L")
        < by_set(evidence, "yacht", f"{family} 1L")
        for family in FAMILIES
    }
    return counted(cases, words="second layer better for")


def near_linear(evidence: Evidence) -> Outcome:
    """On wine and power no depth moves the NLL by more than 0.1 nat."""
    cases: dict[str, bool | None] = {}
    words = []
    for name in ("wine", "power"):
        if name not in known(evidence):
            cases[name] = None
            continue
        ranges = []
        for family in FAMILIES:
            found = [by_set(evidence, name, f"{family} {d}") for d in ("lin", "1L", "2L")]
            ranges.append(max(found) - min(found))
        cases[name] = max(ranges) <= 0.12
        words.append(f"{name} {max(ranges):.3f}")
    return counted(cases, words=f"largest change: {', '.join(words)}; near-linear:")


def naval_ends(evidence: Evidence) -> Outcome:
    """On naval None is best linear, and Diag with one layer is best of all."""
    cells = {
        f"{family} {depth}": by_set(evidence, "naval", f"{family} {depth}")
        for family in FAMILIES
        for depth in ("lin", "1L", "2L")
    }
    lines = {k: x for k, x in cells.items() if k.endswith("lin")}
    cases = {
        "None best without a layer": min(lines, key=lines.__getitem__) == "None lin",
        "Diag with one layer best of all": min(cells, key=cells.__getitem__) == "Diag 1L",
    }
    return counted(cases)


CLAIMS = [
    Claim(
        TWO,
        "At depth two a free method is best of the design space on five sets.",
        best_of(CELLS, THREE, (*POSTERIORS, "Full ELBO"), 5, tied=False),
        "two-layer",
    ),
    Claim(
        TWO,
        "At depth two posteriors are best on concrete, naval and boston.",
        best_of(
            CELLS,
            POSTERIORS,
            (*THREE, "Full ELBO"),
            columns=("concrete", "naval", "boston"),
            tied=False,
        ),
        "two-layer",
    ),
    Claim(
        TWO,
        "At depth two SCROLL is best or tied on six sets among single-pass methods.",
        best_of(REFERENCES, THREE, SINGLE, 6),
        "two-layer",
    ),
    Claim(
        TWO,
        "At depth two SCROLL is outright best on four sets.",
        best_of(REFERENCES, THREE, SINGLE, 4, tied=False),
        "two-layer",
    ),
    Claim(
        TWO,
        "At depth two SCROLL's calibration is best or tied on nearly every set (seven of eight).",
        best_of(CALIBRATION, THREE, SINGLE, 7),
        "two-layer",
    ),
    Claim(
        TWO,
        "At depth two the SCROLL ensemble is the best multi-pass method on five sets.",
        best_of(REFERENCES, (ENSEMBLE,), ("Deep Ensemble", "MC Dropout"), 5, tied=False),
        "two-layer",
    ),
    Claim(
        TWO,
        "On yacht that ensemble leads the Deep Ensemble by 1.5 nat.",
        difference(REFERENCES, ENSEMBLE, "Deep Ensemble", -2.0, -1.0, ("yacht",)),
        "two-layer",
    ),
    Claim(
        TRAJECTORY,
        "Without a network, Full or Diag is ahead of None on seven sets; on naval None is ahead.",
        linear_best,
        "depth-trajectory",
    ),
    Claim(
        TRAJECTORY,
        "On energy, kin8nm and boston the first layer brings 60 to 100 % of the gain of depth.",
        front_loaded,
        "depth-trajectory",
    ),
    Claim(
        TRAJECTORY,
        "On yacht the second layer still pays, for every family.",
        yacht_keeps_gaining,
        "depth-trajectory",
    ),
    Claim(
        TRAJECTORY,
        "On wine and power no depth moves the NLL of a family by more than about 0.1 nat.",
        near_linear,
        "depth-trajectory",
    ),
    Claim(
        TRAJECTORY,
        "On naval None is the best linear model, and Diag with one layer is the best of all.",
        naval_ends,
        "depth-trajectory",
    ),
    Claim(
        TRAJECTORY,
        "On naval SCROLL-Full is behind the mean predictor, and SCROLL-Diag ahead of it.",
        every(
            ahead("headline_nll", "Mean predictor", "SCROLL-Full", columns=("naval",)),
            ahead("headline_nll", "SCROLL-Diag", "Mean predictor", columns=("naval",)),
        ),
        "headline",
    ),
]
