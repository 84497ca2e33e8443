"""Scores of trained networks: the lines that go into the records."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from scroll.heads import Head, RegressionHead
from scroll.posterior.posterior import Posterior, refit
from scroll.predictive import Categorical, Mixture, Normal, Predictive
from scroll.training.batches import Rows
from scroll.training.dropout import Dropout
from scroll.training.network import Network, held_out_mse, held_out_nll

from ..data.protocol import Folds, metrics
from . import softmax
from .baselines import bayesian_head, laplace
from .ood import auroc, ood_auroc

PASSES, LABEL_PASSES = 50, 20  # forward passes of MC dropout, for numbers and for labels


class Fitted(NamedTuple):
    """Trained networks, one per replicate, and their rows."""

    network: Network
    folds: Folds


class Line(NamedTuple):
    """The scores of one method, (R,) each.

    Args:
        metrics: by name.
        val: the validation objective that chooses the architecture and the hyper-parameter.
    """

    metrics: dict[str, Tensor]
    val: Tensor


Lines = dict[str, Line]
"""Lines by the name of the method; the empty name is the method that was trained."""


def joined(parts: Sequence[Lines]) -> Lines:
    """Return the lines of all networks from those of several parts."""
    return {
        name: Line(
            {k: torch.cat([p[name].metrics[k] for p in parts]) for k in line.metrics},
            torch.cat([p[name].val for p in parts]),
        )
        for name, line in parts[0].items()
    }


def scored(
    predict: Callable[[Tensor], Normal], folds: Folds, members: int = 1
) -> dict[str, Tensor]:
    """Return the metrics on test rows, and the AUROC if there are out-of-distribution rows.

    Args:
        predict: from inputs to their predictive.
        folds: the rows.
        members: networks per ensemble, whose rows are the same.
    """
    at = predict(folds.test.x)
    found = metrics(at, _first(folds.test.y, members))
    if folds.foreign is not None:
        found["auroc"] = ood_auroc(at, predict(folds.foreign.x))
    return found


def plain(fitted: Fitted) -> Lines:
    """Score the network's own predictive."""
    network, folds = fitted
    found = scored(network, folds) | {"train_nll": held_out_nll(network, folds.train)}
    if isinstance(head := network.head, Head) and head.objective.learns_alpha:
        found["alpha"] = head.log_alpha.mean(-1).exp()  # the geometric mean over outputs
    return {"": Line(found, held_out_nll(network, folds.val))}


def map_and_laplace(fitted: Fitted) -> Lines:
    """Score a MAP network with the noise of its validation residuals, and Laplace about it."""
    network, folds = fitted
    head = bayesian_head(network)
    head.fit_noise(network.body(folds.val.x), folds.val.y)
    lines = plain(fitted)
    chosen = held_out_mse(network, folds.val)
    posterior = laplace(network, folds.train)

    def spread(x: Tensor) -> Normal:
        psi = network.body(x)
        at, mean = posterior.project(psi.unsqueeze(-3)), head(psi)
        return Normal(mean.mean, mean.noise_var, at.var.squeeze(-2))

    return {
        "": Line(lines[""].metrics, chosen),
        "laplace-full": Line(scored(spread, folds), chosen),
    }


def mc_dropout(fitted: Fitted, passes: int = PASSES) -> Lines:
    """Score mean and variance of `passes` networks under dropout, with the noise of validation
    residuals."""
    network, folds = fitted

    def drawn(x: Tensor) -> tuple[Tensor, Tensor]:
        with _thinned(network):
            means = torch.stack([network(x).mean for _ in range(passes)])
        return means.mean(0), means.var(0, unbiased=False)

    mean, _ = drawn(folds.val.x)
    noise = (folds.val.y - mean).square().mean(-1, keepdim=True)

    def predict(x: Tensor) -> Normal:
        mean, var = drawn(x)
        return Normal(mean, noise.expand_as(mean), var)

    return {"": Line(scored(predict, folds), held_out_mse(network, folds.val))}


