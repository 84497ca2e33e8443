"""The head for censored targets: maximum likelihood, stacks, batches, refits and messages."""

import numpy as np
import pytest
import torch
from scipy import optimize, stats

import scroll
from parts import intervals
from scroll import CensoredHead, RegressionHead, refit
from scroll.predictive import Survival
from scroll.training import MLP, Network, Rows, Settings, stack, train

N, H, INF = 40, 3, torch.inf


def lifetimes(n=200, kind="right"):
    """Linear data with half of the targets censored: at 0.3, or rounded to intervals."""
    g = torch.Generator().manual_seed(1)
    x = torch.randn(n, H, generator=g)
    t = x @ torch.tensor([1.0, -0.5, 0.2]) + 0.4 + 0.7 * torch.randn(n, generator=g)
    low, high = t.clone(), t.clone()
    if kind in ("right", "all"):
        low[t > 0.3], high[t > 0.3] = 0.3, INF
    if kind in ("left", "all"):
        low[t < -0.8], high[t < -0.8] = -INF, -0.8
    if kind == "interval":
        low, high = t.floor(), t.floor() + 1
    return x, torch.stack([low, high], -1)


def maximum_likelihood(x, y):
    """Tobit, or interval regression: intercept, weights and log noise by scipy."""
    x, (low, high) = x.numpy(), y.numpy().T
    exact = low == high
    design = np.column_stack([np.ones(len(x)), x])

    def loss(theta):
        mean, std = design @ theta[:-1], np.exp(theta[-1])
        a, b = (low - mean) / std, (high - mean) / std
        a, b = np.where(a + b > 0, -b, a), np.where(a + b > 0, -a, b)
        top = stats.norm.logcdf(b)
        with np.errstate(divide="ignore", invalid="ignore"):
            mass = top + np.log1p(-np.exp(stats.norm.logcdf(a) - top))
        return -np.where(exact, stats.norm.logpdf(low, mean, std), mass).sum()

    start = np.zeros(design.shape[1] + 1)
    found = optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-4})
    return optimize.minimize(
        loss,
        found.x,
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999},
    ).x


@pytest.mark.parametrize("kind", ["right", "left", "all", "interval"])
def test_a_linear_head_without_prior_is_the_maximum_likelihood_fit(kind):
    x, y = lifetimes(kind=kind)
    head = CensoredHead(H, covariance="none", method="no-prior", alpha=1e-12)
    steps = torch.optim.LBFGS(
        [p for p in head.parameters() if p.requires_grad],
        max_iter=500,
        tolerance_grad=1e-12,
        tolerance_change=1e-16,
        line_search_fn="strong_wolfe",
    )

    def closure():
        steps.zero_grad()
        loss = head.loss(x, y, total=len(x))
        loss.backward()
        return loss

    steps.step(closure)
    ours = [head.bias[0], *head.mean[0], head.likelihood.log_noise[0]]
    want = maximum_likelihood(x, y)
    np.testing.assert_allclose([p.item() for p in ours], want, rtol=0, atol=1e-6)
    assert abs(ours[1].item() - 1.0) < 0.2  # the truth


def test_exact_targets_are_those_of_the_regression_head():
    """As (N,) or as pairs; the state of one head fits the other."""
    psi, y = torch.randn(N, H), torch.randn(N)
    ours, theirs = CensoredHead(H), RegressionHead(H)
    theirs.load_state_dict(ours.state_dict())
    want = theirs.loss(psi, y, total=N)
    for given in (y, torch.stack([y, y], -1)):
        torch.testing.assert_close(ours.loss(psi, given, total=N), want, rtol=1e-14, atol=0)
    p, q = ours(psi), theirs(psi)
    assert isinstance(p, Survival)
    torch.testing.assert_close(p.log_prob(y), q.log_prob(y), rtol=0, atol=0)
    torch.testing.assert_close(p.interval(0.9), q.interval(0.9), rtol=0, atol=0)


