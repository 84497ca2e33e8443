"""A table's codes as inputs of a network, in torch, so that an exported graph holds it too."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .columns import Table

CLIP = 5.0  # standard deviations; an outlier beyond them tells no more
HUGE = 1e100  # training numbers are cut here, so that no square or difference overflows
SAMPLE = 100_000  # rows that quantiles are taken from
CHUNK = 16_384  # rows at a time, to keep what stands between codes and inputs small


class Encoder(nn.Module):
    """Codes (N, D) as float32 (N, plain + ranked).

    plain:  (x - mean) / std of each number, clipped; then a 0/1 column for each that had missing
            values; then one-hot categories, all zero where unseen, with one for missing if seen.
    ranked: ndtri(rank of x in training) of each number, linear between quantiles.

    A missing number is 0 in both. All state is in buffers, whose sizes are `layout()`.
    """

    numeric: Tensor
    mean: Tensor
    scale: Tensor
    source: Tensor
    target: Tensor
    knots: Tensor
    heights: Tensor

    def __init__(self, columns: int, numbers: int, marks: int, knots: int) -> None:
        super().__init__()
        self.columns, self.plain, self.ranked = columns, numbers + marks, numbers
        double = torch.float64
        self.register_buffer("numeric", torch.zeros(numbers, dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(numbers, dtype=double))
        self.register_buffer("scale", torch.ones(numbers, dtype=double))
        # mark m is 1 where column source[m] has the code target[m]; NaN is the code of missing
        self.register_buffer("source", torch.zeros(marks, dtype=torch.int64))
        self.register_buffer("target", torch.zeros(marks, dtype=torch.float32))
        # a column's knots ascend; what it has fewer than others repeats its last
        self.register_buffer("knots", torch.zeros(numbers, knots, dtype=double))
        self.register_buffer("heights", torch.zeros(numbers, knots, dtype=double))

    @classmethod
    def of(cls, table: Table, codes: NDArray[Any]) -> "Encoder":
        """The encoder whose means, scales and quantiles are those of training codes (N, D)."""
        numeric, marks = _places(table)
        rows = np.arange(len(codes))
        if len(codes) > SAMPLE:
            rows = np.sort(np.random.default_rng(0).choice(len(codes), SAMPLE, replace=False))
        fits = [_moments(codes[:, j]) for j in numeric]
        curves = [_quantiles(codes[rows, j]) for j in numeric]
        most = max((len(knots) for knots, _ in curves), default=2)
        encoder = cls(len(table.columns), len(numeric), len(marks), max(most, 2))
        encoder.numeric[:] = torch.tensor(numeric, dtype=torch.int64)
        encoder.source[:] = torch.tensor([j for j, _ in marks], dtype=torch.int64)
        encoder.target[:] = torch.tensor([code for _, code in marks], dtype=torch.float32)
        for i, ((mean, scale), (knots, heights)) in enumerate(zip(fits, curves, strict=True)):
            encoder.mean[i], encoder.scale[i] = mean, scale
            rest = (0, encoder.knots.shape[1] - len(knots))
            encoder.knots[i] = torch.from_numpy(np.pad(knots, rest, "edge"))
            encoder.heights[i] = torch.from_numpy(np.pad(heights, rest, "edge"))
        return encoder

    def layout(self) -> dict[str, int]:
        """The buffers' sizes, plain JSON; `from_layout` reads it."""
        return {
            "columns": self.columns,
            "numbers": self.ranked,
            "marks": self.plain - self.ranked,
            "knots": self.knots.shape[1],
        }

    @classmethod
    def from_layout(cls, layout: dict[str, int]) -> "Encoder":
        """An encoder of that layout, for load_state_dict to fill."""
        return cls(**layout)

    def reads(self, table: Table) -> bool:
        """True if it was made for the columns of `table`."""
        numeric, marks = _places(table)
        codes = np.array([code for _, code in marks], np.float32)
        return (
            self.columns == len(table.columns)
            and self.numeric.tolist() == numeric
            and self.source.tolist() == [j for j, _ in marks]
            and np.array_equal(self.target.numpy(), codes, equal_nan=True)
        )

    def forward(self, codes: Tensor) -> Tensor:
        """Inputs of a network, float32 (N, plain + ranked); never NaN."""
        if torch.compiler.is_compiling():  # exporting is, too
            return self._encode(codes)
        out = codes.new_empty((codes.shape[0], self.plain + self.ranked), dtype=torch.float32)
        for rows, into in zip(codes.split(CHUNK), out.split(CHUNK), strict=True):
            into[:] = self._encode(rows)
        return out

    def _encode(self, codes: Tensor) -> Tensor:
        parts = []
        if self.ranked:
            x = codes.index_select(1, self.numeric).double()
            gone = x.isnan()
            x = torch.where(gone, self.mean, x)
            unit = (x - self.mean) * (1 / self.scale)
            unit = torch.where(self.scale.isinf(), 0.0, unit)  # whatever the number
            parts = [unit.clamp(-CLIP, CLIP).float()]
            ranks = torch.where(gone, 0.0, self._ranks(x.T.contiguous()).T)
        if self.plain > self.ranked:
            marks = codes.index_select(1, self.source).float()
            hit = (marks == self.target) | (marks.isnan() & self.target.isnan())
            parts.append(hit.float())
        if self.ranked:
            parts.append(ranks.float())
        return torch.cat(parts, 1)

    def _ranks(self, x: Tensor) -> Tensor:
        """Heights at x (P, N), each row linear between its knots and level beyond them."""
        x = torch.minimum(torch.maximum(x, self.knots[:, :1]), self.knots[:, -1:])
        if torch.compiler.is_compiling():  # ONNX has no search
            below = (x[..., None] >= self.knots[:, None]).sum(-1)
        else:
            below = torch.searchsorted(self.knots, x, right=True)
        i = (below - 1).clamp(0, self.knots.shape[1] - 2)
        left, low = self.knots.gather(1, i), self.heights.gather(1, i)
        width = self.knots.gather(1, i + 1) - left
        # knots that repeat the last have no width, and x stands on them
        share = (x - left) / torch.where(width > 0, width, 1.0)
        return low + share * (self.heights.gather(1, i + 1) - low)


