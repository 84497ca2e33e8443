"""Far out, |m| = 30: log Z_n against integration in 20 digits, its gradients, and sums to one."""

from functools import cache

import mpmath as mp
import pytest
import torch
from mpmath import mpf

from scroll import ClassificationHead, OrdinalHead
from scroll.factors import BernoulliLogit, Moments, NegativeBinomial, Ordinal, Poisson, Probit

MEANS = (-30.0, 0.0, 9.2, 30.0)
COUNTS = (0, 1, 50, 10_000)
COUNT_VARS = (1e-4, 0.1, 1.0, 4.0)
THRESHOLDS, SCALE = (-1.3, 0.2, 0.201, 2.5), 1.005  # one level is narrow
LEVEL_VARS = (0.0, 1e-4, 1.0, 25.0)


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(20):
        yield


def integral(log_p, mean, var):
    """log Z, and d log Z/dm and dv by the moments of f under N(f; m, v) p(y | f), by mpmath.

    Cut at the mode and where the integrand has fallen by exp(-50) on either side.
    """
    mean, var = mpf(mean), mpf(var)
    log_f = lambda f: log_p(f) - (f - mean) ** 2 / (2 * var)
    low, high, eps = mpf(-100), mpf(100), mpf("1e-7")
    while high - low > eps:
        middle = (low + high) / 2
        rises = log_f(middle + eps) > log_f(middle - eps)
        low, high = (middle, high) if rises else (low, middle)
    peak, ends = log_f(low), [_fallen(log_f, low, sign) for sign in (-1, 1)]
    cuts = [*mp.linspace(ends[0], low, 5), *mp.linspace(low, ends[1], 5)[1:]]
    density = cache(lambda f: mp.exp(log_f(f) - peak))
    z, first, second = (
        mp.quad(lambda f, k=k: (f - mean) ** k * density(f), cuts, method="gauss-legendre")
        for k in range(3)
    )
    log_z = mp.log(z) + peak - mp.log(2 * mp.pi * var) / 2
    return log_z, first / z / var, (second / z / var - 1) / var / 2


def _fallen(log_f, mode, sign):
    step = mpf("1e-6")
    while log_f(mode + sign * step) > log_f(mode) - 50:
        step *= 1.5
    return mode + sign * step


def right(ours, truth, rel=1e-9):
    """To 1e-9, relative; of what is near zero, absolute."""
    ours = ours.item() if isinstance(ours, torch.Tensor) else ours
    assert abs(ours - truth) <= rel * max(1, abs(truth)), (ours, truth)


def message(mean, var):
    return Moments(*(torch.tensor([float(t)], requires_grad=True) for t in (mean, var)))


# Counts


def poisson(y):
    norm = mp.loggamma(y + 1)
    return lambda f: y * f - mp.exp(f) - norm


def negative_binomial(y, r):
    norm = mp.loggamma(y + r) - mp.loggamma(r) - mp.loggamma(y + 1) + r * mp.log(r)
    return lambda f: norm + y * f - (y + r) * mp.log(r + mp.exp(f))


@pytest.mark.parametrize("r", [None, 0.3, 500.0])
@pytest.mark.parametrize("y", COUNTS)
def test_counts_and_their_gradients_are_the_integrals(y, r):
    factor = Poisson() if r is None else NegativeBinomial(torch.tensor(r))
    log_p = poisson(y) if r is None else negative_binomial(y, mpf(r))
    for mean in MEANS:
        for var in COUNT_VARS:
            at = message(mean, var)
            log_z = factor.log_marginal(torch.tensor([y]), at)
            log_z.backward()
            found = (log_z, at.mean.grad, at.var.grad)
            for ours, truth in zip(found, integral(log_p, mean, var), strict=True):
                right(ours, truth)


# Ordered levels


def ordinal(y):
    """log p(y | f), mirrored so that the difference is one of lower tails."""
    edges = [-mp.inf, *map(mpf, THRESHOLDS), mp.inf]

    def log_p(f):
        low, high = ((edge - f) / mpf(SCALE) for edge in edges[y : y + 2])
        low, high = (-high, -low) if low + high > 0 else (low, high)
        return mp.log(mp.ncdf(high) - mp.ncdf(low))

    return log_p


def learned():
    return Ordinal(torch.tensor(THRESHOLDS, requires_grad=True), torch.tensor(SCALE))


@pytest.mark.parametrize("y", range(5))
def test_levels_and_their_gradients_are_the_integrals(y):
    for mean in MEANS:
        for var in (1e-4, 1.0, 25.0):
            at = message(mean, var)
            log_z = learned().log_marginal(torch.tensor([y]), at)
            log_z.backward()
            found = (log_z, at.mean.grad, at.var.grad)
            for ours, truth in zip(found, integral(ordinal(y), mean, var), strict=True):
                right(ours, truth)


@pytest.mark.parametrize("y", range(5))
@pytest.mark.parametrize("mean", [-30.0, -3.0, 0.0, 30.0])
def test_levels_without_width_are_the_factor(mean, y):
    at = message(mean, 0.0)
    log_z = learned().log_marginal(torch.tensor([y]), at)
    log_z.backward()
    log_p, f = ordinal(y), mpf(mean)
    slope, curve = (mp.diff(log_p, f, k, h=mpf("1e-4")) for k in (1, 2))
    right(log_z, log_p(f))
    right(at.mean.grad, slope, 1e-6)  # their differences are good to h^2
    right(at.var.grad, (curve + slope**2) / 2, 1e-6)  # the heat equation


