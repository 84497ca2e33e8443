"""The members of a model that share a body: their features, beliefs and posteriors."""

from typing import cast

import torch
from torch import Tensor, nn

from .._core.checks import require
from .._core.linalg import diagonal
from .._core.local_rng import Draws
from ..beliefs.belief import Belief
from ..beliefs.covariances import Spread, from_state, state
from ..factors import CensoredGaussian, Gaussian
from ..factors.factor import Moments
from ..fitting.candidates import Candidate
from ..fitting.stacks import Members
from ..heads.head import Head
from ..heads.likelihoods import CensoredLikelihood, GaussianLikelihood, Likelihood
from ..posterior.data import has_intercept
from ..posterior.hybrid import Added, blank_added
from ..posterior.posterior import Posterior, bind
from ..posterior.statistics import Statistics
from ..predictive import Stack
from .spec import Spec

STATISTICS = ("gram", "cross", "square", "count")


class Readout(nn.Module):
    """q(f) = N(mean . psi, |scale' psi|^2) of each member, over the features and a constant.

    Args:
        likelihood: of the head, which turns moments into a predictive.
        members: number of members M.
        features: number of features H.
    """

    mean: Tensor
    scale: Tensor
    noise: Tensor
    likelihood: Likelihood

    def __init__(self, likelihood: Likelihood, members: int, features: int):
        super().__init__()
        self.likelihood, lead, h = likelihood, (members, likelihood.latents), features + 1
        # float64, because weights of a posterior can be large and of opposite signs
        self.register_buffer("mean", torch.zeros(*lead, h, dtype=torch.float64))
        self.register_buffer("scale", torch.zeros(*lead, h, h, dtype=torch.float32))
        self.register_buffer("noise", torch.ones(lead, dtype=torch.float32))

    @torch.no_grad()
    def put(self, head: Head, bound: Posterior | None, routes: list[str]) -> None:
        """Copy each member's belief by its route.

        Args:
            head: the trained head, whose free belief is used by the route "free".
            bound: the posterior on its features; None if all routes are free.
            routes: "free", "closed" or "hybrid", of each member.
        """
        if "free" in routes or bound is None:
            self._free(head)
        if bound is None:
            return
        for route in sorted({*routes} - {"free"}):
            hybrid = route == "hybrid" and bound.added is not None
            belief = bound.belief if hybrid else bound.weights
            noise = bound.added.noise if hybrid and bound.added is not None else bound.noise
            which = torch.tensor([each == route for each in routes])
            h = belief.mean.shape[-1]  # the constant is among the features if the head has a bias
            self.mean[which], self.scale[which] = 0, 0
            self.noise[which] = noise[which].to(self.noise)
            self.mean[which, :, :h] = belief.mean[which]
            self.scale[which, :, :h, :h] = _root(belief)[which].to(self.scale)
            self.mean[which, :, -1] += bound.offset[which]

    def _free(self, head: Head) -> None:
        belief, h = head.belief(), head.in_features
        self.mean.zero_()
        self.mean[..., :h] = belief.mean
        if head.bias is not None:
            self.mean[..., h] = head.bias
        self.scale.zero_()
        if hasattr(belief.cov, "dense"):  # a point has none
            self.scale[..., :h, :h] = _root(belief)
        factor = head.likelihood.factor()
        if isinstance(factor, Gaussian | CensoredGaussian):
            self.noise.copy_(factor.noise)

    @torch.no_grad()
    def widen(self, by: Tensor) -> None:
        """Multiply all standard deviations, of the belief and of the noise."""
        self.scale *= by
        self.noise *= by

    def message(self, psi: Tensor) -> Moments:
        """Return q(f) of features psi (M, N, H): mean and variance, (M, K, N)."""
        mean = (psi.double() @ self.mean[..., :-1].mT).mT + self.mean[..., -1:]
        return Moments(mean.to(psi.dtype), self._variance(psi))

    def _variance(self, psi: Tensor) -> Tensor:
        """Return |scale' psi|^2, (M, K, N), by H^2 products per row; by H if scale is diagonal."""
        if not torch.compiler.is_compiling() and self._is_diagonal():
            square = diagonal(self.scale).square()
            return (psi.square() @ square[..., :-1].mT).mT + square[..., -1:]
        spread = psi.unsqueeze(-3) @ self.scale[..., :-1, :] + self.scale[..., -1:, :]
        return spread.square().sum(-1)

    def _is_diagonal(self) -> bool:
        return bool(self.scale.count_nonzero() == diagonal(self.scale).count_nonzero())

    def predict(self, at: Moments) -> Stack:
        """Return the predictive of each member, of its moments (M, K, N)."""
        gaussian = isinstance(self.likelihood.factor(), Gaussian)
        return cast(Stack, self.likelihood.predict(at, self.noise if gaussian else None))

    def forward(self, psi: Tensor) -> Stack:
        """Return the predictive of each member, of its features (M, N, H)."""
        return self.predict(self.message(psi))


