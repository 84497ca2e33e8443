"""Scores of censored targets, survival functions and concordance, against scipy and lifelines."""

import numpy as np
import pytest
import torch
from scipy import stats

from parts import intervals
from scroll import metrics
from scroll.factors import Poisson
from scroll.predictive import Count, Mixture, Normal, Survival, survival
from scroll.predictive.continuous import Mapped, Student, TargetMap
from scroll.predictive.mixture import joined, member, mix

N, INF = 12, np.inf


def normals(*shape):
    return Normal(torch.randn(shape), torch.rand(shape) + 0.1, torch.rand(shape))


def theirs(p):
    return stats.norm(p.mean.numpy(), p.stddev.numpy())


def log_p(law, low, high):
    """By scipy, of one row."""
    if low == high:
        return law.logpdf(low)
    return np.log(law.cdf(high) - law.cdf(low)) if np.isfinite(high) else law.logsf(low)


def test_pairs_are_scored_by_the_density_or_the_probability():
    p, y = normals(N), intervals(N)
    laws = [stats.norm(m, s) for m, s in zip(p.mean.numpy(), p.stddev.numpy(), strict=True)]
    want = [log_p(law, *pair.tolist()) for law, pair in zip(laws, y, strict=True)]
    np.testing.assert_allclose(Survival(p).log_prob(y), want, rtol=1e-9)
    np.testing.assert_allclose(Survival(p).log_prob(y.numpy()), want, rtol=1e-9)
    assert metrics.censored_nll(p, *y.unbind(-1)).item() == pytest.approx(-np.mean(want), rel=1e-9)
    exact = torch.randn(N)
    torch.testing.assert_close(Survival(p).log_prob(exact), p.log_prob(exact), rtol=0, atol=0)


