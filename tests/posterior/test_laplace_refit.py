"""Laplace's posterior on trained features: labels and counts, and the hybrid."""

import numpy as np
import pytest
import torch
from scipy import optimize
from torch.distributions import MultivariateNormal

import scroll
from scroll import ClassificationHead, CountHead, OrdinalHead, Problem, RegressionHead, refit
from scroll.factors import Moments
from scroll.heads import Head
from scroll.heads.likelihoods import AnyLikelihood
from scroll.objectives.laplace import laplace, log_evidence
from scroll.posterior.hybrid import AddedSettings
from scroll.posterior.laplace import Scored, best_alpha, laplace_refit, train_freed

N, H = 90, 4
MAKE = {
    "ova": lambda **k: ClassificationHead(H, 3, **k),
    "probit": lambda **k: ClassificationHead(H, 2, "probit", **k),
    "logit": lambda **k: ClassificationHead(H, 2, "logit", **k),
    "ordinal": lambda **k: OrdinalHead(H, 3, **k),
    "poisson": lambda **k: CountHead(H, **k),
    "negbinomial": lambda **k: CountHead(H, "negbinomial", **k),
}


def rows(name, *lead):
    psi = torch.randn(*lead, N, H)
    f = psi.sum(-1) / 2 + 0.3
    if name in ("poisson", "negbinomial"):
        return psi, torch.poisson(f.exp())
    level = torch.bucketize(f + torch.randn(*lead, N), torch.tensor([-0.5, 0.8]))
    return psi, level if name in ("ova", "ordinal") else level.clamp(max=1)


def problem(head, psi, y, alpha):
    """The problem of a head, with a constant feature in the place of a zero bias."""
    features = head.features(psi)
    if head.bias is not None:
        features = torch.cat([features, torch.ones_like(features[..., :1])], -1)
    target = head.likelihood.encode(y, psi.shape[:-1])
    return Problem(features, target.double(), head.likelihood.factor(), alpha)


