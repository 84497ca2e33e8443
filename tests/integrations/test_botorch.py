"""The joint posterior is the linear-Gaussian formula, and BoTorch can work with it."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import scroll

pytest.importorskip("botorch")

import gpytorch
from botorch.acquisition import PosteriorMean, qKnowledgeGradient, qLogExpectedImprovement
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.generation import MaxPosteriorSampling
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler

from scroll.integrations.botorch import Surrogate

EXACT = {"rtol": 1e-9, "atol": 1e-11}
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def fitted(outputs=1, bias=True, hyper="evidence", rows=25, width=6):
    """A body of random weights, rows that a function of its features has made, and the refit."""
    body = nn.Sequential(nn.Linear(2, width), nn.Tanh())
    head = scroll.RegressionHead(width, outputs, noise=0.3, alpha=0.7, bias=bias)
    if bias:
        nn.init.normal_(head.bias)
    x = torch.rand(rows, 2)
    with torch.no_grad():
        psi = body(x)
    y = psi @ torch.randn(width, outputs) + 0.3 * torch.randn(rows, outputs)
    y = y[:, 0] if outputs == 1 else y
    return body, scroll.refit(head, psi, y, hyper=hyper), x, y


def columns(y):
    return y[:, None] if y.dim() == 1 else y


def by_hand(body, bound, x, y, new, k=0):
    """Mean and covariance of f(new), from the rows: the textbook's (w | y), nothing of ours."""
    head = bound.head
    psi, at = (body(z).detach() for z in (x, new))
    shift = 0.0
    if head.bias is not None:
        psi, at = (torch.cat([p, torch.ones(len(p), 1)], -1) for p in (psi, at))
        shift = head.bias[k].item()
    s2 = bound.noise[k] ** 2
    precision = psi.T @ psi / s2 + bound.alpha[k] * torch.eye(psi.shape[1])
    mean = torch.linalg.solve(precision, psi.T @ (columns(y)[:, k] - shift)) / s2
    return at @ mean + shift, at @ torch.linalg.solve(precision, at.T)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("hyper", ["evidence", "head"])
@pytest.mark.parametrize("q", [1, 4, 30])  # more points than features, too
def test_joint_posterior_is_the_formula(q, hyper, bias):
    body, bound, x, y = fitted(hyper=hyper, bias=bias)
    new = torch.rand(q, 2)
    mean, cov = by_hand(body, bound, x, y, new)
    p = Surrogate(body, bound).posterior(new)
    assert_close(p.mean[:, 0], mean, **EXACT)
    assert_close(p.distribution.covariance_matrix, cov, **EXACT)
    noisy = Surrogate(body, bound).posterior(new, observation_noise=True)
    want = cov + bound.noise[0] ** 2 * torch.eye(q)
    assert_close(noisy.distribution.covariance_matrix, want, **EXACT)


def test_marginals_are_those_of_the_refit():
    body, bound, *_ = fitted()
    new = torch.rand(9, 2)
    p, ours = Surrogate(body, bound).posterior(new), bound(body(new))
    assert_close(p.mean[:, 0], ours.mean, **EXACT)
    assert_close(p.variance[:, 0], ours.belief_var, **EXACT)


class LinearKernel(gpytorch.models.ExactGP):
    """f ~ GP(c, psi . psi' / alpha) on features, which is the same prior in another space."""

    def __init__(self, psi, y, bound):
        noise = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.Positive()
        )
        super().__init__(psi, y, noise)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.LinearKernel()
        self.mean_module.initialize(constant=bound.head.bias.item())
        self.covar_module.variance = 1 / bound.alpha.item()
        self.likelihood.noise = bound.noise.item() ** 2
        self.eval()

    def forward(self, psi):
        return gpytorch.distributions.MultivariateNormal(
            self.mean_module(psi), self.covar_module(psi)
        )


def test_joint_posterior_is_that_of_a_gaussian_process_with_a_linear_kernel():
    body, bound, x, y = fitted()
    new = torch.rand(5, 2)
    psi, at = (torch.cat([body(z).detach(), torch.ones(len(z), 1)], -1) for z in (x, new))
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        theirs = LinearKernel(psi, y, bound)(at)
        cov = theirs.covariance_matrix
    p = Surrogate(body, bound).posterior(new)
    assert_close(p.mean[:, 0], theirs.mean, **EXACT)
    assert_close(p.distribution.covariance_matrix, cov, **EXACT)