def test_a_mixture_mixes_the_probabilities_of_its_members():
    stack, y = Survival(normals(3, N)), intervals(N)
    mixed = stack.mixture()
    assert isinstance(mixed, Survival)
    each = stack.log_prob(y.expand(3, N, 2))
    want = each.exp().mean(0).log()
    torch.testing.assert_close(mixed.log_prob(y), want, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(metrics.censored_nll(mixed, *y.unbind(-1)), -want.mean())
    assert member(stack, slice(0, 1)).mixture().members[0].mean.shape == (N,)
    assert len(mixed.members) == 3
    with pytest.raises(TypeError, match="`predictive` must be a stack of members, but got Mix"):
        mixed.mixture()


def test_members_are_taken_apart_and_mixed_in_other_units():
    stack, y = Survival(normals(3, N)), intervals(N)
    again = joined([member(stack, slice(0, 1)), member(stack, slice(1, 3))])
    mixed = mix([again], torch.tensor(-3.0), torch.tensor(7.0))
    want = stack.mixture().log_prob(y) - (y[:, 0] == y[:, 1]) * np.log(7.0)
    torch.testing.assert_close(mixed.log_prob(-3 + 7 * y), want, rtol=1e-11, atol=1e-12)


def test_everything_else_is_that_of_the_normals():
    for base in (normals(N), Mixture(normals(2, N))):
        p, y = Survival(base), torch.randn(N)
        for name in ("mean", "variance", "stddev"):
            torch.testing.assert_close(getattr(p, name), getattr(base, name), rtol=0, atol=0)
        for name in ("cdf", "crps"):
            mine, want = getattr(p, name)(y), getattr(base, name)(y)
            torch.testing.assert_close(mine, want, rtol=0, atol=0)
        torch.testing.assert_close(p.quantile([0.1, 0.9]), base.quantile([0.1, 0.9]))
        torch.testing.assert_close(p.interval(0.8), base.interval(0.8))
        draws = [q.sample(3, torch.Generator().manual_seed(0)) for q in (p, base)]
        torch.testing.assert_close(*draws, rtol=0, atol=0)
        with pytest.raises(ValueError, match=r"`y` must have the shape \(12,\) of the predictive"):
            p.crps(intervals(N))
    p = Survival(normals(N))
    torch.testing.assert_close(p.widened(1.5).stddev, 1.5 * p.stddev)
    with pytest.raises(TypeError, match="`predictive` must be a normal to be widened, but got M"):
        Survival(Mixture(normals(2, N))).widened(1.5)


def test_survival_functions_keep_their_digits_in_the_tail():
    p = Normal(torch.tensor([0.3, -2.0]), torch.tensor([0.5, 0.04]), torch.tensor([0.7, 0.01]))
    for t in (-3.0, 0.4, 9.0, 35.0):
        np.testing.assert_allclose(survival(p, t), theirs(p).sf(t), rtol=1e-9)
        torch.testing.assert_close(Survival(p).survival(t), survival(p, t), rtol=0, atol=0)
        at = torch.tensor([t, t + 1])
        np.testing.assert_allclose(survival(p, at), theirs(p).sf(at), rtol=1e-9)
    stack = normals(3, N)
    want = theirs(stack).sf(6.0).mean(0)
    for mixed in (Mixture(stack), Survival(stack).mixture()):
        np.testing.assert_allclose(survival(mixed, 6.0), want, rtol=1e-9)
    with pytest.raises(TypeError, match=r"`predictive` must be one of a real number.* 1 - pred"):
        survival(Count(Poisson(), torch.zeros(2), torch.ones(2)), 1.0)


def test_weighted_mixtures():
    parts, y, weights = normals(3, N), intervals(N), torch.tensor([0.5, 0.2, 0.3])
    mixed = Survival(Mixture(parts, weights))
    want = (weights[:, None] * Survival(parts).log_prob(y.expand(3, N, 2)).exp()).sum(0).log()
    torch.testing.assert_close(mixed.log_prob(y), want, rtol=1e-12, atol=1e-12)
    want = weights.numpy() @ theirs(parts).sf(6.0)
    np.testing.assert_allclose(mixed.survival(6.0), want, rtol=1e-9)


@pytest.mark.parametrize("components", [1, 2])
def test_tails_of_a_t_distribution(components):
    """By its survival function in the upper tail, by its distribution function in the lower."""
    mean, scale = torch.randn(components, 5), torch.rand(components, 5) + 0.2
    stack = Student(mean, scale, 4)
    p = Survival(Student(mean[0], scale[0], 4) if components == 1 else Mixture(stack))
    low = torch.tensor([0.3, 900.0, -np.inf, -900.0, 900.0])
    high = torch.tensor([0.3, np.inf, -900.0, -100.0, 1200.0])
    law = stats.t(4, mean.numpy(), scale.numpy())
    pdf, sf, cdf = (lambda t, f=f: f(t).mean(0) for f in (law.pdf, law.sf, law.cdf))
    want = [
        pdf(0.3)[0],
        sf(900)[1],
        cdf(-900)[2],
        (cdf(-100) - cdf(-900))[3],
        (sf(900) - sf(1200))[4],
    ]
    ours = p.log_prob(torch.stack([low, high], -1))
    np.testing.assert_allclose(ours, np.log(want), rtol=1e-9)
    np.testing.assert_allclose(p.survival(900.0), sf(900), rtol=1e-9)


def test_intervals_of_transformed_targets():
    """The log of a lifetime is normal: scipy's log-normal."""
    base = Normal(torch.tensor([0.5, 1.0, -0.3, 2.0, 0.1]), torch.full((5,), 0.3), torch.zeros(5))
    p = Survival(Mapped(base, TargetMap("log")))
    law = stats.lognorm(base.stddev.numpy(), scale=base.mean.exp().numpy())
    low = torch.tensor([1.3, 1e6, -np.inf, -1.0, 0.7])
    high = torch.tensor([1.3, np.inf, 1e-4, 3.0, 0.8])
    want = [
        law.logpdf(1.3)[0],
        law.logsf(1e6)[1],
        law.logcdf(1e-4)[2],
        law.logcdf(3.0)[3],
        np.log(law.cdf(0.8) - law.cdf(0.7))[4],
    ]
    np.testing.assert_allclose(p.log_prob(torch.stack([low, high], -1)), want, rtol=1e-9)
    np.testing.assert_allclose(p.survival(1e4), law.sf(1e4), rtol=1e-9)
    assert (p.survival(-1.0) == 1).all()
    exact = torch.rand(5)
    np.testing.assert_allclose(p.log_prob(exact), law.logpdf(exact), rtol=1e-9)
    assert p.crps(exact).shape == p.mean.shape == (5,)


def test_intervals_of_counts_hold_both_ends():
    p = Count(Poisson(), torch.full((5,), 1.2), torch.full((5,), 1e-12))
    law = stats.poisson(np.exp(1.2))
    low = torch.tensor([2.0, 2.0, -INF, 2.0, 0.0])
    high = torch.tensor([2.0, INF, 2.0, 4.0, INF])
    want = [law.pmf(2), law.sf(1), law.cdf(2), law.cdf(4) - law.cdf(1), 1.0]
    ours = metrics.censored_nll(p, low, high).item()
    assert ours == pytest.approx(-np.log(want).mean(), rel=1e-8)  # a rate with a width of 1e-6


def test_bad_intervals_are_refused():
    p, zero = normals(3), torch.zeros(3)
    with pytest.raises(ValueError, match="`low` must be at most `high`, and not NaN"):
        metrics.censored_nll(p, zero + 1, zero)
    with pytest.raises(ValueError, match=r"`y` must have the shape \(3,\) of the predictive"):
        metrics.censored_nll(p, zero[:, None], zero)


# Concordance


def pairwise(predicted, y, censored):
    """Harrell's C, pair by pair."""
    right = pairs = 0.0
    for i in np.flatnonzero(~censored):
        for j in range(len(y)):
            if y[i] < y[j] or (y[i] == y[j] and censored[j]):
                pairs += 1
                right += 0.5 * (
                    float(predicted[i] < predicted[j]) + float(predicted[i] <= predicted[j])
                )
    return right / pairs if pairs else None


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9, 31, 64, 100])
def test_concordance_is_that_of_all_pairs(n):
    """Many ties of targets and of predictions."""
    draw = np.random.default_rng(n)
    for _ in range(8):
        predicted, y = draw.integers(0, 6, n) / 2, draw.integers(0, 9, n) / 3
        censored = draw.random(n) < 0.4
        want = pairwise(predicted, y, censored)
        if want is None:
            with pytest.raises(ValueError, match="`y` must have rows whose order is known, but"):
                metrics.concordance(predicted, y, censored)
        else:
            assert metrics.concordance(predicted, y, censored).item() == pytest.approx(want)


