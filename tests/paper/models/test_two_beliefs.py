"""Two layers of belief: moments against quadrature, enumeration and draws, and their limit."""

from itertools import product
from math import inf, sqrt

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad
from torch.autograd import gradcheck
from torch.nn.functional import layer_norm

from scroll.beliefs import Belief, Diag, Full
from scroll.factors.factor import Moments
from scroll.heads import RegressionHead
from scroll.training.batches import Rows
from scroll.training.bodies import ARCHITECTURES, MLP
from scroll.training.network import stack
from scroll_paper.models import activations
from scroll_paper.models.activations import bent, normalised, rectified
from scroll_paper.models.layers import PENALTY, BeliefLayer, TwoBeliefs, projected, uncertain
from scroll_paper.models.method import Setting, network
from scroll_paper.models.methods import TABLE_METHODS

MEANS = (-6.0, -1.3, -0.2, 0.0, 0.4, 2.5, 7.0)
ACTIVATIONS = {"relu": (rectified, lambda a: max(a, 0.0)), "tanh": (bent, np.tanh)}
FAMILIES = ("two-beliefs-full", "two-beliefs-diag")


def by_quadrature(function, mean, std):
    """The mean and variance of a function of a normal variable, by adaptive quadrature."""
    kink = -mean / std
    points = [kink] if abs(kink) < 12 else None

    def expected(g):
        def weighted(z):
            return g(mean + std * z) * stats.norm.pdf(z)

        return quad(weighted, -12, 12, points=points, epsabs=1e-13, epsrel=1e-13, limit=400)[0]

    first = expected(function)
    return first, expected(lambda a: (function(a) - first) ** 2)


@pytest.mark.parametrize(
    ("name", "deviations", "more"),
    [("relu", (0.01, 0.3, 1.0, 5.0), ()), ("tanh", (0.01, 0.3, 1.8), ()),
     ("tanh", (2.5, 4.0), (161,))],
)  # fmt: skip
def test_moments_of_a_unit_are_those_of_quadrature(name, deviations, more):
    closed, function = ACTIVATIONS[name]
    for mean, std in product(MEANS, deviations):
        found = closed(torch.tensor([mean]), torch.tensor([std**2]), *more)
        want = by_quadrature(function, mean, std)
        assert abs(found.mean.item() - want[0]) < 1e-9
        assert abs(found.var.item() - want[1]) < 1e-9


