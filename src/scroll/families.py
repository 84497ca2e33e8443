"""Covariance families: the free parameters of S, and S as a value of them."""

from math import log

import torch
from torch import Tensor, nn

from .covariances import Diag, Full, LowRank, Point, Spread


class FullFamily(nn.Module):
    """S = L L' + floor I, L lower triangular."""

    def __init__(self, shape: tuple[int, ...], std: float, floor: float, rank: int):
        super().__init__()
        self.floor = floor
        self.lower = nn.Parameter(std * torch.eye(shape[-1]).repeat(*shape[:-1], 1, 1))

    def forward(self) -> Spread:
        return _lifted(Full(self.lower.tril()), self.floor, self.lower)


class DiagFamily(nn.Module):
    """S = diag(var) + floor I. In logarithms a step is a share of what there is: near a point
    mass, steps of a fixed size would be larger than S itself."""

    def __init__(self, shape: tuple[int, ...], std: float, floor: float, rank: int):
        super().__init__()
        self.floor = floor
        self.log_var = nn.Parameter(torch.full(shape, 2 * log(std)))

    def forward(self) -> Spread:
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
        cov = LowRank(self.log_var.exp(), self.factor, self.load)
        return _lifted(cov, self.floor, self.log_var)


class PointFamily(nn.Module):
    """S = 0."""

    def __init__(self, shape: tuple[int, ...], std: float, floor: float, rank: int):
        super().__init__()

    def forward(self) -> Point:
        return Point()


FAMILIES = {
    "full": FullFamily,
    "diag": DiagFamily,
    "lowrank": LowRankFamily,
    "none": PointFamily,
}


def _lifted(cov: Spread, floor: float, like: Tensor) -> Spread:
    return cov.plus(like.new_full((), floor)) if floor else cov
