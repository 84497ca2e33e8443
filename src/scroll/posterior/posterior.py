"""The conjugate refit on trained features (Eq. R1), in one streaming pass.

A freed belief predicts well but no longer says what it has not seen. Binding it to the
posterior again, at test time, gives that back: leverage, an out-of-distribution score, the
epistemic part of the variance, functions to sample. Only sums over the data are kept, in
float64, so more data can be added at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor
from torch.special import ndtri

from .._core.checks import must, one_of, positive, tensor, whole
from .._core.linalg import diagonal
from .._core.value import cast
from ..beliefs.belief import Belief
from ..beliefs.covariances import Spectral, Sum
from ..factors import Gaussian
from ..factors.factor import Moments
from ..heads.head import Head
from ..heads.likelihoods import GaussReg
from .data import (
    Batches,
    batches,
    features_of,
    forever,
    intercept,
    offset,
    rows_in,
    rows_of,
    weights_of,
)
from .evidence import maximise_evidence
from .hybrid import Added, Seen, fit_added, outside, without
from .statistics import Statistics, empty, plus, sums


class Functions(NamedTuple):
    """n draws of the latent function, f(psi) = weight . psi + bias."""

    weight: Tensor  # (n, ..., K, H)
    bias: Tensor  # (n, ..., K)

    def __call__(self, psi: Tensor) -> Tensor:
        """f of psi (..., N, H): (n, ..., N), or (n, ..., N, K) for several outputs."""
        h = self.weight.shape[-1]
        tensor("psi", psi)
        fits = psi.dim() > 1 and psi.shape[-1] == h
        must(fits, "psi", f"have shape (..., N, {h})", tuple(psi.shape), "Pass body(x), not x.")
        with torch.autocast(psi.device.type, enabled=False):
            f = self.weight @ psi.to(self.weight.dtype).mT + self.bias[..., None]
        return f.squeeze(-2) if f.shape[-2] == 1 else f.mT


class Refit:
    """A head's belief bound to the posterior again; made by `scroll.refit`.

    Attributes:
        alpha: prior precision, (..., K).
        noise: standard deviation of the observations in the posterior, (..., K).
        posterior: N(mean, A^-1) over the weights, (..., K, H), in float64; over one more, of a
            constant feature, where the head has a bias or thresholds.
        added: what a hybrid adds, or None.
        shift: what the targets were lessened by, (..., K), where the head's bias is untrained.
        statistics: the sums over the data that it came from.
    """

    def __init__(
        self, head: Head, statistics: Statistics, hyper: str | tuple[Tensor, Tensor] = "evidence"
    ):
        self.head, self.hyper = head, hyper
        self.added: Added | None = None
        self._bind(statistics)

    @torch.inference_mode(False)  # what is made there could not be trained upon
    def _bind(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self.shift = self._about(statistics)
        statistics = statistics.less(self.shift) if bool(self.shift.any()) else statistics
        values, basis = torch.linalg.eigh(statistics.gram)
        values, basis = values.unsqueeze(-2), basis.unsqueeze(-3)
        along = (statistics.cross.unsqueeze(-2) @ basis).squeeze(-2)
        must(bool((values[..., -1] > 0).all()), "psi", "not be zero in every row", "only zeros")
        # An eigenvalue within rounding of zero is a direction that the data never took.
        rounding = torch.finfo(values.dtype).eps * values.shape[-1] * values[..., -1:]
        unseen = values <= rounding
        values, along = values.masked_fill(unseen, 0), along.masked_fill(unseen, 0)
        if isinstance(self.hyper, tuple):
            self.alpha, self.noise = self.hyper
        elif self.hyper == "evidence":
            sums = (statistics.square, statistics.count)
            flat = self._flat()
            self.alpha, self.noise = maximise_evidence(values, along, *sums)
            if bool(flat.any()):
                self._fill(flat, statistics.count)
        else:
            factor: Any = self.head.likelihood.factor()
            self.alpha = self.head.log_alpha.detach().double().exp()
            self.noise = factor.noise.detach().double()
        s2 = self.noise.square()[..., None]
        var = 1 / (values / s2 + self.alpha[..., None])
        mean = ((along * var / s2).unsqueeze(-2) @ basis.mT).squeeze(-2)
        self.posterior = Belief(mean, Spectral(basis, var))

    def _about(self, statistics: Statistics) -> Tensor:
        """The mean of the targets where a bias is as it was made, zero; else zero.

        The prior of a constant is that of all weights, about the bias: a trained one is where
        the targets are, and an untrained one need not be.
        """
        zero = torch.zeros_like(statistics.square)
        if self.head.bias is None or self.hyper == "head" or isinstance(offset(self.head), float):
            return zero
        mean = statistics.cross[..., -1] / statistics.count
        return torch.where(self.head.bias.detach() == 0, mean, zero)

    def _flat(self) -> Tensor:
        """Outputs whose targets are all alike, (..., K), such as classes that no row has."""
        of = self.statistics
        spread = of.square
        if intercept(self.head):
            spread = spread - of.cross[..., -1].square() / of.count
        flat = spread <= 1e-14 * of.square
        model = self.head.likelihood
        measured = isinstance(model.factor(), Gaussian) and not isinstance(model, GaussReg)
        must(
            not (measured and bool(flat.any())),
            "y",
            "differ from row to row",
            "targets without any spread",
            "A constant is known exactly; of large numbers that differ little, take the mean off.",
        )
        return flat

    def _fill(self, flat: Tensor, count: Tensor) -> None:
        """Hyperparameters of outputs without a spread: no row says that they have no noise.

        One at which a class that no row has, of target -1, is left the probability of the rule of
        succession; and the precision that the others have in the geometric mean.
        """
        self.noise = torch.where(flat, -1 / ndtri(1 / (count + 2)), self.noise)
        others = self.alpha.log().masked_fill(flat, 0).sum(-1, keepdim=True)
        others = (others / (~flat).sum(-1, keepdim=True).clamp(min=1)).exp()
        self.alpha = torch.where(flat, others, self.alpha)

    def _rows(self, psi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        features, targets = rows_of(self.head, psi, y)
        return features, targets - self.shift[..., None]

    def keep(self) -> Refit:
        """Let alpha and noise stay as they are, whatever data come."""
        self.hyper = (self.alpha, self.noise)
        return self

    def to(self, device: torch.device | str) -> Refit:
        """On another device, where its head must be too."""
        self.added, self.hyper = cast(self.added, device), cast(self.hyper, device)
        self._bind(cast(self.statistics, device))
        return self

    def update(self, psi: Tensor, y: Tensor, weight: Tensor | None = None) -> Refit:
        """Add data; the same as refitting on everything. What a hybrid adds stays as it is."""
        return self.absorb(plus(empty(self.head), self.head, psi, y, weight))

    def absorb(self, statistics: Statistics) -> Refit:
        """`update` with data of which only the sums are at hand."""
        self._bind(self.statistics.merged(statistics))
        return self

    @torch.inference_mode(False)
    @torch.enable_grad()  # S+ is trained, wherever this is called
    def add(
        self,
        features: Tensor | Batches,
        y: Tensor | None = None,
        *,
        family: str = "diag",
        steps: int = 600,
        lr: float = 0.02,
        validation: tuple[Tensor, ...] | None = None,
    ) -> Refit:
        """Make it a hybrid: a free covariance S+ of best leave-one-out score, see `refit`."""
        one_of("added", family, ("diag", "full", "lowrank"))
        must(whole(steps) is not None, "steps", "be a positive integer", repr(steps))
        positive("lr", lr)
        head, posterior = self.head, self.posterior
        statistics = self.statistics
        power = diagonal(statistics.gram).mean(-1) / statistics.count
        unit = self.noise / power.sqrt()[..., None]
        held = None
        if validation is not None:
            those = rows_in("validation", validation)
            weight = weights_of(head, those[0], *those[2:])
            held = outside(posterior, self._rows(*those[:2]), weight)
        some: Iterator[Seen] = (
            without(posterior, self.noise, self._rows(*b[:2]), weights_of(head, b[0], *b[2:]))
            for b in forever(features, y)
        )
        if isinstance(features, Tensor) or (isinstance(features, list) and len(features) == 1):
            some = repeat(next(some))  # always the same rows
        self.added = fit_added(
            posterior, self.noise, unit, some, held, family=family, steps=steps, lr=lr
        )
        return self

    @property
    def offset(self) -> Tensor:
        """What is added to w . psi of the posterior's weights, (..., K)."""
        given = torch.as_tensor(offset(self.head)).to(self.shift)
        return self.shift + (given.squeeze(-1) if given.dim() else given)

    @property
    def belief(self) -> Belief:
        """N(mean, A^-1), or N(mean, A^-1 + S+) for a hybrid."""
        if self.added is None:
            return self.posterior
        return Belief(self.posterior.mean, Sum(self.posterior.cov, self.added.cov))

    def __call__(self, psi: Tensor) -> Any:
        """The predictive: noise, epistemic part and, for a hybrid, what it adds."""
        at = self.belief.project(features_of(self.head, psi))
        noise = self.noise if self.added is None else self.added.noise
        at = Moments(at.mean + self.offset[..., None], at.var)
        dtype = self.head.log_alpha.dtype
        return self.head.likelihood.predict(cast(at, dtype), noise.to(dtype))

    def epistemic(self, psi: Tensor) -> Tensor:
        """psi' A^-1 psi: what the data leave open of f, (..., N), or (..., N, K)."""
        return self._user(self._open(psi))

    def leverage(self, psi: Tensor) -> Tensor:
        """h = psi' A^-1 psi / s^2, below 1 on a training row."""
        return self._user(self._open(psi) / self.noise.square()[..., None])

    def ood_score(self, psi: Tensor) -> Tensor:
        """Mean leverage over the outputs, (..., N): large where the data said little."""
        leverage = self._open(psi) / self.noise.square()[..., None]
        return leverage.mean(-2).to(self.head.log_alpha.dtype)

    def sample_weights(self, n: int, generator: Generator | None = None) -> Functions:
        """n draws from the posterior, as functions of psi: for Thompson sampling."""
        must(whole(n) is not None, "n", "be a positive integer", repr(n))
        draws = self.posterior.sample(n, generator)
        weight, constant = draws.split((self.head.in_features, int(intercept(self.head))), -1)
        bias = (constant.sum(-1) + self.offset).expand(weight.shape[:-1])
        return Functions(*(t.to(self.head.log_alpha.dtype) for t in (weight, bias)))

    def _open(self, psi: Tensor) -> Tensor:
        return self.posterior.cov.quad(features_of(self.head, psi))

    def _user(self, x: Tensor) -> Tensor:
        x = x.to(self.head.log_alpha.dtype)
        return x.squeeze(-2) if self.head.likelihood.latents == 1 else x.mT


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
    validation: tuple[Tensor, ...] | None = None,
) -> Refit:
    """Bind a trained head's belief to the posterior of its features, in one pass over them.

    Classes are regressed on as one-hot +-1, levels as numbers, counts as log(y + 1/2). A head
    with a bias has a constant feature here; where its bias is untrained, the mean of the targets
    stands in for it. Sums of squares resolve a noise down to about 1e-7 of the targets' distance
    from zero or from the bias.

    Args:
        head: a trained head, of any method.
        features: psi (..., N, H) with `y`, or an iterable of such pairs (psi, y), perhaps with
            the weights (..., N) of the rows as a third.
        y: targets, when `features` is a tensor.
        hyper: "evidence" fits alpha and noise to these features; "head" takes the head's.
        hybrid: also fit a free covariance S+ on the leave-one-out score; needs further passes.
        added: family of S+: "diag", "full" or "lowrank".
        steps: Adam steps for S+, each on one batch.
        lr: their step size, in units of the noise.
        validation: (psi, y), or (psi, y, weight), held out; keeps the S+ of best score on it.
    """
    one_of("added", added, ("diag", "full", "lowrank"))
    checked(head, hyper)
    must(
        validation is None or hybrid,
        "validation",
        "be None unless `hybrid` is True",
        "rows",
        "They choose the S+ of a hybrid: pass hybrid=True.",
    )
    statistics = sums(head, batches(features, y))
    if not bool(statistics.count > 0):
        raise ValueError(
            "`features` must give at least one batch, but got none. An iterator that was read "
            "before is empty: pass a loader or a list."
        )
    bound = Refit(head, statistics, hyper)
    if hybrid:
        bound.add(features, y, family=added, steps=steps, lr=lr, validation=validation)
    return bound


def checked(head: Head, hyper: str = "evidence") -> None:
    """`head` is one that can be bound again, with such hyperparameters."""
    one_of("hyper", hyper, ("evidence", "head"))
    must(
        isinstance(head, Head),
        "head",
        "be a scroll head",
        type(head).__name__,
        "Train a RegressionHead or another head on the features first.",
        TypeError,
    )
    must(
        hyper == "evidence" or isinstance(head.likelihood.factor(), Gaussian),
        "hyper",
        "be 'evidence' for a likelihood that has no Gaussian noise",
        repr(hyper),
    )
