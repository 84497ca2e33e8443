"""Random Fourier features of a table, with scales of greatest evidence: the body of `fast`.

psi(x) = [l x, a_b cos(W_b x), a_b sin(W_b x)], over three blocks b of random frequencies: of all
columns, of two columns, and of one column each. The frequencies follow Student-t distributions,
the spectra of Matern kernels, so that with a posterior over the last layer it is a Gaussian process
at a cost linear in the rows. Each block has one scale per column and one amplitude. They are not
trained through the loss, but by the evidence of a few hundred rows.
"""

from collections.abc import Callable, Sequence
from math import log
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .._core.linalg import standard_normal
from ..training.batches import Rows

NARROW, WIDE = (96, 72, 24), (192, 144, 48)  # frequencies of each block
DEGREES = (5, 3, 3)  # of freedom of their distribution
ROWS, STEPS, LR = 400, 25, 0.2  # by which scales are learned
LEARNED = 96  # frequencies that take part in it
LEAST_NOISE = 1e-3


class Fourier(nn.Module):
    """Random features with given frequencies, which `learn` scales.

    Args:
        plain: number of plain columns, of which the first `ranked` are numbers.
        ranked: number of further columns, which hold the same numbers by rank.
        sizes: frequencies of each block.
        replicates: leading axes of independent copies.
    """

    frequencies: Tensor
    amplitudes: Tensor
    slope: Tensor

    def __init__(
        self,
        plain: int,
        ranked: int = 0,
        sizes: tuple[int, ...] = NARROW,
        replicates: tuple[int, ...] = (),
    ):
        super().__init__()
        columns, self.replicates, self.sizes = plain + ranked, replicates, sizes
        self.plain, self.features = plain, columns + 2 * sum(sizes)
        self.register_buffer("frequencies", torch.zeros(*replicates, columns, sum(sizes)))
        self.register_buffer("amplitudes", torch.ones(*replicates, 1, sum(sizes)))
        self.register_buffer("slope", torch.ones(*replicates, 1, 1))

    @staticmethod
    def numbers(plain: int, ranked: int, sizes: tuple[int, ...]) -> int:
        """Return how many numbers the tensors of one copy hold; arguments as for the body."""
        return (plain + ranked + 1) * sum(sizes) + 1

    def forward(self, x: Tensor) -> Tensor:
        """Return psi of x, (..., N, plain + ranked) -> (..., N, features)."""
        turned = x @ self.frequencies
        waves = (self.amplitudes * turned.cos(), self.amplitudes * turned.sin())
        return torch.cat([self.slope * x, *waves], -1)


class Scales(NamedTuple):
    """Logarithms of what the evidence decides.

    Attributes:
        lengths: scale of each column in each block, (blocks, D).
        amplitudes: of each block, (blocks,).
        slope: of the columns themselves, ().
        noise: standard deviation of the targets, ().
    """

    lengths: Tensor
    amplitudes: Tensor
    slope: Tensor
    noise: Tensor


@torch.no_grad()
def learn(body: Fourier, rows: Rows, seeds: Sequence[int]) -> None:
    """Draw the frequencies of each member, and scale them by the evidence of some of its rows.

    Args:
        body: a stack of features, (M,).
        rows: of each member; real targets of about unit spread, (M, N) or (M, N, K).
        seeds: of the frequencies and the choice of rows, one per member.
    """
    for m, seed in enumerate(seeds):
        generator = torch.Generator().manual_seed(seed)
        weight = None if rows.weight is None else rows.weight[m]
        blocks = [block.to(rows.x.device) for block in _drawn(body, generator)]
        best = _best_scales(body, blocks, Rows(rows.x[m], rows.y[m], weight), generator)
        lengths, sizes = best.lengths.exp(), body.sizes
        scaled = [block * lengths[b][:, None] for b, block in enumerate(blocks)]
        each = [a.exp() * n**-0.5 for a, n in zip(best.amplitudes, sizes, strict=True)]
        body.frequencies[m] = torch.cat(scaled, 1).to(body.frequencies)
        body.amplitudes[m] = torch.cat([a.expand(n) for a, n in zip(each, sizes, strict=True)])
        body.slope[m] = best.slope.exp()


def _best_scales(
    body: Fourier, blocks: list[Tensor], rows: Rows, generator: torch.Generator
) -> Scales:
    """Return the scales of greatest evidence, of some rows (N, D) and some frequencies."""
    some = torch.randperm(len(rows.x), generator=generator)[:ROWS].to(rows.x.device)
    root = None if rows.weight is None else rows.weight[some, None].double().sqrt()
    x, y = rows.x[some].double(), rows.y.reshape(len(rows.x), -1)[some].double()
    y = y - y.mean(0) if root is None else (y - _mean(y, root.square())) * root
    share = min(1.0, LEARNED / sum(body.sizes))
    few = [block[:, : max(8, round(share * block.shape[1]))] for block in blocks]

    def loss(at: Scales) -> Tensor:
        psi = _features(x, few, at)
        psi = psi if root is None else psi * root
        return -log_evidence(psi, y, (2 * at.noise).exp() + LEAST_NOISE**2)

    return _minimised(loss, _start(body, x))


