"""App. routing_selection: its two limits, and the criteria against independent code."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

from scroll.beliefs import Problem
from scroll.factors import Gaussian
from scroll.objectives import METHODS
from scroll_paper.studies import routing_selection as study

HS = (0.5, 1.0, 3.0)


def made(rows, h=1.0, features=4, seed=0, sets=3):
    """Data of the model, (R, N, H), drawn by numpy."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(sets, rows, features))
    noise = (0.3 + h * np.abs(x[..., 0])) * rng.normal(size=(sets, rows))
    y = (x @ rng.normal(size=(sets, features, 1)))[..., 0] + noise
    return torch.as_tensor(x), torch.as_tensor(y)


def evidence(x, y, alpha, s2):
    """-log Z of one data set by its N x N covariance."""
    cov = x @ x.T / alpha + s2 * np.eye(len(y))
    return -stats.multivariate_normal(cov=cov).logpdf(y)


def left_out(x, y, alpha, s2):
    """The leave-one-out NLL of one data set by N refits."""
    total = 0.0
    for n in range(len(y)):
        keep = np.arange(len(y)) != n
        cov = np.linalg.inv(x[keep].T @ x[keep] / s2 + alpha * np.eye(x.shape[1]))
        mean = cov @ x[keep].T @ y[keep] / s2
        total -= stats.norm(x[n] @ mean, math.sqrt(s2 + x[n] @ cov @ x[n])).logpdf(y[n])
    return total


def gaussian_problem(x, y, alpha, noise):
    return Problem(x, y, Gaussian(noise), alpha)


@pytest.mark.parametrize("h", [0.0, *HS])
def test_the_jensen_gap_is_that_of_quadrature(h):
    def mean(f):
        return 2 * integrate.quad(lambda x: f(0.3 + h * x) * stats.norm.pdf(x), 0, 40, limit=400)[0]

    expected = 0.5 * (math.log(mean(lambda s: s**2)) - mean(lambda s: 2 * math.log(s)))
    assert study.jensen_gap(h) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("h", HS)
def test_the_best_constant_variance_misses_the_jensen_gap(h):
    """Prop. routing_selection (ii): c* = E s^2, and its excess over V* = s^2 is J."""
    mean_s2 = 0.09 + 0.6 * h * math.sqrt(2 / math.pi) + h**2
    x, weight = np.polynomial.legendre.leggauss(200)
    x, weight = 20 * (x + 1), 20 * weight
    x, weight = torch.as_tensor(x), torch.as_tensor(weight * 2 * stats.norm.pdf(x))
    s2 = study.noise_std(x[:, None], h).square()
    zero = torch.zeros_like(s2)

    def excess(c):
        spread = torch.full_like(s2, c)
        rows = [study.expected_nll(zero[i], s2[i], zero[i], v[i])
                for v in (spread, s2) for i in range(len(s2))]  # fmt: skip
        risks = torch.stack(rows).view(2, -1) @ weight
        return float(risks[0] - risks[1])

    # a mean over no axis: one row at a time, averaged here by quadrature
    best = optimize.minimize_scalar(excess, bounds=(0.1, 30), method="bounded",
                                    options={"xatol": 1e-9})  # fmt: skip
    assert best.x == pytest.approx(mean_s2, rel=1e-5)  # a minimum is known to sqrt(rounding)
    assert excess(mean_s2) == pytest.approx(study.jensen_gap(h), abs=1e-9)


def test_expected_nll_is_the_integral_over_y():
    mean, var, guess, spread = 0.3, 0.7, -0.4, 1.9
    truth, model = stats.norm(mean, var**0.5), stats.norm(guess, spread**0.5)
    expected = integrate.quad(lambda y: -truth.pdf(y) * model.logpdf(y), -12, 12, epsabs=1e-12)[0]
    found = study.expected_nll(*(torch.tensor([t]) for t in (mean, var, guess, spread)))
    assert float(found) == pytest.approx(expected, abs=1e-9)


def test_the_criteria_are_the_evidence_and_n_refits():
    """Prop. routing_selection (i): the sum of sequential scores is the evidence."""
    x, y = made(15)
    alpha, noise = torch.tensor([0.3, 1.0, 4.0]), torch.tensor([0.5, 1.0, 2.0])
    p = gaussian_problem(x, y, alpha, noise)
    cases = {"evidence-full": evidence, "seq-full": evidence, "loo-full": left_out}
    for method, theirs in cases.items():
        ours = METHODS[method].loss(p)
        for r in range(3):
            expected = theirs(x[r].numpy(), y[r].numpy(), float(alpha[r]), float(noise[r]) ** 2)
            assert float(ours[r]) == pytest.approx(expected, abs=1e-9), method


