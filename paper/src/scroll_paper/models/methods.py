"""The methods of the tables: one `Method` value per row.

A method names its label, its head, the grid of its hyper-parameter, and what else its networks
report: MAP networks also give the Laplace row and, five together, a Deep Ensemble.
"""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from scroll._core.value import cast
from scroll.beliefs import Belief, Problem
from scroll.beliefs.covariances import Full
from scroll.heads import Head, RegressionHead
from scroll.objectives import Objective
from scroll.objectives.cavities import leave_one_out
from scroll.objectives.routes import conjugate
from scroll.objectives.terms import none
from scroll.training.batches import Rows
from scroll.training.bodies import MLP
from scroll.training.network import HeldOutScore, held_out_mse

from . import evaluation
from .baselines import Constant, Decoupled, Lead, MeanVariance, Variational
from .gp import Process
from .labelled import LABEL_METHODS
from .layers import BeliefLayer, TwoBeliefs
from .method import MakeHead, Method, Setting, Training, set_weight, start_noise
from .reports import coding, refits

LAMBDAS = (1e-4, 1e-3, 1e-2, 1e-1)
KL_WEIGHTS = (0.01, 0.05, 0.2, 1.0)  # of PPGPR with decoupled regularisation
ALPHAS = (1e-2, 1e-1, 1.0, 1e1)


def _normal(covariance: str, method: str | Objective = "scroll", bias: bool = False) -> MakeHead:
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


def _decoupled(covariance: str) -> MakeHead:
    """Return the maker of a regression head whose KL has a weight of its own."""
    made = _normal(covariance, "kl")

    def make(features: int, lead: Lead, setting: Setting) -> nn.Module:
        head = made(features, lead, setting)
        assert isinstance(head, RegressionHead)
        return Decoupled(head)

    return make


