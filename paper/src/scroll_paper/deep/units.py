"""The deep networks to train: pictures, split by seed, and how each body starts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import torch

from ..data import images
from ..data.images import Pictures
from .methods import LABELS, NUMBERS
from .training import Course

CONDITIONS = {  # how a body starts, and how it is trained; of several ways the best one counts
    "scratch": (Course(anneal_head=True),),
    "frozen": tuple(Course(frozen=True, anneal_head=True, head_lr=lr) for lr in (3e-4, 1e-3, 3e-3)),
    "tuned": (Course(), Course(lr=0.01)),
}
IN_YEARS = {"scratch": (Course(),), "tuned": (Course(),)}  # targets not scaled, the paper's rate

Conditions = Mapping[str, tuple[Course, ...]]


class DeepUnit(NamedTuple):
    """One network to train.

    Args:
        set: "cifar10" or "faces".
        method: of `LABELS` or `NUMBERS`.
        seed: of the split and the parameters.
        condition: how its body starts; see `CONDITIONS`.
        course: how to train.
        unscaled: centre the target, but leave it in its unit.
    """

    set: str
    method: str
    seed: int
    condition: str = "scratch"
    course: Course = CONDITIONS["scratch"][0]
    unscaled: bool = False

    def fit(self) -> dict[str, object]:
        """Return what identifies it in the records: settings only if they are not the paper's."""
        start: dict[str, object] = {"condition": self.condition, "unscaled": self.unscaled}
        start = {k: v for k, v in start.items() if v not in ("scratch", False)}
        usual, here = asdict(Course()), asdict(self.course)
        odd = {k: v for k, v in here.items() if v != usual[k] and k not in ("frozen", "compile")}
        return {"set": self.set, "method": self.method, "seed": self.seed, **start, **odd}


class Parts(NamedTuple):
    """Training, validation and test pictures; a target in its unit is shift + scale * y."""

    train: Pictures
    held: Pictures
    test: Pictures
    shift: float = 0.0
    scale: float = 1.0


def parts(
    name: str, places: Sequence[Path], seed: int, device: torch.device, unscaled: bool = False
) -> Parts:
    """Return the pictures of a set, split by a seed.

    Args:
        name: "cifar10" or "faces".
        places: folders to look in.
        seed: of the split.
        device: to put the pictures on.
        unscaled: centre the target, but leave it in its unit.
    """
    if name == "cifar10":
        rest, test = images.cifar(places)
        train, held = images.split(rest, 45_000, 5_000, seed=seed)
        return Parts(_on(train, device), _on(held, device), _on(test, device))
    every = images.faces(places)
    n = len(every.y)
    counts = (n - 2 * (n // 5), n // 5, n // 5)
    each = [_on(part, device) for part in images.split(every, *counts, seed=seed)]
    shift, scale = float(each[0].y.mean()), 1.0 if unscaled else float(each[0].y.std())
    train, held, test = (part._replace(y=(part.y - shift) / scale) for part in each)
    return Parts(train, held, test, shift, scale)


def _on(part: Pictures, device: torch.device) -> Pictures:
    return Pictures(part.x.to(device), part.y.to(device))


def units(
    name: str,
    methods: Sequence[str],
    seeds: Sequence[int],
    conditions: Conditions,
    unscaled: bool = False,
) -> Iterator[DeepUnit]:
    """Yield the networks of some methods, seeds and conditions, in every way to train them."""
    for seed in seeds:
        for condition, courses in conditions.items():
            for method in methods:
                for course in courses:
                    own = replace(course, alpha_rate=_rate(method))
                    yield DeepUnit(name, method, seed, condition, own, unscaled)


def _rate(method: str) -> float:
    """Learning rate of a method's prior; a row computed from a network has none of its own."""
    return (LABELS | NUMBERS)[method].alpha_rate if method in LABELS | NUMBERS else 1.0
