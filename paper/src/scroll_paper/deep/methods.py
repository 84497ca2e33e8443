"""The heads that deep networks are trained through: one `DeepMethod` value per row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import nn

from scroll.heads import ClassificationHead, RegressionHead

from ..models.baselines import MeanVariance
from ..models.softmax import Softmax, VariationalSoftmax

SCALE = 1.005  # of the probit, as in the other tables
MakeHead = Callable[[int, int, int], nn.Module]  # of features, outputs and training rows


@dataclass(frozen=True)
class DeepMethod:
    """One row of the tables of networks trained end to end, with all its facts.

    Args:
        label: the row's label.
        head: makes the last layer from numbers of features, outputs and training rows.
        alpha_rate: learning rate of the prior's precisions, as a share of the head's.
        tempered: show it with its best temperature too.
        averaged: keep its probabilities, to show the mean over seeds too.
        more: labels of rows that are computed from the same networks, by method.
        seeds: number of seeds, from 0.
    """

    label: str
    head: MakeHead
    alpha_rate: float = 1.0
    tempered: bool = False
    averaged: bool = False
    more: Mapping[str, str] = field(default_factory=dict)
    seeds: int = 3


def labels_of(methods: Mapping[str, DeepMethod]) -> dict[str, str]:
    """Return the rows of a table, {label: method}, with those computed from the same networks."""
    own = {method.label: name for name, method in methods.items()}
    return own | {label: name for m in methods.values() for name, label in m.more.items()}


def _ova(covariance: str) -> MakeHead:
    return lambda h, k, n: ClassificationHead(h, k, "ova", covariance, scale=SCALE, bias=False)


def _least_squares(covariance: str) -> MakeHead:
    return lambda h, k, n: ClassificationHead(h, k, "gaussreg", covariance, bias=False)


def _normal(covariance: str, beta: float = 0.0, method: str = "scroll") -> MakeHead:
    return lambda h, k, n: RegressionHead(h, covariance=covariance, beta=beta, method=method)


def _vbll(h: int, k: int, n: int) -> nn.Module:
    head = VariationalSoftmax(h, k)
    head.weight.fill_(1 / n)
    return head


SLOW_PRIOR = 0.25  # the prior of K outputs counts in full and its rows by 1 / K: it must be slow
LABELS: dict[str, DeepMethod] = {
    "ova-none": DeepMethod(
        "OvA-None", _ova("none"), SLOW_PRIOR, tempered=True, averaged=True, seeds=10
    ),
    "ova-diag": DeepMethod("OvA-Diag", _ova("diag"), SLOW_PRIOR, tempered=True, seeds=10),
    "ova-full": DeepMethod("OvA-Full", _ova("full"), SLOW_PRIOR, seeds=5),
    "gaussreg-none": DeepMethod("GaussReg-None", _least_squares("none"), SLOW_PRIOR, seeds=5),
    "gaussreg-diag": DeepMethod("GaussReg-Diag", _least_squares("diag"), SLOW_PRIOR, seeds=5),
    "softmax": DeepMethod(
        "CE-softmax", lambda h, k, n: Softmax(h, k), tempered=True, averaged=True,
        more={"softmax-laplace": "Laplace-LL", "softmax-laplace-tuned": "Laplace-LL (tuned)"},
        seeds=10,
    ),
    "vbll-softmax": DeepMethod("VBLL", _vbll, seeds=5),
}  # fmt: skip
NUMBERS: dict[str, DeepMethod] = {
    "scroll-full": DeepMethod("SCROLL-Full", _normal("full")),
    "scroll-diag": DeepMethod("SCROLL-Diag", _normal("diag")),
    "scroll-none": DeepMethod("SCROLL-None", _normal("none")),
    "scroll-full-beta": DeepMethod("SCROLL-Full-beta", _normal("full", 0.5)),
    "scroll-diag-beta": DeepMethod("SCROLL-Diag-beta", _normal("diag", 0.5)),
    "block-hybrid-diag": DeepMethod("Block-hybrid-Diag", _normal("diag", method="block-hybrid")),
    "batch-hybrid-diag": DeepMethod("Batch-hybrid-Diag", _normal("diag", method="batch-hybrid")),
    "mvn": DeepMethod("MVN (beta-NLL)", lambda h, k, n: MeanVariance(h, unit=True)),
    "map": DeepMethod("MAP", lambda h, k, n: RegressionHead(h, covariance="none", method="map")),
}
