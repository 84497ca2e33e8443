"""CIFAR-10 and UTKFace, trained through: which fits there are, and what each is worth."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from math import exp, log
from pathlib import Path
from time import time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from scroll._core.files import replacing
from scroll.heads import Head
from scroll.predictive import Categorical, Normal

from ..data import images, protocol
from ..data.images import Pictures
from ..data.npz import arrays
from ..models.resnet import ResNet18
from ..models.softmax import laplace, spread
from ..tables import records
from ..tables.records import made
from . import training
from .methods import LABELS, NUMBERS
from .training import Course, Fitted

CLASSES = 10
HEALTH = 5000  # training pictures that a diagnosis looks at
CONDITIONS = {  # how a body starts, and how it is trained: where in several ways, by the best one
    "scratch": (Course(anneal_head=True),),
    "frozen": tuple(Course(frozen=True, anneal_head=True, head_lr=lr) for lr in (3e-4, 1e-3, 3e-3)),
    "tuned": (Course(), Course(lr=0.01)),
}


class Unit(NamedTuple):
    """One network to train."""

    set: str  # cifar10 or faces
    method: str
    seed: int
    condition: str = "scratch"
    course: Course = CONDITIONS["scratch"][0]

    def fit(self) -> dict[str, Any]:
        """What names it in the records: also in what its course is not the paper's."""
        start = {} if self.condition == "scratch" else {"condition": self.condition}
        usual, here = asdict(Course()), asdict(self.course)
        odd = {k: v for k, v in here.items() if v != usual[k] and k not in ("frozen", "compile")}
        return {"set": self.set, "method": self.method, "seed": self.seed, **start, **odd}


class Parts(NamedTuple):
    """Pictures to train on, to stop by and to be measured on; y is shift + scale times theirs."""

    train: Pictures
    held: Pictures
    test: Pictures
    shift: float = 0.0
    scale: float = 1.0


def parts(name: str, places: Sequence[Path], seed: int, device: torch.device) -> Parts:
    """The pictures of a set, split by a seed."""
    if name == "cifar10":
        rest, test = images.cifar(places)
        train, held = images.split(rest, 45_000, 5_000, seed=seed)
        return Parts(_on(train, device), _on(held, device), _on(test, device))
    every = images.faces(places)
    n = len(every.y)
    counts = (n - 2 * (n // 5), n // 5, n // 5)
    each = [_on(part, device) for part in images.split(every, *counts, seed=seed)]
    shift, scale = float(each[0].y.mean()), float(each[0].y.std())
    train, held, test = (part._replace(y=(part.y - shift) / scale) for part in each)
    return Parts(train, held, test, shift, scale)


def _on(part: Pictures, device: torch.device) -> Pictures:
    return Pictures(part.x.to(device), part.y.to(device))


def units(
    name: str, methods: Sequence[str], seeds: Sequence[int], conditions: Sequence[str]
) -> Iterator[Unit]:
    """All of a set, seed by seed, in every way."""
    for seed in seeds:
        for condition in conditions:
            for method in methods:
                for course in CONDITIONS[condition]:
                    own = replace(course, alpha_rate=_rate(method))
                    yield Unit(name, method, seed, condition, own)


def _rate(method: str) -> float:
    """Learning rate of a method's prior; a row computed from a network has none of its own."""
    return (LABELS | NUMBERS)[method].alpha_rate if method in LABELS | NUMBERS else 1.0


def trained(
    unit: Unit,
    data: Parts,
    body: Callable[[], Any] | None = None,
    watch: Callable[[int, float], object] = lambda epoch, score: None,
) -> tuple[Fitted, list[dict[str, Any]], dict[str, Tensor]]:
    """Train a unit: its records, and probabilities that are worth keeping."""
    labels = unit.set == "cifar10"
    device, n, began = data.train.x.device, len(data.train.y), time()
    torch.manual_seed(unit.seed)
    network: Any = (body or (lambda: ResNet18(small=labels)))().to(device)
    method = (LABELS if labels else NUMBERS)[unit.method]
    head: Any = method.head(network.features, CLASSES, n).to(device)
    scores: list[float] = []

    def each(epoch: int, score: float) -> None:
        scores.append(round(score, 4))
        watch(epoch, score)

    found = training.train_network(network, head, data.train, data.held, unit.course, each)
    if unit.method == "map":
        head.fit_noise(found.features(data.held.x), data.held.y)
    how = {"val": found.score, "epoch": found.epoch, "scores": scores} | made(began, device)
    lines, kept = [], {}
    for name, worth, probs in (_labels if labels else _numbers)(unit, found, data):
        lines.append({"fit": unit._replace(method=name).fit(), "metrics": worth, **how})
        if name == unit.method and method.averaged:
            kept[name] = probs
    return found, lines, kept


@torch.no_grad()
def _numbers(unit: Unit, found: Fitted, data: Parts) -> Iterator[tuple[str, Any, Any]]:
    p = found.head(found.features(data.test.x))
    p = Normal(*(getattr(p, name).double().reshape(-1) for name in _MOMENTS))
    square = data.scale**2
    p = Normal(data.shift + data.scale * p.mean, square * p.noise_var, square * p.belief_var)
    y = data.shift + data.scale * data.test.y.double()
    worth = {k: float(v) for k, v in protocol.metrics(p, y).items()}
    yield unit.method, worth | health(found, data.train), None


def health(found: Fitted, train: Pictures) -> dict[str, float]:
    """What `diagnose` says of a head on training pictures as they are: of its worst output."""
    if not isinstance(found.head, Head):
        return {}
    some = Pictures(train.x[:HEALTH], train.y[:HEALTH])
    said = found.head.diagnose(found.features(some.x), some.y)
    told = {"noise_share": said.noise_share, "hard_weight": said.hard_weight}
    return {name: float(value.min()) for name, value in told.items() if value is not None}


_MOMENTS = ("mean", "noise_var", "belief_var")


@torch.no_grad()
def _labels(unit: Unit, found: Fitted, data: Parts) -> Iterator[tuple[str, Any, Any]]:
    """The row itself, and for a softmax that of a posterior about it."""
    held, test = (found.features(part.x) for part in (data.held, data.test))
    at_held, at_test = found.head(held).log_probs.double(), found.head(test).log_probs.double()
    found_metrics = metrics(at_test, data.test.y)
    for name, (log_p, y) in {
        "oracle": (at_test, data.test.y),
        "held": (at_held, data.held.y),
    }.items():
        t = temperature(log_p, y)
        cooled = metrics((at_test / t).log_softmax(-1), data.test.y)
        found_metrics |= {f"t_{name}": t} | {f"{k}_{name}": v for k, v in cooled.items()}
    yield unit.method, found_metrics | health(found, data.train), at_test
    if unit.method == "softmax":
        head: Any = found.head  # prior precision one is the default of Laplace's library
        variances = laplace(head, found.features(data.train.x), 1.0)
        log_p = spread(head, variances, test).log_probs.double()
        yield "softmax-laplace", metrics(log_p, data.test.y), None


def metrics(log_probs: Tensor, y: Tensor) -> dict[str, float]:
    """NLL, accuracy and calibration of labels."""
    return {k: float(v) for k, v in protocol.metrics(Categorical(log_probs), y).items()}


def temperature(log_probs: Tensor, y: Tensor) -> float:
    """The T at which softmax(log p / T) scores best, to three digits."""
    low, high = log(0.2), log(10.0)
    for _ in range(4):
        grid = torch.linspace(low, high, 25, dtype=torch.float64)
        each = [_nll(log_probs / exp(float(t)), y) for t in grid]
        best = min(range(len(each)), key=each.__getitem__)
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 24)])
    return exp((low + high) / 2)