def _variational(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return Variational(features, lead)


def _mean_variance(mean: bool = True, log_variance: bool = True) -> MakeHead:
    """Return the maker of MVN, whose mean and log variance may learn an offset."""

    def make(features: int, lead: Lead, setting: Setting) -> nn.Module:
        return MeanVariance(features, lead, offsets=(mean, log_variance))

    return make


def _constant(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return Constant(lead)


def _process(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return Process(features, lead)


def _two_beliefs(covariance: str, learns_alpha: bool = False) -> Training:
    """A belief over the last hidden layer too; it is diagonal."""

    def joint(layer: MLP, last: nn.Module) -> nn.Module:
        assert isinstance(last, Head)
        return TwoBeliefs(BeliefLayer(layer, learns_alpha), last)

    return Training(_normal(covariance), joint=joint)


def _set_alpha(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    head.get_parameter("log_alpha").copy_(knobs.log()[:, None])


def _set_ridge(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    """lambda |w|^2 against a mean over N rows is N lambda |w|^2 against their sum."""
    head.get_parameter("log_alpha").copy_((knobs * rows.y.shape[1]).log()[:, None])


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


def _bound(covariance: str, method: str | Objective, orders: int = 1) -> Training:
    """A belief that is a posterior, or bound to one, at each step."""
    return Training(_normal(covariance, method), start=_set_noise, orders=orders)


def _in_single(p: Problem) -> Belief[Full]:
    """Return the posterior, computed in float32."""
    return cast(conjugate(cast(p, torch.float32)), p.psi.dtype)


SINGLE = replace(conjugate, compute=_in_single, name="conjugate_in_single")
_ridge = partial(Training, grid=LAMBDAS, mean_form=True)
_mse: HeldOutScore = held_out_mse
_MAP = _ridge(
    _normal("none", "map"), start=_set_ridge, score=_mse,
    members=5, report=evaluation.map_and_laplace, pool=evaluation.deep_ensemble,
)  # fmt: skip
_FREE = Training(_normal("full"), members=5, pool=evaluation.ensemble("scroll-ens"))
_MVN = _ridge(_mean_variance(), start=set_weight, members=5, pool=evaluation.ensemble("mvn-ens"))
_FIXED = Training(_normal("full", "fixed-alpha"), ALPHAS, _set_alpha)
_NO_PRIOR = Training(_normal("full", "no-prior"), LAMBDAS, _set_ridge)
_REFIT = Training(_normal("full"), report=evaluation.refitted, late=True)
_ROUTED = Training(_normal("full"), report=evaluation.routed, late=True)


def _coded(label: str, name: str, covariance: str, method: str) -> dict[str, Method]:
    """A bound method that also reports its code length: its body is chosen by the validation NLL,
    by the code length, and by the code length of training and validation rows, on all of which
    it is then trained."""
    by_code, all_rows = f"{name}-by-code", f"{name}-all-rows"
    training = replace(_bound(covariance, method), report=coding.coded(by_code))
    joined = replace(training, report=coding.coded(""), score=coding.code_length, joined=True)
    return {
        name: Method(label, training),
        by_code: Method(f"{label}, body by code length", training, name),
        all_rows: Method(f"{label}, no validation rows", joined),
    }


_CODED = {
    **_coded("Prequential-Full", "prequential-full", "full", "prequential"),
    **_coded("Prequential-Diag", "prequential-diag", "diag", "prequential"),
    **_coded("Evidence", "coded-evidence", "full", "evidence"),
    **_coded("Hybrid-Diag", "coded-hybrid-diag", "diag", "hybrid"),
}
_SCALED = Training(_normal("full"), report=refits.scaled("free-crps", "evidence"), late=True)
_EXACT_SCALED = replace(
    _bound("full", "evidence"), report=refits.scaled("exact-crps", "head"), late=True
)
_FIXED_KL = Training(_normal("full", "fixed-kl"), ALPHAS, _set_alpha)
_DECOUPLED = Training(_decoupled("full"), KL_WEIGHTS, set_weight)
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
    "mvn-plain": Method(
        "MVN without offset", _ridge(_mean_variance(False, False), start=set_weight)
    ),
    "mvn-half": Method(
        "MVN with an offset of the log variance", _ridge(_mean_variance(False), start=set_weight)
    ),
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
    "fixed-kl-full": Method("Full, KL, fixed alpha (tuned)", _FIXED_KL),
    "fixed-kl-diag": Method(
        "Diag, KL, fixed alpha (tuned)", replace(_FIXED_KL, head=_normal("diag", "fixed-kl"))
    ),
    "kl-diag": Method("Diag, KL regulariser (PPGPR)", Training(_normal("diag", "kl"))),
    "ppgpr-full": Method("Full, PPGPR, tuned KL weight", _DECOUPLED),
    "ppgpr-diag": Method(
        "Diag, PPGPR, tuned KL weight", replace(_DECOUPLED, head=_decoupled("diag"))
    ),
    "free-crps": Method("SCROLL-Full, refit, LOO-CRPS scale", _SCALED, "scroll-full-scaled"),
    "scroll-full-scaled": Method("SCROLL-Full", _SCALED),
    "exact-crps": Method("Full seq, LOO-CRPS scale", _EXACT_SCALED, "seq-full-scaled"),
    "seq-full-scaled": Method("Full seq", _EXACT_SCALED),
    "hybrid-full": Method("Hybrid-Full", _bound("full", "hybrid")),
    "hybrid-diag": Method("Hybrid-Diag", _bound("diag", "hybrid")),
    **_CODED,
    "closed-full-single": Method("Full closed", _bound("full", Objective(SINGLE))),
    "loo-full-single": Method(
        "Full LOO", _bound("full", Objective(SINGLE, leave_one_out, prior=none))
    ),
    "batch-closed-full": Method("Full closed, in batches", _bound("full", "batch-closed")),
    **{
        f"{kind.lower()}-hybrid-{cov.lower()}": Method(
            f"{kind}-hybrid-{cov}", _bound(cov.lower(), f"{kind.lower()}-hybrid")
        )
        for kind in ("Block", "Batch")
        for cov in ("Full", "Diag")
    },
    "two-beliefs-full": Method("Two beliefs, Full", _two_beliefs("full")),
    "two-beliefs-diag": Method("Two beliefs, Diag", _two_beliefs("diag")),
    "two-beliefs-full-alpha": Method(
        "Two beliefs, Full, alpha learned in both", _two_beliefs("full", learns_alpha=True)
    ),
    "scroll-full-refit": Method("SCROLL-Full", _REFIT),
    "free-hybrid": Method("SCROLL-Full, then hybrid", _REFIT, "scroll-full-refit"),
    "loo-gap": Method("loo-gap", _REFIT, "scroll-full-refit"),
    "scroll-full-routed": Method("SCROLL-Full", _ROUTED),
    "free-refit": Method("SCROLL-Full, then refit", _ROUTED, "scroll-full-routed"),
    "free-refit-inputs": Method("SCROLL-Full, refit with inputs", _ROUTED, "scroll-full-routed"),
    **LABEL_METHODS,
    "mean": Method("Mean predictor", Training(_constant, raw=True)),
    "inputs": Method(
        "Linear in the inputs", Training(_constant, raw=True, report=evaluation.inputs_alone)
    ),
    "gp-rbf": Method("GP-RBF", Training(_process, start=_set_scale, raw=True, rows=1000)),
}
"""Every method by name. Add one here, or from outside with `TABLE_METHODS[name] = Method(...)`."""

BUILT_IN = frozenset(TABLE_METHODS)
