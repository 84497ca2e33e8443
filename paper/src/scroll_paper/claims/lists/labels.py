"""Claims about the classification of tables."""

from math import isfinite

from ..checks import counted, each, span
from ..claim import Claim, Evidence, Outcome
from ..comparisons import ahead, best_of, difference
from .sections import DEPTH, LABELS

NLL, ECE = "appendix_classification_nll", "appendix_classification_ece"
ZERO, TWO_NLL = "appendix_classification_0l_nll", "appendix_classification_2l_nll"
KINDS, COVARIANCES = ("OvA", "Ordinal", "GaussReg"), ("Full", "Diag", "None")
NINE = tuple(f"{kind}-{covariance}" for kind in KINDS for covariance in COVARIANCES)
OVA, ORDINAL, LEAST_SQUARES = (NINE[i : i + 3] for i in (0, 3, 6))
SINGLE = ("CE-softmax", "VBLL", "Laplace")
MULTI = ("DeepEns(M=5)", "MC-Dropout")
TWO_CLASSES = ("australian", "pima", "blood", "banknote", "spambase")
UNORDERED, ORDERED = ("vehicle", "segment"), ("wine_quality",)
OTHERS = tuple(
    f"classification_{depth}l_{body}" for depth in (1, 2) for body in ("relu", "tanh", "tanh_ln")
)


def stable(evidence: Evidence) -> Outcome:
    """No mean of the nine heads is infinite or worse than 1.2 nat."""
    cases = {}
    for row in NINE:
        means = [evidence.mean(NLL, row, c) for c in evidence.columns(NLL)]
        cases[row] = all(isfinite(x) and x < 1.2 for x in means)
    return counted(cases, words="finite and below 1.2 nat on every set:")


def alphas(evidence: Evidence) -> Outcome:
    """The learned prior precision of each head on each set, from 1 to 10."""
    table = "cells_labels_alpha"
    found = {
        f"{row} on {c}": evidence.mean(table, row, c)
        for row in evidence.rows(table)
        for c in evidence.columns(table)
    }
    cases = {case: 1 <= alpha <= 10 for case, alpha in found.items()}
    return counted(cases, words=f"{span([*found.values()], '.2f')}; from 1 to 10:")


def near_softmax(evidence: Evidence) -> Outcome:
    """OvA heads against cross-entropy: the gap is small beside the spread between seeds."""
    gaps = {
        f"{row} on {c}": evidence.mean(NLL, row, c) - evidence.mean(NLL, "CE-softmax", c)
        for row in OVA
        for c in evidence.columns(NLL)
    }
    cases = {}
    for key, gap in gaps.items():
        row, _, column = key.partition(" on ")
        error = evidence.cell(NLL, row, column).se or 0.0
        cases[key] = gap <= 2 * error
    shown = span(list(gaps.values()), "+.3f")
    return counted(cases, words=f"OvA minus cross-entropy {shown}; no more than two errors in")


def least_calibrated(evidence: Evidence) -> Outcome:
    """Laplace has by far the largest calibration error on banknote and segment."""
    cases = {}
    for column in ("banknote", "segment"):
        rest = [evidence.mean(ECE, row, column) for row in (*OVA, *LEAST_SQUARES, "CE-softmax")]
        cases[column] = evidence.mean(ECE, "Laplace", column) > 3 * max(rest)
    shown = ", ".join(f"{evidence.mean(ECE, 'Laplace', c):.2f}" for c in cases)
    return counted(cases, words=f"calibration error {shown}; three times any other head's on")


def collapse(table: str) -> Claim:
    """Ordinal heads on labels without an order."""

    def check(evidence: Evidence) -> Outcome:
        cases = {}
        for column in UNORDERED:
            worst = max(evidence.mean(table, row, column) for row in OVA)
            for row in ORDINAL:
                cases[f"{row} on {column}"] = evidence.mean(table, row, column) > 1.2 * worst
        return counted(cases, words="more than a fifth worse than OvA:")

    where, deep = (LABELS, "") if table == NLL else (DEPTH, " at depth two")
    name = "classification" if table == NLL else "classification-2l"
    return Claim(
        where,
        f"On labels without an order (vehicle, segment) ordinal heads collapse{deep}.",
        check,
        name,
    )


def on_every_body(evidence: Evidence) -> Outcome:
    """An ordinal head is the best of all methods on wine_quality, body by body."""
    cases: dict[str, bool | None] = {}
    for table in OTHERS[:3]:
        outcome = best_of(table, ORDINAL, (*NINE, *SINGLE, *MULTI), columns=ORDERED)(evidence)
        cases[table.rpartition("1l_")[2]] = outcome.verdict == "holds"
    return counted(cases, words="best or tied with relu, tanh, tanh+LN:")


def full_is_none(evidence: Evidence) -> Outcome:
    """At depth zero Full and None have the same NLL to two decimals."""
    cases = {}
    gaps = []
    for kind in KINDS:
        for column in evidence.columns(ZERO):
            gap = evidence.mean(ZERO, f"{kind}-Full", column) - evidence.mean(
                ZERO, f"{kind}-None", column
            )
            gaps.append(gap)
            cases[f"{kind} on {column}"] = abs(gap) < 0.005
    return counted(cases, words=f"Full minus None {span(gaps, '+.3f')}; equal in")