def _nll(logits: Tensor, y: Tensor) -> float:
    return float(-logits.log_softmax(-1).gather(-1, y[:, None]).mean())


def run(
    which: list[Unit],
    results: Path,
    places: Sequence[Path],
    device: torch.device,
    say: Callable[[str], object] = print,
    body: Callable[[str], Callable[[], Any] | None] = lambda condition: None,
) -> None:
    """Train the units that the records lack, and append each when it is done."""
    have = records.done(records.load(results).records)
    data: tuple[Any, Any] = (None, None)
    for unit in which:
        if records.key(unit.fit()) in have:
            continue
        if data[0] != (unit.set, unit.seed):
            data = (unit.set, unit.seed), parts(unit.set, places, unit.seed, device)
        say(f"{unit}")
        watch = partial(_tell, say, unit.course.epochs)
        _, lines, kept = trained(unit, data[1], body(unit.condition), watch)
        for method, log_probs in kept.items():
            keep(kept_at(results, unit.set, method, unit.seed), log_probs, data[1].test.y)
        records.append(records.file_of(results, unit.set), lines)
        say(f"{lines[0]['metrics']}")


def _tell(say: Callable[[str], object], epochs: int, epoch: int, score: float) -> None:
    """A word now and then: a fit takes minutes."""
    if (epoch + 1) % 10 == 0:
        say(f"epoch {epoch + 1} of {epochs}, held-out score {score:.4f}")


def kept_at(results: Path, name: str, method: str, seed: int) -> Path:
    """The file of what a network says of the test pictures."""
    return results / "predictions" / f"{name}-{method}-{seed}.npz"


def keep(path: Path, log_probs: Tensor, y: Tensor) -> None:
    """Write what a network says of labels y, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = y.to(torch.uint8).cpu().numpy()
    with replacing(path) as file:
        np.savez_compressed(file, log_probs=log_probs.half().cpu().numpy(), labels=labels)


def recalled(path: Path) -> tuple[Tensor, Tensor]:
    """What `keep` has written: log p (N, K) and labels (N,)."""
    remedy = "Remove it and the record of its seed to have that network trained again."
    found = arrays(path, ("log_probs", "labels"), "be a whole file of predictions", remedy)
    return torch.from_numpy(found[0]).double(), torch.from_numpy(found[1])
