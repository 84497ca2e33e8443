"""The methods of the tables: one `Method` value per row.

A method names its label, its head, the grid of its hyper-parameter, and what else its networks
report: MAP networks also give the Laplace row and, five together, a Deep Ensemble.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from torch import Tensor, nn

from scroll.heads import ClassificationHead, OrdinalHead, RegressionHead
from scroll.training.batches import Rows
from scroll.training.network import HeldOutScore, held_out_mse

from ..data.datasets import SETS
from . import evaluation
from .baselines import Constant, Lead, MeanVariance, Variational
from .gp import Process
from .method import Method, Setting, Training, start_noise
from .softmax import Softmax, VariationalSoftmax

LAMBDAS = (1e-4, 1e-3, 1e-2, 1e-1)
ALPHAS = (1e-2, 1e-1, 1.0, 1e1)
PROBIT_SCALE = 1.005
MakeHead = Callable[[int, Lead, Setting], nn.Module]


def _normal(covariance: str, method: str = "scroll", bias: bool = False) -> MakeHead:
    """Return the maker of a regression head."""

    def make(features: int, lead: Lead, setting: Setting) -> nn.Module:
        return RegressionHead(
            features,
            covariance=covariance,
            method=method,
            floor=setting.floor,
            bias=bias,
            replicates=lead,
        )

    return make


def _labels(kind: str, covariance: str) -> MakeHead:
    """Return the maker of one of the nine heads for labels."""

    def make(features: int, lead: Lead, setting: Setting) -> nn.Module:
        classes, floor = SETS[setting.set].classes, setting.floor
        if kind == "ordinal":
            return OrdinalHead(
                features, classes, scale=PROBIT_SCALE, covariance=covariance, floor=floor,
                replicates=lead,
            )  # fmt: skip
        return ClassificationHead(
            features, classes, kind, scale=PROBIT_SCALE if kind == "ova" else None, bias=False,
            covariance=covariance, floor=floor, replicates=lead,
        )  # fmt: skip

    return make


def _softmax(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return Softmax(features, SETS[setting.set].classes, lead)


def _variational_softmax(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return VariationalSoftmax(features, SETS[setting.set].classes, lead)


def _variational(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return Variational(features, lead)


def _mean_variance(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return MeanVariance(features, lead)


def _plain_mean_variance(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return MeanVariance(features, lead, bias=False)


def _constant(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return Constant(lead)


def _process(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return Process(features, lead)


def _kl_weights(rows: int) -> tuple[float, ...]:
    """From 1/N, where the bound is the evidence's, to 0.1, evenly in logarithms."""
    return tuple(float(f"{rows ** (j / 3 - 1) * 0.1 ** (j / 3):.3g}") for j in range(4))


