"""Train a deep network end to end through a head, as in the paper's appendix, on one GPU.

SGD for the network and Adam for the head. On a GPU a step is captured once as a CUDA graph and
then replayed.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from math import cos, inf, isnan, pi
from typing import Protocol, cast

import torch
from torch import Tensor, nn

from scroll._core.checks import unchecked
from scroll.beliefs.sums import RowSums
from scroll.heads import Head, SeenRows
from scroll.heads.prior_gradient import PriorGradient
from scroll.training.graph import on_side_stream

from ..data.images import Pictures, augmented, moments, scaled


@dataclass(frozen=True)
class Course:
    """How to train; the defaults are the paper's.

    Args:
        epochs: most epochs.
        patience: epochs without a better validation score before training stops.
        batch: pictures per step.
        lr: learning rate of the body.
        head_lr: learning rate of the head.
        anneal_head: let the head's learning rate fall as the body's does.
        momentum: of SGD.
        weight_decay: of SGD.
        frozen: train the head alone, on features of the pictures without augmentation.
        alpha_rate: learning rate of the prior's precisions, as a share of the head's.
        prior_every: steps after which the gradient of the prior is recomputed.
        compile: compile body and loss.
    """

    epochs: int = 80
    patience: int = 20
    batch: int = 128
    lr: float = 0.1
    head_lr: float = 1e-3
    anneal_head: bool = False
    momentum: float = 0.9
    weight_decay: float = 5e-4
    frozen: bool = False
    alpha_rate: float = 1.0
    prior_every: int = 16
    compile: bool = True


class TrainedNetwork:
    """A trained network.

    Args:
        body: from pictures to features.
        head: the last layer.
        scale: mean and standard deviation of each channel.
    """

    def __init__(self, body: nn.Module, head: nn.Module, scale: tuple[Tensor, Tensor]):
        self.body, self.head, self.scale = body, head, scale
        self.epoch, self.score = 0, inf

    @torch.no_grad()
    def features(self, x: Tensor, size: int = 1000) -> Tensor:
        """Return the features (N, H) of pictures, `size` at a time."""
        self.body.eval()
        with torch.autocast(x.device.type, torch.bfloat16):
            return torch.cat(
                [self.body(scaled(part, self.scale)).float() for part in x.split(size)]
            )

    def condition(self, rows: Pictures, psi: Tensor | None = None) -> None:
        """Give a head whose belief depends on all training rows these rows.

        Args:
            rows: training pictures.
            psi: their features, if they are known.
        """
        if isinstance(self.head, Head) and self.head.objective.bound:
            self.head.condition(self.features(rows.x) if psi is None else psi, rows.y)

    def others(self, rows: Pictures, psi: Tensor | None = None) -> SeenRows | None:
        """Return the features of all training rows, if the loss of a batch needs them.

        Args:
            rows: training pictures.
            psi: their features, if they are known.
        """
        if not (isinstance(self.head, Head) and self.head.needs_rest):
            return None
        return SeenRows(self.head, self.features(rows.x) if psi is None else psi, rows.y)


def train_network(
    body: nn.Module,
    head: nn.Module,
    train: Pictures,
    held: Pictures,
    course: Course,
    watch: Callable[[int, float], None] = lambda epoch, score: None,
) -> TrainedNetwork:
    """Train body and head; return both as they were when the validation score was best.

    Args:
        body: from pictures to features.
        head: the last layer.
        train: training pictures.
        held: validation pictures.
        course: how to train.
        watch: called with the epoch and its validation score.
    """
    mean, std = getattr(body, "scale", None) or moments(train.x)  # a pretrained body has its own
    body.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    now = TrainedNetwork(body, head, (mean.to(train.x.device), std.to(train.x.device)))
    step, best, since = Step(now, train, course), None, 0
    seen = now.features(held.x) if course.frozen else None
    for epoch in range(course.epochs):
        body.train(not course.frozen)
        head.train()
        _epoch(step, epoch, course)
        score = validation_score(head, now.features(held.x) if seen is None else seen, held.y)
        watch(epoch, score)
        since += 1
        if score < now.score:
            now.score, now.epoch, since = score, epoch, 0
            best = deepcopy((body.state_dict(), head.state_dict()))
        if since >= course.patience or isnan(score):  # NaN once is NaN for good
            break
    if best is not None:  # otherwise no score was finite: leave it as it is
        body.load_state_dict(best[0])
        head.load_state_dict(best[1])
    head.eval()
    return now


def _epoch(step: "Step", epoch: int, course: Course) -> None:
    """Take the steps of an epoch, in a random order; the last, incomplete batch is left out.

    A belief that depends on all training rows then follows from their present features.
    """
    rows = step.rows
    order = torch.randperm(len(rows.y), device=rows.x.device)
    batches = order[: len(order) - len(order) % course.batch].split(course.batch)
    for i, index in enumerate(batches):
        step(index, (epoch + i / len(batches)) / course.epochs)
    step.now.condition(rows, step.seen)


@torch.no_grad()
def validation_score(head: nn.Module, psi: Tensor, y: Tensor) -> float:
    """Return the validation NLL; for MAP, whose noise is set afterwards, the squared error."""
    head.eval()
    if getattr(head, "method", "") == "map":  # its noise is set afterwards
        return float((head(psi).mean - y).square().mean())
    return -float(head(psi).log_prob(y).mean())


class Loss(Protocol):
    """A last layer with a loss of its own."""

    def loss(self, psi: Tensor, y: Tensor, total: int) -> Tensor:
        """Return the loss of a batch of `total` rows in all."""


class Step:
    """One step of both optimisers on the pictures at an index.

    On a GPU the step is recorded after a few calls and replayed from then on: hundreds of small
    kernels are launched as one.

    Args:
        now: the network.
        rows: training pictures.
        course: how to train.
    """

    def __init__(self, now: TrainedNetwork, rows: Pictures, course: Course):
        device = rows.x.device
        self.now, self.rows, self.course = now, rows, course
        self.rates = torch.tensor([course.lr, course.head_lr, course.head_lr], device=device)
        body_rate, head_rate, alpha_rate = self.rates.unbind()
        fused = device.type == "cuda"
        named = dict(now.head.named_parameters())
        alpha = [named.pop("log_alpha")] if "log_alpha" in named else []
        groups = [
            {"params": [*named.values()], "lr": head_rate},
            {"params": alpha, "lr": alpha_rate},
        ]
        self.optimisers: list[torch.optim.Optimizer] = [
            torch.optim.Adam(groups, fused=fused, capturable=fused)
        ]
        if not course.frozen:
            self.optimisers.append(
                torch.optim.SGD(
                    now.body.parameters(),
                    body_rate,
                    course.momentum,
                    weight_decay=course.weight_decay,
                    nesterov=True,
                    fused=fused,
                )
            )
        # Separately, because the body is the same program for every head and is compiled once.
        self.body: Callable[[Tensor], Tensor] = now.body
        self.score: Callable[[Tensor, Tensor, RowSums | None], Tensor] = self._score
        if course.compile:
            self.body, self.score = torch.compile(now.body), torch.compile(self._score)
        self.seen = now.features(rows.x) if course.frozen else None
        self.index = torch.zeros(course.batch, dtype=torch.long, device=device)
        self.calls = 0
        self.graphs: dict[bool, torch.cuda.CUDAGraph] = {}
        self.others = now.others(rows, self.seen)
        with_prior = isinstance(now.head, Head) and not now.head.objective.prior.zero
        self.prior = PriorGradient(cast(Head, now.head), len(rows.y)) if with_prior else None

    def __call__(self, index: Tensor, done: float) -> None:
        """Take a step on the pictures at `index`, after a share `done` of all steps."""
        left, course = (1 + cos(pi * done)) / 2, self.course
        body_rate, head_rate, alpha_rate = self.rates.unbind()
        body_rate.fill_(course.lr * left)
        head_rate.fill_(course.head_lr * (left if course.anneal_head else 1))
        alpha_rate.copy_(head_rate * course.alpha_rate)
        self.index.copy_(index)
        self._run(self.prior is not None and self.calls % self.course.prior_every == 0)
        self.calls += 1

    def _run(self, with_prior: bool) -> None:
        """Take a step, with a new gradient of the prior or the last one."""
        if self.index.device.type != "cuda":
            self._step(with_prior)
            return
        if self.calls < 5:  # libraries choose kernels, optimisers make their state
            on_side_stream(lambda: self._step(with_prior))
            return
        if with_prior not in self.graphs:
            self.graphs[with_prior] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[with_prior]):
                self._step(with_prior)
        self.graphs[with_prior].replay()

    def _step(self, with_prior: bool) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        with unchecked():
            self._loss().backward()
            if self.prior is not None:
                if with_prior:
                    self.prior.find()
                self.prior.add()
        for optimiser in self.optimisers:
            optimiser.step()

    def _loss(self) -> Tensor:
        psi = self._features().float()
        rest = None if self.others is None else self.others.swap(self.index, psi)
        loss: Tensor = self.score(psi, self.rows.y[self.index], rest)
        return loss

    def _features(self) -> Tensor:
        """Return features of augmented pictures, or those that a frozen body gave once."""
        if self.seen is not None:
            return self.seen[self.index]
        x = scaled(augmented(self.rows.x[self.index]), self.now.scale)
        with torch.autocast(x.device.type, torch.bfloat16):
            psi: Tensor = self.body(x)
        return psi

    def _score(self, psi: Tensor, y: Tensor, rest: RowSums | None) -> Tensor:
        """Return the loss without the prior."""
        head = self.now.head
        if not isinstance(head, Head):
            plain: Tensor = cast(Loss, head).loss(psi, y, total=len(self.rows.y))
            return plain
        # The paper's form: the mean over rows and outputs, and the prior divided by rows alone.
        loss: Tensor = head.loss(psi, y, total=len(self.rows.y), prior=False, rest=rest)
        return loss / head.likelihood.latents
