"""All rows at last: the same networks once more, for as long as held-out rows found good.

Where no posterior takes the held-out rows in afterwards, a network that has been stopped by them
has never learned from them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..training.batches import Rows
from ..training.loop import Watch, train
from ..training.network import Network
from ..training.settings import Settings


def again(
    fresh: Network,
    rows: Rows,
    looks: Tensor,
    recipe: Settings,
    seeds: Sequence[int],
    watch: Watch | None,
) -> Network:
    """Train a stack on all rows, each replicate until its own number of looks, (R,)."""
    like = rows.x
    until = Rows(like.new_zeros(len(looks), 1, 1), looks[:, None].to(like))
    how = replace(recipe, patience=1)
    return train(fresh, rows, until, how, seeds=seeds, score=_towards(like), watch=watch).network


def _towards(like: Tensor) -> Callable[[Any, Rows], Tensor]:
    """A score that falls until the look that a replicate is to be kept at, and then rises."""
    seen = torch.zeros((), dtype=like.dtype, device=like.device)

    def score(network: Network, held: Rows) -> Tensor:
        seen.add_(1)
        return (held.y[:, 0] - seen).abs()

    return score