@contextmanager
def _thinned(network: Network) -> Iterator[None]:
    """Switch dropout on as in training, and nothing else."""
    layers = [m for m in network.modules() if isinstance(m, Dropout)]
    for layer in layers:
        layer.train()
    yield
    for layer in layers:
        layer.eval()


def refitted(fitted: Fitted) -> Lines:
    """Score a free network whose last layer is refitted to its posterior.

    "free-hybrid" adds a free covariance to the posterior; "loo-gap" is Eq. shared_loo_gap per
    row, with the effective dimension and the largest leverage.
    """
    network, (train, val, test, _) = fitted
    head = bayesian_head(network)
    psi, held = network.body(train.x), network.body(val.x)
    with torch.enable_grad():
        hybrid = refit(head, psi, train.y, hybrid=True, validation=(held, val.y))
    bound = refit(head, psi, train.y)
    h = bound.leverage(psi).double()
    share = (train.y - bound(psi).mean).double().square() / bound.noise.square()
    gap = (share * h / (1 - h.square()) - 0.5 * torch.log1p(-h.square())).mean(-1)
    terms = {"gap": gap, "d_eff": h.sum(-1), "h_max": h.amax(-1)}
    chosen = -hybrid(held).log_prob(val.y).mean(-1)
    return plain(fitted) | {
        "free-hybrid": Line(metrics(hybrid(network.body(test.x)), test.y), chosen),
        "loo-gap": Line(terms, held_out_nll(network, val)),
    }


def routed(fitted: Fitted) -> Lines:
    """Score a free network that also detects out-of-distribution rows.

    It predicts by the route of least validation NLL: the free belief, the posterior on the same
    features, or that with a free covariance added. In each case, out-of-distribution rows are
    detected by the variance of a posterior, which is their leverage: "free-refit" uses the one on
    the features, "free-refit-inputs" one on features and inputs, which sees what the body lost.
    """
    network, folds = fitted
    head = bayesian_head(network)
    train, held = ((network.body(r.x), r.y) for r in (folds.train, folds.val))
    bound = refit(head, *train)
    with torch.enable_grad():
        hybrid = refit(head, *train, hybrid=True, validation=held)
    routes = (head, bound, hybrid)
    val = torch.stack([-route(held[0]).log_prob(held[1]).mean(-1) for route in routes])
    best, which = val.nan_to_num(torch.inf).min(0)
    psi = network.body(folds.test.x)
    each = [metrics(route(psi), folds.test.y) for route in routes]
    found = {k: torch.stack([m[k] for m in each]).gather(0, which[None])[0] for k in each[0]}
    names = ("free-refit", "free-refit-inputs")
    if folds.foreign is None:
        return plain(fitted) | dict.fromkeys(names, Line(found, best))
    areas = (_leverage_area(bound, network.body, folds), _area_with_inputs(network, folds))
    lines = {n: Line(found | {"auroc": a}, best) for n, a in zip(names, areas, strict=True)}
    return plain(fitted) | lines


def inputs_alone(fitted: Fitted) -> Lines:
    """Score the Bayesian linear model of the inputs, without any network."""
    folds = fitted.folds
    lead, _, width = folds.train.x.shape
    head = RegressionHead(width, covariance="none", bias=False, replicates=(lead,))
    bound = refit(head.to(folds.train.x), folds.train.x, folds.train.y)
    val = -bound(folds.val.x).log_prob(folds.val.y).mean(-1)
    return {"": Line(scored(bound, folds), val)}


def _leverage_area(bound: Posterior, features: Callable[[Tensor], Tensor], folds: Folds) -> Tensor:
    """Return the AUROC of the variance of a posterior."""
    assert folds.foreign is not None
    return auroc(*(bound.epistemic(features(r.x)).double() for r in (folds.test, folds.foreign)))


def _area_with_inputs(network: Network, folds: Folds) -> Tensor:
    """Return the AUROC of the posterior on features and inputs together."""

    def both(x: Tensor) -> Tensor:
        return torch.cat([network.body(x), x], -1)

    lead = bayesian_head(network).replicates
    psi = both(folds.train.x)
    wide = RegressionHead(psi.shape[-1], covariance="none", bias=False, replicates=lead)
    return _leverage_area(refit(wide.to(psi), psi, folds.train.y), both, folds)


