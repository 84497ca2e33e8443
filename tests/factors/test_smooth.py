"""The derivatives of log densities, against mpmath with 60 digits."""

import mpmath
import numpy as np
import pytest
import torch

from parts import FACTORS, LOGIT, THRESHOLDS
from scroll.factors import Confined, Poisson, Smooth, derivatives


def phi(z):
    return mpmath.ncdf(z)


def ordinal(y, f):
    edges = (-mpmath.inf, *THRESHOLDS, mpmath.inf)
    low, high = ((mpmath.mpf(edges[int(y) + k]) - f) / mpmath.mpf("1.1") for k in (0, 1))
    return mpmath.log(phi(high) - phi(low) if low + high < 0 else phi(-low) - phi(-high))


def negbinomial(y, f):
    r = mpmath.mpf("2.5")
    return y * f - (y + r) * mpmath.log(r + mpmath.exp(f))


def zip_(y, f):
    pi, rate = 1 / (1 + mpmath.exp(-mpmath.mpf(LOGIT))), mpmath.exp(f)
    return mpmath.log((y == 0) * pi + (1 - pi) * mpmath.exp(y * f - rate))


# The same densities up to constants, which have no derivative.
PRECISE = {
    "gaussian": lambda y, f: -(((y - f) / mpmath.mpf("0.3")) ** 2) / 2,
    "probit": lambda y, f: mpmath.log(phi(y * f / mpmath.mpf("1.005"))),
    "ordinal": ordinal,
    "logit": lambda y, f: -mpmath.log(1 + mpmath.exp(-y * f)),
    "poisson": lambda y, f: y * f - mpmath.exp(f),
    "negbinomial": negbinomial,
    "zip": zip_,
    "bounded": lambda y, f: f - y - 2 * mpmath.log(1 + mpmath.exp(f - y)),
}


@pytest.mark.parametrize("name", PRECISE)
def test_derivatives_are_those_of_the_log_density(name):
    make, _, labels = FACTORS[name]
    points = np.array([-6.0, -1.7, -0.2, 0.4, 2.1, 5.0])
    for y in labels:
        found = derivatives(make(()), torch.full((6,), y), torch.from_numpy(points))
        with mpmath.workdps(60):
            for order, ours in enumerate(found, 1):
                want = [mpmath.diff(lambda f, y=y: PRECISE[name](y, f), x, order) for x in points]
                np.testing.assert_allclose(ours, np.array(want, float), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [-300.0, -30.0, 30.0, 300.0])
def test_a_probit_keeps_its_tails(f):
    found = derivatives(FACTORS["probit"][0](()), torch.ones(1), torch.tensor([f]))
    with mpmath.workdps(400):
        for order, ours in enumerate(found, 1):
            want = float(mpmath.diff(lambda f: PRECISE["probit"](1, f), f, order))
            # what is left of terms of order f^2 and |f|, which cancel to one and to 1/|f|^3
            rel, least = {1: (1e-12, 1e-12), 2: (1e-9, 1e-12), 3: (1e-9, 1e-7)}[order]
            assert ours.item() == pytest.approx(want, rel=rel, abs=least)


def test_a_factor_without_derivatives_is_differentiated():
    class Bare:
        def log_prob(self, y, f):
            return Poisson().log_prob(y, f)

    y, f = torch.tensor([0.0, 3.0, 9.0]), torch.tensor([-1.0, 0.5, 2.0])
    assert isinstance(Poisson(), Smooth)
    assert not isinstance(Bare(), Smooth)
    for ours, closed in zip(derivatives(Bare(), y, f), derivatives(Poisson(), y, f), strict=True):
        torch.testing.assert_close(ours, closed, rtol=1e-10, atol=1e-12)
    want = r"`torch.inference_mode` must be off.* but got on"
    with torch.inference_mode(), pytest.raises(RuntimeError, match=want):
        derivatives(Bare(), y, f)


def test_a_confined_count_has_the_derivatives_of_its_base():
    y, f = torch.tensor([0.0, 3.0]), torch.tensor([-1.0, 0.5])
    for ours, base in zip(
        derivatives(Confined(Poisson(), 10.0), y, f), derivatives(Poisson(), y, f), strict=True
    ):
        torch.testing.assert_close(ours, base, rtol=0, atol=0)
