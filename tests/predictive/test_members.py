"""Members as one predictive, against scipy's densities and sums."""

import numpy as np
import pytest
import torch
from scipy import stats

from scroll.factors import Bounded, NegativeBinomial, Poisson, ZeroInflated
from scroll.heads.likelihoods import CountLikelihood
from scroll.predictive import (
    Categorical,
    Count,
    CountMixture,
    Implied,
    Mixture,
    Normal,
    Ordered,
)
from scroll.predictive.mixture import joined, member, mix, output

N = 5
UNITS = torch.tensor(0.0), torch.tensor(1.0)


def normals(members, *shape, dtype=torch.float64):
    parts = torch.randn(members, *shape), torch.rand(members, *shape), torch.rand(members, *shape)
    return Normal(*(p.to(dtype) for p in parts))


# Real targets


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("shape", "shift", "scale"), [((N,), -3.0, 7.0), ((N, 2), (1.0, -20.0), (0.5, 300.0))]
)
def test_normals_are_mixed_in_the_units_of_the_target(shape, shift, scale, dtype):
    """Several stacks of several members; in float64, whatever they come in."""
    stacks = [normals(m, *shape, dtype=dtype) for m in (2, 1)]
    shift, scale = torch.tensor(shift), torch.tensor(scale)
    ours, y = mix(stacks, shift, scale), shift + 2 * scale * torch.randn(shape)
    assert isinstance(ours, Mixture)
    assert len(ours.parts.mean) == 3
    mean, noise, belief = (
        np.concatenate([getattr(s, name).double().numpy() for s in stacks])
        for name in ("mean", "noise_var", "belief_var")
    )
    theirs = stats.norm(
        shift.numpy() + scale.numpy() * mean, scale.numpy() * (noise + belief) ** 0.5
    )
    for mine, want in (
        (ours.log_prob(y).exp(), theirs.pdf(y).mean(0)),
        (ours.cdf(y), theirs.cdf(y).mean(0)),
        (ours.mean, theirs.mean().mean(0)),
        (ours.variance, theirs.var().mean(0) + theirs.mean().var(0)),
        (ours.parts.noise_var, scale.numpy() ** 2 * noise),
    ):
        assert mine.dtype == torch.float64
        np.testing.assert_allclose(mine, want, rtol=1e-9)


def test_one_normal_stays_one():
    stack = normals(1, N)
    ours = mix([stack], torch.tensor(2.0), torch.tensor(3.0))
    assert isinstance(ours, Normal)
    assert ours.mean.shape == (N,)
    y = torch.randn(N)
    theirs = stats.norm(2 + 3 * stack.mean[0].numpy(), 3 * stack.stddev[0].numpy())
    np.testing.assert_allclose(ours.log_prob(y), theirs.logpdf(y), rtol=1e-9)
    torch.testing.assert_close(ours.noise_var, 9 * stack.noise_var[0], rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.belief_var, 9 * stack.belief_var[0], rtol=1e-12, atol=0)


# Labels


@pytest.mark.parametrize("kind", [Categorical, Ordered])
@pytest.mark.parametrize("members", [(1,), (3,), (2, 1)])
def test_probabilities_are_averaged(kind, members):
    stacks = [kind((3 * torch.randn(m, N, 4)).log_softmax(-1)) for m in members]
    ours = mix(stacks, *UNITS)
    assert type(ours) is kind
    want = np.concatenate([s.log_probs.exp().numpy() for s in stacks]).mean(0)
    np.testing.assert_allclose(ours.probs, want, rtol=1e-9)
    y = torch.randint(4, (N,))
    np.testing.assert_allclose(ours.log_prob(y), np.log(want[np.arange(N), y]), rtol=1e-9)


def test_probabilities_that_float32_cannot_tell_from_one_are_averaged_in_float64():
    sure = torch.tensor([[[-1e-9, -20.0]], [[-20.0, -1e-9]], [[-40.0, -1e-9]]]).float()
    ours = mix([Categorical(sure)], *UNITS)
    assert ours.log_probs.dtype == torch.float64
    np.testing.assert_allclose(ours.probs.sum(-1), 1, rtol=1e-12)
    assert ours.probs[0, 0].item() == pytest.approx((1 + np.exp(-20) + np.exp(-40)) / 3, rel=1e-7)


def test_what_cannot_be_mixed_is_refused():
    one = Implied(Bounded(lambda y, f: -((y - f) ** 2)), torch.zeros(2, N), torch.ones(2, N))
    with pytest.raises(TypeError, match=r"`likelihood` must be one that an ensemble can mix, but"):
        mix([one], *UNITS)


# Counts

KINDS = CountLikelihood.kinds
MEANS, VARS, CONCENTRATIONS, EXTRA = (
    torch.tensor(numbers, dtype=torch.float64)
    for numbers in (
        [[-1.0, 0.3, 1.5], [0.2, 2.0, 1.4], [0.5, -0.4, 3.0]],
        [[0.2, 0.05, 0.3], [0.1, 0.3, 0.02], [0.3, 0.2, 0.1]],
        [1.5, 4.0, 20.0],
        [0.3, 0.6, 0.02],
    )
)
MOST = 3000


