"""Beliefs of many kinds as one: what prediction needs of a trained head, free or bound."""

from typing import Any

import torch
from torch import Tensor, nn

from ..beliefs.belief import Belief
from ..factors import Gaussian
from ..factors.factor import Moments
from ..heads.head import Head
from ..posterior.posterior import Posterior


class Readout(nn.Module):
    """q(f) = N(mean . psi, |scale' psi|^2) of each member, over the features and a constant.

    Args:
        likelihood: of the head, which turns moments into a predictive.
        members: M.
        latents: K.
        features: H.
    """

    mean: Tensor
    scale: Tensor
    noise: Tensor

    def __init__(self, likelihood: nn.Module, members: int, latents: int, features: int):
        super().__init__()
        self.likelihood = likelihood
        lead, h = (members, latents), features + 1
        # Weights of a posterior can be large and of opposite signs: their sum needs its digits.
        self.register_buffer("mean", torch.zeros(*lead, h, dtype=torch.float64))
        self.register_buffer("scale", torch.zeros(*lead, h, h, dtype=torch.float32))
        self.register_buffer("noise", torch.ones(lead, dtype=torch.float32))

    @torch.no_grad()
    def put(self, head: Head, bound: Posterior | None, routes: list[str]) -> None:
        """Take each member's belief by its route: "free", "closed" or "hybrid"."""
        self._free(head)
        if bound is None:
            return
        for m, route in enumerate(routes):
            if route == "free":
                continue
            hybrid = route == "hybrid" and bound.added is not None
            belief = bound.belief if hybrid else bound.weights
            noise = bound.added.noise if hybrid and bound.added is not None else bound.noise
            h = belief.mean.shape[-1]  # the constant is among the features if the head has a bias
            self.mean[m], self.scale[m], self.noise[m] = 0, 0, noise[m]
            self.mean[m, :, :h] = belief.mean[m]
            self.scale[m, :, :h, :h] = _root(belief)[m]
            self.mean[m, :, -1] += bound.offset[m]

    def _free(self, head: Head) -> None:
        belief, h = head.belief(), head.in_features
        self.mean.zero_()
        self.mean[..., :h] = belief.mean
        if head.bias is not None:
            self.mean[..., h] = head.bias
        self.scale.zero_()
        cov: Any = belief.cov
        if hasattr(cov, "dense"):  # a point has none
            self.scale[..., :h, :h] = _root(belief)
        factor = head.likelihood.factor()
        if isinstance(factor, Gaussian):
            self.noise.copy_(factor.noise)

    @torch.no_grad()
    def widen(self, by: Tensor) -> None:
        """Multiply all deviations, of the belief and of the noise."""
        self.scale *= by
        self.noise *= by

    def message(self, psi: Tensor) -> Moments:
        """q(f) of psi (M, N, H): (M, K, N)."""
        one = torch.cat([psi, torch.ones_like(psi[..., :1])], -1).unsqueeze(-3)
        mean = (one.double() @ self.mean.unsqueeze(-1))[..., 0]
        return Moments(mean.to(psi.dtype), (one @ self.scale).square().sum(-1))

    def predict(self, at: Moments) -> Any:
        """The predictive of each member, of its moments (M, K, N)."""
        model: Any = self.likelihood
        return model.predict(at, self.noise if isinstance(model.factor(), Gaussian) else None)

    def forward(self, psi: Tensor) -> Any:
        """The predictive of each member, of its features (M, N, H)."""
        return self.predict(self.message(psi))


def _root(belief: Belief) -> Tensor:
    """scale with scale scale' = S, by eigenvalues: S may be as flat as rounding makes it."""
    cov: Any = belief.cov
    values, basis = torch.linalg.eigh(cov.dense().double())
    return basis * values.clamp(min=0).sqrt().unsqueeze(-2)
