"""What a refit sees of its data: features and real targets, batch by batch, in float64."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from .checks import must, refusal, tensor
from .factors import Gaussian
from .head import Head

Batches = Iterable[tuple[Tensor, ...]]


def rows_of(head: Head, psi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Features (..., 1, N, H) and real targets without the bias, (..., K, N), in float64."""
    tensor("y", y)
    features = features_of(head, psi)
    target = head.likelihood.regress(y.to(features.device), psi.shape[:-1])
    return features, target.double() - offset(head)


def features_of(head: Head, psi: Tensor) -> Tensor:
    """psi as the posterior sees it: in float64, on the head's device, perhaps with a constant."""
    tensor("psi", psi)
    features = head.features(psi.detach().to(head.log_alpha.device)).double()
    one = features.new_ones(*features.shape[:-1], int(intercept(head)))
    return torch.cat([features, one], -1)


def intercept(head: Head) -> bool:
    """Whether f may be off zero: by a bias, or by what stands in for one in another likelihood."""
    return head.bias is not None or not isinstance(head.likelihood.factor(), Gaussian)


def offset(head: Head) -> Tensor | float:
    """The head's bias (..., K, 1), where it is one of the regression."""
    if head.bias is None or not isinstance(head.likelihood.factor(), Gaussian):
        return 0.0
    return head.bias.detach().double()[..., None]


def batches(features: Tensor | Batches, y: Tensor | None) -> Iterator[tuple[Tensor, ...]]:
    """Pairs (psi, y), of a tensor of features with its targets or of what gives such pairs,
    perhaps with the weights of the rows as a third."""
    if isinstance(features, Tensor):
        if y is None:
            raise refusal("y", "be given with a tensor of features", None)
        yield features, y
        return
    if hasattr(features, "shape"):
        tensor("features", features)
    must(y is None, "y", "be None when `features` gives pairs (psi, y)", type(y).__name__)
    for batch in features:
        three = isinstance(batch, tuple | list) and len(batch) == 3
        yield tuple(batch) if three else pair("features", batch)


def pair(name: str, batch: Any) -> tuple[Tensor, Tensor]:
    """`batch`, which must be one pair."""
    two = isinstance(batch, tuple | list) and len(batch) == 2
    must(two, name, "give pairs (psi, y)", type(batch).__name__)
    return batch[0], batch[1]


def forever(features: Tensor | Batches, y: Tensor | None) -> Iterator[tuple[Tensor, ...]]:
    """`batches`, over and over."""
    while True:
        some = False
        for batch in batches(features, y):
            some = True
            yield batch
        must(
            some,
            "features",
            "be readable more than once for a hybrid",
            "an iterator",
            "Pass a loader or a list.",
        )
