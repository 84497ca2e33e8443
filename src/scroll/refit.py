"""The conjugate refit on trained features (Eq. R1), in one streaming pass.

A freed belief predicts well but no longer says what it has not seen. Binding it to the
posterior again, at test time, gives that back: leverage, an out-of-distribution score, the
epistemic part of the variance, functions to sample. Only sums over the data are kept, in
float64, so more data can be added at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ._value import value
from .beliefs import Belief, Moments
from .cavities import leave_one_out
from .checks import must, one_of, tensor
from .covariances import Scaled, Spectral, Spread, Sum
from .evidence import maximise_evidence
from .factors import Gaussian
from .families import FAMILIES
from .head import Head
from .linalg import diagonal, matvec
from .routes import Problem

Batches = Iterable[tuple[Tensor, Tensor]]


@value
class Statistics:
    """Sums over the data: all that the conjugate posterior depends on."""

    gram: Tensor  # (..., H, H), sum of psi psi'
    cross: Tensor  # (..., K, H), sum of y psi
    square: Tensor  # (..., K), sum of y^2
    count: Tensor  # (), rows

    def plus(self, psi: Tensor, y: Tensor) -> Statistics:
        """With the rows psi (..., 1, N, H), y (..., K, N) added."""
        return Statistics(
            self.gram + (psi.mT @ psi).squeeze(-3),
            self.cross + matvec(psi.mT, y),
            self.square + y.square().sum(-1),
            self.count + y.shape[-1],
        )


@value
class Added:
    """What the hybrid route adds to the posterior: S+ and the noise of its score."""

    cov: Spread
    noise: Tensor  # (..., K)


class Refit:
    """A head's belief bound to the posterior again; made by `scroll.refit`.

    Attributes:
        alpha: prior precision, (..., K).
        noise: standard deviation of the observations in the posterior, (..., K).
        posterior: N(mean, A^-1) over the weights, (..., K, H), in float64.
        added: what a hybrid adds, or None.
    """

    def __init__(self, head: Head, statistics: Statistics, hyper: str):
        self.head, self.hyper = head, hyper
        self.added: Added | None = None
        self._bind(statistics)

    def _bind(self, statistics: Statistics) -> None:
        self._statistics = statistics
        values, basis = torch.linalg.eigh(statistics.gram)
        values, basis = values.unsqueeze(-2), basis.unsqueeze(-3)
        along = (statistics.cross.unsqueeze(-2) @ basis).squeeze(-2)
        # An eigenvalue within rounding of zero is a direction that the data never took.
        rounding = torch.finfo(values.dtype).eps * values.shape[-1] * values[..., -1:]
        unseen = values <= rounding
        values, along = values.masked_fill(unseen, 0), along.masked_fill(unseen, 0)
        if self.hyper == "evidence":
            sums = (statistics.square, statistics.count)
            self.alpha, self.noise = maximise_evidence(values, along, *sums)
        else:
            factor: Any = self.head.likelihood.factor()
            self.alpha = self.head.log_alpha.detach().double().exp()
            self.noise = factor.noise.detach().double()
        s2 = self.noise.square()[..., None]
        var = 1 / (values / s2 + self.alpha[..., None])
        mean = ((along * var / s2).unsqueeze(-2) @ basis.mT).squeeze(-2)
        self.posterior = Belief(mean, Spectral(basis, var))

    def update(self, psi: Tensor, y: Tensor) -> Refit:
        """Add data; the same as refitting on everything. What a hybrid adds stays as it is."""
        self._bind(self._statistics.plus(*_sums_input(self.head, psi, y)))
        return self

    @property
    def belief(self) -> Belief:
        """N(mean, A^-1), or N(mean, A^-1 + S+) for a hybrid."""
        if self.added is None:
            return self.posterior
        return Belief(self.posterior.mean, Sum(self.posterior.cov, self.added.cov))

    def __call__(self, psi: Tensor) -> Any:
        """The predictive: noise, epistemic part and, for a hybrid, what it adds."""
        likelihood: Any = self.head.likelihood
        must(
            hasattr(likelihood, "read"),
            "head",
            "regress on a real target or on classes to predict from its refit",
            type(likelihood).__name__,
            "Predict with head(psi); take leverage, ood_score or sample_weights from the refit.",
            TypeError,
        )
        at = self.belief.project(self._features(psi))
        noise = self.noise if self.added is None else self.added.noise
        dtype = self.head.log_alpha.dtype
        at = Moments((at.mean + _offset(self.head)).to(dtype), at.var.to(dtype))
        return likelihood.read(at, noise.to(dtype))

    def epistemic(self, psi: Tensor) -> Tensor:
        """psi' A^-1 psi: what the data leave open of f, (..., N), or (..., N, K)."""
        return self._user(self._open(psi))

    def leverage(self, psi: Tensor) -> Tensor:
        """h = psi' A^-1 psi / s^2, below 1 on a training row."""
        return self._user(self._open(psi) / self.noise.square()[..., None])

    def ood_score(self, psi: Tensor) -> Tensor:
        """Mean leverage over the outputs, (..., N): large where the data said little."""
        return (self._open(psi) / self.noise.square()[..., None]).mean(-2).to(psi.dtype)

    def sample_weights(self, n: int, generator: Generator | None = None) -> Tensor:
        """n draws of w from the posterior, (n, ..., K, H): each is a function of psi."""
        draws = self.posterior.sample(n, generator)
        return draws.to(self.head.log_alpha.dtype)

    def _open(self, psi: Tensor) -> Tensor:
        return self.posterior.cov.quad(self._features(psi))

    def _features(self, psi: Tensor) -> Tensor:
        self.head.check_features(psi)
        return psi.double().unsqueeze(-3)

    def _user(self, x: Tensor) -> Tensor:
        x = x.to(self.head.log_alpha.dtype)
        return x.squeeze(-2) if self.head.likelihood.latents == 1 else x.mT


