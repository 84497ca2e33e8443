"""What a refit sees of its data: features and real targets, batch by batch, in float64."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from .._core.checks import finite, must, refusal, shaped, tensor
from ..factors import Gaussian
from ..heads.head import Head

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
    must(isinstance(features, Iterable), "features", "be a tensor or give pairs", repr(features))
    for batch in features:
        yield rows_in("features", batch)


def hollow(batch: tuple[Any, ...]) -> bool:
    """Whether a batch says nothing, as the last one of a stream, or a rank's, may."""
    psi, weight = batch[0], batch[2] if len(batch) == 3 else None
    nothing = isinstance(weight, Tensor) and not bool((weight != 0).any())
    return nothing or (isinstance(psi, Tensor) and psi.dim() > 1 and psi.shape[-2] == 0)


def weights_of(head: Head, psi: Tensor, weight: Tensor | None = None) -> Tensor | None:
    """Weights (..., N) of rows psi, checked, as (..., 1, N) in float64."""
    if weight is None:
        return None
    tensor("weight", weight)
    shaped(weight, psi.shape[:-1], "weight")
    finite("weight", weight)
    must(bool((weight >= 0).all()), "weight", "be zero or positive", "negative ones")
    alike = bool((weight == weight.reshape(-1, weight.shape[-1])[0]).all())
    must(alike, "weight", "be the same for every replicate", "weights that differ", "Refit each.")
    return weight.to(head.log_alpha.device).double().unsqueeze(-2)


def rows_in(name: str, batch: Any) -> tuple[Tensor, ...]:
    """`batch`, which must be (psi, y) or (psi, y, weight)."""
    some = isinstance(batch, tuple | list) and len(batch) in (2, 3)
    must(some, name, "give pairs (psi, y)", type(batch).__name__)
    return tuple(batch)


def forever(features: Tensor | Batches, y: Tensor | None) -> Iterator[tuple[Tensor, ...]]:
    """`batches`, over and over."""
    while True:
        some = False
        for batch in batches(features, y):
            some = True
            if not hollow(batch):
                yield batch
        must(
            some,
            "features",
            "be readable more than once for a hybrid",
            "an iterator",
            "Pass a loader or a list.",
        )