def test_outputs_are_independent_and_can_be_chosen():
    body, bound, x, y = fitted(outputs=3)
    model, new = Surrogate(body, bound), torch.rand(4, 2)
    p = model.posterior(new)
    assert model.num_outputs == 3
    assert p.mean.shape == (4, 3)
    cov = p.distribution.covariance_matrix.unflatten(0, (4, 3)).unflatten(2, (4, 3))
    for k in range(3):
        mean, own = by_hand(body, bound, x, y, new, k)
        for one in (model.subset_output([k]).posterior(new), model.posterior(new, [k])):
            assert_close(one.mean[:, 0], mean, **EXACT)
            assert_close(one.distribution.covariance_matrix, own, **EXACT)
        assert_close(p.mean[:, k], mean, **EXACT)
        for j in range(3):
            assert_close(cov[:, k, :, j], own if j == k else torch.zeros(4, 4), **EXACT)
    weights = torch.tensor([1.0, -2.0, 0.5])
    one = model.posterior(new, posterior_transform=ScalarizedPosteriorTransform(weights))
    assert_close(one.mean[:, 0], p.mean @ weights, **EXACT)


@pytest.mark.parametrize("outputs", [1, 2])
def test_batches_of_points_are_each_joint(outputs):
    body, bound, *_ = fitted(outputs=outputs)
    model, new = Surrogate(body, bound), torch.rand(3, 2, 4, 2)
    p = model.posterior(new)
    assert p.mean.shape == (3, 2, 4, outputs)
    one = model.posterior(new[1, 0])
    assert_close(p.mean[1, 0], one.mean, **EXACT)
    assert_close(
        p.distribution.covariance_matrix[1, 0], one.distribution.covariance_matrix, **EXACT
    )
    assert p.rsample(torch.Size([7])).shape == (7, 3, 2, 4, outputs)


@pytest.mark.parametrize("outputs", [1, 2])
def test_conditioning_is_an_update_of_the_refit(outputs):
    body, bound, *_ = fitted(outputs=outputs)
    model, new = Surrogate(body, bound), torch.rand(4, 2)
    x, y = torch.rand(5, 2), torch.randn(5, outputs)
    before = model.posterior(new).mean
    found = model.condition_on_observations(x, y).posterior(new)
    assert_close(model.posterior(new).mean, before, rtol=0, atol=0)
    grown = bound.keep().update(body(x), y.squeeze(-1))
    want = Surrogate(body, grown).posterior(new)
    assert_close(found.mean, want.mean, **EXACT)
    assert_close(found.distribution.covariance_matrix, want.distribution.covariance_matrix, **EXACT)


@pytest.mark.parametrize("outputs", [1, 2])
def test_fantasies_are_a_batch_of_conditioned_models(outputs):
    body, bound, *_ = fitted(outputs=outputs)
    model, x = Surrogate(body, bound), torch.rand(3, 2, 2)  # three times two points
    fantasies = model.fantasize(x, SobolQMCNormalSampler(torch.Size([4]), seed=0))
    assert fantasies.batch_shape == (4, 3)
    new = torch.rand(5, 2)
    p = fantasies.posterior(new)
    assert p.mean.shape == (4, 3, 5, outputs)
    y = torch.randn(4, 3, 2, outputs)
    own = torch.full((1, outputs), 0.2)
    p = model.condition_on_observations(x, y, noise=own).posterior(new)
    one = model.condition_on_observations(x[2], y[1, 2], noise=own).posterior(new)
    assert_close(p.mean[1, 2], one.mean, **EXACT)
    assert_close(p.variance[1, 2], one.variance, **EXACT)


@pytest.mark.parametrize("q", [3, 40])
def test_draws_have_the_joint_moments(q):
    body, bound, *_ = fitted()
    with torch.no_grad():
        p = Surrogate(body, bound).posterior(torch.rand(q, 2))
        sampler = SobolQMCNormalSampler(torch.Size([4096]), seed=0)
        std, cov = p.variance.max().sqrt().item(), p.distribution.covariance_matrix
        for draws, wide in ((p.rsample(torch.Size([100_000])), 0.03), (sampler(p), 0.1)):
            # Monte Carlo: a variance is known to sqrt(2/n) = 0.0045 and 0.022 of itself.
            assert_close(draws.mean(0), p.mean, rtol=0, atol=wide * std)
            assert_close(draws[..., 0].T.cov(), cov, rtol=0, atol=wide * std**2)


def test_thompson_functions_are_draws_of_the_posterior():
    body, bound, *_ = fitted(outputs=2)
    model, new = Surrogate(body.requires_grad_(False), bound), torch.rand(3, 2)
    p, generator = model.posterior(new), torch.Generator().manual_seed(0)
    f = model.thompson(generator)
    assert_close(f.posterior(new).mean, f.posterior(new[None]).mean[0], **EXACT)
    draws = torch.stack([model.thompson(generator)(new) for _ in range(4000)])
    scale = p.variance.max().item()  # Monte Carlo: 4000 draws
    assert_close(draws.mean(0), p.mean, rtol=0, atol=0.06 * scale**0.5)
    cov = draws.flatten(1).T.cov()
    assert_close(cov, p.distribution.covariance_matrix, rtol=0, atol=0.08 * scale)