def _places(table: Table) -> tuple[list[int], list[tuple[int, float]]]:
    """Numeric columns, and the column and code of each mark."""
    numeric = [j for j, c in enumerate(table.columns) if c.kind == "numeric"]
    marks = [(j, np.nan) for j in numeric if table.columns[j].missing]
    for j, column in enumerate(table.columns):
        if column.kind == "categorical":
            marks += [(j, float(code)) for code in range(len(column.categories))]
            marks += [(j, np.nan)] * column.missing
    return numeric, marks


def _present(column: NDArray[Any]) -> NDArray[np.float64]:
    column = column.astype(np.float64)
    return np.clip(column[~np.isnan(column)], -HUGE, HUGE)


def _moments(column: NDArray[Any]) -> tuple[float, float]:
    """Mean and standard deviation of the values present; infinite where they do not vary, so that
    the column says nothing of new rows either: no weight on it was ever trained."""
    x = _present(column)
    if not len(x):
        return 0.0, float("inf")
    if x.min() == x.max():  # asked of the values, whose computed std may be a rounding error
        return float(x[0]), float("inf")
    return float(x.mean()), float(x.std()) or float("inf")


def _quantiles(column: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Knots, quantiles of the values present, and heights, ndtri of their probabilities.

    A value that is several quantiles is one knot, at the mean of their heights.
    """
    x = _present(column)
    if not len(x) or x.min() == x.max():  # a height of 0, which the mean is but for rounding
        return x[:1] if len(x) else np.zeros(1), np.zeros(1)
    count = min(50, max(10, len(x) // 30))
    p = np.linspace(0, 1, count)
    # the ends would be infinite
    z = torch.special.ndtri(torch.from_numpy(p.clip(0.5 / count, 1 - 0.5 / count))).numpy()
    knots, tie = np.unique(np.quantile(x, p), return_inverse=True)
    return knots, np.bincount(tie, z) / np.bincount(tie)