def test_both_criteria_tend_to_the_same_function_of_the_hyperparameters():
    """Prop. routing_selection (i): L = log(2 pi s^2)/2 + E s(x)^2/(2 s^2), at a rate log N/N."""
    alpha, noise, h = torch.tensor([0.5, 2.0]), torch.tensor([0.8, 1.5]), 1.0
    s2 = noise.square()
    apart = []
    for rows in (1_000, 10_000, 100_000):
        x, y = made(rows, h, seed=1, sets=2)
        p = gaussian_problem(x, y, alpha, noise)
        ev, loo = (METHODS[m].loss(p) / rows for m in ("evidence-full", "loo-full"))
        apart.append((ev - loo).abs() * rows / math.log(rows))
    assert (torch.stack(apart) < 3 * x.shape[-1]).all()
    mean_s2 = 0.09 + 0.6 * h * math.sqrt(2 / math.pi) + h**2
    limit = 0.5 * ((2 * torch.pi * s2).log() + mean_s2 / s2)
    torch.testing.assert_close(loo, limit, rtol=0.02, atol=0)  # random: 100,000 rows


def test_the_variance_of_the_closed_route_collapses_at_the_rate_h_by_n():
    """Prop. routing_selection (ii): N v(x) -> s^2 x'x, as psi'psi/N -> I."""
    at = torch.randn(7, 4)
    for rows in (10_000, 1_000_000):
        x, y = made(rows, sets=1)
        p = gaussian_problem(x, y, torch.ones(1), torch.full((1,), 1.3))
        var = METHODS["closed-full"].route(p).project(at).var[0]
        expected = 1.3**2 * at.square().sum(-1)
        torch.testing.assert_close(rows * var, expected, rtol=10 / rows**0.5, atol=0)


@pytest.mark.parametrize("rows", [8, 12])
def test_the_selected_hyperparameters_are_the_best_of_all(rows):
    x, y = made(rows, features=4)
    alpha, noise = study.best_left_out(x, y)
    log = torch.stack([alpha, noise]).log().requires_grad_()
    loss = METHODS["loo-full"].loss(gaussian_problem(x, y, *log.exp()))
    (slope,) = torch.autograd.grad(loss.sum(), log)
    inside = (alpha > 1e-6) & (alpha < 1e6)  # otherwise the best alpha is zero or infinite
    assert inside.any()
    assert slope[:, inside].abs().max() < 1e-5  # the least is known to sqrt(rounding)
    for r in range(3):
        for start in ((1e-3, 1.0), (10.0, 0.5)):
            best = optimize.minimize(
                lambda z, r=r: left_out(x[r].numpy(), y[r].numpy(), *np.exp(z)), np.log(start)
            )
            assert float(loss[r].detach()) < best.fun + 1e-9


def test_the_routing_gap_tends_to_the_jensen_gap_and_the_selection_gap_to_zero(monkeypatch):
    """Prop. routing_selection, at H = 1 on 200,000 test rows; their sampling error is left."""
    monkeypatch.setattr(study, "TEST_ROWS", 200_000)
    for ratio in (1_000, 100_000):
        g = study.gaps(2.0, ratio, 4, 0, features=1)
        assert (g.selection.abs() < 10 / ratio).all()
        assert float(g.routing.mean()) == pytest.approx(
            study.jensen_gap(2.0), abs=20 / ratio + 4e-3
        )


def test_equal_noise_leaves_no_gap():
    g = study.gaps(0.0, 2_000, 3, 0)
    assert (g.routing.abs() < 1e-3).all()
    assert (g.selection.abs() < 1e-6).all()


def test_line_and_claims_read_the_gaps():
    """On gaps that lie on a line by construction."""

    def on(slope, selection):
        sel = torch.tensor([selection, -selection])
        return {h: study.Gaps(torch.full((2,), slope * study.jensen_gap(h)), sel) for h in HS}

    assert study.line(on(0.7, 0.0)) == pytest.approx((0.7, 1.0))
    ratios = {
        k: study.Gaps(torch.ones(2), torch.tensor([e, -e])) for k, e in ((2, 0.3), (50, 0.01))
    }
    found = study.claims(on(0.9, 0.5), on(1.0, 0.0), ratios)
    assert [round(c.mean, 6) for c in found.values()] == [0.9, 1.0, 1.0, 0.0, 0.01, 0.3, 30.0]