@pytest.mark.parametrize("name", MAKE)
def test_the_posterior_is_laplaces_at_the_alpha_of_greatest_evidence(name):
    head, (psi, y) = MAKE[name](), rows(name)
    bound = laplace_refit(head, psi, y)
    p = problem(head, psi, y, bound.alpha)
    want = laplace(p)
    torch.testing.assert_close(bound.weights.mean, want.mean, rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(bound.weights.cov.dense(), want.cov.dense(), rtol=1e-8, atol=1e-9)

    def lost(log_alpha, k):
        q = p._replace(alpha=bound.alpha.index_fill(0, torch.tensor(k), np.exp(log_alpha)))
        return -log_evidence(q, laplace(q))[k].item()

    for k in range(len(bound.alpha)):
        found = optimize.minimize_scalar(
            lost, bounds=(-9, 15), args=(k,), method="bounded", options={"xatol": 1e-6}
        )
        # the search ends within a thousandth of a decade, where the evidence is flat
        assert lost(bound.alpha[k].log().item(), k) <= found.fun + 1e-5


@pytest.mark.parametrize("name", MAKE)
def test_the_predictive_is_the_likelihoods_at_the_posterior(name):
    head, (psi, y) = MAKE[name](), rows(name)
    head.bias = None if head.bias is None else torch.nn.Parameter(head.bias + 0.7)
    bound = laplace_refit(head, psi, y, alpha="head")
    torch.testing.assert_close(bound.alpha, head.log_alpha.exp(), rtol=1e-12, atol=0)
    x = torch.randn(5, H)
    one = torch.ones(5, int(head.bias is not None))
    at = bound.weights.project(torch.cat([x, one], -1)[None])
    shift = 0 if head.bias is None else head.bias[:, None]
    want = head.likelihood.predict(Moments(at.mean + shift, at.var))
    label = y[:5]
    torch.testing.assert_close(bound(x).log_prob(label), want.log_prob(label))
    torch.testing.assert_close(bound.epistemic(x), at.var)


def test_a_gaussian_head_gets_the_posterior_of_refit():
    head, psi = RegressionHead(H, noise=0.6), torch.randn(N, H)
    y = psi.sum(-1) + 0.6 * torch.randn(N)
    ours, theirs = laplace_refit(head, psi, y, alpha="head"), refit(head, psi, y, hyper="head")
    x = torch.randn(5, H)
    torch.testing.assert_close(ours(x).mean, theirs(x).mean, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ours(x).variance, theirs(x).variance, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["ova", "ordinal", "poisson"])
@pytest.mark.parametrize("family", ["diag", "full", "lowrank"])
def test_a_hybrid_raises_the_leave_one_out_score_and_keeps_the_mean(name, family):
    head, (psi, y) = MAKE[name](), rows(name)
    bare = laplace_refit(head, psi, y)
    hybrid = laplace_refit(head, psi, y, hybrid=True, added=family, steps=150)
    torch.testing.assert_close(hybrid.weights.mean, bare.weights.mean, rtol=0, atol=0)
    p = problem(head, psi, y, bare.alpha)

    def score(bound):
        return p.factor.log_marginal(p.y, bound.left_out(psi, y)).mean(-1).sum()

    # nothing to add costs nothing but what is left of the start; something to add gains
    assert score(hybrid) > score(bare) - 1e-3
    start = hybrid.add(psi, y, family=family, steps=1)
    assert score(hybrid) >= score(start)
    gain, at = hybrid.freed.gain[:, None], bare.belief.project(p.psi)
    found = hybrid.belief.project(p.psi)
    torch.testing.assert_close(found.mean, gain * at.mean, rtol=1e-9, atol=1e-12)
    var = gain**2 * at.var + hybrid.freed.cov.quad(p.psi)
    torch.testing.assert_close(found.var, var, rtol=1e-9, atol=1e-12)


def test_a_hybrid_finds_the_variance_that_a_posterior_lacks():
    """Labels whose noise grows with a feature: a posterior of 3,000 rows knows no variance."""
    psi = torch.stack([torch.randn(3000), 3 * (torch.arange(3000.0) % 2), torch.ones(3000)], -1)
    f = 2 * psi[:, 0] + psi[:, 1] * torch.randn(3000)
    y = (f + torch.randn(3000) > 0).long()
    head = ClassificationHead(3, 2, "probit", bias=False)
    hybrid = laplace_refit(head, psi[:2000], y[:2000], hybrid=True)
    bare = laplace_refit(head, psi[:2000], y[:2000])
    var = hybrid.freed.cov.dense()[0].diagonal()
    # in truth 0, 1 and 0, and twice the weight on the first feature; 2,000 labels tell that much
    assert var[1] > 0.5
    assert max(var[0], var[2]) < 0.05
    assert 1.5 < hybrid.belief.mean[0, 0] < 2.7
    score = lambda bound: bound(psi[2000:]).log_prob(y[2000:]).mean()
    assert score(hybrid) > score(bare) + 0.02


def test_validation_rows_choose_the_covariance():
    head, (psi, y) = MAKE["ova"](), rows("ova")
    held = rows("ova")
    chosen = laplace_refit(head, psi, y, hybrid=True, steps=200, lr=0.2, validation=held)
    last = laplace_refit(head, psi, y, hybrid=True, steps=200, lr=0.2)
    p = problem(head, *held, chosen.alpha)

    def score(bound):
        return p.factor.log_marginal(p.y, bound.belief.project(p.psi)).mean(-1).sum()

    assert score(chosen) >= score(last)


@pytest.mark.parametrize("name", ["ova", "ordinal", "poisson"])
def test_a_replicate_is_the_solo_run(name):
    psi, y = rows(name, 2)
    held = rows(name, 2)
    how = {"hybrid": True, "steps": 30}
    both = laplace_refit(MAKE[name](replicates=(2,)), psi, y, validation=held, **how)
    for r in range(2):
        rest = (held[0][r], held[1][r])
        solo = laplace_refit(MAKE[name](), psi[r], y[r], validation=rest, **how)
        torch.testing.assert_close(both.alpha[r], solo.alpha, rtol=1e-6, atol=0)
        ours, theirs = both(psi).log_prob(y)[r], solo(psi[r]).log_prob(y[r])
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


def test_a_class_without_rows_has_a_small_probability():
    psi, y = rows("probit")
    bound = laplace_refit(ClassificationHead(H, 3), psi, y)
    probs = bound(psi).probs
    assert probs.isfinite().all()
    assert probs[:, 2].mean() < 0.1


def test_a_given_alpha_is_kept_and_gradients_may_be_off():
    head, (psi, y) = MAKE["ova"](), rows("ova")
    alpha = torch.tensor([0.5, 1.0, 2.0])
    with torch.no_grad():
        bound = laplace_refit(head, psi, y, alpha=alpha, hybrid=True, steps=3)
    assert bound.alpha is alpha or torch.equal(bound.alpha, alpha)
    assert best_alpha(problem(head, psi, y, alpha)).shape == (3,)


def test_train_freed_finds_what_the_moments_lack():
    """f ~ N(w.psi, 0.25 |psi|^2): known, or taken for half the mean without variance."""
    psi = torch.randn(4000, H)
    mean, var = psi.sum(-1)[None], 0.25 * psi.square().sum(-1)[None]
    f = mean + var.sqrt() * torch.randn(1, 4000)
    y = (f[0] + torch.randn(4000) > 0).long()
    rows = problem(MAKE["probit"](bias=False), psi, y, torch.ones(1))

    def freed(at):
        return train_freed(torch.zeros(1, H), Scored(rows, at), None, AddedSettings())

    right, lacking = freed(Moments(mean, var)), freed(Moments(mean / 2, 0 * var))
    assert right.gain.item() == pytest.approx(1, abs=0.2)
    assert right.cov.trace() < 0.3
    assert lacking.gain.item() == pytest.approx(2, abs=0.4)
    assert lacking.cov.trace().item() == pytest.approx(1, abs=0.5)
    moments = lacking.moments(psi, Moments(mean / 2, 0 * var))
    torch.testing.assert_close(moments.mean, lacking.gain * mean / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda h, x, y: laplace_refit(torch.nn.Linear(2, 2), x, y), "`head` must be a scroll"),
        (lambda h, x, y: laplace_refit(h, x, y, alpha="best"), "`alpha` must be one of"),
        (lambda h, x, y: laplace_refit(h, x, y, validation=(x, y)), "`validation` must be None"),
        (lambda h, x, y: laplace_refit(h, x, y, added="full"), "`hybrid` must be True"),
        (lambda h, x, y: laplace_refit(h, x, y, hybrid=True, added="no"), "`added` must be one"),
        (lambda h, x, y: laplace_refit(h, x, y, hybrid=True, steps=0), "`steps` must be"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(MAKE["ova"](), *rows("ova"))


def test_a_factor_that_is_not_log_concave_is_refused():
    mixture = scroll.factors.Bounded(
        lambda y, f: torch.logaddexp(-0.5 * (y - f) ** 2, -0.5 * (y + f) ** 2 - 0.1)
    )
    psi = torch.randn(N, H)
    with pytest.raises(TypeError, match=r"`head` must have a likelihood that is log-concave"):
        laplace_refit(Head(H, AnyLikelihood(mixture)), psi, psi.sum(-1), alpha="head")


def test_draws_of_the_posterior_have_its_moments():
    head, (psi, y) = MAKE["ordinal"](), rows("ordinal")
    bound = laplace_refit(head, psi, y)
    normal = MultivariateNormal(bound.weights.mean, bound.weights.cov.dense())
    f = normal.sample((20_000,)) @ psi[:3].T
    at = bound.belief.project(psi[None, :3])
    # 20,000 draws: means to 3 %, variances to 5 %, of a standard deviation
    torch.testing.assert_close(f.mean(0), at.mean, rtol=0, atol=0.03)
    torch.testing.assert_close(f.var(0), at.var, rtol=0.05, atol=0)
