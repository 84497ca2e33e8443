"""The probability integral transform; randomised for counts and levels."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from scroll.factors import Bounded, NegativeBinomial, Poisson
from scroll.predictive import (
    Categorical,
    Count,
    CountMixture,
    Implied,
    Mixture,
    Normal,
    Ordered,
    metrics,
)


def normals(n=4000):
    mean, std = torch.randn(3, n), torch.rand(3, n) + 0.2
    return Normal(mean, std.square(), torch.zeros(3, n))


def counts(n=4000, var=0.3):
    mean = torch.rand(n) * 2
    return Count(Poisson(), mean, torch.full((n,), var))


def count_mixture(n=4000):
    return CountMixture(
        (counts(n), Count(NegativeBinomial(torch.tensor(1.5)), torch.rand(n), torch.rand(n)))
    )


def levels(n=4000):
    return Ordered(torch.randn(n, 4).log_softmax(-1))


def normal(n=4000):
    p = normals(n)
    return Normal(p.mean[0], p.noise_var[0], p.belief_var[0])


PREDICTIVES = {
    "normal": normal,
    "mixture": lambda n=4000: Mixture(normals(n)),
    "count": counts,
    "count-mixture": count_mixture,
    "ordered": levels,
}
kinds = pytest.mark.parametrize("make", PREDICTIVES.values(), ids=PREDICTIVES)


@kinds
def test_pit_is_uniform_where_the_predictive_is_true(make):
    p = make()
    y = p.sample(1, torch.Generator().manual_seed(1))[0]
    u = metrics.pit(p, y, torch.Generator().manual_seed(2))
    assert u.shape == (4000,)
    assert ((u >= 0) & (u <= 1)).all()
    assert stats.kstest(u.numpy(), "uniform").pvalue > 1e-3


FALSE = {
    "normal": (normal, lambda p: Normal(p.mean, 2 * p.noise_var, p.belief_var)),
    "count": (counts, lambda p: Count(Poisson(), p.latent_mean, 4 * p.latent_var)),
    "ordered": (levels, lambda p: Ordered(p.log_probs.flip(-1))),
}


@pytest.mark.parametrize(("make", "spoil"), FALSE.values(), ids=FALSE)
def test_pit_is_not_uniform_where_the_predictive_is_false(make, spoil):
    p = make()
    y = p.sample(1, torch.Generator().manual_seed(1))[0]
    u = metrics.pit(spoil(p), y, torch.Generator().manual_seed(2))
    assert stats.kstest(u.numpy(), "uniform").pvalue < 1e-6


def test_pit_of_a_real_number_is_its_distribution_function():
    parts = normals(50)
    y, dist = torch.randn(50), stats.norm(parts.mean, parts.stddev)
    p = Normal(parts.mean[1], parts.noise_var[1], parts.belief_var[1])
    want = dist.cdf(y)
    np.testing.assert_allclose(metrics.pit(p, y), want[1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(metrics.pit(Mixture(parts), y), want.mean(0), rtol=0, atol=1e-15)
    before = torch.random.get_rng_state()
    metrics.pit(p, y)
    assert (torch.random.get_rng_state() == before).all()


def drawn(seed, n):
    return torch.rand(n, generator=torch.Generator().manual_seed(seed)).numpy()


def test_pit_of_counts_is_randomised_between_steps():
    rate, y = torch.tensor([0.5, 2.0, 7.0, 30.0]), torch.tensor([0, 3, 2, 41])
    p = Count(Poisson(), rate.log(), torch.full((4,), 1e-16))
    law, u = stats.poisson(rate.numpy()), drawn(3, 4)
    want = law.cdf(y - 1) + u * law.pmf(y)
    ours = metrics.pit(p, y, torch.Generator().manual_seed(3))
    np.testing.assert_allclose(ours, want, rtol=1e-9)
    r = torch.tensor(2.5)
    law = stats.nbinom(2.5, (r / (r + rate)).numpy())
    other = Count(NegativeBinomial(r), rate.log(), torch.full((4,), 1e-16))
    both = (want + law.cdf(y - 1) + u * law.pmf(y)) / 2
    ours = metrics.pit(CountMixture((p, other)), y, torch.Generator().manual_seed(3))
    np.testing.assert_allclose(ours, both, rtol=1e-9)


def test_pit_of_counts_integrates_over_the_rate():
    p = Count(Poisson(), torch.tensor([1.0]), torch.tensor([0.5]))

    def mixed(cdf):
        given = lambda f: cdf(np.exp(f)) * stats.norm.pdf(f, 1, np.sqrt(0.5))
        return integrate.quad(given, -7, 9, epsabs=1e-13, epsrel=1e-12, limit=200)[0]

    low, high = (mixed(lambda rate, k=k: stats.poisson.cdf(k, rate)) for k in (3, 4))
    ours = metrics.pit(p, torch.tensor([4]), torch.Generator().manual_seed(3)).item()
    assert ours == pytest.approx(low + drawn(3, 1)[0] * (high - low), rel=1e-9)


def test_pit_of_ordered_labels_is_randomised_between_steps():
    p, y = levels(4), torch.arange(4)
    edges = np.concatenate([np.zeros((4, 1)), np.cumsum(p.probs.numpy(), -1)], -1)
    low, high = edges[range(4), range(4)], edges[range(4), range(1, 5)]
    ours = metrics.pit(p, y, torch.Generator().manual_seed(5))
    np.testing.assert_allclose(ours, low + drawn(5, 4) * (high - low), rtol=1e-12)


@kinds
def test_pit_over_leading_axes(make):
    """What a row gets does not depend on the axes around it."""
    p = make(24)
    y = p.sample(1, torch.Generator().manual_seed(1))[0]
    fold = lambda t: t.unflatten(-1, (2, 3, 4)) if t.shape[-1] == 24 else t
    if isinstance(p, Ordered):
        many = Ordered(p.log_probs.unflatten(0, (2, 3, 4)))
    elif isinstance(p, CountMixture):
        many = CountMixture(tuple(_folded(part, fold) for part in p.parts))
    elif isinstance(p, Mixture):
        many = Mixture(_folded(p.parts, fold))
    else:
        many = _folded(p, fold)
    want = metrics.pit(p, y, torch.Generator().manual_seed(7))
    ours = metrics.pit(many, fold(y), torch.Generator().manual_seed(7))
    torch.testing.assert_close(ours, fold(want), rtol=1e-12, atol=1e-14)


def _folded(p, fold):
    if isinstance(p, Count):
        return Count(p.factor, fold(p.latent_mean), fold(p.latent_var))
    return Normal(fold(p.mean), fold(p.noise_var), fold(p.belief_var))


def test_pit_refuses_what_has_no_distribution_function():
    p, y = levels(20), torch.randint(4, (20,))
    with pytest.raises(TypeError, match=r"`predictive` must have a distribution .*got Categorical"):
        metrics.pit(Categorical(p.log_probs), y)
    own = Implied(Bounded(lambda y, f: -(y - f).abs()), torch.zeros(20), torch.ones(20))
    with pytest.raises(TypeError, match=r"`predictive` must have a distribution .*got Implied"):
        metrics.pit(own, y.double())
    with pytest.raises(ValueError, match=r"`y` must hold labels 0\.\.3"):
        metrics.pit(p, y + 4)
    with pytest.raises(ValueError, match=r"`y` must have the shape \(20,\) of the predictive"):
        metrics.pit(normal(20), torch.zeros(20, 1))
