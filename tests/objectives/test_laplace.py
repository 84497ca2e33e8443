"""Laplace's posterior and its leave-one-out, against NumPy and N refits."""

import numpy as np
import pytest
import torch
from scipy import optimize, special

from scroll import METHODS, Objective, Problem
from scroll.beliefs import Belief
from scroll.beliefs.covariances import Diag, Full, Sum
from scroll.factors import BernoulliLogit, Gaussian, Moments, Ordinal, Poisson, Probit
from scroll.objectives.cavities import leave_one_out, shared
from scroll.objectives.laplace import (
    covariance_root,
    expansion,
    laplace,
    laplace_about,
    laplace_hybrid,
    log_evidence,
    log_joint,
    mode,
    newton_leave_one_out,
    second_order,
)
from scroll.objectives.routes import conjugate, free
from scroll.objectives.terms import none

ALPHA, SCALE = 0.8, 1.3
EDGES = np.array([-1.5, 0.2, 1.0])
KINDS = ("probit", "ordinal", "poisson", "logit")


def problem(kind, n=40, h=4, seed=0):
    draw = np.random.default_rng(seed)
    psi, w = draw.normal(size=(n, h)), draw.normal(size=h)
    f = psi @ w / h**0.5
    noisy = f + SCALE * draw.normal(size=n)
    y = {
        "probit": np.sign(noisy),
        "logit": np.sign(f + draw.logistic(size=n)),
        "ordinal": np.searchsorted(EDGES, noisy).astype(float),
        "poisson": draw.poisson(np.exp(f)).astype(float),
        "gaussian": noisy,
    }[kind]
    scale = torch.tensor(SCALE)
    factor = {
        "probit": Probit(scale),
        "logit": BernoulliLogit(),
        "ordinal": Ordinal(torch.from_numpy(EDGES), scale),
        "poisson": Poisson(),
        "gaussian": Gaussian(scale),
    }[kind]
    return Problem(*map(torch.from_numpy, (psi, y)), factor, torch.tensor(ALPHA))


def log_p(kind, y, f):
    """Log densities up to constants, by scipy."""
    if kind == "probit":
        return special.log_ndtr(y * f / SCALE)
    if kind == "logit":
        return -np.logaddexp(0, -y * f)
    if kind == "poisson":
        return y * f - np.exp(f)
    edges = np.concatenate([[-np.inf], EDGES, [np.inf]])
    low, high = ((edges[y.astype(int) + k] - f) / SCALE for k in (0, 1))
    return np.log(special.ndtr(high) - special.ndtr(low))


# Central differences of eighth order
FIRST = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
SECOND = (8 / 5, -1 / 5, 8 / 315, -1 / 560)


def slopes(kind, y, f):
    """First and second derivatives in f, from log densities alone."""
    e = 1e-2
    up, down = ([log_p(kind, y, f + s * k * e) for k in (1, 2, 3, 4)] for s in (1, -1))
    first = sum(c * (a - b) for c, a, b in zip(FIRST, up, down, strict=True))
    second = sum(c * (a + b) for c, a, b in zip(SECOND, up, down, strict=True))
    return first / e, (second - 205 / 72 * log_p(kind, y, f)) / e**2


