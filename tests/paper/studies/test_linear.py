"""App. linear_routing: both routes at depth zero are the classical estimators."""

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from scroll_paper.studies import linear


def marginal(z, x, y):
    """The loss of the free route by scipy: random coefficients and -log Z_w (Hildreth-Houck)."""
    mean, log_var, log_noise, log_alpha = z[:5], z[5:10], z[10], z[11]
    var = np.exp(log_var) + 1e-4  # the floor
    data = -stats.norm(x @ mean, np.sqrt(np.exp(2 * log_noise) + x**2 @ var)).logpdf(y).sum()
    return data - stats.norm(0, np.sqrt(var + np.exp(-log_alpha))).logpdf(mean).sum()


def flat(network):
    """The parameters of a network in the order of `marginal`."""
    head = network.head
    named = (head.mean, head.family.log_var, head.likelihood.log_noise, head.log_alpha)
    return np.concatenate([p.detach().numpy().ravel() for p in named])


def test_the_free_route_is_the_random_coefficient_model_with_a_prior():
    rows = linear.data(0, linear.NOISES["heteroscedastic"], 200, [3])
    (network,) = linear.free_route(rows, [0])
    x, y = rows.x[0].numpy(), rows.y[0].numpy()
    ours = float(network.loss(rows, 200).detach())
    assert ours == pytest.approx(marginal(flat(network), x, y), rel=1e-9)
    start = np.r_[np.linalg.lstsq(x, y, rcond=None)[0], np.full(5, -4.0), 0.0, 0.0]
    best = optimize.minimize(marginal, start, (x, y), options={"maxiter": 3000})
    assert ours < best.fun + 1e-4  # from this start: there are several stationary points


def test_the_closed_route_is_the_greatest_evidence():
    noise = linear.NOISES["homoscedastic"]
    found = linear.fitted(noise, 60, [0, 1])
    train, test = (linear.data(part, noise, 60, [0, 1]) for part in (0, 1))
    for r in range(2):
        x, y = train.x[r].numpy(), train.y[r].numpy()

        def loss(z, x=x, y=y):
            cov = x @ x.T / np.exp(z[0]) + np.exp(2 * z[1]) * np.eye(len(y))
            return -stats.multivariate_normal(cov=cov).logpdf(y)

        alpha, s2 = np.exp(optimize.minimize(loss, np.zeros(2), tol=1e-10).x * [1, 2])
        at = test.x[r].numpy()
        cov = np.linalg.inv(x.T @ x / s2 + alpha * np.eye(5))
        var = s2 + np.einsum("ni,ij,nj->n", at, cov, at)
        np.testing.assert_allclose(found.var["closed"][r], var, rtol=1e-4)  # from its optimum


def test_scores_and_correlations_are_those_of_scipy():
    found = linear.fitted(linear.NOISES["heteroscedastic"], 300, [0])
    test = linear.data(1, linear.NOISES["heteroscedastic"], 300, [0])
    y, mean, var = (torch.randn(2, 9) for _ in range(3))
    var = var.exp()
    ours = linear.gaussian_nll(y, mean, var)
    theirs = -stats.norm(mean, var.sqrt()).logpdf(y).mean(-1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    np.testing.assert_array_equal(found.x, test.x)
    rows = linear.claims(dict.fromkeys(linear.NOISES, found))
    expected = np.corrcoef(found.var["free"][0], found.var["truth"][0])[0, 1]
    assert rows["correlation of free and true variance"].mean == pytest.approx(expected, abs=1e-12)
    same = "data sets on which both agree to four decimals"
    assert rows[same].mean == 0