def narrower(evidence: Evidence) -> Outcome:
    """The lead of GaussReg-None over cross-entropy, at one and at two layers."""
    leads = {
        c: [
            evidence.mean(t, "CE-softmax", c) - evidence.mean(t, "GaussReg-None", c)
            for t in (NLL, TWO_NLL)
        ]
        for c in ("australian", "spambase")
    }
    shown = ", ".join(f"{c} {one:+.3f} to {two:+.3f}" for c, (one, two) in leads.items())
    return counted({c: two < one for c, (one, two) in leads.items()}, words=f"{shown};")


CLAIMS = [
    Claim(LABELS, "All nine heads train without failing.", stable, "classification"),
    Claim(
        LABELS,
        "On the five sets of two classes a SCROLL head has the best NLL, or is tied with it "
        "(banknote apart).",
        best_of(
            NLL,
            NINE,
            (*SINGLE, *MULTI),
            3,
            tuple(c for c in TWO_CLASSES if c != "banknote"),
        ),
        "classification",
    ),
    Claim(
        LABELS,
        "On banknote, vehicle and segment an ensemble of five has the best NLL.",
        best_of(
            NLL,
            ("DeepEns(M=5)",),
            (*NINE, *SINGLE, "MC-Dropout"),
            columns=("banknote", *UNORDERED),
            tied=False,
        ),
        "classification",
    ),
    Claim(
        LABELS,
        "OvA heads are no worse than cross-entropy at equal cost.",
        near_softmax,
        "classification",
    ),
    Claim(
        LABELS,
        "GaussReg has the best calibration error on four sets.",
        best_of(ECE, LEAST_SQUARES, (*NINE, *SINGLE, *MULTI), 4, tied=False),
        "classification",
    ),
    Claim(
        LABELS,
        "Laplace fails on banknote and segment.",
        least_calibrated,
        "classification",
    ),
    Claim(
        LABELS,
        "On wine_quality, whose labels are ordered, an ordinal head has the best NLL of all "
        "methods.",
        best_of(NLL, ORDINAL, (*NINE, *SINGLE, *MULTI), columns=ORDERED, tied=False),
        "classification",
        why="It is tied with an ensemble of five.",
    ),
    Claim(
        LABELS,
        "The ordinal head's lead on wine_quality is there with every body.",
        on_every_body,
        "classification-bodies",
    ),
    collapse(NLL),
    Claim(
        LABELS,
        "VBLL with its weight chosen by validation is on a par with the SCROLL heads.",
        each(
            NLL,
            lambda e, c: (
                e.mean(NLL, "VBLL", c)
                <= max(e.mean(NLL, row, c) for row in OVA) + 2 * (e.cell(NLL, "VBLL", c).se or 0.0)
            ),
            words="no worse than the OvA heads on",
        ),
        "classification",
    ),
    Claim(
        LABELS,
        "The learned prior precision is between 1 and 10 on every set.",
        alphas,
        "cells-labels",
    ),
    Claim(
        LABELS,
        "A grid of weights chosen by validation does not improve Laplace.",
        ahead("laplace_grid_nll", "Laplace / weight 0.1", "Laplace / weight by validation", 7),
        "laplace-grid",
    ),
    Claim(
        DEPTH,
        "Without a network an ordinal head has the best NLL on every set of two classes and on "
        "wine_quality.",
        best_of(ZERO, ORDINAL, NINE, columns=(*TWO_CLASSES, *ORDERED), tied=False),
        "classification-0l",
    ),
    Claim(
        DEPTH,
        "On blood its lead over OvA is 0.12 nat.",
        difference(ZERO, "Ordinal-None", "OvA-Diag", -0.2, -0.08, ("blood",)),
        "classification-0l",
    ),
    Claim(
        DEPTH,
        "Without a network, Full and None have the same NLL.",
        full_is_none,
        "classification-0l",
        why="At S = 0 the gradient vanishes; here L-BFGS leaves that point.",
    ),
    Claim(
        DEPTH,
        "At depth two an ordinal head is still best or tied on wine_quality.",
        best_of(TWO_NLL, ORDINAL, (*NINE, *SINGLE, *MULTI), columns=ORDERED),
        "classification-2l",
    ),
    collapse(TWO_NLL),
    Claim(
        DEPTH,
        "With a second layer GaussReg leads cross-entropy by less on australian and spambase.",
        narrower,
        "classification-2l",
    ),
    Claim(
        DEPTH,
        "At depth two an ensemble of five has the best NLL on seven sets.",
        best_of(TWO_NLL, ("DeepEns(M=5)",), (*NINE, *SINGLE, "MC-Dropout"), 7, tied=False),
        "classification-2l",
    ),
    Claim(
        DEPTH,
        "At depth two a SCROLL head has the best calibration error on four sets.",
        best_of("appendix_classification_2l_ece", NINE, (*SINGLE, *MULTI), 4, tied=False),
        "classification-2l",
    ),
]
