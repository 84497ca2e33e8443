"""Claims about networks trained end to end: CIFAR-10 and UTKFace."""

from ..checks import counted, span
from ..claim import Absent, Check, Claim, Evidence, Outcome
from ..comparisons import ahead, best_of, equal
from .sections import AGES, COST, IMAGES

CIFAR, FACES, YEARS = "appendix_cifar", "appendix_utkface_e2e", "utkface_unscaled"
OVA = ("OvA-None", "OvA-Diag", "OvA-Full")
CE, VBLL, LAPLACE = "CE-softmax", "VBLL", "Laplace-LL"
DIAG, BETA, MVN = "SCROLL-Diag", "SCROLL-Diag-beta", "MVN (beta-NLL)"
TUNED = ("fine-tuned NLL", "fine-tuned RMSE")


def beats(evidence: Evidence) -> Outcome:
    """Each OvA head against cross-entropy, metric by metric."""
    cases = {}
    for row in OVA:
        for column in ("NLL", "Accuracy", "ECE"):
            gap = evidence.mean(CIFAR, row, column) - evidence.mean(CIFAR, CE, column)
            cases[f"{row} {column}"] = gap > 0 if column == "Accuracy" else gap < 0
    return counted(cases, words="ahead in")


def clustered(evidence: Evidence) -> Outcome:
    """The probabilistic heads lie within 0.04 nat, cross-entropy above them."""
    found = {row: evidence.mean(CIFAR, row, "NLL") for row in (*OVA, VBLL, LAPLACE)}
    cases = {row: abs(x - 0.2) <= 0.02 for row, x in found.items()}
    return counted(cases, words=f"{span(list(found.values()), '.3f')}; within 0.02 of 0.20:")


def overhead(evidence: Evidence) -> Outcome:
    """Seconds per epoch relative to cross-entropy."""
    if CE not in evidence.rows("cifar_seconds"):
        raise Absent(f"the records of {CE} have no seconds; all heads must run on one machine")
    base = evidence.mean("cifar_seconds", CE, "seconds per epoch")
    ratios = {row: evidence.mean("cifar_seconds", row, "seconds per epoch") / base for row in OVA}
    cases = {row: ratios[row] <= 1.15 for row in OVA[:2]} | {OVA[2]: ratios[OVA[2]] <= 2.2}
    shown = ", ".join(f"{row} {ratio:.2f}" for row, ratio in ratios.items())
    return counted(cases, words=f"relative to cross-entropy: {shown};")


def scaling(evidence: Evidence) -> Outcome:
    """What one temperature changes: NLL tied, calibration ahead for cross-entropy."""
    nll, ece = (
        [evidence.mean(CIFAR, f"{row} (T*)", column) for row in ("OvA-None", CE)]
        for column in ("NLL", "ECE")
    )
    cases = {"NLL tied (0.009 in print)": abs(nll[0] - nll[1]) <= 0.01, "ECE": ece[1] < ece[0]}
    return counted(
        cases, words=f"NLL {nll[0]:.3f} and {nll[1]:.3f}, ECE {ece[0]:.3f}, {ece[1]:.3f};"
    )


def near_calibrated(evidence: Evidence) -> Outcome:
    """The temperatures of OvA-None and of cross-entropy."""
    ova, softmax = (evidence.mean("cifar_temperature", row, "T*") for row in ("OvA-None", CE))
    cases = {"OvA-None at most 1.3": ova <= 1.3, "cross-entropy at least 1.8": softmax >= 1.8}
    return counted(cases, words=f"{ova:.2f} and {softmax:.2f};")


def recalibrated(evidence: Evidence) -> Outcome:
    """Laplace against the scaled cross-entropy."""
    nll, ece = (evidence.mean(CIFAR, LAPLACE, column) for column in ("NLL", "ECE"))
    scaled = evidence.mean(CIFAR, f"{CE} (T*)", "NLL")
    cases = {"NLL within 0.02": abs(nll - scaled) <= 0.02, "ECE below 0.02": ece < 0.02}
    return counted(cases, words=f"NLL {nll:.3f} beside {scaled:.3f}, ECE {ece:.3f};")


def stalls(evidence: Evidence) -> Outcome:
    """Accuracy of the two GaussReg heads."""
    diag, none = (evidence.mean(CIFAR, f"GaussReg-{k}", "Accuracy") for k in ("Diag", "None"))
    cases = {"Diag below 0.75": diag < 0.75, "None above 0.8": none > 0.8}
    return counted(cases, words=f"accuracy {diag:.2f} and {none:.2f};")


def pathology(table: str) -> Check:
    """Does fine-tuned Diag have a far larger RMSE than None?"""

    def check(evidence: Evidence) -> Outcome:
        diag, none = (evidence.mean(table, row, TUNED[1]) for row in (DIAG, "SCROLL-None"))
        words = f"RMSE of Diag {diag:.2f}, of None {none:.2f} years;"
        return counted({"Diag at least 3 years above": diag - none >= 3}, words=words)

    return check


