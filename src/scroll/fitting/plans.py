"""What an estimator trains: candidate bodies and training settings. One default for all tables."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypedDict

import torch
from torch import Tensor, nn

from .._core.checks import invalid, require
from .._core.local_rng import Draws
from ..training.bodies import ARCHITECTURES, MLP, Matern, Stacked, Tabular
from ..training.settings import Settings

Lead: TypeAlias = tuple[int, ...]  # replicate axes
Make: TypeAlias = Callable[[Lead], nn.Module]
Body: TypeAlias = str | Sequence[int] | nn.Module

DROPOUT, FREQUENCY = 0.05, 1.0
LABEL_DROPOUT, LABEL_FREQUENCY = 0.2, 0.3  # labels hold less information: smoother bodies
LONG = 0.1  # frequency of the waves of "swell"
NAMES = ("smooth", "swell", "waves", "matern", "linear")  # of bodies
LABELS = ("ova", "gaussreg", "ordinal")  # likelihoods
FEW = 250  # with fewer training rows a linear body is tried, too: docs/recipe.md


@dataclass(frozen=True)
class Candidate:
    """A body to try.

    Attributes:
        name: of the body.
        make: makes a stack of copies with given replicate axes.
        features: number of features that it returns.
        numbers: how many numbers the tensors of one copy hold.
    """

    name: str
    make: Make
    features: int
    numbers: int


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


class _TabularOptions(TypedDict, total=False):
    wavy: bool
    dropout: float
    frequency: float


def default(
    body: Body, plain: int, ranked: int, labels: bool = False, linear: bool = False
) -> Plan:
    """Return the plan that `docs/recipe.md` describes.

    Args:
        body: as for `candidates`.
        plain: number of plain inputs.
        ranked: number of ranked inputs.
        labels: whether the target is a label.
        linear: whether "auto" also tries a linear body.
    """
    how = Settings(
        steps=3000,
        lr=5e-3,
        decay=0.0,
        every=20,
        patience=15,
        batch=256,
        schedule="one-cycle",
        weight_decay=0.1,
        average=50,
    )
    found = candidates(body, plain, ranked, labels, linear)
    return Plan(found, how, retrain_on_all=labels, lapses=labels)


def paper(plain: int) -> Plan:
    """Return the paper's plan: 50 units without biases, four architectures, full-batch Adam.

    Args:
        plain: number of plain inputs; ranked ones are not used.
    """
    make = partial(partial, _paper_body, plain)
    found = tuple(Candidate(a, make(a), 50, plain * 50) for a in ARCHITECTURES)
    how = Settings(steps=6000)
    return Plan(found, how, mixes=False, scaled=False, bias=False, floor=1e-4, noise=1.0)


def _paper_body(inputs: int, architecture: str, lead: Lead) -> nn.Module:
    return _First(inputs, MLP(inputs, 50, architecture=architecture, replicates=lead))


class _First(nn.Module):
    """A body that reads the first columns only."""

    def __init__(self, inputs: int, body: nn.Module):
        super().__init__()
        self.inputs, self.body = inputs, body

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(x[..., : self.inputs])
        return out


def check_body(body: object) -> None:
    """Raise an error unless `body` is a known name, positive widths or a module."""
    if isinstance(body, str):
        known = body in ("auto", *NAMES)
    elif isinstance(body, Sequence):
        known = len(body) > 0 and all(isinstance(w, int) and w > 0 for w in body)
    else:
        known = isinstance(body, nn.Module)
    require(
        known,
        "body",
        f"be 'auto', {', '.join(map(repr, NAMES))}, positive widths such as (256, 128) or a module",
        repr(body),
    )


def candidates(
    body: Body, plain: int, ranked: int, labels: bool = False, linear: bool = False
) -> tuple[Candidate, ...]:
    """Return the bodies that a name, widths or a module stands for.

    Bodies for labels have other initial values and more dropout; the architecture is the same.

    Args:
        body: "auto", the name of a body, widths of layers, or the user's module.
        plain: number of plain inputs.
        ranked: number of ranked inputs.
        labels: whether the target is a label.
        linear: whether "auto" also tries a linear body.
    """
    check_body(body)
    if isinstance(body, nn.Module):
        return (_users(body, plain),)
    if isinstance(body, str):
        every = ("smooth", "swell", "waves") if labels else ("smooth", "waves")
        found: tuple[str, ...] = (body,) if body != "auto" else every if ranked else ("smooth",)
        found += ("linear",) * (linear and body == "auto")
        return tuple(_named(name, plain, ranked, labels) for name in found)
    widths = tuple(body)
    numbers = sum((a + 1) * b for a, b in zip((plain, *widths), widths, strict=False))
    make = partial(_layers, plain, widths)
    return (Candidate("x".join(map(str, widths)), make, widths[-1], numbers),)


def _named(name: str, plain: int, ranked: int, labels: bool) -> Candidate:
    if name == "linear":
        return Candidate(name, lambda lead: _First(plain, nn.Identity()), plain, 0)
    if name == "matern":
        return Candidate(name, lambda lead: Matern(plain, 512, lead), 512, 513 * plain + 512)
    wavy, dropout = name in ("waves", "swell"), LABEL_DROPOUT if labels else DROPOUT
    numbers = Tabular.numbers(plain, ranked, wavy=wavy, dropout=dropout)
    frequency = LABEL_FREQUENCY if labels else FREQUENCY
    how: _TabularOptions = {"wavy": wavy, "dropout": dropout, "frequency": frequency}
    if name == "swell":
        how["frequency"] = LONG
    return Candidate(
        name, lambda lead: Tabular(plain, ranked, replicates=lead, **how), 128, numbers
    )


def _layers(plain: int, widths: tuple[int, ...], lead: Lead) -> nn.Module:
    """Return SiLU layers of the given widths."""
    layers: list[nn.Module] = []
    for a, b in zip((plain, *widths), widths, strict=False):
        layers += [nn.Linear(a, b), nn.SiLU()]
    return _First(plain, Stacked(nn.Sequential(*layers), widths[-1], lead))


def _users(module: nn.Module, plain: int) -> Candidate:
    """Return the user's module; layers with `reset_parameters` start anew for each member."""
    module = copy.deepcopy(module).float()  # the user's module is not changed
    try:
        with torch.no_grad(), Draws(0):
            shape = tuple(module(torch.zeros(2, plain, dtype=torch.float32)).shape)
    except RuntimeError as error:
        raise invalid(
            "body",
            f"take rows of {plain} encoded columns, (N, {plain}) -> (N, features)",
            f"a module that fails on them: {error}",
            "Each numeric column is one input, each category one, each column with gaps one more.",
        ) from error
    require(len(shape) == 2 and shape[0] == 2, "body", "give features (N, H)", f"shape {shape}")

    def make(lead: Lead) -> nn.Module:
        for part in module.modules():
            if callable(reset := getattr(part, "reset_parameters", None)):
                reset()
        return _First(plain, Stacked(module, shape[1], lead))

    numbers = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    return Candidate("yours", make, shape[1], numbers)