def refits(p):
    """Moments of each row under Laplace's posterior of all other rows: N refits."""
    n = len(p.y)
    rest = torch.arange(n).expand(n, n)[~torch.eye(n, dtype=bool)].view(n, n - 1)
    each = laplace(Problem(p.psi[rest], p.y[rest], p.factor, p.alpha.expand(n)))
    return Moments((each.mean * p.psi).sum(-1), each.cov.quad(p.psi[:, None])[:, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_mode_is_the_maximum_of_the_log_joint(kind):
    p = problem(kind)
    psi, y = p.psi.numpy(), p.y.numpy()

    def gradient(w):
        return psi.T @ slopes(kind, y, psi @ w)[0] - ALPHA * w

    want = optimize.root(gradient, np.zeros(4), tol=1e-13).x
    # the stencil of the oracle is exact to about 1e-12 of log p / step
    np.testing.assert_allclose(laplace(p).mean, want, rtol=1e-9, atol=1e-10)
    best = log_joint(p, laplace(p).mean)
    assert (log_joint(p, laplace(p).mean + 1e-3 * torch.randn(50, 4)) < best).all()


@pytest.mark.parametrize("kind", KINDS)
def test_leave_one_out_is_one_newton_step_on_the_other_rows(kind):
    p = problem(kind)
    belief = laplace(p)
    found = newton_leave_one_out(belief, p)
    psi, y, w = p.psi.numpy(), p.y.numpy(), belief.mean.numpy()
    first, second = slopes(kind, y, psi @ w)
    for n in range(len(y)):
        others = np.arange(len(y)) != n
        x = psi[others]
        a = x.T @ (-second[others, None] * x) + ALPHA * np.eye(4)
        step = np.linalg.solve(a, x.T @ first[others] - ALPHA * w)
        assert found.mean[n].item() == pytest.approx(psi[n] @ (w + step), rel=1e-8, abs=1e-9)
        var = psi[n] @ np.linalg.solve(a, psi[n])
        assert found.var[n].item() == pytest.approx(var, rel=1e-8)


def test_both_are_exact_for_a_gaussian_factor():
    p = problem("gaussian")
    ours, exact = laplace(p), conjugate(p)
    torch.testing.assert_close(ours.mean, exact.mean, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(ours.cov.dense(), exact.cov.dense(), rtol=1e-9, atol=1e-11)
    want = leave_one_out(exact, p)
    for found in (newton_leave_one_out(ours, p), second_order(ours, p), refits(p)):
        torch.testing.assert_close(found.mean, want.mean, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(found.var, want.var, rtol=1e-9, atol=1e-11)
    evidence = -METHODS["seq-full"].loss(p)
    torch.testing.assert_close(log_evidence(p, ours), evidence, rtol=1e-9, atol=1e-11)
    # the hybrid of the paper's cell, at a noise of the posterior that is that of the score
    added = p._replace(added=Diag(torch.rand(4)))
    torch.testing.assert_close(
        METHODS["laplace-hybrid-diag"].loss(added), METHODS["hybrid-diag"].loss(added),
        rtol=1e-9, atol=1e-11,
    )  # fmt: skip


def errors(p, moments):
    """Of log E p of each row, against N refits."""
    true = p.factor.log_marginal(p.y, refits(p))
    return (p.factor.log_marginal(p.y, moments) - true).abs()


# Mean and largest error per row, in nats; the shared score is 0.02 to 0.04 from the refits.
BOUNDS = {newton_leave_one_out: (3e-4, 1e-2), second_order: (5e-5, 5e-3)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_newton_step_is_close_to_n_refits(kind):
    p = problem(kind, n=150, h=5)
    belief = laplace(p)
    plain = errors(p, shared(belief, p))
    for rule, (mean, most) in BOUNDS.items():
        found = errors(p, rule(belief, p))
        assert found.mean() < min(mean, 0.05 * plain.mean())
        assert found.max() < most


@pytest.mark.parametrize("kind", ["probit", "ordinal", "logit"])
def test_the_error_falls_with_the_square_and_the_cube_of_the_rows(kind):
    """The mean error per row, over data sets, from N = 50 to N = 200."""
    for rule, power in ((newton_leave_one_out, 2), (second_order, 3)):
        few, many = (
            np.mean([errors(p, rule(laplace(p), p)).mean() for p in each])
            for each in ([problem(kind, n, 3, seed) for seed in range(4)] for n in (50, 200))
        )
        assert np.log2(few / many) / 2 > power - 0.5


@pytest.mark.parametrize(
    "method", ["laplace-loo-full", "laplace-hybrid-diag", "laplace-closed-full"]
)
@pytest.mark.parametrize("kind", ["ordinal", "poisson"])
def test_gradients_flow_through_the_mode(method, kind):
    p = problem(kind, n=8, h=2)
    psi, alpha, var = p.psi.clone(), torch.tensor(ALPHA), torch.rand(2)
    edges = torch.from_numpy(EDGES)

    def loss(psi, alpha, var, edges):
        factor = Ordinal(edges, p.factor.scale) if kind == "ordinal" else p.factor
        q = Problem(psi, p.y, factor, alpha, added=Diag(var), offset=0.3 * edges[:1])
        return METHODS[method].loss(q)

    inputs = [x.requires_grad_() for x in (psi, alpha, var, edges)]
    assert torch.autograd.gradcheck(loss, inputs, eps=1e-5, atol=1e-7)


def test_a_large_count_does_not_overshoot():
    psi = torch.tensor([[1.0], [1.0], [2.0]])
    p = Problem(psi, torch.tensor([1e5, 9e4, 1e10]), Poisson(), torch.tensor(1e-3))
    w = laplace_about(p, mode(p)).mean
    gradient = (psi[:, 0] * expansion(p, w).slope).sum() - p.alpha * w
    assert gradient.abs() < 1e-3  # of terms of 1e10
    again = laplace_about(p, mode(p, start=w + 0.1)).mean
    torch.testing.assert_close(again, w, rtol=1e-12, atol=0)


def test_an_added_covariance_is_no_part_of_what_a_row_takes_out():
    p = problem("probit")
    extra = Diag(torch.rand(4))
    bare = newton_leave_one_out(laplace(p), p)
    belief = laplace_hybrid(p._replace(added=extra))
    assert isinstance(belief, Belief)
    assert isinstance(belief.cov, Sum)
    found = newton_leave_one_out(belief, p)
    torch.testing.assert_close(found.mean, bare.mean, rtol=1e-12, atol=0)
    torch.testing.assert_close(found.var, bare.var + extra.quad(p.psi), rtol=1e-12, atol=0)


def test_the_root_is_that_of_the_inverse_curvature():
    p = problem("poisson")
    curvature = torch.rand(40)
    root = covariance_root(p, curvature)
    precision = p.psi.T @ torch.diag(curvature) @ p.psi + ALPHA * torch.eye(4)
    torch.testing.assert_close(Full(root).dense() @ precision, torch.eye(4), rtol=0, atol=1e-12)


def test_routes_and_cavities_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"`route` must give a Laplace.*Use route `laplace`"):
        Objective(free, newton_leave_one_out, prior=none)
    with pytest.raises(ValueError, match=r"cavity `shared` or `newton_leave_one_out`"):
        Objective(laplace, leave_one_out, prior=none)
    with pytest.raises(ValueError, match=r"`added` must be a covariance on the laplace_hybrid"):
        METHODS["laplace-hybrid-diag"].loss(problem("probit"))
