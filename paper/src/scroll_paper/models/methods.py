"""What is trained: each method of the tables as one row.

A method names a head, its grid, its form and what else its networks give: MAP networks also
make the Laplace row and, five together, a Deep Ensemble.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from scroll.heads import ClassificationHead, OrdinalHead, RegressionHead
from scroll.training.batches import Rows
from scroll.training.bodies import MLP, Dropout
from scroll.training.network import Network, Score, held_out_mse, held_out_nll, stack

from ..data.datasets import SETS
from . import evaluation
from .baselines import Constant, Lead, MeanVariance, Variational
from .evaluation import Fitted, Lines
from .gp import Process
from .softmax import Softmax, VariationalSoftmax

LAMBDAS = (1e-4, 1e-3, 1e-2, 1e-1)
ALPHAS = (1e-2, 1e-1, 1.0, 1e1)


class Setting(NamedTuple):
    """What the fits of a stack have in common; the defaults are the headline's."""

    set: str
    method: str
    depth: int = 1
    width: int = 50
    floor: float = 1e-4
    patience: int = 100  # looks, of which there is one every `every` steps
    every: int = 5
    steps: int = 6000
    batch: int = 0  # 0 is all rows
    unit_rows: bool = False  # inputs scaled to length one
    even_rows: bool = False  # inputs divided by sqrt(D)
    short_steps: bool = False  # of size 0.03 / sqrt(D), for long rows
    foreign: str = ""  # a set from elsewhere, which is to be told from the test rows

    def rows(self) -> tuple[bool, bool, str]:
        """How its rows are read, and what other rows with them."""
        return self.unit_rows, self.even_rows, self.foreign

    def odd(self) -> dict[str, Any]:
        """What is not as usual."""
        usual = self._field_defaults
        return {k: v for k, v in self._asdict().items() if k in usual and v != usual[k]}


@dataclass(frozen=True)
class Method:
    """How to train one method, and what to report of it.

    Args:
        head: made for a number of features and replicate axes.
        grid: of its one knob; a single None where it has none. It may depend on the rows.
        turn: sets the knob of each replicate, given the training rows.
        mean_form: its loss is a mean over the data, so the body's penalty is against a mean.
        score: what its checkpoint, architecture and knob are chosen by.
        members: networks in its ensemble.
        orders: random orders of the rows to average over.
        dropout: its probability.
        report: the lines that a network gives.
        pool: the lines that the members of an ensemble give together.
        late: report when the whole stack has finished, because a report is work itself.
        raw: the inputs are the features; no body, no architecture.
        rows: that it reads at most; None is all.
    """

    head: Callable[[int, Lead, Setting], nn.Module]
    grid: tuple[float | None, ...] | Callable[[int], tuple[float, ...]] = (None,)
    turn: Callable[[Any, Tensor, Rows], None] | None = None
    mean_form: bool = False
    score: Score = held_out_nll
    members: int = 1
    orders: int = 1
    dropout: float = 0.0
    report: Callable[[Fitted], Lines] = evaluation.plain
    pool: Callable[[Fitted, int], Lines] | None = None
    late: bool = False
    raw: bool = False
    rows: int | None = None

    def knobs(self, name: str) -> tuple[float | None, ...]:
        """Its grid on a set."""
        return self.grid(SETS[name].train_rows) if callable(self.grid) else self.grid


def network(
    method: Method, setting: Setting, inputs: int, architecture: str | Sequence[str], lead: Lead
) -> Network:
    """An untrained stack of one method's networks."""
    if method.raw or setting.depth == 0:
        return Network(nn.Identity(), method.head(inputs, lead, setting))
    between = Dropout(method.dropout, lead) if method.dropout else None
    body = MLP(inputs, setting.width, setting.depth, architecture, lead, between)
    return Network(body, method.head(setting.width, lead, setting))


