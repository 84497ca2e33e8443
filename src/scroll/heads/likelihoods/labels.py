"""Likelihoods of labels: classes, two classes on one latent, ordered levels."""

import torch
from torch import Size, Tensor, nn
from torch.nn.functional import softplus
from torch.special import log_ndtr, ndtri

from ..._core.checks import axes, labels, one_of, positive, require
from ...factors import BernoulliLogit, Gaussian, Ordinal, Probit
from ...factors.factor import Moments
from ...predictive import Categorical, Ordered
from .likelihood import Replicates, log_parameter, refuse_noise


class GaussReg(nn.Module):
    """Least squares on one-hot +-1 targets; a probit only at prediction (App. multiclass).

    Args:
        classes: number of classes K.
        noise: standard deviation at the start; it is learned.
        replicates: leading axes of independent copies.
    """

    def __init__(self, classes: int, noise: float = 1.0, replicates: Replicates = ()):
        super().__init__()
        self.latents = _several("classes", classes)
        self.log_noise = log_parameter("noise", noise, (*axes(replicates), classes))

    def factor(self) -> Gaussian:
        """Return N(f, noise^2) at the present noise."""
        return Gaussian(self.log_noise.exp())

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Return labels (..., N) as one-hot +-1 targets (..., K, N)."""
        return _one_hot(labels(y, rows, self.latents), self.latents, self.log_noise)

    regress = encode

    def predict(self, at: Moments, noise: Tensor | None = None) -> Categorical:
        """Return P(f_k + noise > 0), normalised over the classes k."""
        return _normalised(at, self.log_noise.exp() if noise is None else noise)


class OneVersusAll(nn.Module):
    """K probits on one-hot +-1 targets; at prediction their probabilities are normalised.

    Args:
        classes: number of classes K.
        scale: c of the probit, fixed.
    """

    scale: Tensor

    def __init__(self, classes: int, scale: float = 1.0):
        super().__init__()
        self.latents = _several("classes", classes)
        self.register_buffer("scale", positive("scale", float(scale)))

    def factor(self) -> Probit:
        """Return Phi(y f / c)."""
        return Probit(self.scale)

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Return labels (..., N) as one-hot +-1 targets (..., K, N)."""
        return _one_hot(labels(y, rows, self.latents), self.latents, self.scale)

    regress = encode

    def predict(self, at: Moments, noise: Tensor | None = None) -> Categorical:
        """Return the probit probabilities, normalised over the classes."""
        return _normalised(at, self.scale if noise is None else noise)


class Binary(nn.Module):
    """Two classes on one latent, through the probit or the logit.

    Args:
        link: "probit" or "logit".
        scale: c of the probit, fixed.
    """

    latents = 1
    scale: Tensor

    def __init__(self, link: str = "probit", scale: float = 1.0):
        super().__init__()
        one_of("link", link, ("probit", "logit"))
        self.link = link
        self.register_buffer("scale", positive("scale", float(scale)))

    def factor(self) -> Probit | BernoulliLogit:
        """Return Phi(y f / c), or the logistic function of y f."""
        return Probit(self.scale) if self.link == "probit" else BernoulliLogit()

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Return labels 0 and 1, (..., N), as -1 and +1, (..., 1, N)."""
        return (2 * labels(y, rows, 2).unsqueeze(-2) - 1).to(self.scale.dtype)

    regress = encode

    def predict(self, at: Moments, noise: Tensor | None = None) -> Categorical:
        """Return P(y = -1) and P(y = +1) of each row."""
        factor = self.factor() if noise is None else Probit(noise)
        plus = torch.ones_like(at.mean)
        each = [factor.log_marginal(sign * plus, at)[..., 0, :] for sign in (-1, 1)]
        return Categorical(torch.stack(each, -1))


class OrdinalLikelihood(nn.Module):
    """Ordered levels 0..K-1: increasing thresholds on one latent, learned.

    Args:
        levels: number of levels K.
        scale: c of the probit, fixed.
        thresholds: K-1 increasing numbers at the start; by default quantiles of N(0, 1).
        replicates: leading axes of independent copies.
    """

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
            require(
                start.shape == (levels - 1,),
                "thresholds",
                f"have one entry less than the {levels} levels",
                f"shape {tuple(start.shape)}",
            )
        gaps = start.diff()
        require(
            bool((gaps > 0).all()), "thresholds", "increase strictly", start.tolist(), "Sort them."
        )
        gaps = gaps + torch.log(-torch.expm1(-gaps))  # inverse of softplus
        like = torch.empty(0)
        self.first = nn.Parameter(start[:1].to(like).expand(*axes(replicates), 1).clone())
        self.gaps = nn.Parameter(gaps.to(like).expand(*axes(replicates), levels - 2).clone())
        self.register_buffer("scale", positive("scale", float(scale)))

    def factor(self) -> Ordinal:
        """Return the ordinal probit at the present thresholds."""
        steps = torch.cat([self.first, softplus(self.gaps)], -1).cumsum(-1)
        return Ordinal(steps.unsqueeze(-2), self.scale)

    def encode(self, y: Tensor, rows: Size) -> Tensor:
        """Return levels (..., N) as (..., 1, N)."""
        return labels(y, rows, self.levels, "levels").unsqueeze(-2)

    def regress(self, y: Tensor, rows: Size) -> Tensor:
        """Return the levels as real numbers around zero, (..., 1, N)."""
        return self.encode(y, rows).to(self.scale.dtype) - (self.levels - 1) / 2

    def predict(self, at: Moments, noise: Tensor | None = None) -> Ordered:
        """Return the probability of each level, per row."""
        refuse_noise(noise)
        return Ordered(self.factor().log_probs(at)[..., 0, :, :])


def _several(name: str, count: int) -> int:
    require(isinstance(count, int) and count >= 2, name, "be an integer of at least 2", repr(count))
    return count


def _one_hot(y: Tensor, count: int, like: Tensor) -> Tensor:
    """Return +1 where the class is the label and -1 elsewhere, (..., K, N)."""
    hot = torch.arange(count, device=y.device)[:, None] == y.unsqueeze(-2)
    return torch.where(hot, 1.0, -1.0).to(like.dtype)


def _normalised(at: Moments, scale: Tensor) -> Categorical:
    """Return Phi(t_k) / sum_j Phi(t_j), t = mean / sqrt(scale^2 + var), in logarithms."""
    t = at.mean * (scale.square()[..., None] + at.var).rsqrt()
    return Categorical(log_ndtr(t).mT.log_softmax(-1))