def repaired(evidence: Evidence) -> Outcome:
    """What beta changes for Diag."""
    before, after, mvn = (evidence.mean(FACES, row, TUNED[1]) for row in (DIAG, BETA, MVN))
    cases = {"lower RMSE": after < before, "past MVN": after < mvn}
    return counted(cases, words=f"RMSE {before:.2f} to {after:.2f} years, MVN {mvn:.2f};")


def repaired_in_years(evidence: Evidence) -> Outcome:
    """What beta changes for Diag where the target is not scaled."""
    before, after = (evidence.mean(YEARS, row, TUNED[1]) for row in (DIAG, BETA))
    words = f"RMSE {before:.2f} to {after:.2f} years;"
    return counted({"at least 3 years lower": before - after >= 3}, words=words)


def frozen(evidence: Evidence) -> Outcome:
    """How far the heads are apart on frozen features."""
    rows = ("SCROLL-Full", DIAG, "SCROLL-None", MVN, "MAP")
    found = [evidence.mean(FACES, row, "frozen RMSE") for row in rows]
    near = max(found) - min(found) <= 0.1
    return counted({"within 0.1 years of each other": near}, words=f"{span(found, '.2f')};")


CLAIMS = [
    Claim(
        COST,
        "On CIFAR-10, OvA heads are ahead of cross-entropy in NLL and calibration error, with no "
        "less accuracy.",
        beats,
        "cifar",
    ),
    Claim(
        IMAGES,
        "OvA-None and VBLL have the same NLL.",
        equal(CIFAR, "OvA-None", VBLL, columns=("NLL",)),
        "cifar",
    ),
    Claim(
        IMAGES,
        "Every probabilistic head has an NLL near 0.20: OvA, VBLL and Laplace.",
        clustered,
        "cifar",
        why="A prior precision of one is too wide for Laplace here.",
    ),
    Claim(
        IMAGES,
        "OvA-None and OvA-Diag add 7 % to the time per epoch, OvA-Full doubles it.",
        overhead,
        "cifar",
    ),
    Claim(
        IMAGES,
        "Averaged over seeds, OvA-None is ahead of cross-entropy in NLL.",
        ahead(CIFAR, "OvA-None (ens.)", "CE-softmax (ens.)", columns=("NLL",)),
        "cifar",
    ),
    Claim(
        IMAGES,
        "With the best temperature for both, OvA-None and cross-entropy are tied in NLL, and "
        "cross-entropy is better calibrated.",
        scaling,
        "cifar",
    ),
    Claim(
        IMAGES,
        "OvA-None hardly needs a temperature (1.19), cross-entropy does (2.22).",
        near_calibrated,
        "cifar",
    ),
    Claim(
        IMAGES,
        "Laplace ends where cross-entropy with the best temperature does.",
        recalibrated,
        "cifar",
        why="A prior precision of one is too wide for a softmax trained with a decaying rate.",
    ),
    Claim(
        IMAGES,
        "GaussReg-Diag stalls below an accuracy of 0.75; GaussReg-None trains to more than 0.8.",
        stalls,
        "cifar",
    ),
    Claim(
        AGES,
        "Fine-tuned, Diag reaches a good NLL at an RMSE far above that of None (19 years).",
        pathology(FACES),
        "utkface-e2e",
        why="The target is standardised here; see the next claims.",
    ),
    Claim(
        AGES,
        "The same with the target in years, at the printed learning rate.",
        pathology(YEARS),
        "utkface-unscaled",
    ),
    Claim(
        AGES,
        "With the target in years, a beta of 0.5 repairs the RMSE of fine-tuned Diag.",
        repaired_in_years,
        "utkface-unscaled",
    ),
    Claim(
        AGES,
        "A beta of 0.5 repairs the RMSE of Diag, past that of MVN.",
        repaired,
        "utkface-e2e",
    ),
    Claim(
        AGES,
        "Fine-tuned Diag with beta has the NLL of MVN.",
        equal(FACES, BETA, MVN, columns=TUNED[:1]),
        "utkface-e2e",
    ),
    Claim(
        AGES,
        "From scratch SCROLL-Full is behind MVN in NLL.",
        ahead(FACES, MVN, "SCROLL-Full", columns=("from scratch NLL",)),
        "utkface-e2e",
    ),
    Claim(
        AGES,
        "Fine-tuned, MAP has the lowest RMSE.",
        best_of(
            FACES,
            ("MAP",),
            (DIAG, BETA, MVN, "SCROLL-Full", "SCROLL-None", "SCROLL-Full-beta"),
            columns=TUNED[1:],
        ),
        "utkface-e2e",
    ),
    Claim(
        AGES,
        "On frozen features all heads have nearly the same RMSE (0.04 years apart in print).",
        frozen,
        "utkface-e2e",
        why="The encoder is EfficientNet-Lite0, and each head chooses its rate.",
    ),
]
