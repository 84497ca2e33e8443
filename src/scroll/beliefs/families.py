"""Covariance families: modules that hold the parameters of S and return it as a value."""

import warnings
from math import log

import torch
from torch import Tensor, nn

from .covariances import Diag, Full, LowRank, Point, Spread

MATRIX = 2**20  # numbers in the K matrices H x H of a full covariance, up to which "auto" takes it
WEIGHTS = 2**20  # weights K H, up to which "auto" takes a low rank rather than a diagonal
HEAVY = 2**23  # numbers in the matrices of an explicit "full" from which a head warns


class LargeCovariance(UserWarning):
    """A full covariance so large that training is slow: choose another family."""


def by_size(in_features: int, latents: int) -> str:
    """Return the family that `covariance="auto"` stands for, by H features and K latents.

    "full" up to K H^2 = 2^20 (1,048,576) numbers: 64 classes of 128 features, 4 of 512, or one
    output of 1,024 features. On one CPU core a training step on 128 rows then takes at most
    0.3 s. Beyond it "lowrank", up to K H = 2^20 weights (90 ms for 1,000 classes of 512 features),
    and then "diag" (229 ms for 5,000 classes, where "lowrank" takes 520 ms).
    """
    if latents * in_features**2 <= MATRIX:
        return "full"
    return "lowrank" if latents * in_features <= WEIGHTS else "diag"


def warn_if_heavy(covariance: str, in_features: int, latents: int) -> None:
    """Warn about an explicit "full" of more than 2^23 numbers, before memory is taken."""
    numbers = latents * in_features**2
    if covariance == "full" and numbers > HEAVY:
        warnings.warn(
            f"covariance='full' for {in_features} features and {latents} outputs trains "
            f"{numbers / 1e6:,.0f} million numbers ({16 * numbers / 2**30:,.1f} GiB with gradients "
            f"and Adam in float32), and a step on a CPU takes seconds. Use covariance='auto', "
            f"which is {by_size(in_features, latents)!r} here.",
            LargeCovariance,
            stacklevel=4,
        )


class FullFamily(nn.Module):
    """S = L L' + floor I, L lower triangular."""

    def __init__(self, shape: tuple[int, ...], std: float, floor: float, rank: int):
        super().__init__()
        self.floor = floor
        self.lower = nn.Parameter(std * torch.eye(shape[-1]).repeat(*shape[:-1], 1, 1))

    def forward(self) -> Spread:
        """Return S."""
        return _lifted(Full(self.lower.tril()), self.floor, self.lower)


class DiagFamily(nn.Module):
    """S = diag(var) + floor I.

    The parameters are log var: a step is then relative. Near a point mass, steps of a fixed size
    would be larger than S itself.
    """

    def __init__(self, shape: tuple[int, ...], std: float, floor: float, rank: int):
        super().__init__()
        self.floor = floor
        self.log_var = nn.Parameter(torch.full(shape, 2 * log(std)))

    def forward(self) -> Spread:
        """Return S."""
        return _lifted(Diag(self.log_var.exp()), self.floor, self.log_var)


class LowRankFamily(nn.Module):
    """S = diag(var) + factor' diag(load^2) factor + floor I; outputs share the directions."""

    def __init__(self, shape: tuple[int, ...], std: float, floor: float, rank: int):
        super().__init__()
        self.floor = floor
        self.log_var = nn.Parameter(torch.full(shape, 2 * log(std)))
        # Random, because zero directions have no gradient; together they add about 1 % to S.
        directions = torch.randn(*shape[:-2], 1, rank, shape[-1])
        self.factor = nn.Parameter(0.1 * std * rank**-0.5 * directions)
        self.load = nn.Parameter(torch.ones(*shape[:-1], rank))

    def forward(self) -> Spread:
        """Return S."""
        cov = LowRank(self.log_var.exp(), self.factor, self.load)
        return _lifted(cov, self.floor, self.log_var)


class PointFamily(nn.Module):
    """S = 0."""

    def __init__(self, shape: tuple[int, ...], std: float, floor: float, rank: int):
        super().__init__()

    def forward(self) -> Point:
        """Return S."""
        return Point()


FAMILIES = {
    "full": FullFamily,
    "diag": DiagFamily,
    "lowrank": LowRankFamily,
    "none": PointFamily,
}


def _lifted(cov: Spread, floor: float, like: Tensor) -> Spread:
    return cov.plus(like.new_full((), floor)) if floor else cov
