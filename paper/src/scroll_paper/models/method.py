"""The values that describe a method of the tables, and the networks that it trains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from scroll.heads import Head
from scroll.training.batches import Rows
from scroll.training.bodies import MLP
from scroll.training.dropout import Dropout
from scroll.training.network import HeldOutScore, Network, held_out_nll, stack

from ..data.datasets import SETS
from . import evaluation
from .baselines import Lead, MeanVariance, Variational
from .evaluation import Fitted, Lines


class Setting(NamedTuple):
    """What the networks of a stack have in common; the defaults are those of the headline table.

    Args:
        set: name of the data set.
        method: name of the method that is trained.
        depth: hidden layers; 0 is a linear model.
        width: units per hidden layer.
        floor: least eigenvalue of the belief's covariance.
        patience: validation checks without progress before training stops.
        every: steps between two validation checks.
        steps: most steps.
        batch: rows per step; 0 is all rows.
        unit_rows: scale each input row to length one.
        even_rows: divide the inputs by sqrt(D).
        short_steps: use the learning rate 0.03 / sqrt(D), for long rows.
        foreign: the data set that plays out-of-distribution rows; "" is none.
        ulps: scale the initial parameters by 1 + ulps * eps, a change of their last bit.
    """

    set: str
    method: str
    depth: int = 1
    width: int = 50
    floor: float = 1e-4
    patience: int = 100
    every: int = 5
    steps: int = 6000
    batch: int = 0
    unit_rows: bool = False
    even_rows: bool = False
    short_steps: bool = False
    foreign: str = ""
    ulps: int = 0

    def rows(self) -> tuple[bool, bool, str]:
        """Return how the rows are scaled and which out-of-distribution set goes with them."""
        return self.unit_rows, self.even_rows, self.foreign

    def odd(self) -> dict[str, int | float | str]:
        """Return the fields that differ from the defaults, by name."""
        usual = self._field_defaults
        return {k: v for k, v in self._asdict().items() if k in usual and v != usual[k]}


MakeHead = Callable[[int, Lead, Setting], nn.Module]


@dataclass(frozen=True)
class Training:
    """How the networks of a method are trained, and what they report.

    Args:
        head: makes the last layer from a number of features, replicate axes and a setting.
        grid: values of its one hyper-parameter, or a function of the number of training rows that
            returns them; a single None where there is none.
        start: sets the hyper-parameter of each replicate, given the training rows.
        mean_form: the loss is a mean over the data, so the body's penalty is scaled to a mean.
        score: the validation objective that chooses checkpoint, architecture and hyper-parameter.
        members: networks per ensemble.
        orders: random orders of the rows to average over.
        dropout: probability of dropping a hidden unit.
        report: returns the record lines of trained networks.
        pool: returns the record lines of ensembles.
        late: report only when the whole stack has finished, because reporting takes long.
        raw: the inputs are the features: no body, no architecture.
        joint: makes the head from the last hidden layer and the last layer; None leaves the hidden
            layer in the body.
        rows: most training rows to use; None is all.
        joined: train on training and validation rows together; `score` then sees the same rows.
    """

    head: MakeHead
    grid: tuple[float | None, ...] | Callable[[int], tuple[float, ...]] = (None,)
    start: Callable[[nn.Module, Tensor, Rows], None] | None = None
    mean_form: bool = False
    score: HeldOutScore = held_out_nll
    members: int = 1
    orders: int = 1
    dropout: float = 0.0
    report: Callable[[Fitted], Lines] = evaluation.plain
    pool: Callable[[Fitted, int], Lines] | None = None
    late: bool = False
    raw: bool = False
    joint: Callable[[MLP, nn.Module], nn.Module] | None = None
    rows: int | None = None
    joined: bool = False

    def knobs(self, name: str) -> tuple[float | None, ...]:
        """Return the grid of the hyper-parameter on a data set."""
        return self.grid(SETS[name].train_rows) if callable(self.grid) else self.grid


@dataclass(frozen=True)
class Method:
    """One row of the tables, with all its facts.

    Args:
        label: the row's label in the tables.
        training: how the networks that it is computed from are trained.
        trained_as: the method whose networks it is computed from; "" is itself.
        ensemble: it needs all members of an ensemble rather than one network.
        passes: forward passes per prediction of one network.
        sets: the only data sets that it is run on; () is all.
        seeds: the only seeds that it is run with; () is all.
        experiments: experiments whose tables show it below their own rows.
    """

    label: str
    training: Training
    trained_as: str = ""
    ensemble: bool = False
    passes: int = 1
    sets: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    experiments: tuple[str, ...] = ()

    @property
    def members(self) -> int:
        """Networks per prediction."""
        return self.training.members if self.ensemble else 1

    @property
    def costs(self) -> tuple[int, int]:
        """Training runs per architecture, and forward passes per prediction."""
        grid = self.training.grid
        runs = len(grid(1) if callable(grid) else grid)
        return runs * self.members, self.passes * self.members


def network(
    training: Training, setting: Setting, inputs: int, architecture: str | Sequence[str], lead: Lead
) -> Network:
    """Return an untrained stack of networks with replicate axes `lead`."""
    if training.raw or setting.depth == 0:
        return Network(nn.Identity(), training.head(inputs, lead, setting))
    between = Dropout(training.dropout, lead) if training.dropout else None
    width, depth = setting.width, setting.depth
    if training.joint is None:
        body = MLP(inputs, width, depth, architecture, lead, between)
        return Network(body, training.head(width, lead, setting))
    below = MLP(inputs, width, depth - 1, architecture, lead, between) if depth > 1 else None
    last = MLP(inputs if below is None else width, width, 1, architecture, lead, between)
    joined = training.joint(last, training.head(width, lead, setting))
    return Network(below or nn.Identity(), joined)


def prepared(
    training: Training,
    setting: Setting,
    architectures: Sequence[str],
    seeds: Sequence[int],
    knobs: Sequence[float | None],
    rows: Rows,
) -> Network:
    """Return a stack ready to train: one architecture, seed and hyper-parameter per replicate."""
    inputs = rows.x.shape[-1]

    def make(lead: Lead) -> Network:
        return network(training, setting, inputs, architectures if lead else architectures[0], lead)

    made = stack(make, seeds)
    if setting.short_steps or setting.even_rows:  # training ends before the noise has come far
        with torch.no_grad():
            start_noise(made.head, rows)
    if training.start is not None:
        with torch.no_grad():
            training.start(made.head, torch.tensor([k or 0.0 for k in knobs]), rows)
    return perturbed(made.to(rows.x.dtype), setting.ulps) if setting.ulps else made


@torch.no_grad()
def perturbed(network: Network, ulps: int) -> Network:
    """Scale the parameters that are trained by 1 + ulps * eps, in place; return the network.

    Each number moves by one or two units in its last place per ulp, so that two trainings differ
    by rounding only.
    """
    for p in network.parameters():
        if p.requires_grad:
            p.mul_(1 + ulps * torch.finfo(p.dtype).eps)
    return network


def set_weight(head: nn.Module, knobs: Tensor, rows: Rows) -> None:
    """Set the weight of each replicate's penalty to its hyper-parameter."""
    head.get_buffer("weight").copy_(knobs)


def start_noise(head: nn.Module, rows: Rows) -> None:
    """Start the noise of any head for regression at the standard deviation of the targets."""
    log_spread = rows.y.std(-1).log()[:, None]
    if isinstance(head, MeanVariance):
        head.offset[..., 1:] = 2 * log_spread
    elif isinstance(head, Variational):
        head.log_noise.copy_(log_spread)
    elif isinstance(head, Head):
        head.get_parameter("likelihood.log_noise").copy_(log_spread)
        if head.log_site_noise is not None:
            head.log_site_noise.copy_(log_spread)
