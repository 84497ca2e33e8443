"""The predictive of a user's own factor."""

from typing import ClassVar, NoReturn

from torch import Generator, Tensor

from .._core.checks import invalid
from .._core.value import value
from ..factors.factor import Factor, Moments
from .arguments import randn, rows
from .summaries import summary


@value
class Implied:
    """p(y) = E p(y | f), f ~ N(latent_mean, latent_var), of a user's own factor p(y | f).

    Attributes:
        factor: p(y | f).
        latent_mean: mean of f, (..., N).
        latent_var: variance of f.
    """

    discrete: ClassVar[bool] = False

    factor: Factor
    latent_mean: Tensor
    latent_var: Tensor

    def log_prob(self, y: Tensor) -> Tensor:
        """Return log p(y) of each row."""
        y = rows(y, self.latent_mean)
        return self.factor.log_marginal(y, Moments(self.latent_mean, self.latent_var))

    def sample_latent(self, n: int, generator: Generator | None = None) -> Tensor:
        """Return n draws of f per row, (n, ...)."""
        noise = randn(self.latent_mean, n, generator)
        return self.latent_mean + self.latent_var.sqrt() * noise

    def mixture(self) -> NoReturn:
        """Refuse: a mixture needs more than a density."""
        want = "be one that an ensemble can mix"
        raise invalid("likelihood", want, "Implied", error=TypeError)

    def __repr__(self) -> str:
        factor, std = f"factor {type(self.factor).__name__}", self.latent_var.sqrt()
        shape = self.latent_mean.shape
        return summary("Implied", shape, factor, latent_mean=self.latent_mean, latent_stddev=std)
