"""CIFAR-10 and UTKFace end to end: train a network, score it and record it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import exp, log
from pathlib import Path
from time import time
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from scroll._core.files import replacing
from scroll.heads import Head
from scroll.predictive import Categorical, Normal

from ..data import protocol
from ..data.images import Pictures
from ..data.npz import arrays
from ..models.resnet import ResNet18
from ..models.softmax import Softmax, laplace, spread
from ..tables import records
from ..tables.records import made
from . import training
from .methods import LABELS, NUMBERS
from .training import TrainedNetwork
from .units import DeepUnit, Parts, parts

CLASSES = 10
HEALTH = 5000  # training pictures for a diagnosis
PRECISIONS = tuple(10.0 ** (j / 2) for j in range(-2, 9))  # of the prior, for Laplace
Scored = tuple[str, dict[str, float], Tensor]  # a method, its scores and its log probabilities


class Body(Protocol):
    """A body that states its number of features."""

    features: int


def trained(
    unit: DeepUnit,
    data: Parts,
    body: Callable[[], nn.Module] | None = None,
    watch: Callable[[int, float], object] = lambda epoch, score: None,
) -> tuple[TrainedNetwork, list[records.Record], dict[str, Tensor]]:
    """Train a network; return it, its records, and probabilities to keep by method.

    Args:
        unit: what to train.
        data: the pictures.
        body: makes the body; None is a ResNet-18.
        watch: called with the epoch and its validation score.
    """
    labels = unit.set == "cifar10"
    device, n, began = data.train.x.device, len(data.train.y), time()
    torch.manual_seed(unit.seed)
    network = (body() if body else ResNet18(small=labels)).to(device)
    method = (LABELS if labels else NUMBERS)[unit.method]
    head = method.head(cast(Body, network).features, CLASSES, n).to(device)
    scores: list[float] = []

    def each(epoch: int, score: float) -> None:
        scores.append(round(score, 4))
        watch(epoch, score)

    found = training.train_network(network, head, data.train, data.held, unit.course, each)
    if unit.method == "map" and isinstance(head, Head):
        head.fit_noise(found.features(data.held.x), data.held.y)
    how = {"val": found.score, "epoch": found.epoch, "scores": scores} | made(began, device)
    lines, kept = [], {}
    for name, worth, probs in (_labels if labels else _numbers)(unit, found, data):
        lines.append({"fit": unit._replace(method=name).fit(), "metrics": worth, **how})
        if name == unit.method and method.averaged:
            kept[name] = probs
    return found, lines, kept


@torch.no_grad()
def _numbers(unit: DeepUnit, found: TrainedNetwork, data: Parts) -> Iterator[Scored]:
    p = found.head(found.features(data.test.x))
    p = Normal(*(getattr(p, name).double().reshape(-1) for name in _MOMENTS))
    square = data.scale**2
    p = Normal(data.shift + data.scale * p.mean, square * p.noise_var, square * p.belief_var)
    y = data.shift + data.scale * data.test.y.double()
    worth = {k: float(v) for k, v in protocol.metrics(p, y).items()}
    yield unit.method, worth | health(found, data.train), y


def health(found: TrainedNetwork, train: Pictures) -> dict[str, float]:
    """Return what `diagnose` says of a head on training pictures, for its worst output.

    A head without such a diagnosis gives nothing.
    """
    if not isinstance(found.head, Head):
        return {}
    some = Pictures(train.x[:HEALTH], train.y[:HEALTH])
    diagnosis = found.head.diagnose(found.features(some.x), some.y)
    shares = {"noise_share": diagnosis.noise_share, "hard_weight": diagnosis.hard_weight}
    return {name: float(value.min()) for name, value in shares.items() if value is not None}


_MOMENTS = ("mean", "noise_var", "belief_var")


@torch.no_grad()
def _labels(unit: DeepUnit, found: TrainedNetwork, data: Parts) -> Iterator[Scored]:
    """Yield the scores of the head and, for a softmax, those of Laplace about it."""
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
    if isinstance(head := found.head, Softmax):
        yield from _laplace(unit, found, head, data)


def _laplace(unit: DeepUnit, found: TrainedNetwork, head: Softmax, data: Parts) -> Iterator[Scored]:
    """Yield the scores of Laplace: its library's default precision, and the best on held-out."""
    psi, held, test = (found.features(part.x) for part in (data.train, data.held, data.test))

    def at(precision: float, rows: Tensor) -> Tensor:
        return spread(head, laplace(head, psi, precision), rows).log_probs.double()

    best = min(PRECISIONS, key=lambda precision: _nll(at(precision, held), data.held.y))
    for name, precision in (("", 1.0), ("-tuned", best)):
        log_p = at(precision, test)
        found_metrics = metrics(log_p, data.test.y)
        if name:
            found_metrics["precision"] = best
        yield f"{unit.method}-laplace{name}", found_metrics, log_p