@pytest.mark.parametrize("method", ["scroll", "elbo", "kl"])
def test_batches_and_their_weights_add_up_to_the_loss(method):
    """The mean over batches of N/4 rows is the loss of all rows; so with weights."""
    psi, y, weight = torch.randn(N, H), intervals(N), torch.rand(N)
    head = CensoredHead(H, method=method)
    for given in (None, weight):
        parts = [
            head.loss(psi[i::4], y[i::4], total=N, weight=None if given is None else given[i::4])
            for i in range(4)
        ]
        whole = head.loss(psi, y, total=N, weight=given)
        torch.testing.assert_close(torch.stack(parts).mean(), whole, rtol=1e-12, atol=0)


def test_a_stack_of_networks_trains_on_batches_and_predicts_better_than_one_that_ignores():
    """Censoring that is ignored pulls predictions to the bound."""
    x, y = lifetimes(600)
    make = lambda lead: Network(MLP(H, 16, replicates=lead), CensoredHead(16, replicates=lead))
    parts = (x[:400], y[:400]), (x[400:], y[400:])
    rows, held = (Rows(*(t.expand(2, *t.shape) for t in part)) for part in parts)
    settings = Settings(steps=300, every=10, patience=10, batch=64)
    found = train(stack(make, range(2)), rows, held, settings)
    mixed = found.network(held.x).mixture()
    ours = scroll.metrics.censored_nll(mixed, *held.y[0].unbind(-1))
    blind = Rows(rows.x, y[:400, 0].expand(2, -1)), Rows(held.x, y[400:, 0].expand(2, -1))
    network = train(stack(make, range(2)), *blind, settings).network
    theirs = scroll.metrics.censored_nll(network(held.x).mixture(), *held.y[0].unbind(-1))
    assert found.score.isfinite().all()
    assert ours < theirs - 0.05


def test_diagnosis_of_the_noise_and_of_hard_rows():
    psi, y = torch.randn(N, H), intervals(N)
    head = CensoredHead(H)
    found = head.diagnose(psi, y)
    assert "Noise: carries" in str(found)
    assert found.hard_weight.shape == found.noise_share.shape == (1,)
    with torch.no_grad():
        head.likelihood.log_noise -= 20
    assert "Use covariance='none'." in str(head.diagnose(psi))
    assert "closed" not in str(head.diagnose(psi)).split("\n")[0]


def test_a_refit_regresses_on_the_known_ends():
    psi = torch.randn(N, H)
    y = torch.tensor([(1.0, 1.0), (2.0, INF), (-INF, 3.0), (4.0, 5.0)]).repeat(N // 4, 1)
    head = CensoredHead(H)
    want = torch.tensor([1.0, 2.0, 3.0, 4.5]).repeat(N // 4)
    torch.testing.assert_close(head.likelihood.regress(y, psi.shape[:-1])[0], want)
    bound = refit(head, psi, y)
    assert bound.ood_score(psi).isfinite().all()
    with pytest.raises(TypeError, match="`head` must regress on a real target"):
        bound(psi)


BAD = {
    "NaN": ([(0.0, float("nan"))], r"pairs low <= high with a finite end, but got \(0, nan\)"),
    "order": (
        [(1.0, 0.0)],
        r"pairs low <= high with a finite end, but got \(1, 0\) at index \[0\]",
    ),
    "free": (
        [(-INF, INF)],
        r"but got \(-inf, inf\) at index \[0\]\. Exact targets have low = high",
    ),
    "far": ([(INF, INF)], r"but got \(inf, inf\)"),
    "shape": ([(1.0, 1.0, 1.0)], r"have shape \(1, 2\) to go with the features, but got \(1, 3\)"),
    "infinite": ([INF], r"be finite"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_targets_are_refused(what):
    y, message = BAD[what]
    with pytest.raises(ValueError, match=rf"^`y` must .*{message}"):
        CensoredHead(H).loss(torch.randn(1, H), torch.tensor(y), total=1)


def test_what_needs_a_gaussian_factor_is_refused():
    with pytest.raises(TypeError, match="be Gaussian for method 'closed', but got CensoredGauss"):
        CensoredHead(H, method="closed")
    with pytest.raises(TypeError, match="be Gaussian to have a noise, but got CensoredLikelihood"):
        CensoredHead(H).fit_noise(torch.randn(N, H), intervals(N))
    with pytest.raises(ValueError, match="`noise` must be positive"):
        CensoredHead(H, noise=0.0)
