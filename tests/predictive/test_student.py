"""Student predictives and their mixtures against scipy."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

from scroll._core.value import cast
from scroll.predictive import Mixture, Normal, Student, metrics
from scroll.predictive.mixture import joined, member, mix, output
from sweeps import cases

M, N = 3, 6
DFS = (3, 4, 5, 6, 7, 10, 15, 30, 100)
each_df = pytest.mark.parametrize("df", cases(DFS, 3, 4, 7, 30))


def standard(df):
    return Student(torch.zeros(1), torch.ones(1), df)


def example(df=4, members=M, n=N):
    return Student(2 * torch.randn(members, n), torch.rand(members, n) + 0.1, df)


def theirs(p):
    return stats.t(p.df, p.mean.numpy(), p.scale.numpy())


@each_df
def test_density_and_distribution_function_far_into_the_tails(df):
    t = np.r_[np.linspace(-12, 12, 2001), -np.logspace(1, 8, 100), np.logspace(1, 8, 100)]
    t, law = torch.from_numpy(t[:, None]), stats.t(df)
    np.testing.assert_allclose(standard(df).log_prob(t), law.logpdf(t), rtol=1e-12, atol=1e-12)
    got, want = standard(df).cdf(t).numpy(), law.cdf(t)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-15)
    kept = want > 1e-290
    np.testing.assert_allclose(got[kept], want[kept], rtol=1e-11)
    ends = torch.tensor([[-np.inf], [np.inf]])
    assert standard(df).cdf(ends).flatten().tolist() == [0, 1]


@each_df
def test_quantiles(df):
    q = np.r_[np.logspace(-30, -1, 200), np.linspace(0.01, 0.99, 100), 1 - np.logspace(-9, -1, 50)]
    q, p = torch.from_numpy(q[:, None]), standard(df)
    at = p.icdf(q)
    np.testing.assert_allclose(at, stats.t.ppf(q, df), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(p.cdf(at), q, rtol=1e-11)
    deviates = [p.kernel.deviate(float(level)) for level in q]
    np.testing.assert_allclose(deviates, at[:, 0], rtol=1e-11, atol=1e-12)
    assert p.icdf(torch.tensor([[0.0], [0.5], [1.0]])).flatten().tolist() == [-np.inf, 0, np.inf]
    assert p.icdf(torch.tensor([[-0.1], [1.1]])).isnan().all()


def test_moments_units_and_members():
    p = example()
    np.testing.assert_allclose(p.mean, theirs(p).mean(), rtol=1e-12)
    np.testing.assert_allclose(p.variance, theirs(p).var(), rtol=1e-12)
    moved = p.in_units(torch.tensor(3.0), torch.tensor(-2.0))
    y = torch.randn(M, N)
    np.testing.assert_allclose(moved.cdf(3 - 2 * y), 1 - p.cdf(y), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(p.widened(2.0).scale, 2 * p.scale, rtol=1e-15)
    assert p.members == (p,)
    again = joined([member(p, slice(0, 1)), member(p, slice(1, 3))])
    torch.testing.assert_close(again.mean, p.mean, rtol=0, atol=0)
    assert again.df == 4
    assert repr(standard(5)) == "Student(shape=(1,), 5 degrees of freedom, mean 0..0, scale 1..1)"


@pytest.mark.parametrize("df", [2, 0, -3, 2.5, "4", None, True, 1001])
def test_degrees_of_freedom_are_integers_with_a_variance(df):
    with pytest.raises(ValueError, match="`df` must be an integer from 3 to 1000, but got"):
        standard(df).cdf(0.0)


@pytest.mark.parametrize("df", [3, 8])
def test_draws_have_the_distribution(df):
    p = Student(torch.tensor([1.0, -2.0]), torch.tensor([0.5, 3.0]), df)
    draws = p.sample(20_000, torch.Generator().manual_seed(0))
    for k in range(2):
        assert stats.kstest(p.cdf(draws)[:, k], "uniform").pvalue > 1e-3
    np.testing.assert_allclose(draws.mean(0), p.mean, atol=0.1)
    np.testing.assert_allclose(draws.var(0), p.variance, rtol=0.5 if df == 3 else 0.1)
    mixed = Mixture(example(df), torch.tensor([0.1, 0.2, 0.7]))
    draws = mixed.sample(5000, torch.Generator().manual_seed(1))
    for k in range(N):
        assert stats.kstest(mixed.cdf(draws)[:, k], "uniform").pvalue > 1e-3


@pytest.mark.parametrize("weights", [None, (0.2, 0.5, 0.3)])
def test_mixtures(weights):
    parts = example()
    ours = Mixture(parts, None if weights is None else torch.tensor(weights))
    w, law = np.array(weights or [1 / M] * M)[:, None], theirs(parts)
    y = 3 * torch.randn(N)
    np.testing.assert_allclose(ours.log_prob(y), np.log((w * law.pdf(y)).sum(0)), rtol=1e-9)
    np.testing.assert_allclose(ours.cdf(y), (w * law.cdf(y)).sum(0), rtol=1e-9)
    mean = (w * law.mean()).sum(0)
    np.testing.assert_allclose(ours.mean, mean, rtol=1e-12)
    variance = (w * (law.var() + law.mean() ** 2)).sum(0) - mean**2
    np.testing.assert_allclose(ours.variance, variance, rtol=1e-9)
    assert isinstance(ours.collapsed(), Normal)
    for level in (1e-6, 0.3, 0.999):
        for n, at in enumerate(ours.quantile(level)):
            cdf = lambda t, n=n: (w[:, 0] * stats.t.cdf(t, 4, *one(parts, n))).sum()
            off = lambda t, q=level, cdf=cdf: cdf(t) - q
            want = optimize.brentq(off, -1e4, 1e4, xtol=1e-13, rtol=1e-14)
            assert at.item() == pytest.approx(want, rel=1e-9)
    assert [m.df for m in ours.members] == [4] * M
    units = ours.in_units(torch.tensor(1.0), torch.tensor(2.0))
    np.testing.assert_allclose(units.cdf(1 + 2 * y), ours.cdf(y), rtol=1e-12)


def one(parts, n):
    return parts.mean[:, n].numpy(), parts.scale[:, n].numpy()


def by_quad(cdf, y, points):
    """CRPS by scipy's quadrature, between points at which the integrand may change."""
    edges = np.unique(np.r_[points, y])
    total = 0.0
    for low, high in pairwise(edges):
        f = (lambda t: cdf(t) ** 2) if high <= y else (lambda t: (1 - cdf(t)) ** 2)
        total += integrate.quad(f, low, high, epsabs=1e-14, epsrel=1e-12, limit=400)[0]
    left = integrate.quad(lambda t: cdf(t) ** 2, -np.inf, edges[0], epsabs=1e-15)[0]
    return total + left + integrate.quad(lambda t: (1 - cdf(t)) ** 2, edges[-1], np.inf,
                                         epsabs=1e-15)[0]  # fmt: skip


