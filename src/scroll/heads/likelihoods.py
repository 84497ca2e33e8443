"""An observation model on a head: its parameters, its labels, its predictive.

Each turns labels (..., N) or (..., N, K) into what the factor sees, (..., K, N) with one row a
latent, and the latents' moments (..., K, N) into a predictive of the user's shape.
"""

from typing import Any, Protocol

import torch
from torch import Size, Tensor, nn
from torch.nn.functional import softplus
from torch.special import log_ndtr, ndtri

from .._core.checks import (
    LARGE_COUNTS,
    LARGEST_COUNT,
    axes,
    counts,
    finite,
    labels,
    must,
    one_of,
    positive,
    shaped,
)
from ..factors import (
    BernoulliLogit,
    Confined,
    Factor,
    Gaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Probit,
)
from ..factors.confined import concentration, confined
from ..factors.factor import Moments
from ..predictive import Categorical, Count, Implied, Normal, Ordered

Replicates = tuple[int, ...]


class Likelihood(Protocol):
    """What a head needs to know of its observations."""

    latents: int  # K: how many weight vectors

    def factor(self) -> Factor:
        """p(y | f) at the present parameters, one row a latent."""

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Labels, checked against features of shape (*rows, H), as targets (..., K, N)."""

    def regress(self, y: Tensor, rows: Size) -> Tensor:
        """Labels as real targets (..., K, N) for least squares, which a refit needs."""

    def predict(self, at: Moments, noise: Tensor | None = None) -> Any:
        """The predictive of moments (..., K, N); `noise` (..., K) is that of least squares."""


class GaussianLikelihood(nn.Module):
    """y ~ N(f, noise^2), one noise an output."""

    def __init__(self, outputs: int = 1, noise: float = 1.0, replicates: Replicates = ()):
        super().__init__()
        self.latents = outputs
        self.log_noise = _log_parameter("noise", noise, (*axes(replicates), outputs))

    def factor(self) -> Gaussian:
        return Gaussian(self.log_noise.exp())

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        shaped(y, rows if self.latents == 1 else Size((*rows, self.latents)))
        finite("y", y)
        y = y.to(self.log_noise.dtype)
        return y.unsqueeze(-2) if self.latents == 1 else y.mT

    regress = encode

    def predict(self, at: Moments, noise: Tensor | None = None) -> Normal:
        noise = self.log_noise.exp() if noise is None else noise
        noise_var = noise.square()[..., None].expand_as(at.mean)
        var = at.var.expand_as(at.mean)
        if self.latents == 1:
            return Normal(at.mean[..., 0, :], noise_var[..., 0, :], var[..., 0, :])
        return Normal(at.mean.mT, noise_var.mT, var.mT)


class GaussReg(nn.Module):
    """Least squares on one-hot +-1 targets; a probit only at prediction (App. multiclass)."""

    def __init__(self, classes: int, noise: float = 1.0, replicates: Replicates = ()):
        super().__init__()
        self.latents = _several("classes", classes)
        self.log_noise = _log_parameter("noise", noise, (*axes(replicates), classes))

    def factor(self) -> Gaussian:
        return Gaussian(self.log_noise.exp())

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        return _one_hot(labels(y, rows, self.latents), self.latents, self.log_noise)

    regress = encode

    def predict(self, at: Moments, noise: Tensor | None = None) -> Categorical:
        """P(f_k + noise > 0), normalised over k."""
        return _normalised(at, self.log_noise.exp() if noise is None else noise)


class OneVersusAll(nn.Module):
    """K probit heads on one-hot +-1 targets; at prediction their probabilities are normalised."""

    scale: Tensor

    def __init__(self, classes: int, scale: float = 1.0):
        super().__init__()
        self.latents = _several("classes", classes)
        self.register_buffer("scale", positive("scale", float(scale)))

    def factor(self) -> Probit:
        return Probit(self.scale)

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        return _one_hot(labels(y, rows, self.latents), self.latents, self.scale)

    regress = encode

    def predict(self, at: Moments, noise: Tensor | None = None) -> Categorical:
        return _normalised(at, self.scale if noise is None else noise)


class Binary(nn.Module):
    """Two classes on one latent, through the probit or the logit."""

    latents = 1
    scale: Tensor

    def __init__(self, link: str = "probit", scale: float = 1.0):
        super().__init__()
        one_of("link", link, ("probit", "logit"))
        self.link = link
        self.register_buffer("scale", positive("scale", float(scale)))

    def factor(self) -> Probit | BernoulliLogit:
        return Probit(self.scale) if self.link == "probit" else BernoulliLogit()

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        return (2 * labels(y, rows, 2).unsqueeze(-2) - 1).to(self.scale.dtype)

    regress = encode

    def predict(self, at: Moments, noise: Tensor | None = None) -> Categorical:
        """P(y = -1), P(y = +1) of one latent."""
        factor = self.factor() if noise is None else Probit(noise)
        plus = torch.ones_like(at.mean)
        each = [factor.log_marginal(sign * plus, at)[..., 0, :] for sign in (-1, 1)]
        return Categorical(torch.stack(each, -1))


class OrdinalLikelihood(nn.Module):
    """Ordered levels 0..K-1: increasing thresholds on one latent, learned."""

    latents = 1
    scale: Tensor

    def __init__(
        self,
        levels: int,
        scale: float = 1.0,
        thresholds: Tensor | None = None,
        replicates: Replicates = (),
    ):
        super().__init__()
        self.levels = _several("levels", levels)
        start = ndtri(torch.arange(1, levels, dtype=torch.float64, device="cpu") / levels)
        if thresholds is not None:
            start = torch.as_tensor(thresholds, dtype=torch.float64, device="cpu")
            must(
                start.shape == (levels - 1,),
                "thresholds",
                f"have one entry less than the {levels} levels",
                f"shape {tuple(start.shape)}",
            )
        gaps = start.diff()
        must(
            bool((gaps > 0).all()), "thresholds", "increase strictly", start.tolist(), "Sort them."
        )
        gaps = gaps + torch.log(-torch.expm1(-gaps))  # inverse of softplus
        like = torch.empty(0)
        self.first = nn.Parameter(start[:1].to(like).expand(*axes(replicates), 1).clone())
        self.gaps = nn.Parameter(gaps.to(like).expand(*axes(replicates), levels - 2).clone())
        self.register_buffer("scale", positive("scale", float(scale)))

    def factor(self) -> Ordinal:
        steps = torch.cat([self.first, softplus(self.gaps)], -1).cumsum(-1)
        return Ordinal(steps.unsqueeze(-2), self.scale)

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        return labels(y, rows, self.levels, "levels").unsqueeze(-2)

    def regress(self, y: Tensor, rows: Size) -> Tensor:
        return self.encode(y, rows).to(self.scale.dtype) - (self.levels - 1) / 2

    def predict(self, at: Moments, noise: Tensor | None = None) -> Ordered:
        _own_predictive_only(noise)
        return Ordered(self.factor().log_probs(at)[..., 0, :, :])


class CountLikelihood(nn.Module):
    """y = 0, 1, 2, ..., rate exp f: Poisson, or negative binomial of learned concentration.

    Args:
        kind: "poisson" or "negbinomial".
        concentration: where the negative binomial's concentration starts.
        replicates: leading axes of independent copies.
        largest: largest count in training; the predictive mean stays below 10 times it.
    """

    latents = 1

    def __init__(
        self,
        kind: str = "poisson",
        concentration: float = 1.0,
        replicates: Replicates = (),
        largest: float = LARGEST_COUNT,
    ):
        super().__init__()
        one_of("likelihood", kind, ("poisson", "negbinomial"))
        positive("largest", largest)
        fits = 1 <= largest <= LARGEST_COUNT
        must(fits, "largest", f"lie between 1 and {LARGEST_COUNT:g}", largest, LARGE_COUNTS)
        self.largest = float(largest)
        self.log_concentration = (
            _log_parameter("concentration", concentration, (*axes(replicates), 1))
            if kind == "negbinomial"
            else None
        )

    def factor(self) -> Confined:
        return Confined(self._base(), self.largest)

    def _base(self) -> Poisson | NegativeBinomial:
        if self.log_concentration is None:
            return Poisson()
        return NegativeBinomial(concentration(self.log_concentration))

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        shaped(y, rows)
        counts(y, self.largest)
        return y.unsqueeze(-2)

    def regress(self, y: Tensor, rows: Size) -> Tensor:
        return (self.encode(y, rows) + 0.5).log()

    def predict(self, at: Moments, noise: Tensor | None = None) -> Count:
        _own_predictive_only(noise)
        factor, at = self._base(), confined(at, self.largest)
        if isinstance(factor, NegativeBinomial):
            factor = NegativeBinomial(factor.concentration[..., 0])
        return Count(factor, at.mean[..., 0, :], at.var[..., 0, :])


class AnyLikelihood(nn.Module):
    """One latent under a factor of the user's own.

    Args:
        factor: a factor, or a module without inputs that makes one of its parameters.
    """

    latents = 1

    def __init__(self, factor: Factor | nn.Module):
        super().__init__()
        self.given = factor

    def factor(self) -> Factor:
        given: Any = self.given
        return given() if isinstance(given, nn.Module) else given

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        shaped(y, rows)
        finite("y", y)
        return y.unsqueeze(-2)

    def regress(self, y: Tensor, rows: Size) -> Tensor:
        raise TypeError(
            "`head` must have a likelihood of its own kind of target for a refit, but got a "
            "user's factor. Refit a RegressionHead on the same features instead."
        )

    def predict(self, at: Moments, noise: Tensor | None = None) -> Implied:
        _own_predictive_only(noise)
        return Implied(self.factor(), at.mean[..., 0, :], at.var[..., 0, :])


def _log_parameter(name: str, start: float, shape: tuple[int, ...]) -> nn.Parameter:
    return nn.Parameter(positive(name, float(start)).log().repeat(shape))


def _several(name: str, count: int) -> int:
    must(isinstance(count, int) and count >= 2, name, "be an integer of at least 2", repr(count))
    return count


def _one_hot(y: Tensor, count: int, like: Tensor) -> Tensor:
    """+1 where the class is the label, -1 elsewhere, (..., K, N)."""
    hot = torch.arange(count, device=y.device)[:, None] == y.unsqueeze(-2)
    return torch.where(hot, 1.0, -1.0).to(like.dtype)


def _normalised(at: Moments, scale: Tensor) -> Categorical:
    """Phi(t_k) / sum_j Phi(t_j), t = mean / sqrt(scale^2 + var), in logarithms."""
    t = at.mean * (scale.square()[..., None] + at.var).rsqrt()
    return Categorical(log_ndtr(t).mT.log_softmax(-1))


def _own_predictive_only(noise: Tensor | None) -> None:
    must(
        noise is None,
        "head",
        "regress on a real target or on classes to predict from its refit",
        "another likelihood",
        "Predict with head(psi); take leverage, ood_score or sample_weights from the refit.",
        TypeError,
    )
