"""What an estimator trains: its candidate bodies, and how. One default for every table."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .._core.checks import must, refusal
from .._core.local_rng import Draws
from ..training.bodies import ARCHITECTURES, MLP, Matern, Stacked, Tabular
from ..training.settings import Settings

Lead = tuple[int, ...]
Make = Callable[[Lead], nn.Module]
Body = str | Sequence[int] | nn.Module

DROPOUT, FREQUENCY = 0.05, 1.0
LABEL_DROPOUT, LABEL_FREQUENCY = 0.2, 0.3  # a label says less than a number: smoother bodies
LONG = 0.1  # frequency of the waves of a swell
NAMES = ("smooth", "swell", "waves", "matern", "linear")  # of bodies
LABELS = ("ova", "gaussreg", "ordinal")  # likelihoods
FEW = 250  # rows to train on, below which a linear body is tried, too: docs/recipe.md


@dataclass(frozen=True)
class Candidate:
    """A body to try: how to make a stack of it, and how many features it gives."""

    name: str
    make: Make
    features: int
    numbers: int  # in the tensors of one copy


@dataclass(frozen=True)
class Plan:
    """Candidates, of which held-out rows choose one, and how each is trained."""

    candidates: tuple[Candidate, ...]
    recipe: Settings
    again: bool = False  # whether to train on all rows in the end
    lapses: bool = False  # whether a share of the labels is taken to be any
    mixes: bool = True  # whether the members of an ensemble may differ in their body
    scaled: bool = True  # whether the target has unit spread
    bias: bool = True
    floor: float = 1e-6
    noise: float = 0.5


def default(
    body: Body, plain: int, ranked: int, labels: bool = False, linear: bool = False
) -> Plan:
    """The recipe of `docs/recipe.md`, for numbers or for labels; "auto" may try a linear body."""
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
    return Plan(found, how, again=labels, lapses=labels)


def paper(plain: int) -> Plan:
    """The paper's: 50 units without biases, four architectures, Adam on all rows at once."""
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


def check_body(body: Any) -> None:
    """Require a known name, positive widths or a module."""
    widths = isinstance(body, Sequence) and len(body) > 0 and not isinstance(body, str)
    must(
        isinstance(body, nn.Module)
        or (isinstance(body, str) and body in ("auto", *NAMES))
        or (widths and all(isinstance(w, int) and w > 0 for w in body)),
        "body",
        f"be 'auto', {', '.join(map(repr, NAMES))}, positive widths such as (256, 128) or a module",
        repr(body),
    )


def candidates(
    body: Body, plain: int, ranked: int, labels: bool = False, linear: bool = False
) -> tuple[Candidate, ...]:
    """The bodies that a name, widths or a module stands for.

    For labels they start, and are thinned in training, otherwise; trained, they are the same.
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
    how: Any = {"wavy": name in ("waves", "swell")}
    how["dropout"] = LABEL_DROPOUT if labels else DROPOUT
    numbers = Tabular.numbers(plain, ranked, **how)
    how["frequency"] = LABEL_FREQUENCY if labels else FREQUENCY
    if name == "swell":
        how["frequency"] = LONG
    return Candidate(
        name, lambda lead: Tabular(plain, ranked, replicates=lead, **how), 128, numbers
    )


def _layers(plain: int, widths: tuple[int, ...], lead: Lead) -> nn.Module:
    """SiLU layers of the given widths."""
    layers: list[nn.Module] = []
    for a, b in zip((plain, *widths), widths, strict=False):
        layers += [nn.Linear(a, b), nn.SiLU()]
    return _First(plain, Stacked(nn.Sequential(*layers), widths[-1], lead))


def _users(module: nn.Module, plain: int) -> Candidate:
    """The user's module, started anew for each member where its layers know how to."""
    module = copy.deepcopy(module).float()  # the user's stays as it is
    try:
        with torch.no_grad(), Draws(0):
            shape = tuple(module(torch.zeros(2, plain, dtype=torch.float32)).shape)
    except RuntimeError as error:
        raise refusal(
            "body",
            f"take rows of {plain} encoded columns, (N, {plain}) -> (N, features)",
            f"a module that fails on them: {error}",
            "Numeric columns count once, categories once each, a column with gaps once more.",
        ) from error
    must(len(shape) == 2 and shape[0] == 2, "body", "give features (N, H)", f"shape {shape}")

    def make(lead: Lead) -> nn.Module:
        for part in module.modules():
            again: Any = getattr(part, "reset_parameters", None)
            if again is not None:
                again()
        return _First(plain, Stacked(module, shape[1], lead))

    numbers = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    return Candidate("yours", make, shape[1], numbers)
