"""The conjugate refit on trained features (Eq. R1), in one streaming pass.

A freed belief predicts well but no longer knows what it has not seen. Binding it to the posterior
at test time restores that: leverage, an out-of-distribution score, the epistemic part of the
variance, functions to sample. Only sums over the data are kept, in float64, so more data can be
added at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import torch
from torch import Generator, Tensor

from .._core.checks import invalid, one_of, positive_int, require
from .._core.linalg import diagonal
from .._core.value import cast
from ..beliefs.belief import Belief
from ..beliefs.covariances import Spectral, Sum
from ..factors import Gaussian
from ..factors.factor import Moments
from ..heads.head import Head
from .binding import Hyper, eigen, hyperparameters, target_shift, weights_given
from .data import (
    Batch,
    Batches,
    batches,
    batches_forever,
    bias_of,
    check_batch,
    has_intercept,
    regression_features,
    regression_rows,
    row_weights,
)
from .functions import Functions
from .hybrid import (
    Added,
    AddedSettings,
    RegressionRows,
    ScoredRows,
    held_out,
    left_out,
    train_added,
)
from .statistics import Statistics, add_batch, no_rows, statistics_of


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior over a head's last-layer weights, given data; made by `scroll.refit`.

    It is a value: `update`, `absorb`, `add`, `keep` and `to` return a new one and leave this one
    as it is. The head is shared, not copied: refit after training it further.

    A head with a bias has a constant feature here; if its bias is untrained, the mean of the
    targets replaces it. Sums of squares resolve a noise down to about 1e-7 of the targets'
    distance from zero or from the bias.

    Attributes:
        head: the trained head, whose likelihood encodes labels and makes predictives.
        statistics: the sums over the data that the posterior follows from.
        hyper: how alpha and noise follow from them: "evidence", "head", or both as tensors.
        alpha: prior precision, (..., K).
        noise: standard deviation of the observations, (..., K).
        weights: N(mean, A^-1) over the weights, (..., K, H), in float64. If the head has a bias
            or thresholds, the last weight is that of a constant feature.
        shift: number subtracted from the targets, (..., K), if the head's bias is untrained.
        offset: number added to w . psi, (..., K): the shift and the head's bias.
        added: what a hybrid adds, or None.
    """

    head: Head
    statistics: Statistics
    hyper: Hyper
    alpha: Tensor
    noise: Tensor
    weights: Belief[Spectral]
    shift: Tensor
    offset: Tensor
    added: Added | None = None

    def keep(self) -> Posterior:
        """Return the same posterior, whose alpha and noise no further data change."""
        return replace(self, hyper=(self.alpha, self.noise))

    def to(self, device: torch.device | str) -> Posterior:
        """Return the posterior on another device, with a copy of the head there."""
        head = self.head
        if head.log_alpha.device != torch.device(device):
            head = deepcopy(head).to(device)
        names = ("statistics", "hyper", "alpha", "noise", "weights", "shift", "offset", "added")
        moved = {name: cast(getattr(self, name), device) for name in names}
        return Posterior(head, **moved)

    def update(self, psi: Tensor, y: Tensor, weight: Tensor | None = None) -> Posterior:
        """Return the posterior of these data and more, the same as a refit on everything.

        What a hybrid adds stays as it is.

        Args:
            psi: features, (..., N, H).
            y: targets or labels, (..., N) or (..., N, K).
            weight: how many times each row counts, (..., N); None is once.
        """
        return self.absorb(add_batch(no_rows(self.head), self.head, psi, y, weight))

    def absorb(self, statistics: Statistics) -> Posterior:
        """Return the posterior after more data, given only their statistics."""
        return bind(self.head, self.statistics.merged(statistics), self.hyper, self.added)

    @torch.inference_mode(False)
    @torch.enable_grad()  # S+ is trained even where the caller has turned gradients off
    def add(
        self,
        features: Tensor | Batches,
        y: Tensor | None = None,
        *,
        family: str = "diag",
        steps: int = 600,
        lr: float = 0.02,
        validation: Batch | None = None,
    ) -> Posterior:
        """Return a hybrid: a free covariance S+ of best leave-one-out score is added.

        Arguments are those of `scroll.refit`; `family` is its `added`.
        """
        settings = AddedSettings(family, steps, lr)
        power = diagonal(self.statistics.gram).mean(-1)[..., None] / self.statistics.count
        unit = self.noise / power.sqrt()
        held = None
        if validation is not None:
            held = held_out(self.weights, _rows(self, check_batch("validation", validation)))
        training: Iterator[ScoredRows] = (
            left_out(self.weights, self.noise, _rows(self, batch))
            for batch in batches_forever(features, y)
        )
        if isinstance(features, Tensor) or (isinstance(features, list) and len(features) == 1):
            training = repeat(next(training))  # always the same rows
        added = train_added(self.weights.mean, self.noise, unit, training, held, settings)
        return replace(self, added=added)

    @property
    def belief(self) -> Belief[Spectral | Sum]:
        """N(mean, A^-1) over the weights; N(mean, A^-1 + S+) for a hybrid."""
        if self.added is None:
            return self.weights
        return Belief(self.weights.mean, Sum(self.weights.cov, self.added.cov))

    def __call__(self, psi: Tensor) -> Any:  # its class follows from the likelihood
        """Return the predictive distribution of each row of psi (..., N, H).

        Its variance has the noise, the epistemic part and, for a hybrid, what it adds.
        """
        at = self.belief.project(regression_features(self.head, psi))
        noise = self.noise if self.added is None else self.added.noise
        at = Moments(at.mean + self.offset[..., None], at.var)
        dtype = self.head.log_alpha.dtype
        return self.head.likelihood.predict(cast(at, dtype), noise.to(dtype))

    def epistemic(self, psi: Tensor) -> Tensor:
        """Return psi' A^-1 psi, the variance of f that more data would reduce.

        Its shape is (..., N), or (..., N, K) for several outputs.
        """
        return _by_row(self, _spread(self, psi))

    def leverage(self, psi: Tensor) -> Tensor:
        """Return h = psi' A^-1 psi / s^2, which is below 1 on a training row.

        Its shape is (..., N), or (..., N, K) for several outputs.
        """
        return _by_row(self, _spread(self, psi) / self.noise.square()[..., None])

    def ood_score(self, psi: Tensor) -> Tensor:
        """Return the mean leverage over the outputs, (..., N): large far from the data."""
        leverage = _spread(self, psi) / self.noise.square()[..., None]
        return leverage.mean(-2).to(self.head.log_alpha.dtype)

    def sample_weights(self, n: int, generator: Generator | None = None) -> Functions:
        """Return n draws from the posterior as functions of psi, for Thompson sampling."""
        positive_int("n", n)
        draws = self.weights.sample(n, generator)
        sizes = (self.head.in_features, int(has_intercept(self.head)))
        weight, constant = draws.split(sizes, -1)
        bias = (constant.sum(-1) + self.offset).expand(weight.shape[:-1])
        return Functions(*(t.to(self.head.log_alpha.dtype) for t in (weight, bias)))