@torch.no_grad()
def refit(
    head: Head,
    features: Tensor | Batches,
    y: Tensor | None = None,
    *,
    hyper: str = "evidence",
    hybrid: bool = False,
    added: str = "diag",
    steps: int = 600,
    lr: float = 0.02,
    validation: tuple[Tensor, Tensor] | None = None,
) -> Refit:
    """Bind a trained head's belief to the posterior of its features, in one pass over them.

    Classes are regressed on as one-hot +-1, levels as numbers, counts as log(y + 1/2).

    Args:
        head: a trained head, of any method.
        features: psi (..., N, H) with `y`, or an iterable of such pairs (psi, y).
        y: targets, when `features` is a tensor.
        hyper: "evidence" fits alpha and noise to these features; "head" takes the head's.
        hybrid: also fit a free covariance S+ on the leave-one-out score; needs further passes.
        added: family of S+: "diag", "full" or "lowrank".
        steps: Adam steps for S+, each on one batch.
        lr: their step size, in units of the noise.
        validation: (psi, y) held out; keeps the S+ of best score on it.
    """
    one_of("hyper", hyper, ("evidence", "head"))
    one_of("added", added, ("diag", "full", "lowrank"))
    must(
        hyper == "evidence" or isinstance(head.likelihood.factor(), Gaussian),
        "hyper",
        "be 'evidence' for a likelihood that has no Gaussian noise",
        repr(hyper),
    )
    statistics = None
    for psi, target in _batches(features, y):
        rows = _sums_input(head, psi, target)
        statistics = (statistics or _empty(*rows)).plus(*rows)
    if statistics is None:
        raise ValueError(
            "`features` must give at least one batch, but got none. An iterator that was read "
            "before is empty: pass a loader or a list."
        )
    bound = Refit(head, statistics, hyper)
    if hybrid:
        bound.added = _fit_added(bound, features, y, added, steps, lr, validation)
    return bound


