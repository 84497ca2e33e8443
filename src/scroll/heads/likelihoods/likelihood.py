"""What a head needs of an observation model.

A likelihood turns targets (..., N) or (..., N, K) into what its factor sees, (..., K, N) with one
row per latent, and the moments of the latents (..., K, N) into a predictive of the user's shape.
"""

from typing import Protocol

import torch
from torch import Size, Tensor, nn

from ..._core.checks import positive, require
from ...factors import Factor
from ...factors.factor import Moments
from ...predictive.protocol import Predictive

Replicates = tuple[int, ...]


class Likelihood(Protocol):
    """The observation model of a head: its parameters, targets and predictive distribution."""

    latents: int  # K, the number of weight vectors

    def factor(self) -> Factor:
        """Return p(y | f) at the present parameters, one row per latent."""

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Return the targets, checked against features of shape (*rows, H), as (..., K, N)."""

    def regress(self, y: Tensor, rows: Size) -> Tensor:
        """Return the targets as real numbers (..., K, N), for the least squares of a refit."""

    def predict(self, at: Moments, noise: Tensor | None = None) -> Predictive:
        """Return the predictive distribution of moments (..., K, N).

        Args:
            at: means and variances of the latents.
            noise: standard deviation of a refit's least squares, (..., K), instead of the
                likelihood's own.
        """


def log_parameter(name: str, start: float, shape: tuple[int, ...]) -> nn.Parameter:
    """Return log(start), repeated to a shape, as a parameter; `name` is for the error message."""
    return nn.Parameter(positive(name, float(start)).log().repeat(shape))


def logit_parameter(name: str, start: float, shape: tuple[int, ...]) -> nn.Parameter:
    """Return the logit of a probability, repeated to a shape, as a parameter."""
    require(0 < start < 1, name, "lie strictly between 0 and 1", start)
    return nn.Parameter(torch.tensor(float(start)).logit().repeat(shape))


def refuse_noise(noise: Tensor | None) -> None:
    """Refuse a refit's noise, for likelihoods whose predictive is not that of least squares."""
    require(
        noise is None,
        "head",
        "regress on a real target or on classes to predict from its refit",
        "another likelihood",
        "Predict with head(psi); take leverage, ood_score or sample_weights from the refit.",
        TypeError,
    )