def _rows(posterior: Posterior, batch: Batch) -> RegressionRows:
    """Return a batch as the posterior's regression sees it."""
    head = posterior.head
    psi, y = regression_rows(head, *batch[:2])
    y = y - posterior.shift[..., None]
    return RegressionRows(psi, y, row_weights(head, batch[0], *batch[2:]))


def _spread(posterior: Posterior, psi: Tensor) -> Tensor:
    """Return psi' A^-1 psi, (..., K, N), in float64."""
    return posterior.weights.cov.quad(regression_features(posterior.head, psi))


def _by_row(posterior: Posterior, x: Tensor) -> Tensor:
    """Return x (..., K, N) as (..., N), or (..., N, K), in the head's precision."""
    x = x.to(posterior.head.log_alpha.dtype)
    return x.squeeze(-2) if posterior.head.likelihood.latents == 1 else x.mT


@torch.inference_mode(False)  # tensors made in inference mode could not be trained upon
def bind(
    head: Head, statistics: Statistics, hyper: Hyper = "evidence", added: Added | None = None
) -> Posterior:
    """Return the posterior that follows from sufficient statistics.

    Args:
        head: the trained head that they belong to.
        statistics: sums over the data.
        hyper: "evidence" fits alpha and noise to them, "head" takes the head's; or both, (..., K).
        added: what a hybrid adds.
    """
    shift = target_shift(head, statistics, hyper)
    shifted = statistics.shifted(shift) if bool(shift.any()) else statistics
    at = eigen(shifted)
    alpha, noise = hyperparameters(head, statistics, shifted, at, hyper)
    weights, offset = weights_given(at, alpha, noise), shift + bias_of(head)
    return Posterior(head, statistics, hyper, alpha, noise, weights, shift, offset, added)


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
    validation: Batch | None = None,
) -> Posterior:
    """Return the posterior of a trained head's weights on its features, in one pass over them.

    Classes are regressed on as one-hot +-1, levels as numbers, counts as log(y + 1/2).

    Args:
        head: a trained head, of any method.
        features: psi (..., N, H) with `y`, or an iterable of pairs (psi, y) or triples
            (psi, y, weight), weight (..., N).
        y: targets, when `features` is a tensor.
        hyper: "evidence" fits alpha and noise to these features; "head" takes the head's.
        hybrid: also fit a free covariance S+ on the leave-one-out score; needs further passes.
        added: family of S+: "diag", "full" or "lowrank".
        steps: Adam steps for S+, each on one batch.
        lr: their step size, in units of the noise.
        validation: held-out (psi, y) or (psi, y, weight); the S+ of best score on it is kept.
    """
    settings = AddedSettings(added, steps, lr)
    check_refit(head, hyper)
    used, remedy = validation is None or hybrid, "They choose the S+ of a hybrid: hybrid=True."
    require(used, "validation", "be None unless `hybrid` is True", "rows", remedy)
    default, remedy = settings == AddedSettings(), "They shape the S+ of a hybrid."
    require(hybrid or default, "hybrid", "be True with `added`, `steps` or `lr`", False, remedy)
    statistics = statistics_of(head, batches(features, y))
    remedy = "An iterator that was read before is empty: pass a loader or a list."
    some = bool((statistics.count > 0).all())
    require(some, "features", "give at least one batch", "none", remedy)
    found = bind(head, statistics, hyper)
    return found.add(features, y, validation=validation, **vars(settings)) if hybrid else found


def check_refit(head: object, hyper: str = "evidence") -> None:
    """Raise an error unless `head` can be refitted with hyperparameters from `hyper`."""
    one_of("hyper", hyper, ("evidence", "head"))
    if not isinstance(head, Head):
        remedy = "Train a RegressionHead or another head on the features first."
        raise invalid("head", "be a scroll head", type(head).__name__, remedy, TypeError)
    require(
        hyper == "evidence" or isinstance(head.likelihood.factor(), Gaussian),
        "hyper",
        "be 'evidence' for a likelihood that has no Gaussian noise",
        repr(hyper),
    )
