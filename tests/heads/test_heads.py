"""Heads as a PyTorch user uses them."""

import copy

import numpy as np
import pytest
import torch
from scipy import stats

import scroll
from parts import CONJUGATE, HEADS, make_head
from scroll import ClassificationHead, CountHead, Head, OrdinalHead, RegressionHead
from scroll.factors import Bounded, NegativeBinomial, Poisson
from scroll.heads.likelihoods import AnyLikelihood, CountLikelihood, OrdinalLikelihood
from scroll.objectives.routes import conjugate, conjugate_diag
from scroll.objectives.terms import minus_kl
from scroll.predictive import Count

pytestmark = pytest.mark.oldest

N, H = 24, 5


def example(name, **kwargs):
    make, labels = HEADS[name]
    return make(H, **kwargs), torch.randn(N, H), labels(N)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", HEADS)
def test_trains_and_predicts_in_either_precision(name, dtype):
    torch.set_default_dtype(dtype)
    head, psi, y = example(name)
    body = torch.nn.Linear(H, H)
    adam = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.05)
    losses = []
    for _ in range(40):
        adam.zero_grad()
        loss = head.loss(body(psi), y, total=N)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert loss.dtype == dtype
    assert losses[-1] < losses[0] - 0.05
    assert all(p.grad is None or p.grad.isfinite().all() for p in head.parameters())
    predictive = head(body(psi))
    log_prob = predictive.log_prob(y)
    assert log_prob.dtype == dtype
    assert log_prob.isfinite().all()


