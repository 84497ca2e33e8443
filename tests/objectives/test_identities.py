"""The identities that the construction satisfies, one test each, in the order of docs/math.md.

float64; each oracle shares no code with the package.
"""

import gpytorch
import numpy as np
import pytest
import torch
import vbll
from scipy import integrate, optimize, stats
from torch.distributions import MultivariateNormal

from oracles import linear_gp, normal_log_density
from scroll import METHODS, Problem, RegressionHead
from scroll._core.quadrature import log_expect_at_mode
from scroll.beliefs import Belief
from scroll.beliefs.covariances import Diag, Full, Point
from scroll.factors import Gaussian, Moments, Ordinal, Poisson, Probit
from scroll.objectives.cavities import (
    from_the_points_before,
    leave_one_out,
    sequential,
    shared,
)
from scroll.objectives.objective import spread_weight
from scroll.objectives.routes import conjugate, conjugate_diag
from scroll.objectives.terms import expected_log, log_marginal, minus_kl

N, H, ALPHA, NOISE = 12, 4, 0.7, 0.3


def data(n=N, h=H):
    psi, w = torch.randn(n, h), torch.randn(h)
    return psi, psi @ w + NOISE * torch.randn(n)


def problem(psi, y, **kwargs):
    return Problem(psi, y, Gaussian(torch.tensor(NOISE)), torch.tensor(ALPHA), **kwargs)


def random_belief(h=H):
    scale = 0.2 * torch.randn(h, h).tril(-1) + (torch.rand(h) + 0.1).diag()
    return Belief(torch.randn(h), Full(scale))


