"""Pictures as bytes with their targets, and how they are scaled and augmented."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from scroll._core.checks import require

from .encoders import pixels
from .npz import Array, arrays
from .sources import SOURCES, located, raw

SHIFT = 4  # pixels by which a crop may be off, each way


class Pictures(NamedTuple):
    """Pictures (N, 3, S, S) as bytes, and labels or numbers (N,)."""

    x: Tensor
    y: Tensor

    def take(self, index: Tensor) -> "Pictures":
        """Return the pictures at an index."""
        return Pictures(self.x[index], self.y[index])


def cifar(places: Sequence[Path]) -> tuple[Pictures, Pictures]:
    """Return the 50,000 training and 10,000 test pictures of CIFAR-10, from cifar10.npz."""
    raw("cifar10", places)  # verifies the test part
    source = SOURCES["cifar10"]
    remedy = f"Take the copy that {source.at} has."
    names = ("x_train", "y_train", "x_test", "y_test")
    x, y, *test = arrays(
        located(source, places), names, "be complete, with its training part", remedy
    )
    got, right = (x.shape, y.shape), ((50_000, 32, 32, 3), (50_000,))
    require(got == right, source.file, f"hold x_train and y_train of shapes {right}", got, remedy)
    return _pictures(x, y), _pictures(*test)


def _pictures(x: Array, y: Array) -> Pictures:
    return Pictures(
        torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(y).long()
    )


def faces(places: Sequence[Path]) -> Pictures:
    """Return UTKFace at 64 pixels with ages, from utkface64.npz."""
    files, age = raw("utkface", places)
    each = (pixels([cast(bytes, file)], i)[0] for i, file in enumerate(files))
    x = torch.stack([image.to(torch.uint8) for image in each])
    return Pictures(x, torch.from_numpy(age).float())


def split(pictures: Pictures, *counts: int, seed: int) -> list[Pictures]:
    """Return random parts with so many pictures each."""
    g = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(pictures.y), generator=g)
    return [pictures.take(some) for some in order[: sum(counts)].split(counts)]


def scaled(x: Tensor, moments: tuple[Tensor, Tensor]) -> Tensor:
    """Return bytes as numbers, standardised by the mean and deviation of each channel."""
    mean, std = (m.view(3, 1, 1) for m in moments)
    return (x.float() / 255 - mean) / std


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel, for bytes scaled to 0..1."""
    each = x[:5000].float() / 255
    return each.mean((0, 2, 3)), each.std((0, 2, 3))


def augmented(x: Tensor, shift: int = SHIFT) -> Tensor:
    """Return pictures flipped at random and cropped at random after padding with black."""
    n, _, height, width = x.shape
    down, right = torch.randint(0, 2 * shift + 1, (2, n, 1), device=x.device)
    rows = down + torch.arange(height, device=x.device)  # (N, S)
    columns = right + torch.arange(width, device=x.device)
    flip = torch.rand(n, 1, device=x.device) < 0.5
    columns = torch.where(flip, columns.flip(1), columns)
    each = torch.arange(n, device=x.device)[:, None, None]
    cut = pad(x, (shift,) * 4).permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None]]
    return cut.permute(0, 3, 1, 2)  # in memory channels come last, which is faster for convolutions