def prepared(
    method: Method,
    setting: Setting,
    architectures: Sequence[str],
    seeds: Sequence[int],
    knobs: Sequence[float | None],
    rows: Rows,
) -> Network:
    """A stack ready to train: each replicate its own architecture, seed and knob."""
    inputs = rows.x.shape[-1]

    def make(lead: Lead) -> Network:
        return network(method, setting, inputs, architectures if lead else architectures[0], lead)

    made = stack(make, seeds)
    if setting.short_steps or setting.even_rows:  # all is over before a noise has come far
        with torch.no_grad():
            _at_spread(made.head, rows.y.std(-1).log()[:, None])
    if method.turn is not None:
        with torch.no_grad():
            method.turn(made.head, torch.tensor([k or 0.0 for k in knobs]), rows)
    return made


def _head(covariance: str, method: str = "scroll") -> Callable[[int, Lead, Setting], nn.Module]:
    def make(features: int, lead: Lead, setting: Setting) -> nn.Module:
        return RegressionHead(
            features,
            covariance=covariance,
            method=method,
            floor=setting.floor,
            bias=False,
            replicates=lead,
        )

    return make


PROBIT_SCALE = 1.005


def _labels(kind: str, covariance: str) -> Callable[[int, Lead, Setting], nn.Module]:
    """One of the nine heads for labels."""

    def make(features: int, lead: Lead, setting: Setting) -> nn.Module:
        how: Any = {"covariance": covariance, "floor": setting.floor, "replicates": lead}
        classes = SETS[setting.set].classes
        if kind == "ordinal":
            return OrdinalHead(features, classes, scale=PROBIT_SCALE, **how)
        scale = PROBIT_SCALE if kind == "ova" else None
        return ClassificationHead(features, classes, kind, scale=scale, bias=False, **how)

    return make