def softmax_and_laplace(fitted: Fitted) -> Lines:
    """Score a network with a softmax, and Laplace about its last layer."""
    network, (train, val, test, _) = fitted
    head = network.head
    assert isinstance(head, softmax.Softmax)
    psi = network.body(train.x)  # the weight of the penalty on the mean loss is a prior's
    variances = softmax.laplace(head, psi, psi.shape[-2] * head.weight[:, None, None])
    held, tested = (softmax.spread(head, variances, network.body(r.x)) for r in (val, test))
    line = Line(metrics(tested, test.y), -held.log_prob(val.y).mean(-1))
    return plain(fitted) | {"softmax-laplace": line}


def softmax_dropout(fitted: Fitted, passes: int = LABEL_PASSES) -> Lines:
    """Score the mean probabilities of `passes` networks under dropout."""
    network, (_, val, test, _) = fitted

    def drawn(rows: Rows) -> Categorical:
        return _mean(torch.stack([network(rows.x).log_probs for _ in range(passes)]))

    with _thinned(network):
        found, held = metrics(drawn(test), test.y), drawn(val)
    return {"": Line(found, -held.log_prob(val.y).mean(-1))}


def label_ensemble(fitted: Fitted, members: int) -> Lines:
    """Score the mean probabilities of the ensemble members."""
    network, (_, val, test, _) = fitted
    held, tested = (
        _mean(network(rows.x).log_probs.unflatten(0, (-1, members)).movedim(1, 0))
        for rows in (val, test)
    )
    found = metrics(tested, _first(test.y, members))
    return {"softmax-ensemble": Line(found, -held.log_prob(_first(val.y, members)).mean(-1))}


def _mean(log_probs: Tensor) -> Categorical:
    """Return the mean over the first axis."""
    return Categorical(log_probs.logsumexp(0).log_softmax(-1))


def ensemble(name: str) -> Callable[[Fitted, int], Lines]:
    """Return a function that scores an ensemble: as a Gaussian with the mixture's two moments, and
    as the exact mixture ("nll_mixture")."""

    def pool(fitted: Fitted, members: int) -> Lines:
        network, folds = fitted

        def mixed(x: Tensor) -> Mixture:
            return _members(network(x), members)

        found = scored(lambda x: mixed(x).collapsed(), folds, members)
        found["nll_mixture"] = _nll(mixed, folds.test, members)
        return {name: Line(found, _nll(lambda x: mixed(x).collapsed(), folds.val, members))}

    return pool


def deep_ensemble(fitted: Fitted, members: int) -> Lines:
    """Score MAP members that share one noise, that of the validation residuals of their mean."""
    network, folds = fitted
    held = _members(network(folds.val.x), members)
    error = (_first(folds.val.y, members) - held.mean).square().mean(-1)

    def mixed(x: Tensor) -> Mixture:
        means = _members(network(x), members).parts.mean
        return Mixture(Normal(means, error[:, None].expand_as(means), torch.zeros_like(means)))

    found = scored(lambda x: mixed(x).collapsed(), folds, members)
    found["nll_mixture"] = _nll(mixed, folds.test, members)
    return {"deep-ensemble": Line(found, error)}


def _nll(predict: Callable[[Tensor], Predictive], rows: Rows, members: int) -> Tensor:
    return -predict(rows.x).log_prob(_first(rows.y, members)).mean(-1)


def _members(p: Normal, members: int) -> Mixture:
    """Return replicates (R M, N), ensemble members side by side, as a mixture over (R, N)."""
    mean, noise, belief = (
        t.unflatten(0, (-1, members)).movedim(1, 0) for t in (p.mean, p.noise_var, p.belief_var)
    )
    return Mixture(Normal(mean, noise, belief))


def _first(y: Tensor, members: int) -> Tensor:
    return y[::members]
