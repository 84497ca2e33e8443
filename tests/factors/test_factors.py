"""Conformance of every factor, against adaptive integration."""

import numpy as np
import pytest
import torch
from scipy import stats

from oracles import expectation, log_z
from parts import FACTORS
from scroll._core.quadrature import hermite, log_error_bound, log_expect, log_expect_at_mode
from scroll._core.value import cast
from scroll.factors import Bounded, Gaussian, Moments, Ordinal, Poisson, Probit
from scroll.factors.ordinal import log_ndtr_difference

each = pytest.mark.parametrize("name", FACTORS)
MEANS = (-30.0, -7.0, 0.0, 3.0, 30.0)
VARS = (1e-6, 1e-2, 1.0, 25.0)


def right(ours, truth, rel=1e-9):
    """log Z to 1e-9, relative; where Z is near one, log Z is near zero and it is Z that counts."""
    assert abs(ours - truth) <= rel * max(1.0, abs(truth)), (ours, truth)


@each
@pytest.mark.parametrize("mean", MEANS)
def test_log_marginal_is_the_integral(name, mean):
    make, log_prob, ys = FACTORS[name]
    factor = make(())
    for y in ys:
        for var in VARS:
            at = Moments(torch.tensor([mean]), torch.tensor([var]))
            ours = factor.log_marginal(torch.tensor([y]), at).item()
            right(ours, log_z(lambda f, y=y: log_prob(y, f), mean, var))


@each
def test_log_prob_is_scipys_even_far_out(name):
    make, log_prob, ys = FACTORS[name]
    for y in ys:
        for f in (*MEANS, 12.0):
            ours = make(()).log_prob(torch.tensor([y]), torch.tensor([f])).item()
            right(ours, float(log_prob(y, f)))


@each
@pytest.mark.parametrize("mean", [-7.0, 0.0, 3.0])
def test_expected_log_is_the_integral(name, mean):
    make, log_prob, ys = FACTORS[name]
    for y in ys:
        for var in (1e-6, 0.5, 9.0):
            at = Moments(torch.tensor([mean]), torch.tensor([var]))
            ours = make(()).expected_log(torch.tensor([y]), at).item()
            right(ours, expectation(lambda f, y=y: log_prob(y, f), mean, var))