def _softmax(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return Softmax(features, SETS[setting.set].classes, lead)


def _variational_softmax(features: int, lead: Lead, setting: Setting) -> nn.Module:
    return VariationalSoftmax(features, SETS[setting.set].classes, lead)


def _kl_weights(rows: int) -> tuple[float, ...]:
    """From 1/N, where the bound is the evidence's, to 0.1, evenly in logarithms."""
    return tuple(float(f"{rows ** (j / 3 - 1) * 0.1 ** (j / 3):.3g}") for j in range(4))


def _turn_alpha(head: Any, knobs: Tensor, rows: Rows) -> None:
    head.log_alpha.copy_(knobs.log()[:, None])


def _turn_ridge(head: Any, knobs: Tensor, rows: Rows) -> None:
    """lambda |w|^2 against a mean over N rows is N lambda |w|^2 against their sum."""
    head.log_alpha.copy_((knobs * rows.y.shape[1]).log()[:, None])


def _turn_weight_of_sum(head: Any, knobs: Tensor, rows: Rows) -> None:
    """lambda |w|^2 against a sum over N rows."""
    head.weight.copy_(knobs / rows.y.shape[1])


def _turn_weight(head: Any, knobs: Tensor, rows: Rows) -> None:
    head.weight.copy_(knobs)


def _spread_as_noise(head: Any, knobs: Tensor, rows: Rows) -> None:
    """Start the noise at the spread of the targets.

    A posterior under too little noise interpolates at the very first step, before the noise
    can follow; a free belief is not bound to it and starts from one.
    """
    _at_spread(head, rows.y.std(-1).log()[:, None])


def _at_spread(head: Any, log_spread: Tensor) -> None:
    """Start the noise of any head at a spread, (R, 1)."""
    if isinstance(head, MeanVariance):
        head.offset[..., 1:] = 2 * log_spread
    elif isinstance(head, Variational):
        head.log_noise.copy_(log_spread)
    else:
        head.likelihood.log_noise.copy_(log_spread)
        if head.log_site_noise is not None:
            head.log_site_noise.copy_(log_spread)


def _turn_weight_and_noise(head: Any, knobs: Tensor, rows: Rows) -> None:
    """The same start for VBLL, whose optimum is the posterior too: where its noise starts far
    below the residuals, its belief collapses before the noise can grow."""
    head.weight.copy_(knobs)
    _at_spread(head, rows.y.std(-1).log()[:, None])


def _spread_as_scale(head: Any, knobs: Tensor, rows: Rows) -> None:
    """Start a process at the spread of the targets, with a tenth of it as noise."""
    head.log_scale.copy_(rows.y.std(-1).log())
    head.log_noise.copy_(rows.y.std(-1).log() - 2.3)


def _bound(covariance: str, method: str, **how: Any) -> Method:
    return Method(_head(covariance, method), turn=_spread_as_noise, **how)


_MAP = Method(
    _head("none", "map"), LAMBDAS, _turn_ridge, mean_form=True, score=held_out_mse,
    members=5, report=evaluation.map_and_laplace, pool=evaluation.deep_ensemble,
)  # fmt: skip
_FIXED = Method(_head("full", "fixed-alpha"), ALPHAS, _turn_alpha)
_SOFTMAX = Method(
    _softmax, (0.1,), _turn_weight_of_sum, members=5,
    report=evaluation.softmax_and_laplace, pool=evaluation.label_ensemble,
)  # fmt: skip
_NO_PRIOR = Method(_head("full", "no-prior"), LAMBDAS, _turn_ridge)

METHODS: dict[str, Method] = {
    "scroll-full": Method(_head("full"), members=5, pool=evaluation.ensemble("scroll-ens")),
    "scroll-diag": Method(_head("diag")),
    "scroll-none": Method(_head("none")),
    "map": _MAP,
    "vbll": Method(
        lambda h, lead, _: Variational(h, lead), LAMBDAS, _turn_weight_and_noise, mean_form=True
    ),
    "mvn": Method(
        lambda h, lead, _: MeanVariance(h, lead), LAMBDAS, _turn_weight, mean_form=True,
        members=5, pool=evaluation.ensemble("mvn-ens"),
    ),
    "mc-dropout": replace(
        _MAP, members=1, pool=None, dropout=0.1, report=evaluation.mc_dropout
    ),
    "closed-full": _bound("full", "closed"),
    "loo-full": _bound("full", "loo"),
    "seq-full": _bound("full", "evidence"),  # what the sequential scores sum to
    "elbo-full": Method(_head("full", "elbo")),
    "closed-diag": _bound("diag", "closed"),
    "loo-diag": _bound("diag", "loo"),
    "seq-diag": _bound("diag", "seq", orders=4),
    "fixed-alpha-full": _FIXED,
    "no-prior-full": _NO_PRIOR,
    "kl-full": Method(_head("full", "kl")),
    "fixed-alpha-diag": replace(_FIXED, head=_head("diag", "fixed-alpha")),
    "no-prior-diag": replace(_NO_PRIOR, head=_head("diag", "no-prior")),
    "hybrid-full": _bound("full", "hybrid"),
    "hybrid-diag": _bound("diag", "hybrid"),
    "scroll-full-refit": Method(_head("full"), report=evaluation.refitted, late=True),
    "scroll-full-routed": Method(_head("full"), report=evaluation.routed, late=True),
    **{
        f"{kind}-{cov}": Method(_labels(kind, cov))
        for kind in ("ova", "ordinal", "gaussreg") for cov in ("full", "diag", "none")
    },
    "softmax": _SOFTMAX,
    "softmax-dropout": replace(
        _SOFTMAX, members=1, pool=None, dropout=0.2, report=evaluation.softmax_dropout
    ),
    "vbll-softmax": Method(_variational_softmax, _kl_weights, _turn_weight, mean_form=True),
    "mean": Method(lambda d, lead, _: Constant(lead), raw=True),
    "inputs": Method(lambda d, lead, _: Constant(lead), raw=True, report=evaluation.inputs_alone),
    "gp-rbf": Method(
        lambda d, lead, _: Process(d, lead), turn=_spread_as_scale, raw=True, rows=1000
    ),
}  # fmt: skip
"""Every method that is trained; see `evaluation` for the lines that each gives."""
