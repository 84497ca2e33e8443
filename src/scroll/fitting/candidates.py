"""Candidate bodies: by name, by widths of layers, or the user's own module."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypedDict, cast

import torch
from torch import Tensor, nn

from .._core.checks import invalid, require
from .._core.local_rng import Draws
from ..training.batches import Rows
from ..training.bodies import Matern, Stacked, Tabular
from .fourier import NARROW, WIDE, Fourier, learn

Lead: TypeAlias = tuple[int, ...]  # replicate axes
Make: TypeAlias = Callable[[Lead], nn.Module]
Body: TypeAlias = str | Sequence[int] | nn.Module

DROPOUT, FREQUENCY = 0.05, 1.0
LABEL_DROPOUT, LABEL_FREQUENCY = 0.2, 0.3  # labels hold less information: smoother bodies
LONG = 0.1  # frequency of the waves of "swell"
NAMES = (
    "smooth",
    "deep",
    "swell",
    "waves",
    "matern",
    "fourier",
    "fourier-wide",
    "linear",
)  # of bodies
WAVY = ("swell", "waves")
LABEL_WAVY_LR = 2.0  # factor on the learning rate of wavy bodies for labels
FIXED_LR = 10.0  # the same of a head on features that are not trained


@dataclass(frozen=True)
class Candidate:
    """A body to try.

    Attributes:
        name: of the body.
        make: makes a stack of copies with given replicate axes.
        features: number of features that it returns.
        numbers: how many numbers the tensors of one copy hold.
        lr: factor on the learning rate.
        prepare: sets a stack of bodies by the rows of each, with real targets, and by seeds.
    """

    name: str
    make: Make
    features: int
    numbers: int
    lr: float = 1.0
    prepare: Callable[[nn.Module, Rows, Sequence[int]], None] | None = None


class _TabularOptions(TypedDict, total=False):
    wavy: bool
    depth: int
    dropout: float
    frequency: float


class First(nn.Module):
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
    body: Body, plain: int, ranked: int, labels: bool = False, names: Sequence[str] = NAMES
) -> tuple[Candidate, ...]:
    """Return the bodies that a name, widths or a module stands for.

    Bodies for labels have other initial values and more dropout; the architecture is the same.

    Args:
        body: "auto", the name of a body, widths of layers, or the user's module.
        plain: number of plain inputs.
        ranked: number of ranked inputs.
        labels: whether the target is a label.
        names: of the bodies that "auto" stands for; those with waves need ranked inputs.
    """
    check_body(body)
    if isinstance(body, nn.Module):
        return (_users(body, plain),)
    if isinstance(body, str):
        found = [name for name in names if ranked or name not in WAVY]
        found = found if body == "auto" else [body]
        return tuple(_named(name, plain, ranked, labels) for name in found)
    widths = tuple(body)
    numbers = sum((a + 1) * b for a, b in zip((plain, *widths), widths, strict=False))
    make = partial(_layers, plain, widths)
    return (Candidate("x".join(map(str, widths)), make, widths[-1], numbers),)


def _named(name: str, plain: int, ranked: int, labels: bool) -> Candidate:
    if name == "linear":
        return Candidate(name, lambda lead: First(plain, nn.Identity()), plain, 0, FIXED_LR)
    if name == "matern":
        return Candidate(name, lambda lead: Matern(plain, 512, lead), 512, 513 * plain + 512)
    if name.startswith("fourier"):
        return _fourier(name, plain, ranked)
    wavy, depth = name in WAVY, 3 if name == "deep" else 2
    dropout = LABEL_DROPOUT if labels else DROPOUT
    numbers = Tabular.numbers(plain, ranked, depth=depth, wavy=wavy, dropout=dropout)
    how: _TabularOptions = {"wavy": wavy, "depth": depth, "dropout": dropout}
    how["frequency"] = LABEL_FREQUENCY if labels else FREQUENCY
    if name == "swell":
        how["frequency"] = LONG
    make = lambda lead: Tabular(plain, ranked, replicates=lead, **how)
    return Candidate(name, make, 128, numbers, LABEL_WAVY_LR if labels and wavy else 1.0)


def _fourier(name: str, plain: int, ranked: int) -> Candidate:
    sizes = WIDE if name == "fourier-wide" else NARROW
    return Candidate(
        name,
        lambda lead: Fourier(plain, ranked, sizes, lead),
        plain + ranked + 2 * sum(sizes),
        Fourier.numbers(plain, ranked, sizes),
        FIXED_LR,
        lambda body, rows, seeds: learn(cast(Fourier, body), rows, seeds),
    )


def _layers(plain: int, widths: tuple[int, ...], lead: Lead) -> nn.Module:
    """Return SiLU layers of the given widths."""
    layers: list[nn.Module] = []
    for a, b in zip((plain, *widths), widths, strict=False):
        layers += [nn.Linear(a, b), nn.SiLU()]
    return First(plain, Stacked(nn.Sequential(*layers), widths[-1], lead))


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
        return First(plain, Stacked(module, shape[1], lead))

    numbers = sum(tensor.numel() for tensor in (*module.parameters(), *module.buffers()))
    return Candidate("yours", make, shape[1], numbers)
