"""What is measured of trained networks: the lines that go into the records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..bodies import Dropout
from ..feeding import Rows
from ..predictive import Categorical, Mixture, Normal
from ..refit import refit
from ..training import Network, held_out_mse, held_out_nll
from . import softmax
from .protocol import Folds, metrics
from .references import laplace


class Fitted(NamedTuple):
    """Trained networks, a replicate each, and their rows."""

    network: Network
    folds: Folds


class Line(NamedTuple):
    """One method's figures, (R,) each."""

    metrics: dict[str, Tensor]
    val: Tensor  # what its architecture and knob are chosen by


Lines = dict[str, Line]
"""By the name of the method; the empty name is the method that was trained."""


def plain(fitted: Fitted) -> Lines:
    """The network's own predictive."""
    network, (train, val, test) = fitted
    found = metrics(network(test.x), test.y) | {"train_nll": held_out_nll(network, train)}
    return {"": Line(found, held_out_nll(network, val))}


def map_and_laplace(fitted: Fitted) -> Lines:
    """A MAP network with the noise of its validation residuals, and the posterior about it."""
    network, (train, val, test) = fitted
    head: Any = network.head
    head.fit_noise(network.body(val.x), val.y)
    lines = plain(fitted)
    chosen = held_out_mse(network, val)
    at, mean = laplace(network, train).project(network.body(test.x).unsqueeze(-3)), network(test.x)
    spread = Normal(mean.mean, mean.noise_var, at.var.squeeze(-2))
    return {
        "": Line(lines[""].metrics, chosen),
        "laplace-full": Line(metrics(spread, test.y), chosen),
    }


def mc_dropout(fitted: Fitted, passes: int = 50) -> Lines:
    """The mean and variance of `passes` thinned networks, and the noise of validation residuals."""
    network, (_, val, test) = fitted

    def drawn(rows: Rows) -> tuple[Tensor, Tensor]:
        with _thinned(network):
            means = torch.stack([network(rows.x).mean for _ in range(passes)])
        return means.mean(0), means.var(0, unbiased=False)

    mean, _ = drawn(val)
    noise = (val.y - mean).square().mean(-1, keepdim=True)
    mean, var = drawn(test)
    predictive = Normal(mean, noise.expand_as(mean), var)
    return {"": Line(metrics(predictive, test.y), held_out_mse(network, val))}


@contextmanager
def _thinned(network: Network) -> Iterator[None]:
    """Dropout as in training, and nothing else."""
    layers = [m for m in network.modules() if isinstance(m, Dropout)]
    for layer in layers:
        layer.train()
    yield
    for layer in layers:
        layer.eval()


def refitted(fitted: Fitted) -> Lines:
    """A free network whose last layer is bound to its data again.

    "free-hybrid" adds a free covariance to the posterior; "loo-gap" is Eq. shared_loo_gap a
    row, with the effective dimension and the greatest leverage.
    """
    network, (train, val, test) = fitted
    head: Any = network.head
    psi, held = network.body(train.x), network.body(val.x)
    with torch.enable_grad():
        hybrid = refit(head, psi, train.y, hybrid=True, validation=(held, val.y))
    bound = refit(head, psi, train.y)
    h = bound.leverage(psi).double()
    share = (train.y - bound(psi).mean).double().square() / bound.noise.square()
    gap = (share * h / (1 - h.square()) - 0.5 * torch.log1p(-h.square())).mean(-1)
    told = {"gap": gap, "d_eff": h.sum(-1), "h_max": h.amax(-1)}
    chosen = -hybrid(held).log_prob(val.y).mean(-1)
    return plain(fitted) | {
        "free-hybrid": Line(metrics(hybrid(network.body(test.x)), test.y), chosen),
        "loo-gap": Line(told, held_out_nll(network, val)),
    }


def softmax_and_laplace(fitted: Fitted) -> Lines:
    """A network with a softmax, and the posterior about its last layer."""
    network, (train, val, test) = fitted
    variances = softmax.laplace(network, train)
    held, tested = (softmax.spread(network, variances, rows.x) for rows in (val, test))
    line = Line(metrics(tested, test.y), -held.log_prob(val.y).mean(-1))
    return plain(fitted) | {"softmax-laplace": line}


def softmax_dropout(fitted: Fitted, passes: int = 20) -> Lines:
    """The mean probabilities of `passes` thinned networks."""
    network, (_, val, test) = fitted

    def drawn(rows: Rows) -> Categorical:
        return _mean(torch.stack([network(rows.x).log_probs for _ in range(passes)]))

    with _thinned(network):
        found, held = metrics(drawn(test), test.y), drawn(val)
    return {"": Line(found, -held.log_prob(val.y).mean(-1))}


def label_ensemble(fitted: Fitted, members: int) -> Lines:
    """The mean probabilities of the members."""
    network, (_, val, test) = fitted
    held, tested = (
        _mean(network(rows.x).log_probs.unflatten(0, (-1, members)).movedim(1, 0))
        for rows in (val, test)
    )
    found = metrics(tested, _first(test.y, members))
    return {"softmax-ensemble": Line(found, -held.log_prob(_first(val.y, members)).mean(-1))}


def _mean(log_probs: Tensor) -> Categorical:
    """The mean over the first axis."""
    return Categorical(log_probs.logsumexp(0).log_softmax(-1))


def ensemble(name: str) -> Callable[[Fitted, int], Lines]:
    """Members in one predictive: collapsed to its two moments, and the exact mixture."""

    def pool(fitted: Fitted, members: int) -> Lines:
        network, (_, val, test) = fitted
        held, tested = (_members(network(rows.x), members) for rows in (val, test))
        y = _first(test.y, members)
        found = metrics(tested.collapsed(), y) | {"nll_mixture": -tested.log_prob(y).mean(-1)}
        chosen = -held.collapsed().log_prob(_first(val.y, members)).mean(-1)
        return {name: Line(found, chosen)}

    return pool


def deep_ensemble(fitted: Fitted, members: int) -> Lines:
    """Members of one noise, that of the validation residuals of their mean."""
    network, (_, val, test) = fitted
    held, tested = (_members(network(rows.x), members) for rows in (val, test))
    error = (_first(val.y, members) - held.mean).square().mean(-1)
    means = tested.parts.mean
    one = Mixture(Normal(means, error[:, None].expand_as(means), torch.zeros_like(means)))
    y = _first(test.y, members)
    found = metrics(one.collapsed(), y) | {"nll_mixture": -one.log_prob(y).mean(-1)}
    return {"deep-ensemble": Line(found, error)}


def _members(p: Normal, members: int) -> Mixture:
    """Replicates (R M, N), members of one ensemble side by side, as a mixture over (R, N)."""
    mean, noise, belief = (
        t.unflatten(0, (-1, members)).movedim(1, 0) for t in (p.mean, p.noise_var, p.belief_var)
    )
    return Mixture(Normal(mean, noise, belief))


def _first(y: Tensor, members: int) -> Tensor:
    return y[::members]