class LinearGP(gpytorch.models.ExactGP):
    """gpytorch's exact process with the kernel psi psi'/alpha."""

    def __init__(self, psi, y):
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        super().__init__(psi, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.LinearKernel()
        likelihood.noise, self.covar_module.variance = NOISE**2, 1 / ALPHA

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def gpytorch_objective(objective, psi, y):
    model = LinearGP(psi, y).double()
    model.train()
    mll = objective(model.likelihood, model)
    with (
        gpytorch.settings.cholesky_jitter(double_value=1e-300),
        gpytorch.settings.fast_computations(False, False, False),
    ):
        return len(y) * mll(model(psi), y).item()


def test_01_sequential_scores_add_up_to_the_evidence():
    psi, y = data()
    evidence = linear_gp(psi, y, ALPHA, NOISE).log_marginal_likelihood_value_
    theirs = gpytorch_objective(gpytorch.mlls.ExactMarginalLogLikelihood, psi, y)
    for order in (torch.arange(N), torch.randperm(N)):
        p = problem(psi[order], y[order])
        for key in ("seq-full", "evidence-full"):
            assert -METHODS[key].loss(p).item() == pytest.approx(evidence, rel=1e-9)
    assert theirs == pytest.approx(evidence, rel=1e-9)
    blocks = problem(*data(700))  # more than one block
    whole = MultivariateNormal(
        torch.zeros(700), blocks.psi @ blocks.psi.mT / ALPHA + NOISE**2 * torch.eye(700)
    )
    assert METHODS["seq-full"].loss(blocks).item() == pytest.approx(
        -whole.log_prob(blocks.y).item(), rel=1e-9
    )


def test_01_each_sequential_score_is_the_prediction_from_the_points_before():
    psi, y = data()
    p = problem(psi, y)
    at = sequential(conjugate(p), p)
    for n in range(1, N):
        mean, std = linear_gp(psi[:n], y[:n], ALPHA, NOISE).predict(psi[[n]], return_std=True)
        assert at.mean[n].item() == pytest.approx(mean[0], rel=1e-9)
        assert at.var[n].item() == pytest.approx(std[0] ** 2, rel=1e-8)  # sklearn: k** - v'v


def test_01_without_added_covariance_the_prequential_code_is_the_evidence():
    psi, y = data()
    evidence = linear_gp(psi, y, ALPHA, NOISE).log_marginal_likelihood_value_
    p = problem(psi, y, added=Diag(torch.zeros(H)))
    assert -METHODS["prequential-diag"].loss(p).item() == pytest.approx(evidence, rel=1e-9)


@pytest.mark.parametrize("family", ["full", "diag"])
def test_01_each_prequential_score_is_a_refit_to_the_points_before_plus_what_is_added(family):
    """The site has a noise of its own."""
    psi, y = data()
    site = 0.5
    belief = random_belief()
    added = belief.cov if family == "full" else Diag(torch.rand(H))
    p = problem(psi, y, added=added, site=Gaussian(torch.tensor(site)))
    nll, x, extra = 0.0, psi.numpy(), added.dense().numpy()
    for n in range(N):
        a = x[:n].T @ x[:n] / site**2 + ALPHA * np.eye(H)
        mean = np.linalg.solve(a, x[:n].T @ y[:n].numpy() / site**2) @ x[n]
        var = x[n] @ (np.linalg.inv(a) + extra) @ x[n] + NOISE**2
        nll -= normal_log_density(y[n].item(), mean, var)
    ours = METHODS[f"prequential-{family}"].loss(p).item()
    assert ours == pytest.approx(nll, rel=1e-9)


@pytest.mark.parametrize("size", [1, 5, 64, 700, 1000])
def test_01_blocks_change_the_cost_of_the_sequential_cavity_alone(size):
    p = problem(*data(700))
    ours, want = from_the_points_before(p, size), sequential(conjugate(p), p)
    torch.testing.assert_close(ours.mean, want.mean, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ours.var, want.var, rtol=1e-9, atol=1e-12)


def test_02_leave_one_out_is_n_refits():
    psi, y = data()
    nll = 0.0
    for n in range(N):
        keep = np.arange(N) != n
        mean, std = linear_gp(psi[keep], y[keep], ALPHA, NOISE).predict(psi[[n]], return_std=True)
        nll -= normal_log_density(y[n].item(), mean[0], std[0] ** 2 + NOISE**2)
    ours = METHODS["loo-full"].loss(problem(psi, y)).item()
    assert ours == pytest.approx(nll, rel=1e-9)
    theirs = -gpytorch_objective(gpytorch.mlls.LeaveOneOutPseudoLikelihood, psi, y)
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_02_leave_one_out_of_the_diagonal_family_is_n_refits_cut_to_the_diagonal():
    psi, y = data()
    nll = 0.0
    for n in range(N):
        keep = np.arange(N) != n
        x, t = psi[keep].numpy(), y[keep].numpy()
        a = x.T @ x / NOISE**2 + ALPHA * np.eye(H)
        mean = np.linalg.solve(a, x.T @ t / NOISE**2) @ psi[n].numpy()
        var = NOISE**2 + (psi[n].numpy() ** 2 / np.diag(a)).sum()
        nll -= normal_log_density(y[n].item(), mean, var)
    assert METHODS["loo-diag"].loss(problem(psi, y)).item() == pytest.approx(nll, rel=1e-9)


def test_03_the_shared_score_is_optimistic_by_a_closed_form():
    """Eq. shared_loo_gap, point by point; h and r from a hat matrix, not from the belief."""
    psi, y = data()
    p = problem(psi, y)
    belief = conjugate(p)
    gap = log_marginal(p, shared(belief, p)) - log_marginal(p, leave_one_out(belief, p))
    x = psi.numpy()
    hat = x @ np.linalg.solve(x.T @ x + ALPHA * NOISE**2 * np.eye(H), x.T)
    h, r = np.diag(hat), y.numpy() - hat @ y.numpy()
    want = r**2 / NOISE**2 * h / (1 - h**2) - 0.5 * np.log(1 - h**2)
    np.testing.assert_allclose(gap.numpy(), want, rtol=1e-9)
    assert (want > 0).all()


def test_04_the_elbo_is_below_the_evidence_and_touches_it_at_the_posterior():
    psi, y = data()
    evidence = linear_gp(psi, y, ALPHA, NOISE).log_marginal_likelihood_value_
    p = problem(psi, y)
    elbo = lambda belief: -METHODS["elbo-full"].loss(p._replace(free=belief)).item()
    assert elbo(conjugate(p)) == pytest.approx(evidence, rel=1e-9)
    for _ in range(20):
        assert elbo(random_belief()) < evidence


@pytest.mark.parametrize("family", ["full", "diag"])
def test_04_the_maximiser_of_the_elbo_is_the_binding(family):
    """Found by quasi-Newton from elsewhere; the diagonal family finds the projection."""
    psi, y = data()
    p = problem(psi, y)
    bound = conjugate(p) if family == "full" else conjugate_diag(p)
    mean = torch.zeros(H, requires_grad=True)
    spread = (0.1 * torch.eye(H) if family == "full" else torch.full((H,), -2.0)).requires_grad_()
    lbfgs = torch.optim.LBFGS(
        [mean, spread], max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-16,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def belief():
        return Belief(mean, Full(spread.tril()) if family == "full" else Diag(spread.exp()))

    def closure():
        lbfgs.zero_grad()
        loss = METHODS[f"elbo-{family}"].loss(p._replace(free=belief()))
        loss.backward()
        return loss

    lbfgs.step(closure)
    # an optimum is found to the square root of the precision of its value
    torch.testing.assert_close(belief().mean, bound.mean, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(belief().cov.dense(), bound.cov.dense(), rtol=1e-5, atol=1e-8)


def test_04_the_elbo_is_vblls_at_equal_parameters():
    psi, y = data()
    theirs = vbll.Regression(H, 1, 1 / N, parameterization="dense").double()
    with torch.no_grad():
        for p in theirs.parameters():
            torch.nn.init.normal_(p, std=0.5)
        theirs.noise_mean.zero_()
    head = RegressionHead(H, method="vbll", alpha=float(H), floor=0.0, bias=False)  # I/H: theirs
    with torch.no_grad():
        head.mean.copy_(theirs.W_mean)
        head.family.lower.copy_(theirs.W_offdiag.tril(-1) + theirs.W_logdiag.exp().diag_embed())
        head.likelihood.log_noise.copy_(theirs.noise_logdiag)
    their_loss = theirs(psi).train_loss_fn(y[:, None])
    constant = 0.5 * H / N  # they leave the -H/2 of the KL divergence out
    assert head.loss(psi, y, total=N).item() == pytest.approx(
        their_loss.item() - constant, rel=1e-9
    )
    their_val = theirs(psi).val_loss_fn(y[:, None]).item()
    assert -head(psi).log_prob(y).mean().item() == pytest.approx(their_val, rel=1e-9)


def test_05_the_score_of_the_mean_is_below_the_mean_of_the_score():
    """Prop. bethe_elbo at a belief over weights (each factor: test_factors)."""
    psi, y = data()
    p, belief = problem(psi, y), random_belief()
    at = shared(belief, p)
    assert (log_marginal(p, at) > expected_log(p, at)).all()


def test_06_a_point_belief_is_map():
    psi, y = data()
    w = torch.randn(H)
    p = problem(psi, y, free=Belief(w, Point()))
    joint = stats.norm.logpdf(y, psi @ w, NOISE).sum() + stats.norm.logpdf(w, 0, ALPHA**-0.5).sum()
    assert METHODS["scroll-none"].loss(p).item() == pytest.approx(-joint, rel=1e-9)


def test_07_gradient_in_alpha_and_its_limits():
    """Eq. dL_dalpha; None: alpha* = H/|mu|^2; the sign as alpha grows tells a runaway."""
    psi, y = data()
    belief = random_belief()
    s, mu = belief.cov.dense(), belief.mean

    def slope(alpha):
        a = torch.tensor(alpha, requires_grad=True)
        p = Problem(psi, y, Gaussian(torch.tensor(NOISE)), a, free=belief)
        return torch.autograd.grad(METHODS["scroll-full"].loss(p), a)[0].item()

    for alpha in (0.1, 1.0, 30.0):
        inv = np.linalg.inv(s.numpy() + np.eye(H) / alpha)
        want = -0.5 / alpha**2 * (np.trace(inv) - mu.numpy() @ inv @ inv @ mu.numpy())
        assert slope(alpha) == pytest.approx(want, rel=1e-9)
    for mean in (0.01 * mu, 100 * mu):
        belief = Belief(mean, belief.cov)
        inv = np.linalg.inv(s.numpy())
        runs = np.trace(inv) > mean.numpy() @ inv @ inv @ mean.numpy()
        assert (slope(1e6) < 0) == runs
    best = H / mu.square().sum()
    at_best = best.clone().requires_grad_()
    p = Problem(psi, y, Gaussian(torch.tensor(NOISE)), at_best, free=Belief(mu, Point()))
    grad = torch.autograd.grad(METHODS["scroll-none"].loss(p), at_best)[0]
    assert abs(grad.item()) < 1e-12


def test_08_gauge():
    """(psi, mu, S, alpha) -> (c psi, mu/c, S/c^2, c^2 alpha) leaves Z_n, lowers -log Z_w."""
    psi, y = data()
    belief, c = random_belief(), 3.7
    scaled = Belief(belief.mean / c, Full(belief.cov.scale / c))
    alpha = torch.tensor(ALPHA)
    here, there = problem(psi, y), problem(c * psi, y)
    torch.testing.assert_close(
        log_marginal(here, shared(belief, here)), log_marginal(there, shared(scaled, there)),
        rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    drop = scaled.log_evidence(c**2 * alpha) - belief.log_evidence(alpha)
    assert drop.item() == pytest.approx(H * np.log(c), rel=1e-10)


def test_09_the_pointwise_optimum_of_the_variance_is_the_squared_residual():
    for r in (0.03, 1.7, 40.0):
        score = lambda log_v, r=r: -Gaussian(torch.tensor(1e-12)).log_marginal(
            torch.tensor([r]), Moments(torch.zeros(1), torch.tensor([np.exp(log_v)]))
        ).item()  # fmt: skip
        best = optimize.minimize_scalar(score, bracket=(-10, 10), options={"xtol": 1e-12}).x
        # an optimum is found to the square root of the precision of its value
        assert np.exp(best) == pytest.approx(r**2, rel=1e-6)


def test_10_the_routing_gap_is_the_jensen_gap_of_the_noise():
    """y = b.x + s(x) e, s^2 = 0.1 + 2 x_1^2, which the family holds: closed - free risk -> J."""
    g = torch.Generator().manual_seed(3)
    n, h = 40_000, 3
    x = torch.randn(n, h, generator=g)
    s2 = 0.1 + 2 * x[:, 0] ** 2
    b = torch.tensor([1.0, -0.5, 0.3])
    y = x @ b + s2.sqrt() * torch.randn(n, generator=g)
    closed = Problem(x, y, Gaussian(s2.mean().sqrt()), torch.tensor(1.0))
    free = Belief(b, Diag(torch.tensor([2.0, 0.0, 0.0])))
    freed = Problem(x, y, Gaussian(torch.tensor(0.1).sqrt()), torch.tensor(1.0), free=free)
    risk = lambda p, belief: -log_marginal(p, shared(belief, p)).mean()
    gap = risk(closed, conjugate(closed)) - risk(freed, free)
    jensen = integrate.quad(
        lambda t: stats.norm.pdf(t) * np.log(0.1 + 2 * t**2), -12, 12, epsabs=1e-12
    )[0]
    want = 0.5 * (np.log(0.1 + 2) - jensen)
    # a mean over 40,000 points of a difference of spread about 1 is known to 0.005
    assert gap.item() == pytest.approx(want, abs=0.015)


def test_11_overdispersion_score():
    """d risk / dv at v = 0 is -kappa/2: Gaussian (E r^2 - s^2)/s^4, Poisson Var - mean."""
    v = torch.zeros(1, requires_grad=True)
    r = torch.tensor([0.7, -0.2, 1.1, 0.4])
    risk = -Gaussian(torch.tensor(NOISE)).log_marginal(r, Moments(torch.zeros(4), v)).mean()
    kappa = (r.square().mean().item() - NOISE**2) / NOISE**4
    assert torch.autograd.grad(risk, v)[0].item() == pytest.approx(-kappa / 2, rel=1e-10)

    counts = torch.tensor([0.0, 1.0, 7.0, 2.0, 0.0, 5.0])
    rate = counts.mean()
    f = torch.full_like(counts, rate.log().item())
    kappa = counts.var(correction=0).item() - rate.item()
    for eps in (1e-6, 1e-7):  # one-sided: v cannot be negative
        ahead = -Poisson().log_marginal(counts, Moments(f, torch.full_like(f, eps))).mean()
        here = -Poisson().log_prob(counts, f).mean()
        slope = (ahead - here).item() / eps
        # the next term of the expansion is of order eps, rounding of order 1e-15/eps
        assert slope == pytest.approx(-kappa / 2, rel=100 * eps + 1e-7)


def test_12_the_free_optimum_is_never_above_the_closed():
    """Nesting, on both losses' own optima over (belief,) alpha and noise."""
    psi, y = data(40)
    reached = {}
    for method in ("closed", "scroll"):
        head = RegressionHead(H, method=method, floor=0.0, bias=False)
        lbfgs = torch.optim.LBFGS(
            head.parameters(), max_iter=500, line_search_fn="strong_wolfe", tolerance_change=1e-14
        )
        if method == "scroll":  # start at the closed optimum: from there it can only go down
            closed = reached["closed"][1]
            bound = closed.condition(psi, y).belief()
            with torch.no_grad():
                head.mean.copy_(bound.mean)
                head.family.lower.copy_(bound.cov.scale)
                head.log_alpha.copy_(closed.log_alpha)
                head.likelihood.log_noise.copy_(closed.likelihood.log_noise)
            start = head.loss(psi, y, total=40).item()
            assert start == pytest.approx(reached["closed"][0], rel=1e-9)

        def closure(head=head, lbfgs=lbfgs):
            lbfgs.zero_grad()
            loss = head.loss(psi, y, total=40)
            loss.backward()
            return loss

        lbfgs.step(closure)
        reached[method] = head.loss(psi, y, total=40).item(), head
    assert reached["scroll"][0] < reached["closed"][0]


def test_13_marginals_are_the_joint_and_the_total_correlation():
    """Prop. aggregation: the mean coupling under the joint is its multi-information."""
    psi, _ = data()
    belief, p = random_belief(), problem(psi, torch.zeros(N))
    mean, s = belief.mean.numpy(), belief.cov.dense().numpy()
    cov = psi.numpy() @ s @ psi.numpy().T + NOISE**2 * np.eye(N)
    joint = stats.multivariate_normal(psi.numpy() @ mean, cov)
    # both sides are quadratic in y, so these 2N points give expectations exactly
    root = np.linalg.cholesky(cov) * np.sqrt(N)
    points = [psi.numpy() @ mean + sign * column for column in root.T for sign in (-1, 1)]
    coupling = []
    for y in points:
        q = p._replace(y=torch.tensor(y))
        marginals = log_marginal(q, shared(belief, q)).sum().item()
        coupling.append(joint.logpdf(y) - marginals)
    information = 0.5 * (np.log(np.diag(cov)).sum() - np.linalg.slogdet(cov)[1])
    assert np.mean(coupling) == pytest.approx(information, rel=1e-9)
    assert information > 0


def test_14_probit_and_ordinal_closed_forms_are_their_quadrature():
    at = Moments(torch.tensor([-30.0, -2.0, 0.1, 4.0]), torch.tensor([2.0, 1.0, 0.3, 0.01]))
    probit = Probit(torch.tensor(1.005))
    ordinal = Ordinal(torch.tensor([-1.0, 0.5]), torch.tensor(1.005))
    for factor, ys in ((probit, (-1.0, 1.0)), (ordinal, (0.0, 1.0, 2.0))):
        for y in ys:
            t = torch.full((4,), y)
            rule = log_expect_at_mode(lambda f, t=t, p=factor: p.log_prob(t, f), *at)
            torch.testing.assert_close(factor.log_marginal(t, at), rule, rtol=1e-9, atol=1e-9)


def test_15_the_remainder_of_the_bethe_free_energy():
    """Cor. cw_form on three points and one weight, all integrals by scipy:
    F_Bethe(b(q)) = F_SC(q) + C_w(q), and F_Bethe at the exact posterior is -log Z."""
    psi, y = data(3, 1)
    p = problem(psi, y)
    x, t = psi[:, 0].numpy(), y.numpy()
    span = (-40.0, 40.0)
    integral = lambda f: integrate.quad(f, *span, points=[0.0], epsabs=1e-13, limit=2000)[0]

    def factors(w):
        return [stats.norm.logpdf(w, 0, ALPHA**-0.5), *(stats.norm.logpdf(t, x * w, NOISE))]

    def bethe(log_q, beliefs):
        """-sum E_b[log f] - sum H(b) + N H(q), b_a and q as functions of w."""
        energy = 0.0
        for a, log_b in enumerate(beliefs):
            energy += integral(lambda w, a=a, b=log_b: np.exp(b(w)) * (b(w) - factors(w)[a]))
        return energy - 3 * integral(lambda w: np.exp(log_q(w)) * log_q(w))

    mean, std = 0.4, 0.5
    log_q = lambda w: stats.norm.logpdf(w, mean, std)
    log_z, tilted = [], []
    for a in range(4):
        log_za = np.log(integral(lambda w, a=a: np.exp(factors(w)[a] + log_q(w))))
        log_z.append(log_za)
        tilted.append(lambda w, a=a, z=log_za: factors(w)[a] + log_q(w) - z)
    belief = Belief(torch.tensor([mean]), Full(torch.tensor([[std]])))
    f_sc = METHODS["scroll-full"].loss(p._replace(free=belief)).item()
    assert f_sc == pytest.approx(-sum(log_z), rel=1e-9)
    mismatch = sum(integral(lambda w, b=b: np.exp(b(w)) * log_q(w)) for b in tilted)
    c_w = mismatch - 3 * integral(lambda w: np.exp(log_q(w)) * log_q(w))
    assert bethe(log_q, tilted) == pytest.approx(f_sc + c_w, rel=1e-9)

    exact = conjugate(p)
    mean, std = exact.mean.item(), exact.cov.scale.item()
    log_post = lambda w: stats.norm.logpdf(w, mean, std)
    span = (mean - 12 * std, mean + 12 * std)
    evidence = -METHODS["seq-full"].loss(p).item()
    assert bethe(log_post, [log_post] * 4) == pytest.approx(-evidence, rel=1e-9)


def test_16_detached_reweighting_leaves_the_pointwise_minimiser():
    """The gradient in (f, V) of a weighted score vanishes where the plain one does; the weights
    have unit mean and no gradient (Rem. estimand_reweight)."""
    y = torch.tensor([0.3, -1.0, 2.0])
    mean = y - torch.tensor([0.5, -0.1, 1.5])
    mean.requires_grad_()
    var = (y - mean).detach().square().requires_grad_()
    p = Problem(torch.zeros(3, 1), y, Gaussian(torch.tensor(1e-9)), torch.tensor(1.0))
    at = Moments(mean, var)
    weight = spread_weight(p, at, 0.5)
    assert not weight.requires_grad
    assert weight.mean().item() == pytest.approx(1.0, rel=1e-12)
    score = (weight * log_marginal(p, at)).sum()
    by_var = torch.autograd.grad(score, var, retain_graph=True)[0]
    # V = r^2 + 1e-18: stationary in V up to that
    torch.testing.assert_close(by_var, torch.zeros(3), rtol=0, atol=1e-12)
    plain = torch.autograd.grad(log_marginal(p, at).sum(), mean, retain_graph=True)[0]
    weighted = torch.autograd.grad(score, mean)[0]
    torch.testing.assert_close(weighted, weight * plain, rtol=1e-12, atol=0)
    want = (y - mean).detach().abs()
    torch.testing.assert_close(weight, want / want.mean(), rtol=1e-9, atol=0)


@pytest.mark.parametrize("key", ["scroll-full", "scroll-diag", "closed-full", "hybrid-diag"])
def test_17_a_replicate_trained_in_a_stack_is_the_solo_run(key):
    """Thirty Adam steps on the sum of losses, against thirty alone."""
    method, _, covariance = key.rpartition("-")
    psi, y = torch.randn(3, N, H), torch.randn(3, N)

    def train(head, psi, y):
        adam = torch.optim.Adam(head.parameters(), lr=0.03)
        for _ in range(30):
            adam.zero_grad()
            head.loss(psi, y, total=N).sum().backward()
            adam.step()
        return head

    make = lambda lead: RegressionHead(H, method=method, covariance=covariance, replicates=lead)
    stack = make((3,))
    starts = {k: v.clone() for k, v in stack.state_dict().items()}
    train(stack, psi, y)
    for r in range(3):
        one = make(())
        one.load_state_dict({k: v[r] if v.dim() else v for k, v in starts.items()})
        train(one, psi[r], y[r])
        for k, v in one.state_dict().items():
            if v.dim():
                torch.testing.assert_close(stack.state_dict()[k][r], v, rtol=1e-8, atol=1e-10)


def test_kl_of_the_prior_with_itself_is_nothing():
    prior = Belief(torch.zeros(H), Diag(torch.full((H,), 1 / ALPHA)))
    p = problem(*data())
    assert minus_kl(prior, p).item() == pytest.approx(0.0, abs=1e-12)