@pytest.mark.parametrize(("std", "error"), [(1.0, 1e-7), (2.0, 1e-3)])
def test_the_rule_of_single_precision_is_as_accurate_as_it_says(std, error, monkeypatch):
    monkeypatch.setattr(activations, "DOUBLE", activations.SINGLE)  # its nodes without rounding
    for mean in MEANS:
        found = bent(torch.tensor([mean]), torch.tensor([std**2]))
        want = by_quadrature(np.tanh, mean, std)
        assert abs(found.mean.item() - want[0]) < error
        assert abs(found.var.item() - want[1]) < error


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_are_those_of_differences(name):
    mean, var = torch.randn(30), 0.02 + torch.rand(30)
    closed = ACTIVATIONS[name][0]
    assert gradcheck(
        lambda a, b: tuple(closed(a, b)), (mean.requires_grad_(), var.requires_grad_())
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_without_variance_the_gradient_is_the_limit_of_a_small_one(name):
    """d E/d var = phi''/2 and d var/d var = phi'^2, whose error at 1e-7 is of that order."""
    closed, grads = ACTIVATIONS[name][0], []
    for size in (0.0, 1e-7):
        mean = torch.tensor([-2.0, -0.3, 0.3, 2.0], requires_grad=True)
        var = torch.full_like(mean, size, requires_grad=True)
        for part in closed(mean, var):
            grads.append(torch.autograd.grad(part.sum(), (mean, var), retain_graph=True))
    for limit, near in zip(grads[:2], grads[2:], strict=True):
        for one, other in zip(limit, near, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=2e-6)


def test_single_precision_keeps_small_variances_and_large_means():
    for closed, _ in ACTIVATIONS.values():
        mean = torch.tensor([-90.0, -3.0, -1e-4, 0.0, 0.5, 3.0, 90.0])
        for size in (1e-20, 1e-8, 1.0):
            exact = closed(mean, torch.full_like(mean, size))
            found = closed(mean.float(), torch.full_like(mean, size).float())
            assert (found.var >= 0).all()
            assert found.mean.isfinite().all()
            torch.testing.assert_close(found.mean.double(), exact.mean, rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(
                found.var.double(), exact.var, rtol=2e-3, atol=1e-7 * size**0.5 + 1e-12
            )


def two_point(at):
    """All outcomes (2^H, H) of independent units m +- sqrt(v), which have these moments."""
    signs = torch.tensor(list(product((-1.0, 1.0), repeat=len(at.mean))))
    return at.mean + signs * at.var.sqrt()


@pytest.mark.parametrize("kind", [Full, Diag])
def test_the_moments_of_f_are_those_of_all_outcomes(kind):
    at = Moments(torch.randn(6), torch.rand(6))
    scale = torch.randn(6, 6).tril() if kind is Full else torch.rand(6)
    belief, psi = Belief(torch.randn(6), kind(scale)), two_point(at)
    means, second = psi @ belief.mean, ((psi @ belief.cov.dense()) * psi).sum(-1)
    found = projected(belief, Moments(at.mean[None], at.var[None]))
    assert found.mean.item() == pytest.approx(means.mean().item(), rel=1e-12)
    want = (second + means.square()).mean() - means.mean().square()
    assert found.var.item() == pytest.approx(want.item(), rel=1e-12)


def test_normalisation_has_the_expected_statistics():
    at = Moments(torch.randn(6), torch.rand(6))
    draws = two_point(at)
    centre = draws.mean(-1).mean()
    square = draws.var(-1, correction=0).mean() + 1e-5
    found = normalised(at)
    torch.testing.assert_close(found.mean, (at.mean - centre) / square.sqrt(), rtol=1e-12, atol=0)
    torch.testing.assert_close(found.var, at.var / square, rtol=1e-12, atol=0)
    plain = normalised(Moments(at.mean, torch.zeros(6)))
    torch.testing.assert_close(plain.mean, layer_norm(at.mean, (6,)), rtol=1e-12, atol=0)
    assert (plain.var == 0).all()


def joint(covariance="full", architecture="relu", std=0.3, seed=0, learns_alpha=False):
    torch.manual_seed(seed)
    below = BeliefLayer(MLP(3, 5, 1, architecture), learns_alpha, std)
    return TwoBeliefs(below, RegressionHead(5, covariance=covariance, bias=False))


@pytest.mark.parametrize("architecture", ["relu", "tanh"])
def test_the_moments_of_f_are_those_of_draws_of_all_weights(architecture):
    made, x, n = joint(architecture=architecture), torch.randn(4, 3), 400_000
    with torch.no_grad():
        at = made.message(x)
        weights = made.below.belief().sample(n).view(n, 3, 5)
        psi = getattr(torch, architecture)(x @ weights)  # (n, 4, 5)
        w = made.last.belief().sample(n)[:, 0, :, None]
        f = (psi @ w)[..., 0]
    error = f.std(0) / sqrt(n)
    assert ((f.mean(0) - at.mean[0]).abs() < 5 * error).all()
    fourth = (f - f.mean(0)).pow(4).mean(0)
    spread = ((fourth - f.var(0).square()) / n).sqrt()
    assert ((f.var(0) - at.var[0]).abs() < 5 * spread).all()


def test_the_score_is_the_density_under_the_moments():
    made, x, y = joint(), torch.randn(7, 3), torch.randn(7)
    at, noise = made.message(x), made.last.likelihood.log_noise.exp().square()
    w, belief = made.last.belief(), made.below.belief()
    std = (at.var[0] + noise).sqrt().detach().numpy()
    data = stats.norm(at.mean[0].detach().numpy(), std).logpdf(y.numpy()).sum()
    upper, lower = (
        stats.multivariate_normal(
            np.zeros(len(mean)), cov + np.eye(len(mean)) / alpha
        ).logpdf(mean)
        for mean, cov, alpha in (
            (w.mean[0].detach().numpy(), w.cov.dense()[0].detach().numpy(), 1.0),
            (belief.mean.detach().numpy(), belief.cov.dense().detach().numpy(), 2 * PENALTY),
        )
    )  # fmt: skip
    assert 7 * made.loss(x, y, 7).item() == pytest.approx(-(data + upper + lower), rel=1e-9)
    assert 7 * made.loss(x[:3], y[:3], 7).item() != pytest.approx(-(data + upper + lower))
    predictive = made(x)
    torch.testing.assert_close(predictive.mean, at.mean[0])
    torch.testing.assert_close(predictive.variance, at.var[0] + noise)
    assert uncertain.name == "uncertain"


@pytest.mark.parametrize("key", FAMILIES)
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("bodies", [*[(a, a) for a in ARCHITECTURES], ("tanh+LN", "relu")])
def test_without_variance_below_it_is_scroll_with_its_gradient(key, depth, bodies):
    twin = key.replace("two-beliefs", "scroll")

    def made(name, lead):
        training, setting = TABLE_METHODS[name].training, Setting("yacht", name, depth, 5)
        return network(training, setting, 3, bodies if lead else bodies[0], lead)

    two, one = (stack(lambda lead, name=name: made(name, lead), (5, 6)) for name in (key, twin))
    torch.nn.init.constant_(two.head.below.family.log_var, -inf)
    rows = Rows(torch.randn(2, 9, 3), torch.randn(2, 9))
    losses = one.loss(rows, 9, PENALTY)
    found = two.loss(rows, 9, PENALTY)
    size = two.head.below.belief().mean.shape[-1]
    constant = size / 2 * np.log(2 * np.pi / (2 * PENALTY))  # of log N(W; 0, I/alpha)
    torch.testing.assert_close(found, losses + constant, rtol=1e-9, atol=0)
    here, there = two(rows.x), one(rows.x)
    torch.testing.assert_close(here.mean, there.mean, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(here.variance, there.variance, rtol=1e-9, atol=0)
    two.zero_grad()
    found.sum().backward()
    losses.sum().backward()
    assert torch.isfinite(two.head.below.family.log_var.grad).all()
    pairs = [(two.head.below.layer.weights[0], one.body.weights[-1])]
    pairs += zip(two.head.last.parameters(), one.head.parameters(), strict=True)
    pairs += zip(two.body.parameters(), one.body.parameters(), strict=False)
    for p, q in pairs:
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-8, atol=1e-9)


def test_alpha_below_is_learned_or_that_of_the_penalty():
    for learns, start in ((False, 2 * PENALTY), (True, 1.0)):
        below = joint(learns_alpha=learns).below
        assert below.log_alpha.requires_grad == learns
        assert below.log_alpha.exp().item() == pytest.approx(start)
        assert torch.isfinite(below.log_evidence())
    assert TABLE_METHODS["two-beliefs-full-alpha"].training.joint is not None


def test_units_of_a_mixed_stack_are_those_of_each_network():
    at = Moments(torch.randn(4, 6, 5), torch.rand(4, 6, 5))
    mixed = BeliefLayer(MLP(3, 5, 1, ARCHITECTURES, (4,))).activated(at)
    for r, architecture in enumerate(ARCHITECTURES):
        alone = BeliefLayer(MLP(3, 5, 1, architecture)).activated(Moments(at.mean[r], at.var[r]))
        for one, other in zip(alone, mixed, strict=True):
            torch.testing.assert_close(one, other[r])
