"""A body and its posterior as a BoTorch model; only this file imports BoTorch (extra `botorch`).

    from scroll.integrations.botorch import Surrogate
    surrogate = Surrogate(body, scroll.refit(head, body(x), y))

Acquisition functions differentiate through the body, which `scroll.Posterior` does not.
"""

from __future__ import annotations

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import FantasizeMixin, Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.posteriors.posterior import Posterior as BotorchPosterior
from gpytorch.distributions import (
    MultitaskMultivariateNormal,
    MultivariateNormal,
)
from linear_operator.operators import (
    DenseLinearOperator,
    RootLinearOperator,
)
from torch import Generator, Size, Tensor, nn

from .._core.checks import finite, require
from .._core.linalg import eye_like, inverse_root, matvec
from .._core.value import value
from ..heads.likelihoods import GaussianLikelihood
from ..posterior.data import has_intercept
from ..posterior.posterior import Posterior


@value
class Weights:
    """w ~ N(mean, root root'), y = w . psi + offset + noise, in float64.

    Attributes:
        mean: (..., K, P).
        root: (..., K, P, P).
        noise: standard deviation, (K,).
        offset: (K, 1).
    """

    mean: Tensor
    root: Tensor
    noise: Tensor
    offset: Tensor

    @classmethod
    def of(cls, bound: Posterior) -> Weights:
        """Return the weights of a posterior, without what a hybrid adds: more data keep it."""
        mean, cov = bound.weights.mean, bound.weights.cov
        root = cov.basis * cov.var.sqrt()[..., None, :]
        return cls(mean, root, bound.noise, bound.offset[..., None])

    def given(self, psi: Tensor, y: Tensor, var: Tensor) -> Weights:
        """Return the weights after rows psi (..., 1, N, P), y (..., K, N) of noise variance var.

        S' = R (I + B'B)^-1 R', B = psi R / s. There is no difference of covariances that
        rounding could make negative. Gradients pass; those of eigenvectors, as in a refit, do
        not exist where eigenvalues are equal.
        """
        seen = psi @ self.root / var.sqrt()[..., None]
        root = self.root @ inverse_root(seen.mT @ seen + eye_like(self.root))
        surprise = (y - self.offset - matvec(psi, self.mean)) / var
        mean = self.mean + matvec(root, matvec(root.mT, matvec(psi.mT, surprise)))
        return Weights(mean, root, self.noise, self.offset)

    def only(self, outputs: list[int]) -> Weights:
        """Return the weights of some outputs."""
        mean, root = self.mean[..., outputs, :], self.root[..., outputs, :, :]
        return Weights(mean, root, self.noise[outputs], self.offset[outputs])


