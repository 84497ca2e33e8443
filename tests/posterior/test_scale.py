"""The scale of least leave-one-out CRPS, against scipy and N refits."""

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

from scroll import RegressionHead, refit
from scroll.posterior.scale import loo_crps_scale, mean_crps


def rows(n=40):
    return torch.randn(n) * 1.7, torch.rand(n) + 0.5


def crps(residual, std):
    """Integral of (F(x) - 1[x >= residual])^2."""
    cdf = stats.norm(0, std).cdf
    low = integrate.quad(lambda x: cdf(x) ** 2, -20, residual, epsabs=1e-13)[0]
    return low + integrate.quad(lambda x: (1 - cdf(x)) ** 2, residual, 20, epsabs=1e-13)[0]


def test_mean_crps_is_the_integral_of_squared_errors_of_the_cdf():
    residual, std = rows(6)
    want = np.mean([crps(r, s) for r, s in zip(residual.numpy(), std.numpy(), strict=True)])
    assert mean_crps(residual, std).item() == pytest.approx(want, rel=1e-9)


def test_the_scale_is_the_minimum():
    residual, std = rows()

    def slope(t):
        """Of the mean CRPS in t, by scipy."""
        density = stats.norm.pdf(residual.numpy() / (t * std.numpy()))
        return (std.numpy() * (2 * density - np.pi**-0.5)).mean()

    want = optimize.brentq(slope, 1e-3, 1e3, xtol=1e-14, rtol=1e-14)
    found = loo_crps_scale(residual, std)
    assert found.item() == pytest.approx(want, rel=1e-9)
    least = mean_crps(residual, found * std)
    for other in (0.99, 1.01):
        assert mean_crps(residual, other * found * std) > least


def test_the_scale_follows_the_units_and_the_replicates():
    residual, std = (torch.stack(t) for t in zip(rows(), rows(), strict=True))
    found = loo_crps_scale(residual, std)
    torch.testing.assert_close(loo_crps_scale(residual, 5 * std), found / 5, rtol=1e-9, atol=0)
    torch.testing.assert_close(loo_crps_scale(7 * residual, std), 7 * found, rtol=1e-9, atol=0)
    for r in range(2):
        solo = loo_crps_scale(residual[r], std[r])
        torch.testing.assert_close(found[r], solo, rtol=1e-12, atol=0)


def test_right_deviations_keep_their_scale():
    std = torch.rand(200_000) + 0.5
    found = loo_crps_scale(std * torch.randn(200_000), std)
    assert found.item() == pytest.approx(1, abs=0.01)  # of 200,000 rows


def test_leave_one_out_of_a_posterior_is_n_refits():
    psi = torch.randn(15, 3)
    y = psi.sum(-1) + 0.3 * torch.randn(15)
    head = RegressionHead(3, bias=False, noise=0.4, alpha=0.7)
    bound = refit(head, psi, y, hyper="head")
    left = 1 - bound.leverage(psi)
    ours = (y - bound(psi).mean) / left, bound.noise / left.sqrt()
    residual, std = [], []
    for n in range(15):
        rest = torch.arange(15) != n
        p = refit(head, psi[rest], y[rest], hyper="head")(psi[n : n + 1])
        residual.append(y[n : n + 1] - p.mean)
        std.append(p.stddev)
    want = loo_crps_scale(torch.cat(residual), torch.cat(std))
    torch.testing.assert_close(loo_crps_scale(*ours), want, rtol=1e-9, atol=0)


def test_residuals_of_zero_are_refused():
    with pytest.raises(ValueError, match=r"`residual` must differ from zero in some row"):
        loo_crps_scale(torch.zeros(3), torch.ones(3))
