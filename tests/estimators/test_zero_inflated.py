"""Zero-inflated counts: factor and predictive against scipy, the fit against statsmodels."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from scroll import CountHead, ScrollRegressor
from scroll.estimators.tasks.counts import CountTask, extra_zeros
from scroll.factors import Moments, NegativeBinomial, Poisson, ZeroInflated
from scroll.predictive import Count, metrics
from sweeps import cases

BASES = {"zip": None, "zinb": 1.7}  # concentration
SHARES = (1e-5, 0.3, 0.97)  # of extra zeros
BELIEFS = ((-3.0, 0.5), (1.2, 1e-3), (0.4, 2.0), (3.0, 0.3))  # mean and variance of f
each = pytest.mark.parametrize("kind", BASES)


def base(kind):
    r = BASES[kind]
    return Poisson() if r is None else NegativeBinomial(torch.tensor(r))


def law(kind, f):
    """scipy's distribution of the base at log rates f."""
    r, rate = BASES[kind], np.exp(f)
    return stats.poisson(rate) if r is None else stats.nbinom(r, r / (r + rate))


def mean_over_f(g, mean, var):
    """E g(f), f ~ N(mean, var), by scipy's Gauss-Legendre rule on each of 100 segments."""
    cuts = mean + np.sqrt(var) * np.linspace(-10, 10, 101)
    density = stats.norm(mean, np.sqrt(var)).pdf
    parts = [
        integrate.fixed_quad(lambda f: g(f) * density(f), a, b, n=30)[0] for a, b in pairwise(cuts)
    ]
    return sum(parts)


@each
@pytest.mark.parametrize("pi", SHARES)
@pytest.mark.parametrize(("mean", "var"), BELIEFS)
def test_probabilities_are_scipys(kind, pi, mean, var):
    p = Count(
        ZeroInflated(base(kind), torch.tensor(pi).logit()),
        torch.tensor([mean]),
        torch.tensor([var]),
    )
    for y in (0, 1, 6, 40):
        pmf = mean_over_f(lambda f, y=y: pi * (y == 0) + (1 - pi) * law(kind, f).pmf(y), mean, var)
        count = torch.tensor([y])
        assert p.log_prob(count).exp().item() == pytest.approx(pmf, rel=1e-9, abs=1e-15)
        reached = mean_over_f(lambda f, y=y: pi + (1 - pi) * law(kind, f).cdf(y), mean, var)
        assert p.cdf(count).item() == pytest.approx(reached, rel=1e-9)
    first = mean_over_f(lambda f: (1 - pi) * np.exp(f), mean, var)
    second = mean_over_f(lambda f: (1 - pi) * (law(kind, f).var() + np.exp(2 * f)), mean, var)
    assert p.mean.item() == pytest.approx(first, rel=1e-9)
    assert p.variance.item() == pytest.approx(second - first**2, rel=1e-9)


@each
@pytest.mark.parametrize("pi", SHARES)
@pytest.mark.parametrize(("mean", "var"), BELIEFS)
def test_expected_log_is_scipys(kind, pi, mean, var):
    factor = ZeroInflated(base(kind), torch.tensor(pi).logit())
    for y in (0, 6):
        zero = np.log(pi) if y == 0 else -np.inf
        log_pmf = lambda f, y=y, zero=zero: np.logaddexp(
            zero, np.log1p(-pi) + law(kind, f).logpmf(y)
        )
        at = Moments(torch.tensor([mean]), torch.tensor([var]))
        ours = factor.expected_log(torch.tensor([y]), at).item()
        assert ours == pytest.approx(mean_over_f(log_pmf, mean, var), rel=1e-9, abs=1e-9)


@each
def test_without_extra_zeros_it_is_the_base(kind):
    plain, y = base(kind), torch.tensor([0.0, 0.0, 3.0, 50.0])
    at = Moments(torch.tensor([-2.0, 2.0, 1.0, 3.0]), torch.tensor([0.1, 1.0, 4.0, 1e-4]))
    factor = ZeroInflated(plain, torch.tensor(-40.0))
    ours, want = factor.log_marginal(y, at), plain.log_marginal(y, at)
    torch.testing.assert_close(ours, want, rtol=1e-12, atol=0)
    narrow = at._replace(var=0.01 * at.var)  # a wide E log has zeros that are rarer than pi
    ours, want = factor.expected_log(y, narrow), plain.expected_log(y, narrow)
    torch.testing.assert_close(ours, want, rtol=1e-9, atol=0)
    ours, want = Count(factor, *at), Count(plain, *at)
    for what in ("mean", "variance", "stddev"):
        torch.testing.assert_close(getattr(ours, what), getattr(want, what), rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.cdf(y), want.cdf(y), rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.quantile(0.9), want.quantile(0.9), rtol=0, atol=0)
    torch.testing.assert_close(ours.crps(y), want.crps(y), rtol=1e-12, atol=0)


