"""What the bodies of a stack make of rows that all members share, some rows at a time."""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor

from ..heads.head import Head
from ..training.network import Network

CHUNK = 8192  # rows that pass through a body at once


def each(x: Tensor, count: int) -> Tensor:
    """x for every member."""
    return x.expand(count, *x.shape)


def head_of(network: Network) -> Head:
    """Return the head of a network, which is a `Head` in all that is fitted here."""
    return cast(Head, network.head)


@torch.no_grad()
def features(network: Network, x: Tensor) -> Tensor:
    """psi of each member, (M, N, H), for rows x (N, D) that all of them share."""
    count = len(head_of(network).log_alpha)
    return torch.cat([network.body(each(part, count)) for part in x.split(CHUNK)], -2)


class Features:
    """Batches (psi, y) or (psi, y, weight) of a stack, as often as asked."""

    def __init__(self, network: Network, x: Tensor, y: Tensor, weight: Tensor | None = None):
        self.network, self.rows = network, (x, y, *(() if weight is None else (weight,)))

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for x, *others in zip(*(part.split(CHUNK) for part in self.rows), strict=True):
            psi = features(self.network, x)
            yield psi, *(each(other, len(psi)) for other in others)