@pytest.mark.parametrize("df", cases((3, 4, 5, 10, 50), 3, 10))
def test_crps_of_one(df):
    """Against the closed form of Jordan, Krueger and Lerch (2019), also far away."""
    from scipy.special import beta

    y = np.r_[np.linspace(-8, 8, 33), -1e3, 1e3, 1e6]
    f, pdf = stats.t.cdf(y, df), stats.t.pdf(y, df)
    spread = 2 * np.sqrt(df) / (df - 1) * beta(0.5, df - 0.5) / beta(0.5, df / 2) ** 2
    want = y * (2 * f - 1) + 2 * pdf * (df + y**2) / (df - 1) - spread
    got = standard(df).crps(torch.from_numpy(y[:, None]))[:, 0]
    np.testing.assert_allclose(got, want, rtol=1e-10)
    moved = Student(torch.tensor([5.0]), torch.tensor([3.0]), df)
    np.testing.assert_allclose(moved.crps(torch.tensor([8.0])), 3 * standard(df).crps(1.0))


ROWS = {  # means and scales of two components
    "alike": ((0.0, 0.3), (1.0, 1.2)),
    "apart": ((-40.0, 60.0), (1.0, 2.0)),
    "narrow and wide": ((0.2, 0.0), (1e-3, 5.0)),
    "narrow and far": ((200.0, 0.0), (1e-2, 1.0)),
}


@pytest.mark.parametrize("df", [3, 6])
@pytest.mark.parametrize("name", ROWS)
def test_crps_of_mixtures(name, df):
    mean, scale = (np.array(each) for each in ROWS[name])
    w = np.array([0.3, 0.7])
    parts = Student(torch.from_numpy(mean[:, None]), torch.from_numpy(scale[:, None]), df)
    ours = Mixture(parts, torch.from_numpy(w))
    cdf = lambda t: (w * stats.t.cdf(t, df, mean, scale)).sum()
    points = (mean[:, None] + scale[:, None] * np.array([-30, -5, -1, 0, 1, 5, 30])).ravel()
    for y in (mean[0], mean[1] + 0.4 * scale[1], 30.0, -500.0):
        want = by_quad(cdf, y, points)
        assert ours.crps(torch.tensor([y])).item() == pytest.approx(want, rel=1e-9)
    assert metrics.crps(ours, torch.tensor([0.3])).shape == ()


def test_casts_joined_members_and_outputs():
    parts = cast(example(), torch.float32)
    mixed = parts.mixture()
    assert mixed.mean.dtype == torch.float64
    assert mixed.weights is None
    assert isinstance(member(parts, slice(0, 1)).mixture(), Student)
    two = Student(torch.randn(M, N, 2), torch.rand(M, N, 2) + 0.1, 5)
    weighted = Mixture(two, torch.tensor([0.5, 0.25, 0.25]))
    y = torch.randn(N, 2)
    torch.testing.assert_close(output(weighted, 1).cdf(y[:, 1]), weighted.cdf(y)[:, 1])
    found = mix([example(5), example(5)], torch.tensor(1.0), torch.tensor(2.0))
    assert len(found.members) == 2 * M
    assert cast(weighted, torch.float32).weights.dtype == torch.float32
