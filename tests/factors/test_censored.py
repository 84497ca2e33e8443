"""Censored targets against scipy and mpmath: values, gradients, tails and narrow intervals."""

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
import torch
from mpmath import mpf
from scipy import stats

from scroll.factors import CensoredGaussian, Gaussian, Moments
from scroll.factors.censored import log_mass

INF = np.inf
PAIRS = ((0.4, 0.4), (0.4, INF), (-INF, 0.4), (-0.7, 0.4), (0.4, 0.4 + 1e-9))


def right(ours, truth, rel=1e-9):
    assert abs(ours - truth) <= rel * max(1, abs(truth)), (ours, truth)


def mass(low, high, mean, std):
    """P(low < t < high) in 60 digits, from the tail that holds both ends."""
    a, b = ((mpf(x) - mpf(mean)) / mpf(std) for x in (low, high))
    a, b = (-b, -a) if a + b > 0 else (a, b)
    return (mp.erfc(-b / mp.sqrt(2)) - mp.erfc(-a / mp.sqrt(2))) / 2


@pytest.mark.parametrize("mean", [-30.0, -3.0, 0.0, 3.0, 30.0])
def test_open_intervals_are_scipys(mean):
    factor, var = CensoredGaussian(torch.tensor(1.0)), torch.tensor([0.0, 0.44])
    for bound in (-0.7, 0.4):
        law = stats.norm(mean, np.sqrt(1 + var.numpy()))
        for pair, want in (
            ((bound, bound), law.logpdf(bound)),
            ((bound, INF), law.logsf(bound)),
            ((-INF, bound), law.logcdf(bound)),
        ):
            at = Moments(torch.full((2,), mean), var)
            ours = factor.log_marginal(torch.tensor([pair] * 2), at)
            np.testing.assert_allclose(ours, want, rtol=1e-12, atol=1e-300)
            alone = factor.log_prob(torch.tensor([pair]), torch.tensor([mean]))
            torch.testing.assert_close(alone, ours[:1], rtol=1e-14, atol=0)


@pytest.mark.parametrize("width", [1e-12, 1e-6, 1e-3, 0.1, 0.49, 0.5, 1.0, 20.0])
@pytest.mark.parametrize("std", [1e-2, 1.0, 7.0])
def test_intervals_keep_their_digits(width, std):
    """Also narrow ones, thirty and a thousand deviations away; so do their gradients."""
    with mp.workdps(60):
        for z in (-1000.0, -30.0, -1.0, 0.0, 0.3, 5.0, 30.0):
            low = 0.37 + z * std
            high = low + width
            if high == low:
                continue
            mean = torch.tensor([0.37], requires_grad=True)
            ours = log_mass(*(torch.tensor([t]) for t in (low, high)), mean, torch.tensor([std]))
            ours.backward()
            if (total := mass(low, high, 0.37, std)) == 0:
                continue  # even in 60 digits
            right(ours.item(), mp.log(total), 1e-13)
            a, b = ((mpf(t) - mpf(0.37)) / mpf(std) for t in (low, high))
            right(mean.grad.item(), (mp.npdf(a) - mp.npdf(b)) / mpf(std) / total, 1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_gradients_are_finite_everywhere(pair, dtype):
    for what in ("log_prob", "log_marginal", "expected_log"):
        mean = torch.tensor([-1e6, -300.0, 0.0, 0.4, 300.0, 1e6], dtype=dtype, requires_grad=True)
        var = torch.tensor([0.0, 1e-6, 1.0, 0.0, 1e4, 1.0], dtype=dtype, requires_grad=True)
        log_noise = torch.zeros((), dtype=dtype, requires_grad=True)
        factor, y = CensoredGaussian(log_noise.exp()), torch.tensor([pair] * 6, dtype=dtype)
        at = mean if what == "log_prob" else Moments(mean, var)
        value = getattr(factor, what)(y, at)
        value.sum().backward()
        assert value.dtype == dtype
        assert value.isfinite().all()
        assert mean.grad.isfinite().all()
        assert log_noise.grad.isfinite()
        assert what == "log_prob" or var.grad.isfinite().all()


def test_exact_rows_are_the_gaussian_factor():
    noise = torch.rand(3) + 0.2
    y, f = torch.randn(3, 5), torch.randn(3, 5)
    at, pairs = Moments(f, torch.rand(3, 5)), torch.stack([y, y], -1)
    ours, theirs = CensoredGaussian(noise), Gaussian(noise)
    torch.testing.assert_close(ours.log_prob(pairs, f), theirs.log_prob(y, f), rtol=0, atol=0)
    for what in ("log_marginal", "expected_log"):
        mine, want = getattr(ours, what)(pairs, at), getattr(theirs, what)(y, at)
        torch.testing.assert_close(mine, want, rtol=1e-14, atol=1e-14)


def test_nothing_known_is_certain_and_parts_add_up():
    at = Moments(torch.linspace(-30, 30, 61), torch.rand(61))
    factor, cuts = CensoredGaussian(torch.tensor(0.7)), (-INF, -3.0, 0.1, 0.1 + 1e-7, 8.0, INF)
    whole = torch.tensor([(-INF, INF)] * 61)
    torch.testing.assert_close(factor.log_marginal(whole, at), torch.zeros(61), rtol=0, atol=0)
    parts = [factor.log_marginal(torch.tensor([pair] * 61), at).exp() for pair in pairwise(cuts)]
    torch.testing.assert_close(sum(parts), torch.ones(61), rtol=0, atol=1e-14)


@pytest.mark.parametrize("ratio", [1.0, 5.0, 20.0])
def test_expected_log_of_a_belief_wider_than_the_noise(ratio):
    """Up to 20 times: against a trapezoid of 40,001 nodes."""
    factor, z = CensoredGaussian(torch.tensor(0.3)), torch.linspace(-12, 12, 40_001)
    weight = (-z.square() / 2).exp() * (0.0006 / np.sqrt(2 * np.pi))
    for pair in PAIRS:
        for mean in (-3.0, 0.2):
            y, std = torch.tensor([pair]), ratio * 0.3
            at = Moments(torch.tensor([mean]), torch.tensor([std**2]))
            f = mean + std * z
            want = (factor.log_prob(y.expand(len(f), 2), f) * weight).sum()
            right(factor.expected_log(y, at).item(), want.item())


def test_distance_to_the_interval():
    y = torch.tensor(PAIRS[:4])
    factor = CensoredGaussian(torch.tensor(1.0))
    want = torch.tensor([2.4, 2.4, 0.0, 1.3])
    torch.testing.assert_close(factor.distance(y, torch.full((4,), -2.0)), want)
    want = torch.tensor([1.6, 0.0, 1.6, 1.6])
    torch.testing.assert_close(factor.distance(y, torch.full((4,), 2.0)), want)


@pytest.mark.parametrize("pair", PAIRS[1:4], ids=str)
def test_single_precision_has_the_gradients_of_double(pair):
    grads = []
    for dtype in (torch.float32, torch.float64):
        mean = torch.tensor([-1e5, -300.0, -20.0, 2.0, 300.0, 1e5], dtype=dtype, requires_grad=True)
        y, noise = torch.tensor([pair] * 6, dtype=dtype), torch.tensor(0.5, dtype=dtype)
        CensoredGaussian(noise).log_prob(y, mean).sum().backward()
        grads.append(mean.grad.double())
    torch.testing.assert_close(*grads, rtol=2e-5, atol=1e-30)