def metrics(log_probs: Tensor, y: Tensor) -> dict[str, float]:
    """Return NLL, accuracy, calibration error and Brier score of labels."""
    return {k: float(v) for k, v in protocol.metrics(Categorical(log_probs), y).items()}


def temperature(log_probs: Tensor, y: Tensor) -> float:
    """Return the T at which softmax(log p / T) has the least NLL, to three digits."""
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
    which: list[DeepUnit],
    results: Path,
    places: Sequence[Path],
    device: torch.device,
    say: Callable[[str], object] = print,
    body: Callable[[str], Callable[[], nn.Module] | None] = lambda condition: None,
) -> None:
    """Train the networks that are missing from the records, and append each when it is done.

    Args:
        which: networks.
        results: folder of the records.
        places: folders of the pictures.
        device: to train on.
        say: takes lines about progress.
        body: returns, for a condition, what makes the body; None is a ResNet-18.
    """
    have = records.done(records.load(results).records)
    at, data = None, None
    for unit in which:
        if records.key(unit.fit()) in have:
            continue
        if data is None or at != (unit.set, unit.seed, unit.unscaled):
            at = (unit.set, unit.seed, unit.unscaled)
            data = parts(unit.set, places, unit.seed, device, unit.unscaled)
        say(f"{unit}")
        watch = partial(_tell, say, unit.course.epochs)
        _, lines, kept = trained(unit, data, body(unit.condition), watch)
        for method, log_probs in kept.items():
            keep(kept_at(results, unit.set, method, unit.seed), log_probs, data.test.y)
        records.append(records.file_of(results, unit.set), lines)
        say(f"{lines[0]['metrics']}")


def _tell(say: Callable[[str], object], epochs: int, epoch: int, score: float) -> None:
    """Say every tenth epoch how far a network is: it takes minutes."""
    if (epoch + 1) % 10 == 0:
        say(f"epoch {epoch + 1} of {epochs}, held-out score {score:.4f}")


def kept_at(results: Path, name: str, method: str, seed: int) -> Path:
    """Return the file for a network's probabilities of the test pictures."""
    return results / "predictions" / f"{name}-{method}-{seed}.npz"


def keep(path: Path, log_probs: Tensor, y: Tensor) -> None:
    """Write a network's log probabilities and the labels, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    labels = y.to(torch.uint8).cpu().numpy()
    with replacing(path) as file:
        np.savez_compressed(file, log_probs=log_probs.half().cpu().numpy(), labels=labels)


def recalled(path: Path) -> tuple[Tensor, Tensor]:
    """Read what `keep` has written: log p (N, K) and labels (N,)."""
    remedy = "Remove it and the record of its seed to have that network trained again."
    found = arrays(path, ("log_probs", "labels"), "be a whole file of predictions", remedy)
    return torch.from_numpy(found[0]).double(), torch.from_numpy(found[1])
