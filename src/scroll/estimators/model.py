"""A fitted model: from a table's codes to predictive distributions."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..factors.factor import Moments
from ..fitting.stacks import Members
from ..posterior.posterior import Posterior
from ..predictive import (
    Distribution,
    Labels,
    Mapped,
    Mixture,
    Normal,
    Stack,
    Tail,
    TargetMap,
    narrowed,
    with_tails,
)
from ..predictive.mixture import mix
from ..tables.encoder import Encoder
from .members import MemberGroup
from .spec import Spec, candidate

CHUNK = 2048  # rows that are predicted at once: their features stay in the cache
ENCODED = 8 * CHUNK  # rows that are encoded at once
MOST = 2.0  # standard deviations of log y in training: no predictive of log y is wider
WIDEST = 1.0  # standard deviation of lapses of log y: their mean is exp(1/2) times as large


class Model(nn.Module):
    """Encoder and members, whose predictives are mixed exactly.

    Args:
        spec: the description of the model.
        body: the module, if the body is the user's own.
    """

    shift: Tensor
    scale: Tensor
    rates: Tensor  # of the labels
    oof: Tensor  # scores of the training rows out of fold
    oof_rows: Tensor  # their numbers in the training table

    def __init__(self, spec: Spec, body: nn.Module | None = None):
        super().__init__()
        self.spec = spec
        self.encoder = Encoder.from_layout(spec.layout)
        self.parts = nn.ModuleList(
            MemberGroup(spec, candidate(spec, name, body), routes) for name, routes in spec.parts
        )
        shape = (spec.outputs,) if spec.likelihood == "gaussian" and spec.outputs > 1 else ()
        self.register_buffer("shift", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("rates", torch.full((spec.outputs,), 1.0, dtype=torch.float64))
        judged = (spec.judged, len(spec.oof_names))
        self.register_buffer("oof", torch.zeros(judged, dtype=torch.float32))
        self.register_buffer("oof_rows", torch.zeros(spec.judged, dtype=torch.int32))
        self.tail = Tail(**spec.tail)
        self.map = None if spec.target is None else TargetMap(**spec.target)

    @property
    def each(self) -> list[MemberGroup]:
        """The parts, by their type."""
        return [part for part in self.parts if isinstance(part, MemberGroup)]

    @torch.no_grad()
    def put(self, found: list[Members]) -> "Model":
        """Copy the tensors of trained members, and return the model."""
        for part, members in zip(self.each, found, strict=True):
            part.put(members, self.spec.width)
        return self.eval()

    def forward(self, codes: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return mean and standard deviation of each row, or class probabilities (N, K).

        They are plain tensors in the target's own units: `torch.export` can export this.

        Args:
            codes: of the rows, (N, D).
        """
        return self.dist(codes).as_tensors()

    def dist(self, codes: Tensor) -> Distribution:
        """Return `predictive` in one piece and with gradients, for a graph."""
        return self._mixed([self._moments(self.encoder(codes))])

    @torch.no_grad()
    def predictive(self, codes: Tensor) -> Distribution:
        """Return the predictive of each row of codes (N, D), in the target's own units."""
        return self._mixed([self._moments(x) for x in self._encoded(codes)])

    def _encoded(self, codes: Tensor) -> Iterator[Tensor]:
        """Yield inputs of the bodies, of a few rows at a time."""
        for some in codes.split(ENCODED):
            yield from self.encoder(some).split(CHUNK)

    def _moments(self, x: Tensor) -> list[Moments]:
        """Return q(f) of the members of each part, of encoded rows."""
        return [part.readout.message(part.features(x)) for part in self.each]

    @torch.no_grad()
    def untailed(self, codes: Tensor) -> Normal | Mixture:
        """Return the normals of a real target, in the units of its map, before tails."""
        stacks = self._stacks([self._moments(x) for x in self._encoded(codes)])
        return self._limited(mix(stacks, self.shift, self.scale))

    def _mixed(self, chunks: list[list[Moments]]) -> Distribution:
        return self.finish(self._stacks(chunks))

    def finish(self, stacks: Sequence[Stack], power: float | None = None) -> Distribution:
        """Return the calibrated mixture of the members, in the target's own units.

        Args:
            stacks: predictives of members (M, ...), in the units of training.
            power: of the probabilities of labels; that of the whole ensemble by default.
        """
        p = mix(stacks, self.shift, self.scale, self.spec.weights)
        if self.spec.lapse:
            power = self.spec.power if power is None else power
            return cast(Labels, p).recalibrated(power, self.spec.lapse, self.rates)
        if self.tail.kind != "gaussian" or self.map is not None:
            p = with_tails(self._limited(p), self.tail, WIDEST if self._heavy else None)
        return p if self.map is None else Mapped(cast(Any, p), self.map)

    @property
    def _heavy(self) -> bool:
        return self.map is not None and self.map.heavy

    def _limited(self, p: Distribution) -> Normal | Mixture:
        """Return the normals of a real target; those of log y are at most twice as wide as all y.

        Far from the training rows the belief is wide, and the mean of y would be astronomic.
        """
        normal = cast(Normal | Mixture, p)
        return narrowed(normal, MOST * self.scale) if self._heavy else normal

    def _stacks(self, chunks: list[list[Moments]]) -> list[Stack]:
        found = []
        for part, some in zip(self.each, zip(*chunks, strict=True), strict=True):
            mean = torch.cat([m.mean for m in some], -1)
            var = torch.cat([m.var for m in some], -1)
            found.append(part.readout.predict(Moments(mean, var)))
        return found

    @torch.no_grad()
    def average(self, of: Callable[[Posterior, Tensor], Tensor], codes: Tensor) -> Tensor:
        """Return the mean over the members of a function of their posterior, (N,) or (N, K).

        Args:
            of: the function, such as `Posterior.ood_score`, of a posterior and features.
            codes: of the rows, (N, D).
        """
        chunks = []
        for x in self._encoded(codes):
            each = [of(part.bound, part.features(x)) for part in self.each]
            chunks.append(torch.cat(each).double().mean(0))
        return torch.cat(chunks)

    def update(self, codes: Tensor, y: Tensor) -> None:
        """Update the posteriors with more rows.

        Args:
            codes: of the rows, (N, D).
            y: their targets, in units of `shift` and `scale`.
        """
        x = self.encoder(codes)
        for part in self.each:
            psi = part.features(x).detach()
            part.hold(part.bound.update(psi, y.expand(len(psi), *y.shape)))
