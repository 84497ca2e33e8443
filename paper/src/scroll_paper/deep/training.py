"""A deep network trained through each head: the recipe of the paper's appendix, on one GPU.

SGD for the network and Adam for the head, as a user would write it. A step is one program:
on a GPU it is captured once and replayed.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from math import cos, inf, isnan, pi
from typing import Any

import torch
from torch import Tensor, nn

from scroll._core.checks import unchecked
from scroll.heads import Head
from scroll.heads.prior_gradient import PriorGradient
from scroll.training.graph import on_side_stream

from ..data.images import Pictures, augmented, moments, scaled


@dataclass(frozen=True)
class Course:
    """How to train. The defaults are the paper's."""

    epochs: int = 80
    patience: int = 20
    batch: int = 128
    lr: float = 0.1
    head_lr: float = 1e-3
    anneal_head: bool = False  # let the head's rate fall as the body's does
    momentum: float = 0.9
    weight_decay: float = 5e-4
    frozen: bool = False  # train the head alone, on the features of the pictures as they are
    alpha_rate: float = 1.0  # of the prior's precisions, as a share of the head's
    prior_every: int = 16  # steps, after which the gradient of the prior is found anew
    compile: bool = True


class Fitted:
    """A trained network: its body, its head and how its pictures are scaled."""

    def __init__(self, body: nn.Module, head: nn.Module, scale: tuple[Tensor, Tensor]):
        self.body, self.head, self.scale = body, head, scale
        self.epoch, self.score = 0, inf

    @torch.no_grad()
    def features(self, x: Tensor, size: int = 1000) -> Tensor:
        """psi (N, H) of pictures."""
        self.body.eval()
        with torch.autocast(x.device.type, torch.bfloat16):
            return torch.cat(
                [self.body(scaled(part, self.scale)).float() for part in x.split(size)]
            )


def train_network(
    body: nn.Module,
    head: nn.Module,
    train: Pictures,
    held: Pictures,
    course: Course,
    watch: Callable[[int, float], None] = lambda epoch, score: None,
) -> Fitted:
    """Train body and head, and keep both as they were when held-out pictures scored best."""
    layout: Any = {"memory_format": torch.channels_last}
    mean, std = getattr(body, "scale", None) or moments(train.x)  # a trained one has its own
    now = Fitted(body.to(**layout), head, (mean.to(train.x.device), std.to(train.x.device)))
    step = Step(now, train, course)
    best, since = None, 0
    seen = now.features(held.x) if course.frozen else None
    for epoch in range(course.epochs):
        body.train(not course.frozen)
        head.train()
        order = torch.randperm(len(train.y), device=train.x.device)
        batches = order[: len(order) - len(order) % course.batch].split(course.batch)
        for i, index in enumerate(batches):
            step(index, (epoch + i / len(batches)) / course.epochs)
        score = validation_score(head, now.features(held.x) if seen is None else seen, held.y)
        watch(epoch, score)
        since += 1
        if score < now.score:
            now.score, now.epoch, since = score, epoch, 0
            best = deepcopy((body.state_dict(), head.state_dict()))
        if since >= course.patience or isnan(score):  # NaN once is NaN for good
            break
    if best is not None:  # else nothing was ever finite: as it is
        body.load_state_dict(best[0])
        head.load_state_dict(best[1])
    head.eval()
    return now


@torch.no_grad()
def validation_score(head: Any, psi: Tensor, y: Tensor) -> float:
    """What is to be least on held-out pictures; of MAP, which has no density yet, an error."""
    head.eval()
    if getattr(head, "method", "") == "map":  # its noise is set afterwards
        return float((head(psi).mean - y).square().mean())
    return -float(head(psi).log_prob(y).mean())


class Step:
    """One step of both optimisers on the pictures at an index.

    On a GPU what happens is recorded after a few steps and replayed from then on: hundreds of
    small kernels are then launched as one.
    """

    def __init__(self, now: Fitted, rows: Pictures, course: Course):
        device = rows.x.device
        self.now, self.rows, self.course = now, rows, course
        self.rates = torch.tensor([course.lr, course.head_lr, course.head_lr], device=device)
        body_rate, head_rate, alpha_rate = self.rates.unbind()
        fused = device.type == "cuda"
        named = dict(now.head.named_parameters())
        alpha = [named.pop("log_alpha")] if "log_alpha" in named else []
        groups: list[dict[str, Any]] = [
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
        # Apart, because the body is the same program for every head, and kept from fit to fit.
        made: Any = torch.compile if course.compile else (lambda program: program)
        self.body, self.score = made(now.body), made(self._score)
        self.seen = now.features(rows.x) if course.frozen else None
        self.index = torch.zeros(course.batch, dtype=torch.long, device=device)
        self.calls = 0
        self.graphs: dict[bool, Any] = {}
        self.prior = PriorGradient(now.head, len(rows.y)) if isinstance(now.head, Head) else None

    def __call__(self, index: Tensor, done: float) -> None:
        """A step, when a share `done` of all steps has been done."""
        left, course = (1 + cos(pi * done)) / 2, self.course
        body_rate, head_rate, alpha_rate = self.rates.unbind()
        body_rate.fill_(course.lr * left)
        head_rate.fill_(course.head_lr * (left if course.anneal_head else 1))
        alpha_rate.copy_(head_rate * course.alpha_rate)
        self.index.copy_(index)
        self._run(self.prior is not None and self.calls % self.course.prior_every == 0)
        self.calls += 1

    def _run(self, anew: bool) -> None:
        """A step that finds the gradient of the prior anew, or one that does not."""
        if self.index.device.type != "cuda":
            self._step(anew)
            return
        if self.calls < 5:  # libraries choose their kernels, optimisers make their state
            on_side_stream(lambda: self._step(anew))
            return
        if anew not in self.graphs:
            self.graphs[anew] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[anew]):
                self._step(anew)
        self.graphs[anew].replay()

    def _step(self, anew: bool) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        with unchecked():
            self._loss().backward()
            if self.prior is not None:
                if anew:
                    self.prior.find()
                self.prior.add()
        for optimiser in self.optimisers:
            optimiser.step()

    def _loss(self) -> Tensor:
        loss: Tensor = self.score(self._features().float(), self.rows.y[self.index])
        return loss

    def _features(self) -> Tensor:
        """Of the pictures as chance cuts them, or those that a frozen body gave once."""
        if self.seen is not None:
            return self.seen[self.index]
        x = scaled(augmented(self.rows.x[self.index]), self.now.scale)
        with torch.autocast(x.device.type, torch.bfloat16):
            psi: Tensor = self.body(x)
        return psi

    def _score(self, psi: Tensor, y: Tensor) -> Tensor:
        """The loss but for the prior."""
        head: Any = self.now.head
        if not isinstance(head, Head):
            return head.loss(psi, y, total=len(self.rows.y))
        # the paper's form: a mean over rows and outputs alike, and the prior over rows alone
        loss: Tensor = head.loss(psi, y, total=len(self.rows.y), prior=False)
        return loss / head.likelihood.latents
