"""The paper's depth-zero study (App. linear_routing): both routes are classical estimators.

psi(x) = x, N = 4000, D = 5, diagonal belief, quasi-Newton; the closed route's alpha and noise
by the evidence.
"""

import numpy as np
import pytest
import torch

from scroll import RegressionHead, refit

D, N = 5, 4000


def linear_data(std, seed):
    g = torch.Generator().manual_seed(seed)
    w = torch.randn(D, generator=g)
    x = torch.randn(2 * N, D, generator=g)
    s = std(x)
    y = x @ w + s * torch.randn(2 * N, generator=g)
    return (x[:N], y[:N]), (x[N:], y[N:]), s[N:] ** 2


def fit_free(x, y):
    head = RegressionHead(D, covariance="diag", bias=False)
    lbfgs = torch.optim.LBFGS(
        head.parameters(), max_iter=500, line_search_fn="strong_wolfe", tolerance_change=1e-12
    )

    def closure():
        lbfgs.zero_grad()
        loss = head.loss(x, y, total=len(y))
        loss.backward()
        return loss

    lbfgs.step(closure)
    return head


def study(std):
    """Test NLL of the two routes and of the truth about the variance, mean over five data sets."""
    rows, correlations = [], []
    for seed in range(5):
        train, (x, y), truth = linear_data(std, seed)
        free, closed = fit_free(*train), refit(RegressionHead(D, bias=False), *train)
        with torch.no_grad():
            p, q = free(x), closed(x)
            oracle = torch.distributions.Normal(p.mean, truth.sqrt()).log_prob(y)
            rows.append([-t.mean().item() for t in (p.log_prob(y), q.log_prob(y), oracle)])
            if truth.var() > 0:
                correlations.append(np.corrcoef(p.variance, truth)[0, 1])
    return np.mean(rows, 0), correlations, free


def test_heteroscedastic_noise_separates_the_routes():
    (free, closed, oracle), correlations, head = study(lambda x: 0.3 + 1.5 * x[:, 0].abs())
    assert free == pytest.approx(1.649, abs=0.03)
    assert closed == pytest.approx(1.970, abs=0.03)
    assert free - oracle < 0.015
    assert min(correlations) >= 0.99
    variances = head.belief().cov.var[0].detach()
    assert variances[0].item() == pytest.approx(3.32, rel=0.15)
    assert variances[1:].max() < 0.1


def test_homoscedastic_noise_does_not():
    (free, closed, _), _, head = study(lambda x: torch.ones(len(x)))
    assert free == pytest.approx(closed, abs=5e-4)  # equal to three decimals
    assert free == pytest.approx(1.4154, abs=0.02)
    assert head.belief().cov.var.max() < 0.05