def _mean(y: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted mean of each column of y (N, K), weights (N, 1)."""
    return (y * weight).sum(0) / weight.sum().clamp(min=1e-12)


def _drawn(body: Fourier, generator: torch.Generator) -> list[Tensor]:
    """Return the frequencies of each block, (D, n); those of columns that it leaves out are 0."""
    columns, found = body.frequencies.shape[-2], []
    numbers = columns - body.plain
    for kind, (n, df) in enumerate(zip(body.sizes, DEGREES, strict=True)):
        like = torch.zeros((), dtype=torch.float64)
        w = standard_normal((columns, n), like, generator)
        heavy = standard_normal((df, n), like, generator).square().sum(0) / df
        mask = torch.ones(columns, n, dtype=torch.float64)
        if kind:
            picked = torch.rand(body.plain, n, generator=generator).argsort(0)[:2]
            if kind == 2:
                picked = torch.arange(n)[None] % body.plain
            mask.zero_().scatter_(0, picked, 1.0)
            ranks = torch.where(picked < numbers, picked + body.plain, picked)
            mask.scatter_(0, ranks, 1.0)
        found.append(w / heavy.sqrt() * mask)
    return found


def _start(body: Fourier, like: Tensor) -> Scales:
    """Return scales at which rows of unit variance are about one length apart."""
    columns = body.frequencies.shape[-2]
    spread = [-0.5 * log(min(n, columns)) for n in (columns, 4, 2)]
    lengths = torch.tensor(spread, dtype=like.dtype, device=like.device)[:, None]
    zero = torch.zeros((), dtype=like.dtype, device=like.device)
    return Scales(
        lengths.expand(3, columns).clone(), zero.expand(3).clone(), zero + spread[0], zero - 1.5
    )


def _features(x: Tensor, blocks: list[Tensor], at: Scales) -> Tensor:
    """Return psi of x for the frequencies of each block, with a constant."""
    parts = [torch.full_like(x[:, :1], 3.0), x * at.slope.exp()]
    for block, lengths, amplitude in zip(blocks, at.lengths, at.amplitudes, strict=True):
        turned = x @ (block * lengths.exp()[:, None])
        size = amplitude.exp() * block.shape[1] ** -0.5
        parts += [size * turned.cos(), size * turned.sin()]
    return torch.cat(parts, 1)


def log_evidence(psi: Tensor, y: Tensor, var: Tensor) -> Tensor:
    """Return log N(y_k; 0, psi psi' + var I) summed over the columns of y, up to a constant."""
    n, h = psi.shape
    small = psi @ psi.T if n <= h else psi.T @ psi
    eye = torch.eye(len(small), dtype=psi.dtype, device=psi.device)
    root = torch.linalg.cholesky(small + var * eye)
    volume = root.diagonal().log().sum()
    if n <= h:
        solved = torch.linalg.solve_triangular(root, y, upper=False)
        return -0.5 * solved.square().sum() - y.shape[1] * volume
    solved = torch.linalg.solve_triangular(root, psi.T @ y, upper=False)
    rest = y.square().sum() - solved.square().sum()
    return -0.5 * rest / var - y.shape[1] * (volume + 0.5 * (n - h) * var.log())


@torch.enable_grad()
def _minimised(loss: Callable[[Scales], Tensor], start: Scales) -> Scales:
    """Return the scales of least loss and of least distance from the start, by Adam.

    The prior of each logarithm is a normal distribution around the start, of deviation one.
    """
    now = Scales(*(value.clone().requires_grad_() for value in start))
    first, second = ([torch.zeros_like(value) for value in start] for _ in range(2))
    for step in range(STEPS):
        prior = sum((a - b).square().sum() for a, b in zip(now, start, strict=True)) / 2
        grads = torch.autograd.grad(loss(now) + prior, now)
        size = LR * min(1.0, 2 * (1 - step / STEPS))
        with torch.no_grad():
            for value, grad, m, v in zip(now, grads, first, second, strict=True):
                m.lerp_(grad, 0.2)
                v.lerp_(grad.square(), 0.05)
                slow, fast = 1 - 0.8 ** (step + 1), 1 - 0.95 ** (step + 1)
                value.sub_(size / slow * m / ((v / fast).sqrt() + 1e-8))
    return Scales(*(value.detach() for value in now))