class Surrogate(Model, FantasizeMixin):
    """f(x) = w . psi(x) + b with a posterior over w: jointly normal over any points.

    Everything is computed in float64 and returned in the precision of X; use float64 for X.
    Targets are those that the head was trained on: standardise them, and `best_f` with them.

    Args:
        body: (N, inputs) -> (N, H), trained; used in eval mode.
        bound: `scroll.refit(head, body(x), y)`, with a `RegressionHead`.
        weights: the weights, if they are not those of `bound`.
    """

    def __init__(self, body: nn.Module, bound: Posterior, weights: Weights | None = None):
        super().__init__()
        remedy = "Refit the head on the features of all rows: scroll.refit(head, body(x), y)."
        kind = isinstance(bound, Posterior)
        require(kind, "bound", "be a scroll.Posterior", type(bound).__name__, remedy, TypeError)
        likelihood = bound.head.likelihood
        require(
            isinstance(likelihood, GaussianLikelihood),
            "bound",
            "come from a RegressionHead",
            f"one with a {type(likelihood).__name__}",
            "Classes, levels and counts have no normal posterior.",
            TypeError,
        )
        require(
            not bound.head.replicates,
            "bound",
            "come from a head without replicates",
            f"replicates {bound.head.replicates}",
            "Refit each replicate on its own.",
        )
        self.body, self.bound = body, bound
        self.likelihood = likelihood  # BoTorch asks for it before it fantasises
        self.weights = Weights.of(bound) if weights is None else weights

    @property
    def num_outputs(self) -> int:
        """Number of outputs K."""
        return int(self.weights.mean.shape[-2])

    @property
    def batch_shape(self) -> Size:
        """Shape of the fantasies it was conditioned on; empty without any."""
        return self.weights.mean.shape[:-2]

    def posterior(  # type: ignore[override]  # FantasizeMixin and Model differ among themselves
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> BotorchPosterior:
        """Return N(Psi mean, Psi A^-1 Psi'), joint over q points; outputs are independent.

        Args:
            X: points, (..., q, inputs).
            output_indices: which outputs to return; all by default.
            observation_noise: True adds the noise; a tensor adds variances (..., q or 1, K).
            posterior_transform: BoTorch's transform of the result.
        """
        self.eval()  # a body with dropout would be another function at every call
        weights = self.weights if output_indices is None else self.weights.only(output_indices)
        psi = self.features(X)
        mean = matvec(psi, weights.mean) + weights.offset
        spread = psi @ weights.root
        noisy = isinstance(observation_noise, Tensor) or observation_noise
        var = self._variance(observation_noise, weights) if noisy else None
        joint = GPyTorchPosterior(_normal(mean.to(X), spread.to(X), var))
        return joint if posterior_transform is None else posterior_transform(posterior=joint, X=X)

    def features(self, X: Tensor) -> Tensor:
        """Return the features of X (..., q, inputs) in float64, (..., 1, q, P), with gradients."""
        head = self.bound.head
        psi = self.body(self.transform_inputs(X).to(head.log_alpha).flatten(0, -2))
        psi = head.features(psi).double().squeeze(-3).unflatten(0, X.shape[:-1])
        one = psi.new_ones(*psi.shape[:-1], int(has_intercept(head)))
        return torch.cat([psi, one], -1).unsqueeze(-3)

    def subset_output(self, idcs: list[int]) -> Surrogate:
        """Return the model of some outputs."""
        return Surrogate(self.body, self.bound, self.weights.only(list(idcs)))

    def condition_on_observations(
        self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: object
    ) -> Surrogate:
        """Return the model after further observations, with alpha and noise unchanged.

        The same as `Posterior.keep` and `Posterior.update`, but for any batch shape.

        Args:
            X: points, (..., N, inputs).
            Y: observations there, (..., N, K).
            noise: variances of Y; those of the posterior by default.
            kwargs: ignored; part of BoTorch's interface.
        """
        want = (X.shape[-2], self.num_outputs)
        remedy = "Use Y.unsqueeze(-1)." if Y.shape[-1:] == want[:1] else ""
        require(tuple(Y.shape[-2:]) == want, "Y", f"end in shape {want}", tuple(Y.shape), remedy)
        finite("Y", Y)
        sound = noise is None or bool((noise > 0).all())
        require(sound, "noise", "be positive", "variances that are not")
        var = self._variance(True if noise is None else noise, self.weights)
        weights = self.weights.given(self.features(X), Y.double().mT, var)
        return Surrogate(self.body, self.bound, weights)

    def thompson(self, generator: Generator | None = None) -> GenericDeterministicModel:
        """Return one function drawn from the posterior, with gradients.

        `optimize_acqf(PosteriorMean(surrogate.thompson()), ...)` finds its maximum.
        """
        weights = self.weights
        eps = torch.randn(weights.mean.shape, dtype=weights.mean.dtype, generator=generator)
        drawn = weights.mean + matvec(weights.root, eps.to(weights.mean.device))

        def f(X: Tensor) -> Tensor:
            self.eval()
            return (matvec(self.features(X), drawn) + weights.offset).mT.to(X)

        return GenericDeterministicModel(f, num_outputs=self.num_outputs)

    def _variance(self, noise: bool | Tensor, weights: Weights) -> Tensor:
        """Return the variance of the noise, (..., K, N or 1)."""
        if isinstance(noise, Tensor):
            return noise.double().mT
        return weights.noise.square()[:, None]


def _normal(mean: Tensor, spread: Tensor, var: Tensor | None) -> MultivariateNormal:
    """Return N(mean, spread spread' + diag(var)), mean (..., K, q), spread (..., K, q, P)."""
    lead = torch.broadcast_shapes(mean.shape[:-1], spread.shape[:-2])
    q, rank = spread.shape[-2:]
    one = lead[-1] == 1
    mean, spread = mean.expand(*lead, q), spread.expand(*lead, q, rank)
    if one and var is None and q > rank:
        # Singular, and so not factorised: draws are made in the space of weights.
        return MultivariateNormal(mean[..., 0, :], RootLinearOperator(spread[..., 0, :, :]))
    cov = spread @ spread.mT
    if var is not None:
        cov = cov + var.to(cov).expand(*lead, q).diag_embed()
    if one:
        return MultivariateNormal(mean[..., 0, :], DenseLinearOperator(cov[..., 0, :, :]))
    each = MultivariateNormal(mean, DenseLinearOperator(cov))
    return MultitaskMultivariateNormal.from_batch_mvn(each, task_dim=-1)