@pytest.mark.parametrize("name", HEADS)
def test_the_loss_is_the_score_of_the_predictive(name):
    """One-versus-all and GaussReg normalise at prediction; all others score what they predict."""
    if name in ("ova", "gaussreg"):
        return
    head, psi, y = example(name, method="no-prior", alpha=1e-300)
    score = -head(psi).log_prob(y)
    if name == "regression-3":
        score = score.sum(-1)
    torch.testing.assert_close(head.loss(psi, y, total=N), score.mean(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lead", [(), (2,)], ids=str)
@pytest.mark.parametrize("name", HEADS)
def test_predictive_shapes(name, lead):
    make, labels = HEADS[name]
    head, psi, y = make(H, replicates=lead), torch.randn(*lead, N, H), labels(*lead, N)
    p = head(psi)
    y = y[..., 1] if name == "censored" else y
    assert p.log_prob(y).shape == y.shape
    if name == "any":
        assert p.sample_latent(7).shape == (7, *lead, N)
        return
    assert p.sample(7).shape == (7, *y.shape)
    assert p.mean.shape == p.variance.shape == p.stddev.shape
    torch.testing.assert_close(p.stddev.square(), p.variance)
    if hasattr(p, "probs"):
        torch.testing.assert_close(p.probs.sum(-1), torch.ones(*lead, N), rtol=0, atol=1e-12)
        assert (p.mode == p.probs.argmax(-1)).all()
    if hasattr(p, "cdf"):
        low, high = p.interval(0.8)
        assert low.shape == high.shape == y.shape
        assert (low <= high).all()
        assert p.quantile([0.1, 0.5, 0.9]).shape == (*y.shape, 3)
        torch.testing.assert_close(p.quantile(0.1).double(), low.double())
        assert p.cdf(y).shape == y.shape


@pytest.mark.parametrize("name", ["regression", "regression-3", "ordinal", *CountLikelihood.kinds])
def test_quantiles_invert_the_distribution_function(name):
    head, psi, _ = example(name)
    p = head(psi)
    for q in (0.01, 0.3, 0.5, 0.97):
        x = p.quantile(q)
        reached = p.cdf(x)
        if name.startswith("regression"):
            torch.testing.assert_close(reached, torch.full_like(reached, q), rtol=1e-9, atol=1e-12)
        else:  # the least value that reaches q
            assert (reached >= q - 1e-12).all()
            assert (p.cdf(x - 1) < q).all()


@pytest.mark.parametrize("name", ["regression", "ova", "ordinal", *CountLikelihood.kinds])
def test_moments_are_those_of_the_samples(name):
    head, psi, _ = example(name)
    p = head(psi)
    g = torch.Generator().manual_seed(0)
    draws = p.sample(20_000, g)
    if name == "ova":
        draws = torch.nn.functional.one_hot(draws, 3)
    draws = draws.double()
    # 20,000 draws: standard error sd/141 of the mean, a few per cent of the variance
    error = (draws.mean(0) - p.mean).abs() / (p.stddev + 1e-9) * 20_000**0.5
    assert error.max() < 5
    torch.testing.assert_close(draws.var(0), p.variance, rtol=0.3, atol=0.01)
    assert draws.var(0).sum().item() == pytest.approx(p.variance.sum().item(), rel=0.05)


def test_count_distribution_functions_add_up_the_probabilities():
    for name in CountLikelihood.kinds:
        head, psi, _ = example(name)
        p = head(psi)
        k = torch.arange(8)
        log_probs = torch.stack([p.log_prob(j.expand(N)) for j in k])
        for j in k:
            total = log_probs[: j + 1].exp().sum(0)
            torch.testing.assert_close(p.cdf(j.expand(N)), total, rtol=1e-9, atol=1e-12)
        assert (p.cdf(torch.full((N,), -1)) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_quantiles_of_large_counts_come_back(dtype):
    """Above 2^24 (2^53) not every integer is a float: the search must end nevertheless."""
    for mean, var in ((18.0, 0.01), (17.0, 1.0), (5.0, 25.0), (40.0, 1.0)):
        p = Count(Poisson(), torch.tensor([mean], dtype=dtype), torch.tensor([var], dtype=dtype))
        want = np.exp(mean + np.sqrt(var) * stats.norm.ppf(0.9))  # Poisson spread is nothing here
        assert p.quantile(0.9).item() == pytest.approx(want, rel=2e-2)


def test_counts_have_no_last_quantile():
    with pytest.raises(ValueError, match=r"`q` must be below 1: counts have no greatest"):
        CountHead(H)(torch.randn(N, H)).icdf(torch.tensor(1.0))


@pytest.mark.parametrize("r", [None, 2.5])
@pytest.mark.parametrize(
    ("mean", "var"), [(1.0, 0.01), (3.0, 1.0), (7.0, 1.0), (10.0, 1.0), (3.0, 25.0)]
)
def test_count_distribution_functions_are_the_integrals(mean, var, r):
    """Against scipy's sums over f on a fine grid, on both sides of where the rule changes."""
    factor = Poisson() if r is None else NegativeBinomial(torch.tensor(r))
    p = Count(factor, torch.tensor([mean]), torch.tensor([var]))
    z = np.linspace(-9, 9, 200_001)
    f = mean + np.sqrt(var) * z
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    for k in (0, 3, int(np.exp(mean)), int(np.exp(mean + 1.5 * np.sqrt(var)))):
        if r is None:
            given = stats.poisson.cdf(k, np.exp(f))
        else:
            given = stats.nbinom.cdf(k, r, r / (r + np.exp(f)))
        ours = p.cdf(torch.tensor([k])).item()
        # where the rule changes, what it integrates is as sharp as its nodes resolve: 1e-8
        assert ours == pytest.approx((weight * given).sum(), abs=1e-8)


def test_large_counts_keep_their_digits_in_float32():
    torch.set_default_dtype(torch.float32)
    for y in (1e5, 1e6, 1e7):
        at = scroll.beliefs.belief.Moments(torch.tensor([np.log(y)]).float(), torch.tensor([0.01]))
        ours = Poisson().log_marginal(torch.tensor([y]), at).item()
        precise = scroll.beliefs.belief.Moments(at.mean.double(), at.var.double())
        want = Poisson().log_marginal(torch.tensor([y]).double(), precise).item()
        assert ours == pytest.approx(want, abs=2e-3 if y < 1e7 else 2e-2)  # f itself has 24 bits
    for r in (1e4, 1e6, 1e7):
        ours = NegativeBinomial(torch.tensor(r)).log_prob(torch.tensor([50.0]), torch.tensor([4.0]))
        want = stats.nbinom.logpmf(50, r, r / (r + np.exp(4.0)))
        assert ours.item() == pytest.approx(want, abs=1e-3)


def test_a_message_of_zero_variance_has_finite_gradients():
    """A ReLU body gives rows of zeros: psi = 0, v = 0."""
    psi = torch.randn(N, H)
    psi[:4] = 0
    for name in HEADS:
        make, labels = HEADS[name]
        for method in ("scroll", "elbo"):
            head, y = make(H, method=method), labels(N)
            head.loss(psi, y, total=N).backward()
            grads = [p.grad for p in head.parameters() if p.grad is not None]
            assert all(g.isfinite().all() for g in grads), name


@pytest.mark.parametrize("key", CONJUGATE)
def test_bound_methods_keep_their_digits_in_float32(key):
    """More features than points and little noise: the posterior is computed in float64."""
    psi, y = torch.randn(10, 20), torch.randn(10)
    precise = make_head(key, 20, noise=1e-3)
    rough = copy.deepcopy(precise).float()
    want = precise.loss(psi, y, total=10).item()
    loss = rough.loss(psi.float(), y.float(), total=10)
    assert loss.dtype == torch.float32
    # an interpolating fit of float32 features and parameters, computed exactly
    assert loss.item() == pytest.approx(want, rel=1e-2)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in rough.parameters() if p.grad is not None)


def test_mixed_precision_stays_in_the_body():
    torch.set_default_dtype(torch.float32)
    head, psi, y = RegressionHead(H), torch.randn(N, H), torch.randn(N)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = psi.bfloat16()
        loss, p = head.loss(features, y, total=N), head(features)
    torch.testing.assert_close(loss, head.loss(features.float(), y, total=N))
    assert p.variance.dtype == torch.float32
    for part in (
        lambda: head.message(psi),
        lambda: head.prior_loss(9),
        lambda: head.fit_noise(psi, y),
    ):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = part()
        mixed = copy.deepcopy(head.state_dict()) if mixed is head else mixed
        want = head.state_dict() if part() is head else part()
        torch.testing.assert_close(mixed, want, rtol=0, atol=0)
    torch.testing.assert_close(head(psi.double()).mean, head(psi).mean)


def test_a_users_factor_may_have_parameters():
    class Student(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.log_scale = torch.nn.Parameter(torch.zeros(()))

        def forward(self):
            scale = self.log_scale.exp()
            return Bounded(lambda y, f: torch.distributions.Laplace(f, scale).log_prob(y))

    head = Head(H, AnyLikelihood(Student()))
    head.loss(torch.randn(N, H), torch.randn(N), total=N).backward()
    assert head.likelihood.given.log_scale.grad.isfinite()


def test_heads_work_under_vmap_without_checks():
    """A stack made by torch.func has the losses of one with leading axes."""
    head, psi, y = RegressionHead(H), torch.randn(3, N, H), torch.randn(3, N)
    with scroll.unchecked():
        stacked = torch.vmap(lambda a, b: head.loss(a, b, total=N))(psi, y)
    for r in range(3):
        torch.testing.assert_close(stacked[r], head.loss(psi[r], y[r], total=N))


def test_normal_predictive_is_scipys():
    head, psi, y = example("regression")
    p = head(psi)
    theirs = stats.norm(p.mean.detach().numpy(), p.stddev.detach().numpy())
    np.testing.assert_allclose(p.log_prob(y).detach(), theirs.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose(p.cdf(y).detach(), theirs.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(p.quantile(0.975).detach(), theirs.ppf(0.975), rtol=1e-9)
    torch.testing.assert_close(p.variance, p.noise_var + p.belief_var)


@pytest.mark.parametrize("key", CONJUGATE)
def test_a_bound_head_predicts_after_conditioning(key):
    psi, y = torch.randn(N, H), torch.randn(N)
    head = make_head(key, H)
    with pytest.raises(
        RuntimeError, match=r"`head` must be given the training data.*head.condition"
    ):
        head(psi)
    head.condition(psi, y)
    fresh = make_head(key, H)
    fresh.load_state_dict(head.state_dict())
    torch.testing.assert_close(fresh(psi).log_prob(y), head(psi).log_prob(y))
    if key == "closed-full":
        x = psi.numpy()
        a = x.T @ x + np.eye(H)
        mean = x @ np.linalg.solve(a, x.T @ y.numpy())
        np.testing.assert_allclose(head(psi).mean.detach(), mean, rtol=1e-9)
        np.testing.assert_allclose(
            head(psi).belief_var.detach(), (x * np.linalg.solve(a, x.T).T).sum(1), rtol=1e-9
        )


def test_conditioning_a_free_head_is_refused():
    with pytest.raises(
        ValueError, match=r"`method` must bind the belief to data, but got 'scroll'"
    ):
        RegressionHead(H).condition(torch.randn(N, H), torch.randn(N))


def test_outputs_are_independent_heads_with_their_own_noise():
    torch.manual_seed(1)
    head = RegressionHead(H, 3)
    torch.nn.init.normal_(head.likelihood.log_noise)
    psi, y = torch.randn(N, H), torch.randn(N, 3)
    total = 0.0
    for k in range(3):
        one = RegressionHead(H)
        one.load_state_dict({n: v[[k]] for n, v in head.state_dict().items()})
        total = total + one.loss(psi, y[:, k], total=50)
        torch.testing.assert_close(one(psi).variance, head(psi).variance[:, k])
    torch.testing.assert_close(head.loss(psi, y, total=50), total)


def test_beta_weighs_by_the_spread_and_only_for_gaussian_likelihoods():
    psi, y = torch.randn(N, H), torch.randn(N)
    head = RegressionHead(H, beta=0.5, method="no-prior", alpha=1e-300)
    p = head(psi)
    weight = p.variance.detach().sqrt()
    want = -(weight / weight.mean() * p.log_prob(y)).mean()
    torch.testing.assert_close(head.loss(psi, y, total=N), want)
    ClassificationHead(H, 3, "gaussreg", beta=0.5).loss(psi, torch.randint(3, (N,)), total=N)
    with pytest.raises(
        TypeError, match=r"`likelihood` must be Gaussian for beta > 0, but got Probit"
    ):
        ClassificationHead(H, 3, beta=0.5)


def test_map_noise_is_fitted_to_residuals():
    psi, y = torch.randn(N, H), torch.randn(N)
    head = RegressionHead(H, covariance="none", method="map").fit_noise(psi, y)
    residual = y - head(psi).mean
    torch.testing.assert_close(head(psi).variance, residual.square().mean().expand(N))
    with pytest.raises(TypeError, match="`likelihood` must be Gaussian to have a noise"):
        CountHead(H).fit_noise(psi, y)


def test_conjugate_methods_need_a_gaussian_likelihood():
    with pytest.raises(
        TypeError, match=r"`likelihood` must be Gaussian for method 'closed'.*Use method 'scroll'"
    ):
        ClassificationHead(H, 3, method="closed")


def test_alpha_is_learned_or_not_as_the_method_says():
    psi, y = torch.randn(N, H), torch.randn(N)
    for method, learned in (
        ("scroll", True),
        ("fixed-alpha", False),
        ("kl", True),
        ("fixed-kl", False),
    ):
        head = RegressionHead(H, method=method, alpha=3.0)
        head.loss(psi, y, total=N).backward()
        assert (head.log_alpha.grad is not None) == learned
        torch.testing.assert_close(head.log_alpha.exp(), torch.tensor([3.0]))


def test_it_replaces_the_last_layer_of_a_network():
    """Trained through, it beats the mean predictor on a curve with growing noise."""
    torch.set_default_dtype(torch.float32)
    g = torch.Generator().manual_seed(0)
    x = 6 * torch.rand(600, 1, generator=g) - 3
    y = torch.sin(2 * x[:, 0]) + (0.1 + 0.2 * x[:, 0].abs()) * torch.randn(600, generator=g)
    body = torch.nn.Sequential(
        torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16), torch.nn.Tanh()
    )
    head = RegressionHead(16)
    adam = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
    for _ in range(400):
        for batch in torch.randperm(400, generator=g).split(100):
            adam.zero_grad()
            head.loss(body(x[batch]), y[batch], total=400).backward()
            adam.step()
        if _ > 60:
            break
    with torch.no_grad():
        p = head(body(x[400:]))
    baseline = torch.distributions.Normal(y[:400].mean(), y[:400].std()).log_prob(y[400:]).mean()
    assert p.log_prob(y[400:]).mean() > baseline + 0.4
    low, high = p.interval(0.9)
    inside = ((y[400:] > low) & (y[400:] < high)).float().mean()
    assert 0.82 < inside < 0.97


BAD = {
    "wrong width": (lambda h: h.loss(torch.randn(N, H + 1), torch.randn(N), total=N), r"`psi` must have shape \(N, 5\), but got \(24, 6\)"),
    "no batch axis": (lambda h: h(torch.randn(H)), r"`psi` must have shape \(N, 5\)"),
    "a stack for one": (lambda h: h(torch.randn(2, N, H)), r"`psi` must have shape \(N, 5\)"),
    "numpy": (lambda h: h(np.zeros((N, H))), r"`psi` must be a torch.Tensor, but got ndarray. Convert"),
    "integers": (lambda h: h(torch.ones(N, H, dtype=torch.long)), r"`psi` must be a floating-point"),
    "empty": (lambda h: h.loss(torch.randn(0, H), torch.randn(0), total=N), r"`psi` must hold at least one row"),
    "NaN features": (lambda h: h.loss(torch.full((N, H), torch.nan), torch.randn(N), total=N), r"`psi` must be finite, but got 120 NaN or infinite values, the first at index \[0, 0\]\. Impute"),
    "infinite features": (lambda h: h.loss(torch.eye(H) / 0, torch.randn(H), total=N), r"`psi` must be finite"),
    "NaN targets": (lambda h: h.loss(torch.randn(N, H), torch.full((N,), torch.nan), total=N), r"`y` must be finite"),
    "a column of targets": (lambda h: h.loss(torch.randn(N, H), torch.randn(N, 1), total=N), r"`y` must have shape \(24,\).*Use y.squeeze\(-1\)"),
    "too few targets": (lambda h: h.loss(torch.randn(N, H), torch.randn(3), total=N), r"`y` must have shape \(24,\) to go with the features, but got \(3,\)"),
    "a list of targets": (lambda h: h.loss(torch.randn(1, H), [1.0], total=1), r"`y` must be a torch.Tensor, but got list"),
    "no total": (lambda h: h.loss(torch.randn(N, H), torch.randn(N)), r"`total` must be the number of training rows.*got None. Pass total=len"),
    "total below the batch": (lambda h: h.loss(torch.randn(N, H), torch.randn(N), total=3), r"`total` must be .* at least the 24 given here, but got 3"),
    "a coverage of 90": (lambda h: h(torch.randn(N, H)).interval(90), r"`coverage` must lie strictly between 0 and 1, but got 90. 90 % is 0.9"),
    "no quantile": (lambda h: h(torch.randn(N, H)).quantile([]), r"`q` must be a level, or a list"),
    "a word for a quantile": (lambda h: h(torch.randn(N, H)).quantile("a"), r"`q` must be a level, or a list of levels, but got 'a'"),
    "a table of quantiles": (lambda h: h(torch.randn(N, H)).quantile([[0.1, 0.2]]), r"`q` must be a level, or a list"),
    "complex targets": (lambda h: h.loss(torch.randn(N, H), torch.randn(N) * 1j, total=N), r"`y` must be real"),
    "an infinite weight": (lambda h: h.loss(torch.randn(N, H), torch.randn(N), N, torch.full((N,), torch.inf)), r"`weight` must be finite"),
    "a quantile of 1": (lambda h: h(torch.randn(N, H)).quantile([0.5, 1.0]), r"`q` must lie strictly between 0 and 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_and_changes_nothing(case):
    attempt, message = BAD[case]
    head = RegressionHead(H)
    before = copy.deepcopy(head.state_dict())
    with pytest.raises((ValueError, TypeError), match=message):
        attempt(head)
    for k, v in head.state_dict().items():
        torch.testing.assert_close(v, before[k], rtol=0, atol=0)
    assert all(p.grad is None for p in head.parameters())


LABELS = {
    "label too high": (lambda: ClassificationHead(H, 3), torch.full((N,), 3), r"`y` must hold labels 0..2 for 3 classes, but got labels 3..3"),
    "label negative": (lambda: ClassificationHead(H, 3), torch.full((N,), -1), r"`y` must hold labels 0..2"),
    "float labels": (lambda: ClassificationHead(H, 3), torch.zeros(N), r"`y` must hold integer labels, but got torch.float32. Convert it with y.long"),
    "a signed label": (lambda: ClassificationHead(H, 2, "probit"), torch.full((N,), -1), r"`y` must hold labels 0..1"),
    "a level too high": (lambda: OrdinalHead(H, 4), torch.full((N,), 4), r"`y` must hold labels 0..3 for 4 levels"),
    "one-hot labels": (lambda: ClassificationHead(H, 3), torch.zeros(N, 3).long(), r"`y` must hold one label per row, shape \(24,\).*Use y.argmax"),
    "labels from one": (lambda: ClassificationHead(H, 3), torch.arange(N) % 3 + 1, r"but got labels 1..3. Subtract 1"),
    "a negative count": (lambda: CountHead(H), torch.full((N,), -1), r"`y` must hold counts 0, 1, 2, ..., but got \[-1, -1, -1\]"),
    "half a count": (lambda: CountHead(H), torch.full((N,), 0.5), r"`y` must hold counts.*Use RegressionHead"),
    "an infinite count": (lambda: CountHead(H), torch.full((N,), torch.inf), r"`y` must be finite"),
    "a NaN for any factor": (lambda: Head(H, AnyLikelihood(Bounded(lambda y, f: -(y - f) ** 2))), torch.full((N,), torch.nan), r"`y` must be finite"),
}  # fmt: skip


@pytest.mark.parametrize("case", LABELS)
def test_bad_labels_are_refused(case):
    make, y, message = LABELS[case]
    with pytest.raises((ValueError, TypeError), match=message):
        make().loss(torch.randn(N, H), y, total=N)


MADE = {
    "alpha zero": (lambda: RegressionHead(H, alpha=0.0), r"`alpha` must be positive and finite, but got 0.0"),
    "alpha negative": (lambda: RegressionHead(H, alpha=-1.0), r"`alpha` must be positive"),
    "alpha infinite": (lambda: RegressionHead(H, alpha=float("inf")), r"`alpha` must be positive and finite"),
    "noise zero": (lambda: RegressionHead(H, noise=0.0), r"`noise` must be positive"),
    "no features": (lambda: RegressionHead(0), r"`in_features` must be a positive integer, but got 0"),
    "no outputs": (lambda: RegressionHead(H, 0), r"`out_features` must be a positive integer"),
    "beta negative": (lambda: RegressionHead(H, beta=-0.5), r"`beta` must be zero or positive"),
    "floor negative": (lambda: RegressionHead(H, floor=-1e-4), r"`floor` must be zero or positive"),
    "rank zero": (lambda: RegressionHead(H, covariance="lowrank", rank=0), r"`rank` must be a positive integer"),
    "no such likelihood": (lambda: ClassificationHead(H, 3, "softmax"), r"`likelihood` must be one of 'ova', 'gaussreg', 'probit', 'logit', but got 'softmax'"),
    "no such count": (lambda: CountHead(H, "binomial"), r"`likelihood` must be one of 'poisson', 'negbinomial', 'zip', 'zinb', but got 'binomial'"),
    "inflation one": (lambda: CountHead(H, "zip", inflation=1.0), r"`inflation` must lie strictly between 0 and 1, but got 1.0"),
    "inflation ignored": (lambda: CountHead(H, inflation=0.2), r"`inflation` must be left out for likelihood 'poisson', but got 0.2"),
    "one class": (lambda: ClassificationHead(H, 1), r"`classes` must be an integer of at least 2, but got 1"),
    "probit of three": (lambda: ClassificationHead(H, 3, "probit"), r"`classes` must be 2 for likelihood 'probit', but got 3. Use 'ova'"),
    "falling thresholds": (lambda: OrdinalHead(H, 4, thresholds=torch.tensor([0.0, 1.0, 0.5])), r"`thresholds` must increase strictly, but got \[0.0, 1.0, 0.5\]. Sort"),
    "equal thresholds": (lambda: OrdinalHead(H, 3, thresholds=torch.tensor([1.0, 1.0])), r"`thresholds` must increase strictly"),
    "too few thresholds": (lambda: OrdinalHead(H, 4, thresholds=torch.tensor([0.0])), r"`thresholds` must have one entry less than the 4 levels"),
    "replicates 3": (lambda: RegressionHead(H, replicates=3), r"`replicates` must be a tuple of positive integers, but got 3. Twenty"),
    "scale of no probit": (lambda: ClassificationHead(H, 3, "gaussreg", scale=2.0), r"`scale` must be left out for likelihood 'gaussreg'"),
    "vbll of classes": (lambda: ClassificationHead(H, 3, method="vbll"), r"`likelihood` must be Gaussian for method 'vbll'"),
    "noise of a probit": (lambda: ClassificationHead(H, 3, noise=0.1), r"`noise` must be left out for likelihood 'ova'"),
    "beta infinite": (lambda: RegressionHead(H, beta=float("inf")), r"`beta` must be zero or positive, and finite"),
    "beta a word": (lambda: RegressionHead(H, beta="a"), r"`beta` must be a number, but got 'a'"),
    "alpha a word": (lambda: RegressionHead(H, alpha="a"), r"`alpha` must be a number, but got 'a'"),
    "features a truth": (lambda: RegressionHead(True), r"`in_features` must be a positive integer, but got True"),
    "a bias beside thresholds": (lambda: OrdinalHead(H, 4, bias=True), r"`bias` must be left out for ordered levels"),
    "weight of no prior": (lambda: RegressionHead(H, method="loo", prior_weight=50.0), r"`prior_weight` must be left at 1 for method 'loo'"),
    "diagonal of a full route": (lambda: RegressionHead(H, covariance="diag", method=scroll.Objective(conjugate)), r"`covariance` must be 'full', the covariance that route"),
    "scale zero": (lambda: ClassificationHead(H, 3, scale=0.0), r"`scale` must be positive"),
}  # fmt: skip


@pytest.mark.parametrize("case", MADE)
def test_bad_arguments_of_heads_are_refused(case):
    attempt, message = MADE[case]
    with pytest.raises((ValueError, TypeError), match=message):
        attempt()


def test_checks_can_be_switched_off():
    head = RegressionHead(H)
    psi = torch.full((N, H), torch.nan)
    with scroll.unchecked():
        assert head.loss(psi, torch.randn(N), total=N).isnan()
        with pytest.raises(ValueError, match="`psi` must have shape"):  # shapes cost nothing
            head.loss(psi[:, 1:], torch.randn(N), total=N)
    with pytest.raises(ValueError, match="`psi` must be finite"):
        head.loss(psi, torch.randn(N), total=N)


def test_a_large_finite_sum_is_not_mistaken_for_a_bad_value():
    torch.set_default_dtype(torch.float32)
    psi = torch.full((1, H), 3e38)
    torch.testing.assert_close(RegressionHead(H).features(psi)[0], psi)


def test_thresholds_start_where_they_are_put():
    want = torch.tensor([-0.3, 0.1, 2.0])
    torch.testing.assert_close(
        OrdinalLikelihood(4, thresholds=want).factor().thresholds, want[None]
    )
    even = OrdinalLikelihood(4).factor()
    probs = even.log_probs(
        scroll.beliefs.belief.Moments(torch.zeros(1, 1), torch.zeros(1, 1))
    ).exp()
    torch.testing.assert_close(probs, torch.full((1, 1, 4), 0.25))


@pytest.mark.parametrize("name", [n for n in HEADS if n != "regression-3"])
def test_a_predictive_refuses_a_column(name):
    """Broadcasting (N, 1) against (N,) would silently give N^2 numbers."""
    head, psi, y = example(name)
    p = head(psi)
    y = y[..., 1] if name == "censored" else y
    for method in ("log_prob", "cdf"):
        if hasattr(p, method):
            with pytest.raises(ValueError, match=r"`y` must have .*shape \(24,\).*squeeze\(-1\)"):
                getattr(p, method)(y[:, None])


def test_a_predictive_refuses_bad_labels():
    p = ClassificationHead(H, 3)(torch.randn(N, H))
    with pytest.raises(ValueError, match=r"`y` must hold labels 0..2 for 3 classes.*Subtract 1"):
        p.log_prob(torch.arange(N) % 3 + 1)
    with pytest.raises(TypeError, match=r"`y` must hold integer labels"):
        p.log_prob(torch.full((N,), 0.7))


def test_a_predictive_refuses_bad_counts():
    for kind in CountLikelihood.kinds:
        p = CountHead(H, kind)(torch.randn(N, H))
        for bad in (-1.0, 0.5):
            with pytest.raises(ValueError, match="`y` must hold counts 0, 1, 2"):
                p.log_prob(torch.full((N,), bad))
        with pytest.raises(ValueError, match="`y` must be finite"):
            p.log_prob(torch.full((N,), torch.nan))


@pytest.mark.parametrize("name", [n for n in HEADS if n != "any"])
def test_a_head_on_the_meta_device_is_filled_from_a_file(name):
    """Its shapes exist before its values."""
    torch.manual_seed(0)
    whole = HEADS[name][0](H)
    with torch.device("meta"):
        empty = HEADS[name][0](H)
    assert {t.device.type for t in empty.state_dict().values()} == {"meta"}
    empty.load_state_dict(whole.state_dict(), assign=True)
    psi = torch.randn(N, H)
    for theirs, ours in zip(whole.message(psi), empty.message(psi), strict=True):
        torch.testing.assert_close(theirs, ours, rtol=0, atol=0)


def test_a_method_of_your_own():
    psi, y = torch.randn(N, H), torch.randn(N)
    mine = scroll.Objective(prior=minus_kl)
    torch.manual_seed(0)
    head = RegressionHead(H, method=mine)
    torch.manual_seed(0)
    twin = RegressionHead(H, method="kl")
    torch.testing.assert_close(head.loss(psi, y, total=N), twin.loss(psi, y, total=N))
    bound = RegressionHead(H, method=scroll.Objective(conjugate)).condition(psi, y)
    assert bound(psi).log_prob(y).isfinite().all()


def test_total_may_be_any_integer():
    head, psi, y = example("regression")
    want = head.loss(psi, y, total=N)
    for total in (np.int64(N), torch.tensor(N)):
        torch.testing.assert_close(head.loss(psi, y, total=total), want)


def test_repr_of_heads():
    assert "in_features=5, covariance='diag', method='kl'" in repr(make_head("kl-diag", H))
    own = RegressionHead(np.int64(H), method=scroll.Objective(conjugate_diag))
    assert "covariance='diag'" in repr(own)


def test_a_stack_of_heads_takes_its_own_shapes():
    head = RegressionHead(H, replicates=(3,))
    with pytest.raises(ValueError, match=r"`psi` must have shape \(3, N, 5\), but got \(24, 5\)"):
        head(torch.randn(N, H))


def test_low_rank_reaches_what_full_can():
    """At full rank the family is the full one: both find the same optimum of the same loss."""
    g = torch.Generator().manual_seed(0)
    psi = torch.randn(400, 2, generator=g)
    y = (0.2 + psi.sum(-1).abs()) * torch.randn(400, generator=g)
    reached = []
    for covariance in ("full", "lowrank"):
        head = RegressionHead(2, covariance=covariance, rank=2, bias=False)
        lbfgs = torch.optim.LBFGS(head.parameters(), max_iter=300, line_search_fn="strong_wolfe")

        def closure(head=head, lbfgs=lbfgs):
            lbfgs.zero_grad()
            loss = head.loss(psi, y, total=400)
            loss.backward()
            return loss

        lbfgs.step(closure)
        reached.append(head.loss(psi, y, total=400).item())
    assert reached[0] == pytest.approx(reached[1], abs=1e-4)


def test_a_head_in_half_precision_is_refused():
    head = RegressionHead(3).bfloat16()
    with pytest.raises(ValueError, match=r"`head` must be in float32 .*bfloat16. .*head.float\(\)"):
        head.loss(torch.randn(5, 3), torch.randn(5), total=5)


OTHER_HEADS = {
    "covariance": (RegressionHead(4, covariance="diag"), r"no tensor family\.log_var"),
    "size": (RegressionHead(5), r"family\.lower is \(1, 4, 4\), declared as \(1, 5, 5\)"),
    "replicates": (RegressionHead(4, replicates=(2,)), r"bias is \(1,\), declared as \(2, 1\)"),
    "likelihood": (CountHead(4), r"an unknown tensor likelihood\.log_noise"),
    "method": (RegressionHead(4, method="closed"), r"no tensor conditioned"),
}


@pytest.mark.parametrize("what", OTHER_HEADS)
def test_the_state_of_another_head_is_refused_before_loading(what):
    head, said = OTHER_HEADS[what]
    before = {name: value.clone() for name, value in head.state_dict().items()}
    other = RegressionHead(4)
    with torch.no_grad():
        for p in other.parameters():
            p += 1
    with pytest.raises(
        RuntimeError, match=rf"`state_dict` must come from .*{said}.*as it was"
    ) as e:
        head.load_state_dict(other.state_dict())
    assert "\n" not in str(e.value)
    torch.testing.assert_close(dict(head.state_dict()), before)


def test_a_part_of_a_state_may_be_loaded():
    head, other = RegressionHead(4), RegressionHead(4, covariance="diag")
    with torch.no_grad():
        other.bias += 3
    head.load_state_dict(other.state_dict(), strict=False)
    assert head.bias.tolist() == [3]
