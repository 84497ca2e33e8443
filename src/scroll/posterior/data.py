"""The rows of a refit: features and real targets in float64, batch by batch."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from .._core.checks import finite, invalid, require, shaped, tensor
from ..factors import Gaussian
from ..heads.head import Head

Batch = tuple[Tensor, ...]  # (psi, y) or (psi, y, weight)
Batches = Iterable[Batch]


def regression_rows(head: Head, psi: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of the linear regression that the posterior solves.

    Args:
        head: the head whose likelihood encodes the labels.
        psi: features, (..., N, H).
        y: targets or labels, (..., N) or (..., N, K).

    Returns:
        Features (..., 1, N, H) and real targets minus the head's bias, (..., K, N), in float64.
    """
    tensor("y", y)
    features = regression_features(head, psi)
    target = head.likelihood.regress(y.to(features.device), psi.shape[:-1])
    return features, target.double() - bias_of(head)[..., None]


def regression_features(head: Head, psi: Tensor) -> Tensor:
    """Return psi in float64 on the head's device, (..., 1, N, H).

    A constant feature is appended if the regression has an intercept.
    """
    tensor("psi", psi)
    features = head.features(psi.detach().to(head.log_alpha.device)).double()
    one = features.new_ones(*features.shape[:-1], int(has_intercept(head)))
    return torch.cat([features, one], -1)


def has_intercept(head: Head) -> bool:
    """Return True if f has an offset: a bias, or what replaces one in another likelihood."""
    return head.bias is not None or not isinstance(head.likelihood.factor(), Gaussian)


def has_bias(head: Head) -> bool:
    """Return True if the head's bias is one of the linear regression."""
    return head.bias is not None and isinstance(head.likelihood.factor(), Gaussian)


def bias_of(head: Head) -> Tensor:
    """Return the bias of the linear regression, (..., K), in float64; zero if it has none."""
    if head.bias is None or not has_bias(head):
        return torch.zeros_like(head.log_alpha, dtype=torch.float64, requires_grad=False)
    return head.bias.detach().double()


def batches(features: Tensor | Batches, y: Tensor | None) -> Iterator[Batch]:
    """Yield (psi, y) or (psi, y, weight), from one tensor with its targets or from a loader."""
    if isinstance(features, Tensor):
        if y is None:
            raise invalid("y", "be given with a tensor of features", None)
        yield features, y
        return
    if hasattr(features, "shape"):
        tensor("features", features)
    require(y is None, "y", "be None when `features` gives pairs (psi, y)", type(y).__name__)
    require(
        isinstance(features, Iterable),
        "features",
        "be a tensor or an iterable of pairs (psi, y)",
        repr(features),
    )
    for batch in features:
        yield check_batch("features", batch)


def batches_forever(features: Tensor | Batches, y: Tensor | None) -> Iterator[Batch]:
    """Yield the batches with rows of `batches` again and again."""
    while True:
        read = False
        for batch in batches(features, y):
            read = True
            if not is_empty(batch):
                yield batch
        require(
            read,
            "features",
            "be readable more than once for a hybrid",
            "an iterator",
            "Pass a loader or a list.",
        )


def check_batch(name: str, batch: object) -> Batch:
    """Return `batch` as a tuple, which must be (psi, y) or (psi, y, weight)."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise invalid(name, "give pairs (psi, y)", type(batch).__name__)
    return tuple(batch)


def is_empty(batch: Batch) -> bool:
    """Return True if the batch has no rows, or none of positive weight.

    The last batch of a stream may be empty, and so may those of an idle rank.
    """
    psi, weight = batch[0], batch[2] if len(batch) == 3 else None
    weightless = isinstance(weight, Tensor) and not bool((weight != 0).any())
    return weightless or (isinstance(psi, Tensor) and psi.dim() > 1 and psi.shape[-2] == 0)


def row_weights(head: Head, psi: Tensor, weight: Tensor | None = None) -> Tensor | None:
    """Check the weights (..., N) of rows psi and return them as (..., 1, N) in float64."""
    if weight is None:
        return None
    tensor("weight", weight)
    shaped(weight, psi.shape[:-1], "weight")
    finite("weight", weight)
    require(bool((weight >= 0).all()), "weight", "be zero or positive", "negative ones")
    return weight.to(head.log_alpha.device).double().unsqueeze(-2)