@each
def test_crps_and_quantiles_are_sums_over_the_counts(kind):
    f, pi, y = np.array([-0.5, 0.8, 2.0]), 0.4, np.array([0, 4, 3])
    p = Count(
        ZeroInflated(base(kind), torch.tensor(pi).logit()),
        torch.from_numpy(f),
        torch.full((3,), 1e-16),
    )
    k = np.arange(4000)[:, None]
    cdf = pi + (1 - pi) * law(kind, f).cdf(k)
    want = ((cdf - (k >= y)) ** 2).sum(0)
    np.testing.assert_allclose(p.crps(torch.from_numpy(y)), want, rtol=1e-9)
    for q in (0.1, 0.399, 0.7, 0.99):
        np.testing.assert_array_equal(p.quantile(q), (cdf < q).sum(0))


def simulated(kind, n, seed, pi=0.35):
    """Inputs, counts with extra zeros, and the negative log-likelihood of the truth."""
    rng = np.random.default_rng(seed)
    x, r = rng.normal(size=(n, 2)), BASES[kind]
    f = 1 + 0.8 * x[:, 0]
    rate = np.exp(f) * (1 if r is None else rng.gamma(r, 1 / r, n))
    y = rng.poisson(rate) * (rng.random(n) >= pi)
    return x, y, -np.log((1 - pi) * law(kind, f).pmf(y) + pi * (y == 0)).mean()


@each
def test_the_maximum_likelihood_is_that_of_statsmodels(kind):
    """Features as they are, a point belief and no prior: a zero-inflated regression."""
    discrete = pytest.importorskip("statsmodels.discrete.count_model")
    x, y, _ = simulated(kind, 500, 0)
    theirs = {"zip": "ZeroInflatedPoisson", "zinb": "ZeroInflatedNegativeBinomialP"}[kind]
    model = getattr(discrete, theirs)(y, np.c_[np.ones(500), x], exog_infl=np.ones((500, 1)))
    fit = model.fit(method="bfgs", maxiter=500, gtol=1e-7, disp=0)
    head = CountHead(2, kind, covariance="none", method="no-prior", alpha=1e-300)
    with torch.no_grad():
        CountTask(kind).start(head, torch.from_numpy(y).double())
    psi, target = torch.from_numpy(x), torch.from_numpy(y)
    search = torch.optim.LBFGS(head.parameters(), max_iter=500, line_search_fn="strong_wolfe")

    def loss():
        search.zero_grad()
        value = head.loss(psi, target, total=500)
        value.backward()
        return value

    search.step(loss)
    nll = -head(psi).log_prob(target).mean().item()
    assert nll == pytest.approx(-fit.llf / 500, abs=1e-7)
    assert head.likelihood.factor().base.logit.item() == pytest.approx(fit.params[0], abs=1e-3)
    np.testing.assert_allclose(head.bias.item(), fit.params[1], atol=1e-3)


@pytest.mark.parametrize("kind", cases(("zip", "zinb"), "zip"))
def test_an_estimator_finds_the_extra_zeros(kind):
    """Better than the plain count, and close to the truth."""
    torch.set_default_dtype(torch.float32)
    plain = "poisson" if kind == "zip" else "negbinomial"
    (x, y, _), (later, z, true) = simulated(kind, 600, 0), simulated(kind, 2000, 1)
    # dispersion and extra zeros are told apart late in the training
    steps = 300 if kind == "zip" else 1000
    ours, theirs = (fitted(name, x, y, steps).predict_dist(later) for name in (kind, plain))
    ours_nll, theirs_nll = (float(metrics.nll(p, torch.from_numpy(z))) for p in (ours, theirs))
    assert ours_nll < theirs_nll - (0.15 if kind == "zip" else 0.02)
    assert ours_nll < true + 0.03
    for member in ours.members:
        assert abs(member.factor.logit.sigmoid().item() - 0.35) < 0.1


def test_counts_without_extra_zeros_cost_nothing():
    torch.set_default_dtype(torch.float32)
    (x, y, _), (later, z, _) = (simulated("zip", n, n, pi=0.0) for n in (600, 2000))
    nll = [
        float(metrics.nll(fitted(kind, x, y, 300).predict_dist(later), torch.from_numpy(z)))
        for kind in ("poisson", "zip")
    ]
    assert nll[1] < nll[0] + 0.005


def fitted(kind, x, y, steps):
    how = {"body": (16,), "n_members": 1, "max_steps": steps, "random_state": 0}
    return ScrollRegressor(likelihood=kind, **how).fit(x, y)


@each
def test_the_start_is_the_fit_without_inputs(kind):
    """To the grid of shares, and to what 4,000 rows tell."""
    rng, r = np.random.default_rng(0), BASES[kind]
    rate = np.full(4000, 3.0) if r is None else 3 * rng.gamma(r, 1 / r, 4000)
    y = torch.from_numpy(rng.poisson(rate) * (rng.random(4000) >= 0.4)).float()
    head = CountHead(4, kind)
    with torch.no_grad():
        CountTask(kind).start(head, y)
    assert head.likelihood.logit_inflation.sigmoid().item() == pytest.approx(0.4, abs=0.04)
    assert head.bias.exp().item() == pytest.approx(3.0, rel=0.1)
    if r is not None:
        assert head.likelihood.log_concentration.exp().item() == pytest.approx(r, rel=0.25)


def test_a_start_without_zeros_or_without_anything_else():
    assert extra_zeros(torch.tensor([3.0, 4.0, 9.0, 5.0])) < 0.02
    assert 0 < extra_zeros(torch.zeros(50)) < 1
    assert 0 < extra_zeros(torch.tensor([0.0, 1e12])) < 1