def _set_alpha(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    head.get_parameter("log_alpha").copy_(knobs.log()[:, None])


def _set_ridge(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    """lambda |w|^2 against a mean over N rows is N lambda |w|^2 against their sum."""
    head.get_parameter("log_alpha").copy_((knobs * rows.y.shape[1]).log()[:, None])


def _set_weight_of_sum(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    """lambda |w|^2 against a sum over N rows."""
    head.get_buffer("weight").copy_(knobs / rows.y.shape[1])


def _set_weight(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    head.get_buffer("weight").copy_(knobs)


def _set_noise(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    """Start the noise at the standard deviation of the targets.

    A posterior under too little noise interpolates at the very first step, before the noise
    can follow. A free belief does not depend on the noise and starts from one.
    """
    start_noise(head, rows)


def _set_weight_and_noise(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    """The same start for VBLL, whose optimum is the posterior too: if its noise starts far below
    the residuals, its belief collapses before the noise can grow."""
    head.get_buffer("weight").copy_(knobs)
    start_noise(head, rows)


def _set_scale(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    """Start a Gaussian process at the scale of the targets, with a tenth of it as noise."""
    head.get_parameter("log_scale").copy_(rows.y.std(-1).log())
    head.get_parameter("log_noise").copy_(rows.y.std(-1).log() - 2.3)


def _bound(covariance: str, method: str, orders: int = 1) -> Training:
    """A belief that is a posterior, or bound to one, at each step."""
    return Training(_normal(covariance, method), start=_set_noise, orders=orders)


_ridge = partial(Training, grid=LAMBDAS, mean_form=True)
_mse: HeldOutScore = held_out_mse
_MAP = _ridge(
    _normal("none", "map"), start=_set_ridge, score=_mse,
    members=5, report=evaluation.map_and_laplace, pool=evaluation.deep_ensemble,
)  # fmt: skip
_FREE = Training(_normal("full"), members=5, pool=evaluation.ensemble("scroll-ens"))
_MVN = _ridge(_mean_variance, start=_set_weight, members=5, pool=evaluation.ensemble("mvn-ens"))
_SOFTMAX = Training(
    _softmax, (0.1,), _set_weight_of_sum, members=5,
    report=evaluation.softmax_and_laplace, pool=evaluation.label_ensemble,
)  # fmt: skip
_FIXED = Training(_normal("full", "fixed-alpha"), ALPHAS, _set_alpha)
_NO_PRIOR = Training(_normal("full", "no-prior"), LAMBDAS, _set_ridge)
_REFIT = Training(_normal("full"), report=evaluation.refitted, late=True)
_ROUTED = Training(_normal("full"), report=evaluation.routed, late=True)
_SMALL = ("yacht", "concrete", "energy", "wine", "boston")  # as printed in the paper

TABLE_METHODS: dict[str, Method] = {
    "scroll-full": Method("SCROLL-Full", _FREE),
    "scroll-diag": Method("SCROLL-Diag", Training(_normal("diag"))),
    "scroll-none": Method("SCROLL-None", Training(_normal("none"))),
    "scroll-ens": Method("SCROLL-Ens (5x)", _FREE, "scroll-full", ensemble=True),
    "map": Method("MAP", _MAP),
    "laplace-full": Method("Laplace-Full", _MAP, "map"),
    "deep-ensemble": Method("Deep Ensemble", _MAP, "map", ensemble=True),
    "vbll": Method("VBLL", _ridge(_variational, start=_set_weight_and_noise)),
    "mvn": Method("MVN", _MVN),
    "mvn-ens": Method("MVN-Ens (5x)", _MVN, "mvn", ensemble=True),
    "mvn-plain": Method("MVN without offset", _ridge(_plain_mean_variance, start=_set_weight)),
    **{
        f"scroll-{cov}-offset".lower(): Method(
            f"SCROLL-{cov} with offset", Training(_normal(cov.lower(), bias=True))
        )
        for cov in ("Full", "Diag", "None")
    },
    "mc-dropout": Method(
        "MC Dropout",
        replace(_MAP, members=1, pool=None, dropout=0.1, report=evaluation.mc_dropout),
        passes=evaluation.PASSES,
    ),
    "closed-full": Method("Full closed", _bound("full", "closed")),
    "loo-full": Method("Full LOO", _bound("full", "loo")),
    # The sequential scores sum to the evidence.
    "seq-full": Method("Full seq", _bound("full", "evidence")),
    "elbo-full": Method("Full ELBO", Training(_normal("full", "elbo"))),
    "closed-diag": Method("Diag closed", _bound("diag", "closed")),
    "loo-diag": Method("Diag LOO", _bound("diag", "loo")),
    # One step per row: few data sets, few seeds.
    "seq-diag": Method(
        "Diag seq", _bound("diag", "seq", orders=4), sets=_SMALL, seeds=tuple(range(5, 10))
    ),
    "fixed-alpha-full": Method("Full, fixed alpha (tuned)", _FIXED),
    "no-prior-full": Method("Full, no prior (tuned lambda)", _NO_PRIOR),
    "kl-full": Method("Full, KL regulariser (PPGPR)", Training(_normal("full", "kl"))),
    "fixed-alpha-diag": Method(
        "Diag, fixed alpha (tuned)", replace(_FIXED, head=_normal("diag", "fixed-alpha"))
    ),
    "no-prior-diag": Method(
        "Diag, no prior (tuned lambda)", replace(_NO_PRIOR, head=_normal("diag", "no-prior"))
    ),
    "hybrid-full": Method("Hybrid-Full", _bound("full", "hybrid")),
    "hybrid-diag": Method("Hybrid-Diag", _bound("diag", "hybrid")),
    "scroll-full-refit": Method("SCROLL-Full", _REFIT),
    "free-hybrid": Method("SCROLL-Full, then hybrid", _REFIT, "scroll-full-refit"),
    "loo-gap": Method("loo-gap", _REFIT, "scroll-full-refit"),
    "scroll-full-routed": Method("SCROLL-Full", _ROUTED),
    "free-refit": Method("SCROLL-Full, then refit", _ROUTED, "scroll-full-routed"),
    "free-refit-inputs": Method("SCROLL-Full, refit with inputs", _ROUTED, "scroll-full-routed"),
    **{
        f"{kind}-{cov}".lower(): Method(
            f"{kind}-{cov}", Training(_labels(kind.lower(), cov.lower()))
        )
        for kind in ("OvA", "Ordinal", "GaussReg")
        for cov in ("Full", "Diag", "None")
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
        "VBLL", Training(_variational_softmax, _kl_weights, _set_weight, mean_form=True)
    ),
    "mean": Method("Mean predictor", Training(_constant, raw=True)),
    "inputs": Method(
        "Linear in the inputs", Training(_constant, raw=True, report=evaluation.inputs_alone)
    ),
    "gp-rbf": Method("GP-RBF", Training(_process, start=_set_scale, raw=True, rows=1000)),
}
"""Every method by name. Add one here, or from outside with `TABLE_METHODS[name] = Method(...)`."""

BUILT_IN = frozenset(TABLE_METHODS)