def test_concordance_is_that_of_lifelines():
    lifelines = pytest.importorskip("lifelines.utils")
    draw = np.random.default_rng(0)
    for n in (50, 700):
        predicted, y = draw.normal(size=n).round(1), draw.exponential(size=n).round(1)
        censored = draw.random(n) < 0.3
        want = lifelines.concordance_index(y, predicted, ~censored)
        ours = metrics.concordance(predicted, y, censored.astype(int)).item()
        assert ours == pytest.approx(want, abs=1e-12)
        want = lifelines.concordance_index(y, predicted)
        assert metrics.concordance(predicted, y).item() == pytest.approx(want, abs=1e-12)


def test_concordance_over_leading_axes_and_its_limits():
    y = torch.randn(2, 3, 20)
    censored = torch.rand(2, 3, 20) < 0.3
    ours = metrics.concordance(y.flip(-1), y, censored)
    assert ours.shape == (2, 3)
    torch.testing.assert_close(
        ours[1, 2], metrics.concordance(y[1, 2].flip(-1), y[1, 2], censored[1, 2])
    )
    assert (metrics.concordance(y, y, censored) == 1).all()
    assert (metrics.concordance(-y, y, censored) == 0).all()
    assert (metrics.concordance(torch.zeros_like(y), y, censored) == 0.5).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((torch.zeros(3), torch.zeros(4)), r"`predicted` must have the shape \(4,\) of y"),
        (([0.0] * 3, [0.0] * 3, [0, 0]), r"`censored` must have the shape \(3,\) of y"),
        (([0.0] * 3, [0.0] * 3, [0, -1, 0]), r"`censored` must hold 0 \(exact\) and 1"),
        (([np.nan] * 3, [0.0] * 3), r"`predicted and y` must hold numbers, but got NaN"),
    ],
)
def test_bad_arguments_of_concordance_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        metrics.concordance(*given)