def counts(kind, which=slice(None)):
    """Some members as a stack."""
    factor = Poisson()
    if kind in ("negbinomial", "zinb"):
        factor = NegativeBinomial(CONCENTRATIONS[which])
    if kind in ("zip", "zinb"):
        factor = ZeroInflated(factor, EXTRA[which].logit())
    return Count(factor, MEANS[which], VARS[which])


def table(kind):
    """P(y = k) of each row for k = 0..MOST, by scipy's pmf under numpy's Gauss-Hermite rule."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    k = np.arange(MOST + 1)[:, None]
    out = np.zeros((MEANS.shape[1], MOST + 1))
    for m in range(len(MEANS)):
        for n in range(MEANS.shape[1]):
            rate = np.exp(MEANS[m, n].item() + VARS[m, n].item() ** 0.5 * nodes)
            r = CONCENTRATIONS[m].item()
            dispersed = kind in ("negbinomial", "zinb")
            law = stats.nbinom(r, r / (r + rate)) if dispersed else stats.poisson(rate)
            extra = EXTRA[m].item() if kind in ("zip", "zinb") else 0.0
            out[n] += ((1 - extra) * law.pmf(k) @ weights + extra * (k[:, 0] == 0)) / len(MEANS)
    return out


@pytest.fixture(scope="module", params=KINDS)
def both(request):
    """A mixture and its table."""
    stacks = [counts(request.param, slice(0, 2)), counts(request.param, slice(2, 3))]
    return mix(stacks, *UNITS), table(request.param)


def test_moments_of_mixed_counts(both):
    ours, p = both
    assert isinstance(ours, CountMixture)
    k = np.arange(MOST + 1)
    mean = p @ k
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-10)
    np.testing.assert_allclose(ours.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(ours.variance, p @ k**2 - mean**2, rtol=1e-8)  # a difference
    np.testing.assert_allclose(ours.stddev, ours.variance**0.5, rtol=1e-12)


@pytest.mark.parametrize("k", [0, 1, 4, 20])
def test_probabilities_of_mixed_counts(both, k):
    ours, p = both
    y = torch.full((3,), float(k))
    np.testing.assert_allclose(ours.log_prob(y), np.log(p[:, k]), rtol=1e-8)
    np.testing.assert_allclose(ours.cdf(y), p[:, : k + 1].sum(1), rtol=1e-8)
    np.testing.assert_allclose(ours.cdf(y + 0.7), ours.cdf(y), rtol=1e-12)
    assert (ours.cdf(torch.full((3,), -1.0)) == 0).all()


def test_quantiles_of_mixed_counts(both):
    ours, p = both
    levels = (0.01, 0.2, 0.5, 0.77, 0.95, 0.999)
    reached = p.cumsum(1)
    want = np.stack([(reached < q).sum(1) for q in levels], -1)
    np.testing.assert_array_equal(ours.quantile(levels), want)
    np.testing.assert_array_equal(ours.icdf(torch.tensor(0.5)), want[:, 2])
    each = torch.tensor([0.2, 0.5, 0.95])
    np.testing.assert_array_equal(ours.icdf(each), want[[0, 1, 2], [1, 2, 4]])
    low, high = ours.interval(0.6)
    np.testing.assert_array_equal(low, want[:, 1])
    np.testing.assert_array_equal(high, (reached < 0.8).sum(1))
    with pytest.raises(ValueError, match="`q` must lie strictly between 0 and 1"):
        ours.quantile(1.0)


def test_draws_of_mixed_counts(both):
    ours, p = both
    draws = ours.sample(20_000, torch.Generator().manual_seed(0))
    assert draws.shape == (20_000, 3)
    for n in range(3):
        # cells of at least 20 draws, the tail as one
        last = int((p[n] * 20_000 >= 20).nonzero()[0].max())
        first = int((p[n] * 20_000 >= 20).nonzero()[0].min())
        cells = np.clip(draws[:, n].numpy(), first, last + 1).astype(int) - first
        seen = np.bincount(cells, minlength=last + 2 - first)
        want = np.concatenate([p[n, first : last + 1], [p[n, last + 1 :].sum()]])
        want[0] += p[n, :first].sum()
        assert stats.chisquare(seen, want / want.sum() * 20_000).pvalue > 1e-3
    # rows choose their members apart: correlations of spread 1/sqrt(20000) = 0.007
    between = torch.corrcoef(draws.mT) - torch.eye(3)
    assert between.abs().max() < 0.035
    again = ours.sample(20_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(draws, again, rtol=0, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_count_stays_one(kind):
    stack, y = counts(kind, slice(1, 2)), torch.tensor([0.0, 2.0, 9.0])
    ours = mix([stack], *UNITS)
    assert isinstance(ours, Count)
    torch.testing.assert_close(ours.log_prob(y), stack.log_prob(y[None])[0], rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.variance, stack.variance[0], rtol=1e-12, atol=0)
    twice = CountMixture((ours, ours))
    torch.testing.assert_close(twice.log_prob(y), ours.log_prob(y), rtol=1e-12, atol=0)
    torch.testing.assert_close(twice.quantile(0.9), ours.quantile(0.9), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_quantiles_between_members_far_apart(dtype):
    """Counts of one and of ten thousand: half of the mixture is below the gap between them."""
    mean = torch.tensor([[0.0], [9.2]], dtype=dtype)
    ours = mix([Count(Poisson(), mean, torch.full_like(mean, 1e-4))], *UNITS)
    levels = (0.05, 0.49, 0.51, 0.95)
    at = ours.quantile(levels)
    assert at.dtype == dtype
    reached = lambda k: np.mean([stats.poisson.cdf(k, np.exp(m)) for m in (0.0, 9.2)])
    for k, q in zip(at[0, :2].tolist(), levels, strict=False):  # where f hardly matters
        assert reached(k) >= q > reached(k - 1)
    assert at[0, 2] > 9000
    for q in levels:
        at = ours.quantile(q).double()
        exact = CountMixture(tuple(
            Count(p.factor, p.latent_mean.double(), p.latent_var.double()) for p in ours.parts
        ))  # fmt: skip
        assert exact.cdf(at) >= q > exact.cdf(at - 1)


# Taking stacks apart


def test_members_are_taken_apart_and_joined_again():
    stacks = [normals(3, N), counts("zinb"), Ordered(torch.randn(3, N, 4).log_softmax(-1))]
    for stack in stacks:
        again = joined([member(stack, slice(0, 1)), member(stack, slice(1, 3))])
        assert type(again) is type(stack)
        torch.testing.assert_close(again.mean, stack.mean, rtol=0, atol=0)
        torch.testing.assert_close(member(stack, 1).stddev, stack.stddev[1], rtol=0, atol=0)


def test_the_members_of_a_mixture_are_those_that_were_mixed():
    mixed = mix([normals(2, N), normals(1, N)], *UNITS)
    each = mixed.members
    torch.testing.assert_close(torch.stack([p.mean for p in each]), mixed.parts.mean)
    torch.testing.assert_close(torch.stack([p.stddev for p in each]), mixed.parts.stddev)
    assert each[0].members == (each[0],)
    three = counts("negbinomial").mixture()
    assert three.members == three.parts
    assert three.parts[0].members == (three.parts[0],)


def test_one_output_of_several():
    for p in (normals(1, N, 2).mixture(), normals(3, N, 2).mixture()):
        one, y = output(p, 1), torch.randn(N, 2)
        torch.testing.assert_close(one.log_prob(y[:, 1]), p.log_prob(y)[:, 1], rtol=0, atol=0)
        torch.testing.assert_close(one.quantile(0.3), p.quantile(0.3)[:, 1], rtol=0, atol=0)


def test_a_widened_normal_keeps_its_mean():
    p = normals(N)
    torch.testing.assert_close(p.widened(1.5).stddev, 1.5 * p.stddev, rtol=1e-12, atol=0)
    torch.testing.assert_close(p.widened(1.5).mean, p.mean, rtol=0, atol=0)


PREDICTIVES = {
    "normal": (lambda: normals(N), False, True),
    "mixture": (lambda: normals(2, N).mixture(), False, True),
    "count": (lambda: member(counts("poisson"), 0), True, True),
    "count mixture": (lambda: counts("poisson").mixture(), True, True),
    "classes": (lambda: Categorical(torch.randn(N, 3).log_softmax(-1)), True, False),
    "levels": (lambda: Ordered(torch.randn(N, 3).log_softmax(-1)), True, True),
}


@pytest.mark.parametrize(("make", "discrete", "ordered"), PREDICTIVES.values(), ids=PREDICTIVES)
def test_what_a_predictive_declares_is_so(make, discrete, ordered):
    p = make()
    assert (p.discrete, p.ordered) == (discrete, ordered)
    draws = p.sample(50)
    assert bool((draws == draws.round()).all()) == discrete
    if ordered:
        at = p.quantile(0.5)
        assert (p.cdf(at) >= 0.5 - 1e-9).all()
        assert (p.crps(draws[0]) >= 0).all()
    else:
        assert not hasattr(p, "cdf")
    unit = p.in_units(torch.tensor(3.0), torch.tensor(2.0))
    assert type(unit) is type(p)
    moved = p.mean if discrete else 3 + 2 * p.mean
    torch.testing.assert_close(unit.mean, moved, rtol=1e-12, atol=0)
    tensors = p.as_tensors()
    given = (p.mean, p.stddev) if isinstance(tensors, tuple) else (p.probs,)
    for mine, want in zip(tensors if isinstance(tensors, tuple) else [tensors], given, strict=True):
        assert mine.dtype == torch.float64
        torch.testing.assert_close(mine, want.double(), rtol=0, atol=0)