def test_acquisition_functions_have_gradients():
    body, bound, x, y = fitted()
    model = Surrogate(body, bound)
    points = torch.rand(2, 3, 2, requires_grad=True)
    sampler = SobolQMCNormalSampler(torch.Size([16]), seed=0)
    for acquisition in (
        qLogExpectedImprovement(model, best_f=y.max(), sampler=sampler),
        qLogNoisyExpectedImprovement(model, X_baseline=x[:4], sampler=sampler),
        PosteriorMean(model.thompson()),
    ):
        at = points[:, :1] if isinstance(acquisition, PosteriorMean) else points
        (slope,) = torch.autograd.grad(acquisition(at).sum(), points)
        assert slope.isfinite().all()
        assert slope.abs().max() > 0
    knowledge = qKnowledgeGradient(model, num_fantasies=4)
    at = torch.rand(2, 5, 2, requires_grad=True)
    (slope,) = torch.autograd.grad(knowledge(at).sum(), at)
    assert slope.isfinite().all()
    assert slope[:, 0].abs().max() > 0


def test_gradient_of_the_posterior_is_right():
    body, bound, *_ = fitted()
    model = Surrogate(body, bound)

    def moments(x):
        p = model.condition_on_observations(x[:1], torch.ones(1, 1)).posterior(x[1:])
        return p.mean, p.distribution.covariance_matrix

    assert torch.autograd.gradcheck(moments, torch.rand(3, 2, requires_grad=True))


def test_the_optimisers_run():
    body, bound, _, y = fitted()
    model = Surrogate(body, bound)
    improvement = qLogExpectedImprovement(model, best_f=y.max())
    point, reached = optimize_acqf(improvement, BOX, q=2, num_restarts=2, raw_samples=16)
    assert point.shape == (2, 2)
    assert reached >= improvement(torch.rand(64, 2, 2)).max() - 1e-3
    grid = torch.rand(500, 2)
    chosen = MaxPosteriorSampling(model, replacement=False)(grid, num_samples=4)
    assert chosen.shape == (4, 2)


@pytest.mark.filterwarnings("ignore:A not p.d.")  # jitter, as of any Gaussian process
def test_points_may_coincide():
    body, bound, *_ = fitted()
    p = Surrogate(body, bound).posterior(torch.rand(1, 2).expand(3, 2))
    draws = p.rsample(torch.Size([50]))
    assert draws.isfinite().all()
    assert (draws - draws[:, :1]).abs().max() < 1e-2 * p.variance.max().sqrt()


def test_single_precision_and_dropout():
    torch.set_default_dtype(torch.float32)
    body = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Dropout(0.5))
    x, y = torch.rand(30, 2), torch.randn(30)
    head = scroll.RegressionHead(8)
    model = Surrogate(body, scroll.refit(head, body.eval()(x), y))
    model.train()
    new = torch.rand(4, 2, dtype=torch.float64)
    p = model.posterior(new)
    assert p.mean.dtype == torch.float64
    assert_close(p.mean, model.posterior(new).mean, rtol=0, atol=0)
    assert model.posterior(new.float()).mean.dtype == torch.float32


@pytest.mark.parametrize(
    ("head", "y", "words"),
    [
        (scroll.ClassificationHead(6, 2, "probit"), torch.arange(9) % 2, "come from a Regression"),
        (scroll.RegressionHead(6, replicates=(2,)), torch.randn(2, 9), "without replicates"),
    ],
)
def test_refusals(head, y, words):
    psi = torch.randn(*y.shape, 6)
    with pytest.raises((TypeError, ValueError), match=words):
        Surrogate(nn.Identity(), scroll.refit(head.double(), psi, y))


def test_what_is_no_refit_and_what_was_not_seen():
    body, bound, x, y = fitted()
    with pytest.raises(TypeError, match=r"`bound` must be a scroll.Posterior, but got Regres"):
        Surrogate(body, bound.head)
    model, new = Surrogate(body, bound), x[:3]
    with pytest.raises(ValueError, match=r"`Y` must end in shape \(3, 1\), .* Use Y.unsqueeze"):
        model.condition_on_observations(new, y[:3])
    with pytest.raises(ValueError, match="`Y` must be finite"):
        model.condition_on_observations(new, y[:3, None] * torch.nan)
    with pytest.raises(ValueError, match="`noise` must be positive"):
        model.condition_on_observations(new, y[:3, None], noise=torch.zeros(3, 1))