@each
def test_no_width_is_the_factor_itself(name):
    make, _, ys = FACTORS[name]
    y, f = torch.tensor(ys), torch.linspace(-2, 2, len(ys))
    at = Moments(f, torch.zeros_like(f))
    factor = make(())
    want = factor.log_prob(y, f)
    torch.testing.assert_close(factor.log_marginal(y, at), want, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(factor.expected_log(y, at), want, rtol=1e-11, atol=1e-11)


@each
@pytest.mark.parametrize("what", ["log_marginal", "expected_log"])
def test_gradients_are_those_of_the_value(name, what):
    make, _, ys = FACTORS[name]
    factor = make(())
    for y in ys:
        mean = torch.tensor([-4.0, 0.3, 2.0], requires_grad=True)
        var = torch.tensor([0.5, 0.1, 4.0], requires_grad=True)
        f = lambda m, v, y=y: getattr(factor, what)(torch.tensor([y] * 3), Moments(m, v))
        assert torch.autograd.gradcheck(f, (mean, var))


@each
def test_gradients_stay_finite_in_the_tails(name):
    make, _, ys = FACTORS[name]
    for dtype in (torch.float64, torch.float32):
        for y in ys:
            mean = torch.tensor([-30.0, 30.0, -30.0, 30.0], dtype=dtype, requires_grad=True)
            var = torch.tensor([1e-6, 1e-6, 25.0, 25.0], dtype=dtype, requires_grad=True)
            factor = cast(make(()), dtype)
            value = factor.log_marginal(torch.tensor([y] * 4, dtype=dtype), Moments(mean, var))
            assert value.dtype == dtype
            # float32 cannot hold Poisson's exp(30) squared over a variance of 1e-6
            keep = value.isfinite() if dtype == torch.float32 else torch.ones(4, dtype=torch.bool)
            value[keep].sum().backward()
            assert mean.grad.isfinite().all()
            assert var.grad.isfinite().all()


@each
@pytest.mark.parametrize("lead", [(3,), (2, 3)])
def test_batching_law(name, lead):
    make, _, ys = FACTORS[name]
    y = torch.tensor(ys)[torch.randint(len(ys), (*lead, 5))]
    at = Moments(torch.randn(*lead, 5), torch.rand(*lead, 5) + 0.1)
    for what in ("log_marginal", "expected_log"):
        together = getattr(make(lead), what)(y, at)
        for i in np.ndindex(*lead):
            alone = getattr(make(()), what)(y[i], Moments(at.mean[i], at.var[i]))
            torch.testing.assert_close(together[i], alone, rtol=1e-10, atol=1e-12)


@each
def test_jensen(name):
    """-log Z_n <= E[-log p] (Prop. bethe_elbo), equal only without width."""
    make, _, ys = FACTORS[name]
    y = torch.tensor(ys)
    at = Moments(torch.randn(len(ys)), torch.full((len(ys),), 0.5))
    assert (make(()).log_marginal(y, at) > make(()).expected_log(y, at)).all()


def test_probability_sums_to_one_far_out():
    """Ordinal levels, at means up to 30."""
    factor = Ordinal(torch.tensor([-1.3, 0.2, 0.9]), torch.tensor(1.1))
    at = Moments(torch.linspace(-30, 30, 121), torch.rand(121) * 25)
    total = factor.log_probs(at).exp().sum(-1)
    torch.testing.assert_close(total, torch.ones(121), rtol=0, atol=1e-12)


def test_two_ordered_levels_are_the_probit():
    """Exactly: not only to rounding."""
    ordinal = Ordinal(torch.tensor([0.0]), torch.tensor(1.005))
    probit = Probit(torch.tensor(1.005))
    at = Moments(torch.linspace(-30, 30, 61), torch.rand(61) * 9)
    for level, sign in ((0, -1.0), (1, 1.0)):
        ours = ordinal.log_marginal(torch.full((61,), level), at)
        theirs = probit.log_marginal(torch.full((61,), sign), at)
        torch.testing.assert_close(ours, theirs, rtol=1e-15, atol=0)


def test_differences_of_normal_distribution_functions_keep_their_digits():
    from mpmath import erfc, log, mp, sqrt

    mp.dps = 60
    for low, high in ((-38.0, -37.0), (29.0, 30.0), (-1e-3, 2e-3), (5.0, 5.001), (-40.0, 40.0)):
        truth = log((erfc(-mp.mpf(high) / sqrt(2)) - erfc(-mp.mpf(low) / sqrt(2))) / 2)
        ours = log_ndtr_difference(torch.tensor(low), torch.tensor(high)).item()
        right(ours, float(truth), 1e-12)


def test_closed_forms_are_what_quadrature_finds():
    """Probit, ordinal, Gaussian and censored against the two rules of quadrature."""
    at = Moments(torch.tensor([-1.0, 0.4, 3.0]), torch.tensor([0.5, 1.0, 0.2]))
    for name in ("gaussian", "censored", "probit", "ordinal"):
        make, _, ys = FACTORS[name]
        factor = make(())
        for y in ys:
            target = torch.tensor([y] * 3)
            rule = log_expect_at_mode(lambda f, t=target, p=factor: p.log_prob(t, f), *at)
            torch.testing.assert_close(factor.log_marginal(target, at), rule, rtol=1e-9, atol=1e-9)


def test_hermite_error_is_within_its_certificate():
    """Lemma gh_error for the probit: |Z - Z_m| <= (v / 2c^2)^m, and its general form."""
    y, scale = torch.tensor([1.0]), torch.tensor(1.005)
    factor = Probit(scale)
    for mean in (-3.0, 0.0, 0.7):
        for var in (0.1, 0.5, 1.0):
            for order in (2, 4, 8):
                at = Moments(torch.tensor([mean]), torch.tensor([var]))
                exact = factor.log_marginal(y, at).exp()
                rule = Bounded(factor.log_prob, "belief", order).log_marginal(y, at).exp()
                error = (exact - rule).abs().item()
                assert error <= (var / (2 * 1.005**2)) ** order
                assert error <= log_error_bound(order, at.var, _sup(order)).exp().item()


def _sup(order):
    """log sup |d^2m Phi(f/c)/df^2m| on a fine grid: Hermite polynomials by numpy."""
    x = np.linspace(-8, 8, 20001)
    poly = np.polynomial.hermite_e.hermeval(x, [0] * (2 * order - 1) + [1])
    return float(np.log(np.abs(poly * stats.norm.pdf(x)).max()) - 2 * order * np.log(1.005))


def test_hermite_nodes_are_numpys():
    for order in (2, 7, 32, 64):
        x, log_w = hermite(order)
        nodes, weights = np.polynomial.hermite_e.hermegauss(order)
        np.testing.assert_allclose(x, nodes, rtol=1e-11, atol=1e-12)
        # weights far out are below 1e-16 of the largest, and so is what they add
        np.testing.assert_allclose(log_w.exp(), weights / weights.sum(), rtol=1e-10, atol=1e-17)


def test_bounds_of_a_user_factor():
    factor = Bounded(lambda y, f: torch.special.log_ndtr(y * f), "belief", 8)
    var = torch.tensor([0.5])
    torch.testing.assert_close(
        factor.log_error_bound(var, -1.0), log_error_bound(8, var, -1.0), rtol=0, atol=0
    )
    with pytest.raises(ValueError, match="`rule` must be one of 'mode', 'belief', but got 'best'"):
        Bounded(factor.log_prob, "best")


def test_nodes_on_the_belief_lose_what_nodes_on_the_mode_find():
    """Poisson, y = 40, f ~ N(0, 4): the mass lies two to three widths away from the belief."""
    y, at = torch.tensor([40.0]), Moments(torch.zeros(1), torch.tensor([4.0]))
    g = lambda f: Poisson().log_prob(y, f)
    truth = log_z(lambda f: FACTORS["poisson"][1](40.0, f), 0.0, 4.0)
    right(log_expect_at_mode(g, *at).item(), truth)
    assert abs(log_expect(g, *at, order=32).item() - truth) > 0.05


def test_mode_search_takes_a_stack_of_different_modes():
    y = torch.tensor([0.0, 40.0, 1000.0, 3.0])
    at = Moments(torch.tensor([30.0, -30.0, 0.0, 2.0]), torch.tensor([25.0, 25.0, 1e-6, 1e-2]))
    ours = Poisson().log_marginal(y, at)
    for n in range(4):
        truth = log_z(
            lambda f, n=n: FACTORS["poisson"][1](y[n].item(), f),
            at.mean[n].item(),
            at.var[n].item(),
        )
        right(ours[n].item(), truth)


def test_gaussian_noise_is_one_an_output():
    factor = Gaussian(torch.tensor([0.1, 2.0]))
    y, at = torch.zeros(2, 1), Moments(torch.zeros(2, 1), torch.zeros(2, 1))
    want = stats.norm.logpdf(0, 0, [[0.1], [2.0]])
    np.testing.assert_allclose(factor.log_marginal(y, at).numpy(), want, rtol=1e-12)
