"""Metrics of predictive distributions, against scoringrules and scipy."""

import numpy as np
import pytest
import scoringrules
import torch
from scipy import stats

from scroll.factors import NegativeBinomial, Poisson, ZeroInflated
from scroll.predictive import Count, CountMixture, Mixture, Normal, metrics

pytestmark = pytest.mark.oldest


def example(n=500):
    mean, std, y = torch.randn(n), torch.rand(n) + 0.2, torch.randn(n)
    return Normal(mean, std.square(), torch.zeros(n)), y, stats.norm(mean, std)


def test_against_scipy():
    p, y, theirs = example()
    assert metrics.nll(p, y).item() == pytest.approx(-theirs.logpdf(y).mean(), rel=1e-10)
    assert metrics.rmse(p, y).item() == pytest.approx(np.sqrt(np.mean((y - p.mean).numpy() ** 2)))
    gaps = []
    for level in np.linspace(0.05, 0.95, 19):
        low, high = theirs.interval(level)
        gaps.append(abs(level - np.mean((y.numpy() >= low) & (y.numpy() <= high))))
    assert metrics.calibration_error(p, y).item() == pytest.approx(np.mean(gaps), rel=1e-9)


def test_over_leading_axes():
    p = Normal(torch.randn(3, 50), torch.ones(3, 50), torch.zeros(3, 50))
    y = torch.randn(3, 50)
    for metric in (metrics.nll, metrics.rmse, metrics.calibration_error):
        one = metric(Normal(p.mean[1], p.noise_var[1], p.belief_var[1]), y[1])
        torch.testing.assert_close(metric(p, y)[1], one)


def test_a_right_predictive_is_calibrated_and_a_wrong_one_is_not():
    y = torch.randn(20_000)
    one, zero = torch.ones(20_000), torch.zeros(20_000)
    assert metrics.calibration_error(Normal(zero, one, zero), y) < 0.01
    assert metrics.calibration_error(Normal(zero, 9 * one, zero), y) > 0.15


def test_a_column_of_targets_is_refused():
    p, y, _ = example()
    for metric in (metrics.nll, metrics.rmse, metrics.calibration_error):
        with pytest.raises(ValueError, match=r"`y` must have the shape \(500,\) of the predictive"):
            metric(p, y[:, None])


def test_crps_is_theirs():
    mean, std, y = torch.randn(3, 50), torch.rand(3, 50) + 0.2, torch.randn(50)
    parts = Normal(mean, std.square() / 3, std.square() * (2 / 3))
    one = Normal(mean[0], parts.noise_var[0], parts.belief_var[0])
    theirs = scoringrules.crps_normal(y.numpy(), mean[0].numpy(), std[0].numpy())
    assert metrics.crps(one, y).item() == pytest.approx(theirs.mean(), rel=1e-10)
    third = np.full((50, 3), 1 / 3)
    theirs = scoringrules.crps_mixnorm(y.numpy(), mean.T.numpy(), std.T.numpy(), third)
    assert metrics.crps(Mixture(parts), y).item() == pytest.approx(theirs.mean(), rel=1e-10)


def test_crps_of_counts_is_theirs():
    rate, y, r = torch.tensor([0.3, 2.0, 11.0]), torch.tensor([0.0, 5.0, 9.0]), 2.5
    at = (rate.log(), torch.full((3,), 1e-16))
    ours = metrics.crps(Count(Poisson(), *at), y).item()
    theirs = scoringrules.crps_poisson(y.numpy(), rate.numpy())
    assert ours == pytest.approx(theirs.mean(), rel=1e-9)
    ours = metrics.crps(Count(NegativeBinomial(torch.tensor(r)), *at), y).item()
    theirs = scoringrules.crps_negbinom(y.numpy(), r, (r / (r + rate)).numpy())
    assert ours == pytest.approx(theirs.mean(), rel=1e-9)


@pytest.mark.parametrize("std", [0.0, 0.3, 1.2])
def test_crps_of_mixed_counts_is_the_sum_of_their_distribution_function(std):
    mean, y = torch.tensor([-1.0, 0.5, 2.0]), torch.tensor([0.0, 7.0, 2.0])
    var, r = torch.full((3,), std**2), torch.tensor(1.7)
    factor = ZeroInflated(NegativeBinomial(r), torch.tensor(-1.0))
    p = CountMixture((Count(factor, mean, var), Count(factor, mean + 0.4, var / 3)))
    ours = p.crps(y)
    theirs = torch.zeros(3)
    for k in range(2000):
        theirs += (p.cdf(torch.full((3,), float(k))) - (y <= k).double()).square()
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_crps_of_large_counts_sums_in_blocks():
    rate, y, r = torch.tensor([3e4, 2e5]), torch.tensor([2e4, 5e5]), 3.0
    p = Count(NegativeBinomial(torch.tensor(r)), rate.log(), torch.full((2,), 1e-16))
    theirs = scoringrules.crps_negbinom(y.numpy(), r, (r / (r + rate)).numpy())
    torch.testing.assert_close(p.crps(y), torch.from_numpy(theirs), rtol=1e-4, atol=0)


@pytest.mark.parametrize("rate", [600.0, 800.0, 1500.0, 3000.0])
def test_crps_of_counts_whose_zero_is_impossible(rate):
    """P(y = 0) underflows from a rate of 745."""
    y, k, r = torch.tensor([round(1.02 * rate)]).double(), np.arange(2 * int(rate)), 1e4
    laws = {
        Poisson(): stats.poisson(rate),
        NegativeBinomial(torch.tensor(r)): stats.nbinom(r, r / (r + rate)),
    }
    for factor, law in laws.items():
        p = Count(factor, torch.tensor([rate]).log(), torch.full((1,), 1e-20))
        want = np.square(law.cdf(k) - (k >= y.numpy())).sum()
        assert p.crps(y).item() == pytest.approx(want, rel=1e-8)
