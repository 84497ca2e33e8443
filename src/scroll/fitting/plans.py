"""What an estimator trains: candidate bodies and training settings. One default for all tables."""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from torch import nn

from ..training.bodies import ARCHITECTURES, MLP
from ..training.settings import Settings
from .candidates import Body, Candidate, First, Lead, candidates

LABELS = ("ova", "gaussreg", "ordinal")  # likelihoods
FEW = 1000  # with fewer training rows a linear body is tried for real targets: docs/recipe.md
BATCH, LABEL_BATCH = 128, 64  # rows per step
STEPS = 40  # per square root of the rows
LEAST_ROWS, LEAST_REAL = 500, 2000  # by which the steps are counted, and those of a real target
RACE, PILOT = 5, 4  # parts of the steps after the first of which bodies, and maps, are compared
SEVERAL, FAST_STEPS = 2000, 400  # rows from which `fast` has more features; its steps, at most
EVERY = 20  # steps between two looks at the held-out rows
PATIENCE, LABEL_PATIENCE = 10, 5  # looks without progress after which a member stops
MEMBERS = {"default": 5, "fast": 5, "best": 10, "paper": 1}  # of each recipe
BEHIND, LABELS_BEHIND = 0.3, 0.1  # nats per row, at which a body is given up


class AddedPlan(NamedTuple):
    """How the covariance that a hybrid adds is trained: most rows, steps and step size."""

    rows: int = 4000
    steps: int = 200
    lr: float = 0.05


ADDED, FAST_ADDED = AddedPlan(), AddedPlan(rows=1000, steps=60, lr=0.15)


@dataclass(frozen=True)
class Plan:
    """Candidate bodies, from which held-out rows choose, and how each is trained.

    Attributes:
        candidates: the bodies.
        settings: how each is trained.
        retrain_on_all: train the chosen ones once more, on all rows.
        lapses: whether to estimate a lapse rate of labels.
        mixes: whether the members of an ensemble may have different bodies.
        scaled: whether the target is scaled to unit spread.
        bias: whether the head has a bias.
        floor: of the belief's covariance.
        noise: initial standard deviation of the noise.
        covariance: family of the belief's covariance.
        race: steps after which bodies are compared, 0 for never, and the distance from the best
            one in nats per row beyond which training of a body ends.
        pilot: most steps after which the maps of a target are compared.
        added: how the covariance that a hybrid adds is trained.
    """

    candidates: tuple[Candidate, ...]
    settings: Settings
    retrain_on_all: bool = False
    lapses: bool = False
    mixes: bool = True
    scaled: bool = True
    bias: bool = True
    floor: float = 1e-6
    noise: float = 0.5
    covariance: str = "diag"
    race: tuple[int, float] = (0, 0.0)
    pilot: int = 10**9
    added: AddedPlan = ADDED


def default(body: Body, plain: int, ranked: int, kind: str, n_rows: int) -> Plan:
    """Return the plan that `docs/recipe.md` describes.

    Args:
        body: as for `candidates`.
        plain: number of plain inputs.
        ranked: number of ranked inputs.
        kind: of target: "real", "counts" or "labels".
        n_rows: number of training rows.
    """
    labels = kind == "labels"
    names = ["smooth", "swell", "waves"] if labels else ["smooth", "waves"]
    names += ["linear"] * (kind != "real" or n_rows < FEW)
    steps = n_steps(n_rows, kind)
    shorter = _cycle(max(n_rows, LEAST_ROWS))  # a small table needs no longer to be compared
    race = (shorter // RACE, LABELS_BEHIND if labels else BEHIND)
    plan = _trained(candidates(body, plain, ranked, labels, names), steps, labels, race)
    return replace(plan, pilot=shorter // PILOT)


def best(body: Body, plain: int, ranked: int, kind: str, n_rows: int) -> Plan:
    """Return the plan for those who can wait: all bodies, none given up, twice the steps.

    Arguments are those of `default`.
    """
    labels = kind == "labels"
    names = ("smooth", "deep", "swell", "waves", "fourier", "linear")
    found = candidates(body, plain, ranked, labels, names)
    plan = _trained(found, 2 * n_steps(n_rows, kind), labels, race=(0, 0.0))
    return replace(plan, pilot=2 * _cycle(max(n_rows, LEAST_ROWS)) // PILOT)


def fast(body: Body, plain: int, ranked: int, kind: str, n_rows: int) -> Plan:
    """Return the plan for exploring: random features, with a posterior if the target is real.

    Arguments are those of `default`.
    """
    wide = kind == "real" and n_rows > SEVERAL
    found = candidates(
        body, plain, ranked, kind == "labels", ("fourier-wide" if wide else "fourier",)
    )
    steps = min(n_steps(n_rows, kind), FAST_STEPS)
    plan = _trained(found, steps, kind == "labels", race=(0, 0.0))
    return replace(plan, added=FAST_ADDED)


def _trained(
    found: tuple[Candidate, ...], steps: int, labels: bool, race: tuple[int, float]
) -> Plan:
    """Return the plan of networks that are trained by AdamW on one cycle of the step size."""
    how = Settings(
        steps=steps,
        lr=5e-3,
        decay=0.0,
        every=EVERY,
        patience=LABEL_PATIENCE if labels else PATIENCE,
        patience_share=0.5,
        batch=LABEL_BATCH if labels else BATCH,
        schedule="one-cycle",
        weight_decay=0.1,
        average=50,
    )
    return Plan(found, how, retrain_on_all=labels, lapses=labels, race=race)


def n_steps(n_rows: int, kind: str) -> int:
    """Return the length of the training cycle: the square root of the rows, times a constant.

    Args:
        n_rows: number of training rows.
        kind: of target: "real", "counts" or "labels".
    """
    return _cycle(max(n_rows, LEAST_REAL if kind == "real" else LEAST_ROWS))


def _cycle(rows: int) -> int:
    return round(STEPS * rows**0.5 / EVERY) * EVERY


def paper(plain: int) -> Plan:
    """Return the paper's plan: 50 units without biases, four architectures, full-batch Adam.

    Args:
        plain: number of plain inputs; ranked ones are not used.
    """
    make = partial(partial, _paper_body, plain)
    found = tuple(Candidate(a, make(a), 50, plain * 50) for a in ARCHITECTURES)
    how = Settings(steps=6000)
    return Plan(
        found, how, mixes=False, scaled=False, bias=False, floor=1e-4, noise=1.0, covariance="full"
    )


def _paper_body(inputs: int, architecture: str, lead: Lead) -> nn.Module:
    return First(inputs, MLP(inputs, 50, architecture=architecture, replicates=lead))


PLANS = {"default": default, "fast": fast, "best": best}
