"""The methods of the tables for labels: nine heads, their refits, and networks with a softmax."""

from dataclasses import replace

from torch import Tensor, nn

from scroll.heads import ClassificationHead, OrdinalHead
from scroll.training.batches import Rows

from ..data.datasets import SETS
from . import evaluation
from .baselines import Lead
from .method import MakeHead, Method, Setting, Training, set_weight
from .reports import refits
from .softmax import Softmax, VariationalSoftmax

PROBIT_SCALE = 1.005


def _labels(kind: str, covariance: str, method: str = "scroll", init_std: float = 0.1) -> MakeHead:
    """Return the maker of one of the nine heads for labels."""

    def make(features: int, lead: Lead, setting: Setting) -> nn.Module:
        classes, floor = SETS[setting.set].classes, setting.floor
        if kind == "ordinal":
            return OrdinalHead(
                features, classes, scale=PROBIT_SCALE, covariance=covariance, method=method,
                floor=floor, init_std=init_std, replicates=lead,
            )  # fmt: skip
        return ClassificationHead(
            features, classes, kind, scale=PROBIT_SCALE if kind == "ova" else None, bias=False,
            covariance=covariance, method=method, floor=floor, init_std=init_std, replicates=lead,
        )  # fmt: skip

    return make


def _softmax(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return Softmax(features, SETS[setting.set].classes, lead)


def _variational_softmax(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return VariationalSoftmax(features, SETS[setting.set].classes, lead)


def _kl_weights(rows: int) -> tuple[float, ...]:
    """From 1/N, where the bound is the evidence's, to 0.1, evenly in logarithms."""
    return tuple(float(f"{rows ** (j / 3 - 1) * 0.1 ** (j / 3):.3g}") for j in range(4))


def _set_weight_of_sum(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    """lambda |w|^2 against a sum over N rows."""
    head.get_buffer("weight").copy_(knobs / rows.y.shape[1])


_SOFTMAX = Training(
    _softmax, (0.1,), _set_weight_of_sum, members=5,
    report=evaluation.softmax_and_laplace, pool=evaluation.label_ensemble,
)  # fmt: skip

NARROW = 1e-4  # a start of S at which its factor has hardly a gradient
LABEL_METHODS: dict[str, Method] = {
    **{
        f"{kind}-{cov}".lower(): Method(
            f"{kind}-{cov}", Training(_labels(kind.lower(), cov.lower()))
        )
        for kind in ("OvA", "Ordinal", "GaussReg")
        for cov in ("Full", "Diag", "None")
    },
    **{
        f"{kind}-{name}".lower(): Method(
            f"{kind}-{label}",
            Training(
                _labels(kind.lower(), "full"), report=refits.about_mode(kind.lower()), late=True
            ),
            f"{kind}-full-refit".lower() if name != "full-refit" else "",
        )
        for kind in ("OvA", "Ordinal")
        for name, label in refits.ABOUT_MODE.items()
    },
    **{
        f"{kind}-{method}-{cov}".lower(): Method(
            f"{kind}, {label} {cov}",
            Training(_labels(kind.lower(), cov.lower(), method)),
        )
        for kind in ("OvA", "Ordinal")
        for method, label, cov in (
            ("laplace-closed", "Laplace closed", "Full"),
            ("laplace-loo", "Newton LOO", "Full"),
            ("laplace-hybrid", "Newton hybrid", "Full"),
            ("laplace-hybrid", "Newton hybrid", "Diag"),
        )
    },
    **{
        f"{kind}-full-point".lower(): Method(
            f"{kind}-Full from a point", Training(_labels(kind.lower(), "full", init_std=NARROW))
        )
        for kind in ("OvA", "Ordinal")
    },
    "softmax": Method("CE-softmax", _SOFTMAX),
    "softmax-laplace": Method("Laplace", _SOFTMAX, "softmax"),
    "softmax-ensemble": Method("DeepEns(M=5)", _SOFTMAX, "softmax", ensemble=True),
    "softmax-dropout": Method(
        "MC-Dropout",
        replace(_SOFTMAX, members=1, pool=None, dropout=0.2, report=evaluation.softmax_dropout),
        passes=evaluation.LABEL_PASSES,
    ),
    "vbll-softmax": Method(
        "VBLL", Training(_variational_softmax, _kl_weights, set_weight, mean_form=True)
    ),
}
