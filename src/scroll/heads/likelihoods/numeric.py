"""Likelihoods of numbers: real targets, counts, and targets under a factor of the user's own."""

from typing import ClassVar

from torch import Size, Tensor, nn

from ..._core.checks import (
    LARGE_COUNTS,
    LARGEST_COUNT,
    axes,
    counts,
    finite,
    one_of,
    positive,
    require,
    shaped,
)
from ..._core.value import map_tensors
from ...factors import Confined, Factor, Gaussian, NegativeBinomial, Poisson, ZeroInflated
from ...factors.confined import concentration, confined, inflation
from ...factors.factor import Moments
from ...predictive import Count, Implied, Normal
from .likelihood import Replicates, log_parameter, logit_parameter, refuse_noise


class GaussianLikelihood(nn.Module):
    """y ~ N(f, noise^2), a separate noise level per output.

    Args:
        outputs: number of outputs K.
        noise: standard deviation at the start; it is learned.
        replicates: leading axes of independent copies.
    """

    def __init__(self, outputs: int = 1, noise: float = 1.0, replicates: Replicates = ()):
        super().__init__()
        self.latents = outputs
        self.log_noise = log_parameter("noise", noise, (*axes(replicates), outputs))

    def factor(self) -> Gaussian:
        """Return N(f, noise^2) at the present noise."""
        return Gaussian(self.log_noise.exp())

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Return real targets (..., N), or (..., N, K) for K outputs, as (..., K, N)."""
        shaped(y, rows if self.latents == 1 else Size((*rows, self.latents)))
        finite("y", y)
        y = y.to(self.log_noise.dtype)
        return y.unsqueeze(-2) if self.latents == 1 else y.mT

    regress = encode

    def predict(self, at: Moments, noise: Tensor | None = None) -> Normal:
        """Return N(mean, noise^2 + var) of each row, with a separate noise variance."""
        noise = self.log_noise.exp() if noise is None else noise
        noise_var = noise.square()[..., None].expand_as(at.mean)
        var = at.var.expand_as(at.mean)
        if self.latents == 1:
            return Normal(at.mean[..., 0, :], noise_var[..., 0, :], var[..., 0, :])
        return Normal(at.mean.mT, noise_var.mT, var.mT)


class CountLikelihood(nn.Module):
    """y = 0, 1, 2, ..., rate exp f: Poisson, or negative binomial with a learned concentration.

    With zero inflation, y = 0 with a learned probability, and such a count otherwise.

    Args:
        kind: "poisson" or "negbinomial"; with zero inflation "zip" or "zinb".
        concentration: concentration of the negative binomial at the start.
        replicates: leading axes of independent copies.
        largest: largest count in training; the predictive mean stays below 10 times it.
        inflation: probability of an extra zero at the start ("zip", "zinb"); 0.1 by default.
    """

    kinds: ClassVar[tuple[str, ...]] = ("poisson", "negbinomial", "zip", "zinb")
    latents = 1

    def __init__(
        self,
        kind: str = "poisson",
        concentration: float = 1.0,
        replicates: Replicates = (),
        largest: float = LARGEST_COUNT,
        inflation: float | None = None,
    ):
        super().__init__()
        one_of("likelihood", kind, self.kinds)
        positive("largest", largest)
        fits = 1 <= largest <= LARGEST_COUNT
        require(fits, "largest", f"lie between 1 and {LARGEST_COUNT:g}", largest, LARGE_COUNTS)
        inflated, without = kind in ("zip", "zinb"), f"be left out for likelihood {kind!r}"
        require(inflated or inflation is None, "inflation", without, inflation)
        self.largest = float(largest)
        self.log_concentration = self.logit_inflation = None
        shape = (*axes(replicates), 1)
        if kind in ("negbinomial", "zinb"):
            self.log_concentration = log_parameter("concentration", concentration, shape)
        if inflated:
            start = 0.1 if inflation is None else inflation
            self.logit_inflation = logit_parameter("inflation", start, shape)

    def factor(self) -> Confined:
        """Return the factor with its rate confined to the range of the counts."""
        return Confined(self._base(), self.largest)

    def _base(self) -> Poisson | NegativeBinomial | ZeroInflated:
        base: Poisson | NegativeBinomial = Poisson()
        if self.log_concentration is not None:
            base = NegativeBinomial(concentration(self.log_concentration))
        if self.logit_inflation is None:
            return base
        return ZeroInflated(base, inflation(self.logit_inflation))

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Return counts (..., N) as (..., 1, N)."""
        shaped(y, rows)
        counts(y, self.largest)
        return y.unsqueeze(-2)

    def regress(self, y: Tensor, rows: Size) -> Tensor:
        """Return log(y + 1/2), (..., 1, N)."""
        return (self.encode(y, rows) + 0.5).log()

    def predict(self, at: Moments, noise: Tensor | None = None) -> Count:
        """Return the distribution of counts with a log-normal rate."""
        refuse_noise(noise)
        factor, at = map_tensors(lambda t: t[..., 0], self._base()), confined(at, self.largest)
        return Count(factor, at.mean[..., 0, :], at.var[..., 0, :])


class AnyLikelihood(nn.Module):
    """One latent under a factor of the user's own.

    Args:
        factor: a factor, or a module without inputs that returns one made of its parameters.
    """

    latents = 1

    def __init__(self, factor: Factor | nn.Module):
        super().__init__()
        self.given = factor

    def factor(self) -> Factor:
        """Return the user's factor, made anew from its parameters if it is a module."""
        if not isinstance(self.given, nn.Module):
            return self.given
        made: Factor = self.given()
        return made

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Return targets (..., N) as (..., 1, N)."""
        shaped(y, rows)
        finite("y", y)
        return y.unsqueeze(-2)

    def regress(self, y: Tensor, rows: Size) -> Tensor:
        """Refuse: a user's factor gives no targets for least squares."""
        raise TypeError(
            "`head` must have a likelihood for numbers, counts or labels to be refitted, but got "
            "a user's factor. Refit a RegressionHead on the same features instead."
        )

    def predict(self, at: Moments, noise: Tensor | None = None) -> Implied:
        """Return the distribution of y that the factor and the moments of f imply."""
        refuse_noise(noise)
        return Implied(self.factor(), at.mean[..., 0, :], at.var[..., 0, :])