def _fit_added(
    bound: Refit,
    features: Tensor | Batches,
    y: Tensor | None,
    family: str,
    steps: int,
    lr: float,
    validation: tuple[Tensor, Tensor] | None,
) -> Added:
    """S+ and noise of best leave-one-out score; the posterior stays as it is.

    They are fitted in units of the noise and of the features' root mean square, so that the
    same steps serve every scale of y and psi.
    """
    head, mean = bound.head, bound.posterior.mean
    power = diagonal(bound._statistics.gram).mean(-1) / bound._statistics.count
    unit = bound.noise / power.sqrt()[..., None]  # (..., K)
    spread = FAMILIES[family](tuple(mean.shape), 0.1 * mean.shape[-1] ** -0.5, 0.0, 16).to(mean)
    log_noise = nn.Parameter(torch.zeros_like(bound.noise))

    def present() -> Added:
        return Added(Scaled(spread(), unit), bound.noise * log_noise.exp())

    def score(psi: Tensor, target: Tensor, held_out: bool) -> Tensor:
        """Of points in the posterior, so taken out of it again; or of points never in it."""
        now = present()
        belief = Belief(mean, Sum(bound.posterior.cov, now.cov))
        factor, site = Gaussian(now.noise), Gaussian(bound.noise)
        p = Problem(psi, target, factor, bound.alpha, site=site)
        at = belief.project(psi) if held_out else leave_one_out(belief, p)
        return factor.log_marginal(target, at).mean(-1).sum()

    variables = [*spread.parameters(), log_noise]
    adam = torch.optim.Adam(variables, lr=lr)
    best, kept = -torch.inf, None
    for step, (psi, target) in zip(range(steps), _forever(features, y), strict=False):
        if validation is not None and step % 10 == 0:
            reached = float(score(*_sums_input(head, *validation), held_out=True))
            if reached > best:
                best, kept = reached, [x.clone() for x in variables]
        with torch.enable_grad():
            adam.zero_grad()
            (-score(*_sums_input(head, psi, target), held_out=False)).backward()
            adam.step()
    for x, good in zip(variables, kept or variables, strict=True):
        x.copy_(good).requires_grad_(False)
    return present()


def _sums_input(head: Head, psi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """psi (..., 1, N, H) and real targets (..., K, N), checked, in float64, without the bias."""
    head.check_features(psi)
    tensor("y", y)
    target = head.likelihood.regress(y, psi.shape[:-1]).double() - _offset(head)
    return psi.detach().double().unsqueeze(-3), target


def _offset(head: Head) -> Tensor | float:
    """The head's bias, where it is one of the regression."""
    if head.bias is None or not isinstance(head.likelihood.factor(), Gaussian):
        return 0.0
    return head.bias.detach().double()[..., None]


def _empty(psi: Tensor, y: Tensor) -> Statistics:
    lead, h = psi.shape[:-3], psi.shape[-1]
    return Statistics(
        psi.new_zeros(*lead, h, h),
        psi.new_zeros(*y.shape[:-1], h),
        psi.new_zeros(y.shape[:-1]),
        psi.new_zeros(()),
    )


def _batches(features: Tensor | Batches, y: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(features, Tensor):
        must(y is not None, "y", "be given with a tensor of features", y)
        yield features, y  # type: ignore[misc]
        return
    must(y is None, "y", "be None when `features` gives pairs (psi, y)", type(y).__name__)
    for batch in features:
        must(
            isinstance(batch, tuple | list) and len(batch) == 2,
            "features",
            "give pairs (psi, y)",
            type(batch).__name__,
        )
        yield batch[0], batch[1]


def _forever(features: Tensor | Batches, y: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        some = False
        for batch in _batches(features, y):
            some = True
            yield batch
        must(
            some,
            "features",
            "be readable more than once for a hybrid",
            "an iterator",
            "Pass a loader.",
        )
