"""Claims about large tables, frozen features and out-of-distribution detection."""

from ..checks import counted, each, every, span
from ..claim import Claim, Evidence, Outcome, untestable
from ..comparisons import ahead, best_of, between, difference
from .headline import DIAG, FULL, NONE, THREE, TUNED
from .sections import COST, DUALITY, LIMITS

SCALE, OOD, OOD_NLL = "table_scale_nll", "ood", "ood_nll"
HERE = ("california", "protein", "sick", "utkface")
KINDS = ("Text", "Vision", "Wine")
CLOSED, DETECTORS = "Full closed", ("Laplace-Full", "VBLL", "Deep Ensemble", "MC Dropout")
SCALED_ENSEMBLES = ("Deep Ensemble", "MC Dropout")


def half(evidence: Evidence) -> Outcome:
    """Methods without a covariance have an AUROC of one half."""
    cases = {
        f"{row}, {kind}": abs(evidence.mean(OOD, row, kind) - 0.5) < 1e-12
        for row in (NONE, "MAP")
        for kind in KINDS
    }
    return counted(cases, words="exactly 0.5:")


def gain(low: float, high: float) -> Claim:
    """The AUROC that the closed method adds to the free route."""

    def check(evidence: Evidence) -> Outcome:
        gaps = {
            kind: evidence.mean(OOD, CLOSED, kind) - evidence.mean(OOD, FULL, kind)
            for kind in KINDS
        }
        shown = span(list(gaps.values()), "+.2f")
        return counted({k: gap >= low for k, gap in gaps.items()}, words=f"{shown}; at least {low}")

    words = f"The closed method adds {low} to {high} of AUROC to the free route, or more."
    return Claim(LIMITS, words, check, "ood")


def weakest(evidence: Evidence, kind: str) -> bool:
    """The free Full route has the least AUROC of the methods with a structured covariance."""
    rows = (FULL, DIAG, CLOSED, "Diag closed", "Laplace-Full", "VBLL")
    means = {row: evidence.mean(OOD, row, kind) for row in rows}
    return min(means, key=means.__getitem__) in (FULL, DIAG)


CLAIMS = [
    Claim(
        COST,
        "On the large tables and frozen features SCROLL has the best NLL, or is tied, on all sets "
        "(Year apart).",
        best_of(SCALE, THREE, TUNED, columns=HERE),
        "scale",
    ),
    Claim(
        COST,
        "It is outright best on california, protein and UTKFace; on SICK VBLL is tied with it.",
        every(
            best_of(SCALE, THREE, TUNED, columns=("california", "protein", "utkface"), tied=False),
            best_of(SCALE, ("VBLL",), (*THREE, *TUNED), columns=("sick",)),
        ),
        "scale",
    ),
    Claim(
        COST,
        "The SCROLL ensemble leads the multi-pass methods on all of them (Year apart).",
        best_of(SCALE, ("SCROLL-Ens",), SCALED_ENSEMBLES, columns=HERE, tied=False),
        "scale",
        why="SICK has other features here.",
    ),
    Claim(
        COST,
        "On Year too, SCROLL has the best NLL and its ensemble leads the multi-pass methods.",
        untestable(
            "the data are not on this machine and have no mirror it can reach; "
            "`scroll bench scale` runs them where the file is"
        ),
        "scale",
    ),
    Claim(
        COST,
        "The printed NLLs on SICK (BERT) and UTKFace (ResNet-50).",
        untestable(
            "the weights of both encoders cannot be downloaded here; MiniLM and EfficientNet-Lite0 "
            "stand in, and `--sets sick_bert,utkface_resnet` uses the paper's"
        ),
        "scale",
    ),
    Claim(
        LIMITS,
        "The closed method detects shifted inputs with an AUROC of at least 0.88 on text, vision "
        "and wine.",
        between(OOD, CLOSED, 0.88, 1.0),
        "ood",
        why="On text validation prefers the way that detects less; see `text-shift`.",
    ),
    Claim(
        LIMITS,
        "On text, with a smaller step size instead of smaller inputs, the closed method has the "
        "printed AUROC of 0.88.",
        between("ood_text", CLOSED, 0.85, 1.0, columns=("AUROC, short steps",)),
        "text-shift",
    ),
    gain(0.21, 0.31),
    Claim(
        LIMITS,
        "Methods without a covariance (None, MAP) have an AUROC of 0.5.",
        half,
        "ood",
    ),
    Claim(
        LIMITS,
        "MVN's variance is smaller on shifted wines than on its own (AUROC below 0.5).",
        between(OOD, "MVN", 0.0, 0.5, columns=("Wine",)),
        "ood",
    ),
    Claim(
        LIMITS,
        "VBLL detects the shift better than the free route, although its parameters are free.",
        ahead(OOD, "VBLL", FULL, sign=-1),
        "ood",
        why="See `text-shift`.",
    ),
    Claim(
        DUALITY,
        "The closed method is best, or tied with the best, on all three pairs.",
        best_of(OOD, (CLOSED,), (*THREE, "Diag closed", *DETECTORS, "MAP", "MVN"), sign=-1),
        "ood",
    ),
    Claim(
        DUALITY,
        "The free route is the weakest detector of the structured methods.",
        each(OOD, weakest, words="Full or Diag is the weakest on"),
        "ood",
        why="See `text-shift`.",
    ),
    Claim(
        DUALITY,
        "Detection costs NLL: the closed method is behind the free route (by 0.06 to 1.28 nat in "
        "print).",
        difference(OOD_NLL, CLOSED, FULL, 0.0, 2.0, columns=KINDS),
        "ood",
    ),
    Claim(
        DUALITY,
        "Laplace detects as well as the closed method on vision and wine.",
        best_of(OOD, ("Laplace-Full",), (CLOSED,), sign=-1, columns=KINDS[1:]),
        "ood",
    ),
]
