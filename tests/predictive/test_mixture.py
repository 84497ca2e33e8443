"""A mixture of normals against torch.distributions and scipy."""

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats
from torch.distributions import Categorical, MixtureSameFamily
from torch.distributions import Normal as TorchNormal

from scroll.predictive import Mixture, Normal

M, R, N = 5, 2, 7


def example(*shape):
    """A mixture with parts that differ, and the same as torch has it."""
    shape = shape or (R, N)
    mean, noise, belief = (
        2 * torch.randn(M, *shape),
        torch.rand(shape) + 0.05,
        torch.rand(M, *shape),
    )
    parts = Normal(mean, noise.expand(M, *shape), belief)
    last = lambda t: t.movedim(0, -1)
    theirs = MixtureSameFamily(
        Categorical(torch.ones(*shape, M)),
        TorchNormal(last(mean), last((noise + belief).sqrt())),
    )
    return Mixture(parts), theirs


@pytest.mark.parametrize("shape", [(N,), (R, N), (3, R, N)])
def test_density_distribution_and_moments_over_leading_axes(shape):
    ours, theirs = example(*shape)
    y = 3 * torch.randn(shape)
    for mine, want in (
        (ours.log_prob(y), theirs.log_prob(y)),
        (ours.cdf(y), theirs.cdf(y)),
        (ours.mean, theirs.mean),
        (ours.variance, theirs.variance),
        (ours.stddev, theirs.stddev),
    ):
        assert mine.shape == shape
        torch.testing.assert_close(mine, want, rtol=1e-9, atol=1e-12)


def test_the_density_far_out_does_not_underflow():
    ours, _ = example(N)
    far = torch.full((N,), 200.0)
    logs = stats.norm.logpdf(200.0, ours.parts.mean, ours.parts.stddev)
    want = np.logaddexp.reduce(logs, 0) - np.log(M)
    assert want.max() < -1000
    np.testing.assert_allclose(ours.log_prob(far), want, rtol=1e-9)


def test_one_number_is_for_all_rows_and_another_shape_is_refused():
    ours, _ = example()
    same = torch.full((R, N), 0.3)
    torch.testing.assert_close(ours.log_prob(0.3), ours.log_prob(same), rtol=0, atol=0)
    torch.testing.assert_close(ours.cdf(0.3), ours.cdf(same), rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"`y` must have the shape \(2, 7\) of the predictive"):
        ours.log_prob(torch.zeros(N))


@pytest.mark.parametrize("level", [1e-6, 0.05, 0.5, 0.9])
def test_quantiles_are_where_scipys_root_finder_has_them(level):
    ours, _ = example()
    at = ours.quantile(level)
    for r in range(R):
        for n in range(N):
            parts = stats.norm(ours.parts.mean[:, r, n], ours.parts.stddev[:, r, n])
            want = optimize.brentq(
                lambda t, p=parts: p.cdf(t).mean() - level, -60, 60, xtol=1e-13, rtol=1e-14
            )
            # in the valley between two members cdf is flat: rounding of 1e-16 over its slope
            slope = parts.pdf(want).mean()
            assert at[r, n].item() == pytest.approx(want, rel=1e-9, abs=1e-12 + 1e-15 / slope)


def test_several_levels_are_a_last_axis_and_intervals_hold_their_coverage():
    ours, _ = example()
    levels = (0.1, 0.5, 0.99)
    at = ours.quantile(levels)
    assert at.shape == (R, N, 3)
    for k, level in enumerate(levels):
        torch.testing.assert_close(at[..., k], ours.quantile(level), rtol=0, atol=0)
        reached = ours.cdf(at[..., k])
        torch.testing.assert_close(reached, torch.full((R, N), level), rtol=1e-9, atol=0)
    each = torch.rand(R, N)
    torch.testing.assert_close(ours.cdf(ours.icdf(each)), each, rtol=1e-9, atol=1e-12)
    low, high = ours.interval(0.8)
    inside = ours.cdf(high) - ours.cdf(low)
    torch.testing.assert_close(inside, torch.full((R, N), 0.8), rtol=1e-9, atol=0)
    torch.testing.assert_close(ours.cdf(low), torch.full((R, N), 0.1), rtol=1e-9, atol=0)
    for bad in (0.0, 1.0, (0.5, 95.0)):
        with pytest.raises(ValueError, match="`q` must lie strictly between 0 and 1"):
            ours.quantile(bad)


def by_quadrature(means, stds):
    """E y and E y^2 under the mixture's density."""

    def moment(k):
        f = lambda t: t**k * stats.norm.pdf(t, means, stds).mean()
        return integrate.quad(f, -40, 40, points=sorted(means), epsabs=1e-13, limit=400)[0]

    return moment(1), moment(2)


def test_collapsed_has_the_moments_of_the_density_and_tells_its_two_parts():
    ours, _ = example()
    one = ours.collapsed()
    assert isinstance(one, Normal)
    mean, var = ours.parts.mean.numpy(), ours.parts.variance.numpy()
    for r in range(R):
        for n in range(N):
            first, second = by_quadrature(mean[:, r, n], var[:, r, n] ** 0.5)
            assert one.mean[r, n].item() == pytest.approx(first, rel=1e-9, abs=1e-11)
            assert one.variance[r, n].item() == pytest.approx(second - first**2, rel=1e-9)
    torch.testing.assert_close(one.noise_var, ours.parts.noise_var[0], rtol=1e-12, atol=0)
    apart = ours.parts.belief_var.numpy().mean(0) + mean.var(0)
    np.testing.assert_allclose(one.belief_var, apart, rtol=1e-12)


def test_a_mixture_of_one_is_it():
    mean, var = torch.randn(1, N), torch.rand(1, N) + 0.1
    only, zero = Normal(mean[0], var[0], torch.zeros(N)), torch.zeros(1, N)
    ours, y = Mixture(Normal(mean, var, zero)), torch.randn(N)
    torch.testing.assert_close(ours.log_prob(y), only.log_prob(y), rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.quantile(0.2), only.quantile(0.2), rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.variance, only.variance, rtol=1e-12, atol=0)


def test_draws_have_the_distribution_and_rows_are_drawn_apart():
    ours, theirs = example()
    draws = ours.sample(5000, torch.Generator().manual_seed(1))
    assert draws.shape == (5000, R, N)
    reached = theirs.cdf(draws)
    for r in range(R):
        for n in range(N):
            assert stats.kstest(reached[:, r, n], "uniform").pvalue > 1e-3
    # correlations of independent rows have spread 1/sqrt(5000) = 0.014
    between = torch.corrcoef(reached.flatten(1).mT) - torch.eye(R * N)
    assert between.abs().max() < 0.06
    again = ours.sample(5000, torch.Generator().manual_seed(1))
    torch.testing.assert_close(draws, again, rtol=0, atol=0)


def test_members_of_a_row_are_chosen_row_by_row():
    """Two members far apart: a draw of many rows has both."""
    mean = torch.tensor([-100.0, 100.0])[:, None].expand(2, 200)
    ours = Mixture(Normal(mean, torch.ones(2, 200), torch.zeros(2, 200)))
    high = (ours.sample(50) > 0).double()
    assert stats.binomtest(int(high.sum()), 10_000, 0.5).pvalue > 1e-3
    assert 0.2 < high.mean(1).min() < high.mean(1).max() < 0.8
