"""Monotone maps z = g(y) between a target with bounds and the line."""

from dataclasses import dataclass
from math import isfinite, log
from typing import ClassVar

import torch
from torch import Tensor

from ..._core.checks import one_of, require


@dataclass(frozen=True)
class TargetMap:
    """z = g(y): log y, log(1 + y), or log((y - low) / (high - y)).

    Attributes:
        name: "log" (y > 0), "log1p" (y > -1) or "logit" (low < y < high).
        low: lower end of the interval, of "logit" only.
        high: upper end of the interval, of "logit" only.
    """

    NAMES: ClassVar[tuple[str, ...]] = ("log", "log1p", "logit")

    name: str
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        one_of("name", self.name, self.NAMES)
        ordered = isfinite(self.low) and isfinite(self.high) and self.low < self.high
        require(ordered, "low", "be below `high`, both finite", f"{self.low} and {self.high}")

    @property
    def heavy(self) -> bool:
        """True for logarithms: the mean of y grows as the exponential of the variance of z."""
        return self.name != "logit"

    @property
    def support(self) -> tuple[float, float]:
        """The open interval in which y lies."""
        if self.name == "logit":
            return self.low, self.high
        return (0.0 if self.name == "log" else -1.0), float("inf")

    def inside(self, y: Tensor) -> Tensor:
        """Return True where y lies strictly inside the support."""
        low, high = self.support
        return (y > low) & (y < high)

    def forward(self, y: Tensor) -> Tensor:
        """Return z = g(y); NaN outside of the support."""
        if self.name == "log":
            return y.log()
        if self.name == "log1p":
            return y.log1p()
        return (y - self.low).log() - (self.high - y).log()

    def inverse(self, z: Tensor) -> Tensor:
        """Return y = g^-1(z)."""
        if self.name == "log":
            return z.exp()
        if self.name == "log1p":
            return z.expm1()
        part = (self.high - self.low) * (-z.abs()).sigmoid()  # from the nearer end
        return torch.where(z < 0, self.low + part, self.high - part)

    def log_slope(self, y: Tensor) -> Tensor:
        """Return log g'(y)."""
        if self.name == "log":
            return -y.log()
        if self.name == "log1p":
            return -y.log1p()
        return log(self.high - self.low) - (y - self.low).log() - (self.high - y).log()