@pytest.mark.parametrize("y", range(5))
def test_gradients_of_the_thresholds(y):
    """d log Z / dt = +-N(t; m, scale^2 + v)/Z."""
    for mean in MEANS:
        for var in (0.0, 1e-4, 1.0, 25.0):
            factor = learned()
            log_z = factor.log_marginal(torch.tensor([y]), message(mean, var))
            log_z.backward()
            std = mp.sqrt(mpf(SCALE) ** 2 + mpf(var))
            for k, t in enumerate(THRESHOLDS):
                share = mp.npdf(mpf(t), mean, std) / mp.exp(mpf(log_z.item()))
                right(factor.thresholds.grad[k], ((k == y) - (k == y - 1)) * share)


def test_two_levels_are_the_probit_bit_by_bit():
    """At every threshold: a latent that is shifted by it."""
    mean = torch.linspace(-30, 30, 241)
    for t in (0.0, 0.37, -2.0):
        for var in (0.0, 1e-4, 1.0, 25.0):
            ordinal = Ordinal(torch.tensor([t]), torch.tensor(SCALE))
            at = Moments(mean, torch.full((241,), var))
            shifted = Moments(mean - t, at.var)
            for level, sign in ((0, -1.0), (1, 1.0)):
                ours = ordinal.log_marginal(torch.full((241,), level), at)
                probit = Probit(torch.tensor(SCALE)).log_marginal(torch.tensor(sign), shifted)
                assert torch.equal(ours, probit)


# Sums


HEADS = {
    "ova": lambda: ClassificationHead(2, 3),
    "ova of 1,000": lambda: ClassificationHead(2, 1000),
    "gaussreg": lambda: ClassificationHead(2, 4, "gaussreg"),
    "probit": lambda: ClassificationHead(2, 2, "probit"),
    "logit": lambda: ClassificationHead(2, 2, "logit"),
    "ordinal": lambda: OrdinalHead(2, 7),
    "narrow ordinal": lambda: OrdinalHead(2, 5, thresholds=torch.tensor(THRESHOLDS)),
}


@pytest.mark.parametrize("make", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("var", [0.0, 1e-4, 1.0, 25.0, 1e6])
def test_probabilities_sum_to_one(make, var):
    likelihood = make().likelihood
    k, ends = likelihood.latents, torch.linspace(-30, 30, 121)
    mean = torch.stack([ends, *(ends[torch.randperm(121)] for _ in range(k - 1))])
    with torch.no_grad():
        probs = likelihood.predict(Moments(mean, torch.full_like(mean, var))).probs
    assert ((probs >= 0) & (probs <= 1)).all()
    torch.testing.assert_close(probs.sum(-1), torch.ones(121), rtol=0, atol=1e-12)


def over_logistic(g, mean, std):
    """E g((mean - X)/std), X logistic, in pieces."""
    cuts = [-120, -40, -20, -10, -5, 0, 5, 10, 20, 40, 120]
    density = lambda x: mp.sech(x / 2) ** 2 / 4 * g((mean - x) / std)
    return mp.quad(density, cuts, method="gauss-legendre")


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("var", [24.9, 25.1, 1e2, 1e4, 1e6])
def test_the_logit_of_a_wide_latent(var, sign):
    """E Phi((y m - X)/std), on both sides of where our rule changes."""
    for mean in (-30.0, 0.0, 3.0, 30.0):
        at, std = message(mean, var), mp.sqrt(mpf(var))
        log_z = BernoulliLogit().log_marginal(torch.tensor([sign]), at)
        log_z.backward()
        z = over_logistic(mp.ncdf, sign * mean, std)
        right(log_z, mp.log(z))
        right(at.mean.grad, sign * over_logistic(mp.npdf, sign * mean, std) / z / std)
        toward = over_logistic(lambda t: -t * mp.npdf(t), sign * mean, std)
        right(at.var.grad, toward / z / (2 * mpf(var)))


def test_counts_and_the_logit_work_in_inference_mode():
    from scroll import CountHead
    from scroll.heads.likelihoods import CountLikelihood

    psi, y = torch.ones(3, 2), torch.tensor([0, 1, 1])
    counts = (CountHead(2, kind) for kind in CountLikelihood.kinds)
    for head in (*counts, ClassificationHead(2, 2, "logit")):
        with torch.no_grad():
            want = head(psi).log_prob(y)
        with torch.inference_mode():
            torch.testing.assert_close(head(psi).log_prob(y), want)


def test_inference_mode_is_refused_in_words_for_a_users_factor():
    """Its mode is found by differentiation, which inference mode forbids."""
    from scroll import Head
    from scroll.factors import Bounded
    from scroll.heads.likelihoods import AnyLikelihood

    head = Head(2, AnyLikelihood(Bounded(lambda y, f: -(y - f).abs())))
    psi, y = torch.ones(3, 2), torch.tensor([0.0, 1.0, 2.0])
    with torch.inference_mode(), pytest.raises(RuntimeError, match=r"be off .* torch\.no_grad"):
        head(psi).log_prob(y)