class MemberGroup(nn.Module):
    """The members that have the same body: a stack, its readout, and its posterior's statistics.

    Args:
        spec: of the model.
        found: the body.
        routes: the route of each member.
    """

    width: Tensor

    def __init__(self, spec: Spec, found: Candidate, routes: list[str]):
        super().__init__()
        members, self.routes = len(routes), routes
        with Draws(0):  # initial values, which `put` or a file's tensors replace
            self.body = found.make((members,)).float()
            self.head = spec.head(found.features, (members,)).float()
        latents = self.head.likelihood.latents
        likelihood = self.head.likelihood
        if isinstance(likelihood, CensoredLikelihood):  # new rows are predicted as exact ones
            likelihood = GaussianLikelihood(replicates=(members,))
        self.readout = Readout(likelihood, members, found.features)
        h = found.features + int(has_intercept(self.head))
        shapes = {
            "gram": (members, h, h),
            "cross": (members, latents, h),
            "square": (members, latents),
            "count": (members, 1),
            "alpha": (members, latents),
            "noise": (members, latents),
            "added_noise": (members, latents),
        }
        self.kinds, blank = state(blank_added(spec.added, (members, latents, h)))
        self.added_names = {name: f"added_{name.replace('.', '_')}" for name in blank}
        shapes |= {self.added_names[name]: tensor.shape for name, tensor in blank.items()}
        for name, shape in shapes.items():
            self.register_buffer(f"kept_{name}", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("width", torch.ones((), dtype=torch.float64))
        self._bound: Posterior | None = None

    @torch.no_grad()
    def put(self, members: Members, width: float) -> None:
        """Copy the tensors of trained members."""
        self.body.load_state_dict(members.network.body.state_dict())
        self.head.load_state_dict(members.network.head.state_dict())
        self.width.fill_(width)
        self.hold(members.bound)

    @torch.no_grad()
    def hold(self, bound: Posterior) -> None:
        """Copy a posterior, and let the members predict with it whose route is not free."""
        kept = {name: getattr(bound.statistics, name) for name in STATISTICS}
        kept |= {"alpha": bound.alpha, "noise": bound.noise}
        if bound.added is not None:
            kinds, tensors = state(bound.added.cov)
            require(kinds == self.kinds, "added", f"be {self.kinds}, as the model declares", kinds)
            kept |= {self.added_names[name]: tensor for name, tensor in tensors.items()}
            kept["added_noise"] = bound.added.noise
        for name in kept:
            self.get_buffer(f"kept_{name}").copy_(kept[name])
        self._bound = None
        self.readout.put(self.head, self.bound, self.routes)
        self.readout.widen(self.width)

    @property
    def bound(self) -> Posterior:
        """The posterior over the last layer, from its sufficient statistics."""
        if self._bound is None:
            self._bound = bind(
                self.head,
                Statistics(*(self._kept(name) for name in STATISTICS)),
                (self._kept("alpha"), self._kept("noise")),
                self._added() if "hybrid" in self.routes else None,
            )
        return self._bound

    def _added(self) -> Added:
        tensors = {name: self._kept(kept) for name, kept in self.added_names.items()}
        return Added(cast(Spread, from_state(self.kinds, tensors)), self._kept("added_noise"))

    def _kept(self, name: str) -> Tensor:
        return self.get_buffer(f"kept_{name}").clone()

    def features(self, x: Tensor) -> Tensor:
        """Return psi of each member, (M, N, H), for encoded rows (N, D)."""
        return cast(Tensor, self.body(x.expand(len(self.routes), *x.shape)))


def _root(belief: Belief) -> Tensor:
    """Return scale with scale scale' = S, diagonal if S is.

    By eigenvalues if S is singular up to rounding.
    """
    dense = cast(Spread, belief.cov).dense().double()
    lower, info = torch.linalg.cholesky_ex(dense)
    if not bool(info.any()):
        return lower
    values, basis = torch.linalg.eigh(dense)
    return basis * values.clamp(min=0).sqrt().unsqueeze(-2)
