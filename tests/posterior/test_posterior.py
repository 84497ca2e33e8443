"""The posterior on trained features against scikit-learn, N refits and itself."""

import weakref
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.linear_model import BayesianRidge
from torch.utils.data import DataLoader, TensorDataset

from parts import HEADS
from scroll import ClassificationHead, Posterior, RegressionHead, refit
from scroll.heads.likelihoods import CountLikelihood
from scroll.posterior.evidence import maximise_evidence

N, H = 60, 5


def data(n=N, h=H, noise=0.4):
    psi, w = torch.randn(n, h), torch.randn(h)
    return psi, psi @ w + noise * torch.randn(n)


def head(**kwargs):
    return RegressionHead(H, bias=False, **kwargs)


def flat_ridge(psi, y):
    """scikit-learn's evidence maximum, with flat hyperpriors."""
    flat = {"alpha_1": 0, "alpha_2": 0, "lambda_1": 0, "lambda_2": 0}
    model = BayesianRidge(fit_intercept=False, tol=1e-14, max_iter=20_000, **flat)
    return model.fit(psi.numpy(), y.numpy())


@pytest.mark.parametrize("noise", [1e-3, 0.4, 5.0])
def test_evidence_is_scikit_learns(noise):
    psi, y = data(noise=noise)
    bound, theirs = refit(head(), psi, y), flat_ridge(psi, y)
    # sklearn stops its fixed point when the weights stand still to 1e-14, not the precisions
    assert bound.alpha.item() == pytest.approx(theirs.lambda_, rel=1e-6)
    assert bound.noise.item() == pytest.approx(theirs.alpha_**-0.5, rel=1e-6)
    np.testing.assert_allclose(bound.weights.mean[0], theirs.coef_, rtol=1e-7)
    np.testing.assert_allclose(bound.weights.cov.dense()[0], theirs.sigma_, rtol=1e-5)
    mean, std = theirs.predict(psi.numpy(), return_std=True)
    p = bound(psi)
    np.testing.assert_allclose(p.mean.detach(), mean, rtol=1e-7)
    np.testing.assert_allclose(p.stddev.detach(), std, rtol=1e-6)


def test_the_evidence_found_is_a_maximum_over_both():
    psi, y = data()
    bound = refit(head(), psi, y)
    values = torch.linalg.eigvalsh(psi.mT @ psi)

    def log_evidence(alpha, noise):
        cov = psi @ psi.mT / alpha + noise**2 * torch.eye(N)
        return torch.distributions.MultivariateNormal(torch.zeros(N), cov).log_prob(y)

    best = log_evidence(bound.alpha, bound.noise)
    for a in (0.99, 1.0, 1.01):
        for b in (0.99, 1.0, 1.01):
            assert log_evidence(a * bound.alpha, b * bound.noise) <= best + 1e-12
    assert values.min() > 0


@pytest.mark.parametrize(("rows", "seed"), [(100, 0), (100, 4), (100, 6), (100, 11), (200, 8)])
def test_the_evidence_found_is_the_greatest_where_features_outnumber_rows(rows, seed):
    torch.manual_seed(seed)
    psi = torch.randn(700, 400) @ torch.diag(20 / torch.arange(1, 401)) + 1
    y = psi @ torch.randn(400)
    y = y / y.std() + 0.3 * torch.randn(700)
    psi, y = psi[:rows], y[:rows]
    bound = refit(RegressionHead(400), psi, y)
    gram, centred = (psi @ psi.mT + 1).numpy(), (y - y.mean()).numpy()

    def minus(logs):  # of the rows' own covariance, so that nothing is a small difference
        a, b = np.exp(logs)
        cov = gram / a + b**2 * np.eye(rows)
        return -multivariate_normal(np.zeros(rows), cov, allow_singular=True).logpdf(centred)

    starts = [(np.log(rows), np.log(s)) for s in (1e-3, 0.1, 1.0)]
    theirs = min(minimize(minus, start, method="Nelder-Mead").fun for start in starts)
    ours = minus([float(bound.alpha.log()), float(bound.noise.log())])
    assert ours < theirs + 1e-6
    assert bound.noise.item() > 0.05


def test_pure_noise_shuts_the_weights_off_and_no_noise_leaves_them():
    psi = torch.randn(400, 3)
    quiet = refit(RegressionHead(3, bias=False), psi, psi @ torch.tensor([1.0, -2.0, 0.5]))
    assert quiet.noise.item() < 1e-6
    torch.testing.assert_close(quiet.weights.mean[0], torch.tensor([1.0, -2.0, 0.5]))
    y = torch.randn(400)
    y -= psi @ torch.linalg.lstsq(psi, y).solution  # nothing of it along psi
    loud = refit(RegressionHead(3, bias=False), psi, y)
    assert loud.weights.mean.abs().max() < 1e-6
    assert loud.noise.item() == pytest.approx(y.square().mean().sqrt().item(), rel=1e-6)


def test_streaming_is_one_batch():
    psi, y = data()
    everything = refit(head(), psi, y)
    loader = DataLoader(TensorDataset(psi, y), batch_size=7)
    batches = refit(head(), loader)
    pairs = refit(head(), ((psi[i : i + 9], y[i : i + 9]) for i in range(0, N, 9)))
    for other in (batches, pairs):
        torch.testing.assert_close(other.weights.mean, everything.weights.mean, rtol=1e-9, atol=0)
        torch.testing.assert_close(other.noise, everything.noise, rtol=1e-9, atol=0)


def test_a_stream_is_never_held():
    """Of forty batches, some of them without a row, two are there at once: the last and the next."""
    live, most = weakref.WeakSet(), []

    def stream():
        for i in range(40):
            psi = torch.randn(5 if i % 7 else 0, H)
            live.add(psi)
            most.append(len(live))
            yield psi, torch.randn(len(psi))

    assert int(refit(head(), stream()).statistics.count) == 5 * 34
    assert max(most) == 2
    assert not live


def test_update_is_refitting_on_everything():
    psi, y = data()
    everything = refit(head(), psi, y)
    grown = refit(head(), psi[:20], y[:20])
    for i in range(20, N, 8):
        grown = grown.update(psi[i : i + 8], y[i : i + 8])
    for name in ("alpha", "noise"):
        torch.testing.assert_close(
            getattr(grown, name), getattr(everything, name), rtol=1e-9, atol=0
        )
    torch.testing.assert_close(grown.weights.mean, everything.weights.mean, rtol=1e-9, atol=0)
    torch.testing.assert_close(grown(psi).variance, everything(psi).variance, rtol=1e-9, atol=0)


def numbers(bound):
    """Copies of all tensors that a posterior holds."""
    sums, weights = bound.statistics, bound.weights
    found = [sums.gram, sums.cross, sums.square, sums.count, bound.alpha, bound.noise]
    found += [weights.mean, weights.cov.basis, weights.cov.var, bound.shift, bound.offset]
    found += [] if bound.added is None else [bound.added.noise, bound.added.cov.dense()]
    return [x.clone() for x in found]


CHANGES = {
    "update": lambda bound, psi, y: bound.update(psi, y),
    "update with weights": lambda bound, psi, y: bound.update(psi, y, torch.rand(N) + 0.1),
    "absorb": lambda bound, psi, y: bound.absorb(refit(bound.head, psi, y).statistics),
    "add": lambda bound, psi, y: bound.add(psi, y, steps=3, validation=(psi, y)),
    "keep": lambda bound, psi, y: bound.keep(),
    "to": lambda bound, psi, y: bound.to("cpu"),
    "meta": lambda bound, psi, y: bound.to("meta"),
}


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_posterior_is_a_value(change, hybrid):
    """Every change makes a new one; the old one stays as it was."""
    own = RegressionHead(H)
    bound = refit(own, *data(), **({"hybrid": True, "steps": 3} if hybrid else {}))
    (psi, y), before, mean = data(), numbers(bound), bound(torch.ones(2, H)).mean
    fields = dict(vars(bound))
    new = CHANGES[change](bound, psi, y)
    assert isinstance(new, Posterior)
    assert new is not bound
    assert all(x is fields[name] for name, x in vars(bound).items())
    torch.testing.assert_close(numbers(bound), before, rtol=0, atol=0)
    torch.testing.assert_close(bound(torch.ones(2, H)).mean, mean, rtol=0, atol=0)
    assert bound.head is own
    assert own.log_alpha.device.type == "cpu"
    with pytest.raises(FrozenInstanceError):
        bound.alpha = bound.noise


def test_kept_hyperparameters_do_not_follow_further_data():
    (psi, y), more = data(), data(noise=3.0)
    bound = refit(head(), psi, y)
    kept = bound.keep().update(*more)
    torch.testing.assert_close(kept.noise, bound.noise, rtol=0, atol=0)
    torch.testing.assert_close(kept.alpha, bound.alpha, rtol=0, atol=0)
    assert bound.update(*more).noise > 1.5 * bound.noise


def test_predictions_do_not_follow_a_bias_that_is_trained_later():
    psi, y = data()
    own = RegressionHead(H)
    bound = refit(own, psi, y)
    before = bound(psi).mean
    torch.nn.init.constant_(own.bias, 3.0)
    torch.testing.assert_close(bound(psi).mean, before, rtol=0, atol=0)


def test_sums_are_kept_in_float64_whatever_comes_in():
    """In float32, features of 100 +- 1 would leave nothing of a noise of 0.01."""
    torch.set_default_dtype(torch.float32)
    psi = 100 + torch.randn(5000, 2)
    y = psi @ torch.tensor([1.0, -1.0]) + 0.01 * torch.randn(5000)
    bound = refit(RegressionHead(2, bias=False), psi, y)
    assert bound.weights.mean.dtype == torch.float64
    assert bound(psi).mean.dtype == torch.float32
    want = flat_ridge(psi.double(), y.double())
    assert bound.noise.item() == pytest.approx(want.alpha_**-0.5, rel=1e-4)


def test_leverage_is_the_hat_matrix():
    psi, y = data()
    bound = refit(head(), psi, y)
    ridge = (bound.alpha * bound.noise.square()).item()
    x = psi.numpy()
    hat = x @ np.linalg.solve(x.T @ x + ridge * np.eye(H), x.T)
    np.testing.assert_allclose(bound.leverage(psi), np.diag(hat), rtol=1e-8)
    np.testing.assert_allclose(bound.ood_score(psi), np.diag(hat), rtol=1e-8)
    np.testing.assert_allclose(
        bound.epistemic(psi), np.diag(hat) * bound.noise.item() ** 2, rtol=1e-8
    )
    far = bound.ood_score(20 * psi)
    assert (far > bound.ood_score(psi).max()).float().mean() > 0.9


def test_the_heads_own_hyperparameters_can_be_kept():
    psi, y = data()
    own = head(alpha=3.0, noise=0.5)
    bound = refit(own, psi, y, hyper="head")
    closed = RegressionHead(H, method="closed", alpha=3.0, noise=0.5, bias=False)
    closed.condition(psi, y)
    torch.testing.assert_close(bound(psi).mean, closed(psi).mean)
    torch.testing.assert_close(bound(psi).variance, closed(psi).variance)


def test_weights_are_drawn_from_the_posterior():
    psi, y = data()
    bound = refit(head(), psi, y)
    g = torch.Generator().manual_seed(0)
    functions = bound.sample_weights(100_000, g)
    w, _ = functions
    assert w.shape == (100_000, 1, H)
    # a sample covariance of n draws is off by about S/sqrt(n), n = 100,000
    s = bound.weights.cov.dense()[0]
    torch.testing.assert_close(w.mean(0), bound.weights.mean, rtol=0.02, atol=0.01)
    torch.testing.assert_close(w[:, 0].T.cov(), s, rtol=0, atol=0.02 * s.max().item())
    assert functions(psi).shape == (100_000, N)
    torch.testing.assert_close(functions(psi)[0], psi @ w[0, 0])
    # the functions' spread is the epistemic variance, known from n draws to 1 part in 200
    torch.testing.assert_close(functions(psi).var(0), bound.epistemic(psi), rtol=0.03, atol=0)


def test_a_bias_is_taken_off_and_put_back():
    psi, y = data()
    own = RegressionHead(H)
    torch.nn.init.constant_(own.bias, 10.0)
    other = RegressionHead(H)
    torch.nn.init.constant_(other.bias, 1.0)
    shifted, plain = refit(own, psi, y + 10), refit(other, psi, y + 1)
    torch.testing.assert_close(shifted.weights.mean, plain.weights.mean, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(shifted(psi).mean, plain(psi).mean + 9)
    draws = shifted.sample_weights(20_000, torch.Generator().manual_seed(0))(psi)
    # the mean of 20,000 draws is known to their sd/141
    error = (draws.mean(0) - shifted(psi).mean).abs() / shifted.epistemic(psi).sqrt()
    assert error.max() < 5 / 141


def test_a_bias_is_one_more_feature():
    psi, y = data()
    with_one = torch.cat([psi, torch.ones(N, 1)], -1)
    own = RegressionHead(H)
    torch.nn.init.constant_(own.bias, 1.0)
    bound, theirs = refit(own, psi, y + 3), flat_ridge(with_one, y + 2)
    assert bound.weights.mean.shape == (1, H + 1)
    np.testing.assert_allclose(bound.weights.mean[0].detach(), theirs.coef_, rtol=1e-6)


@pytest.mark.parametrize("far", [0.0, 1000.0])
def test_the_mean_of_the_targets_stands_in_for_an_untrained_bias(far):
    psi, y = data()
    with_one = torch.cat([psi, torch.ones(N, 1)], -1)
    bound, theirs = refit(RegressionHead(H), psi, y + far), flat_ridge(with_one, y - y.mean())
    np.testing.assert_allclose(bound.weights.mean[0].detach(), theirs.coef_, rtol=1e-5, atol=1e-7)
    grown = refit(RegressionHead(H), psi[:9], y[:9] + far).update(psi[9:], y[9:] + far)
    for one in (bound, grown):
        want = with_one @ torch.as_tensor(theirs.coef_) + y.mean() + far
        torch.testing.assert_close(one(psi).mean, want, rtol=1e-6, atol=1e-6)
        draws = one.sample_weights(20_000, torch.Generator().manual_seed(0))(psi)
        error = (draws.mean(0) - want).abs() / one.epistemic(psi).sqrt()
        assert error.max() < 5 / 141
    hybrid = bound.add(psi, y + far, steps=50)
    assert (hybrid(psi).mean - want).abs().max() < 1e-6
    assert hybrid(psi).stddev.max() < 3 * y.std()


@pytest.mark.parametrize("kind", ["ova", "gaussreg"])
def test_a_class_that_no_row_has_is_rare_and_not_impossible(kind):
    psi, y = torch.randn(200, H), torch.arange(200) % 2
    psi[:, 0] += 2.0 * y
    three, two = (refit(ClassificationHead(H, k, kind), psi, y) for k in (3, 2))
    p = three(psi).probs
    assert 0.003 < p[:, 2].mean() < 0.01  # of 1 / 202, and what the weights are not sure of
    torch.testing.assert_close(p[:, :2].argmax(-1), two(psi).probs.argmax(-1))


@pytest.mark.parametrize("name", ["probit", "ova", "gaussreg", "ordinal", "poisson"])
def test_labels_that_are_all_alike_leave_a_noise(name):
    """As those of a small fold may be."""
    psi, (make, _) = torch.randn(200, H), HEADS[name]
    bound = refit(make(H), psi, torch.ones(200).long())
    assert bound.noise.min() > 0.1
    assert 0 < bound.leverage(psi).mean() < 1


@pytest.mark.parametrize("name", ["probit", "logit", "ova", "gaussreg"])
def test_classes_that_are_rare_stay_rare(name):
    g = torch.Generator().manual_seed(0)
    psi = torch.randn(2000, H, generator=g)
    y = (torch.rand(2000, generator=g) < 0.05).long()
    p = refit(HEADS[name][0](H), psi, y)(psi).probs[:, 1]
    assert p.mean() < 0.1


@pytest.mark.parametrize("name", [n for n in HEADS if n != "any"])
def test_every_head_has_a_refit(name):
    make, labels = HEADS[name]
    own, psi, y = make(H), torch.randn(N, H), labels(N)
    bound = refit(own, psi, y)
    outputs = own.likelihood.latents
    assert bound.ood_score(psi).shape == (N,)
    assert bound.leverage(psi).shape == ((N,) if outputs == 1 else (N, outputs))
    drawn = bound.sample_weights(2)
    assert drawn.weight.shape == (2, outputs, H)
    assert drawn(psi).shape == ((2, N) if outputs == 1 else (2, N, outputs))
    # the effective number of parameters of each output
    total = bound.leverage(psi).sum(0)
    assert ((total > 0) & (total <= H + 1)).all()
    if name in ("ordinal", "censored", *CountLikelihood.kinds):
        with pytest.raises(TypeError, match=r"`head` must regress on a real target.*head\(psi\)"):
            bound(psi)
    else:
        assert bound(psi).log_prob(y).isfinite().all()


def test_replicates_are_refitted_each_on_its_own():
    psi, y = torch.randn(3, N, H), torch.randn(3, N)
    stack = refit(RegressionHead(H, replicates=(3,), bias=False), psi, y)
    for r in range(3):
        one = refit(head(), psi[r], y[r])
        torch.testing.assert_close(stack.weights.mean[r], one.weights.mean, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(stack.alpha[r], one.alpha, rtol=1e-8, atol=0)
        torch.testing.assert_close(stack.leverage(psi)[r], one.leverage(psi[r]))


def heteroscedastic(n, g):
    psi = torch.randn(n, H, generator=g)
    std = (0.1 + psi[:, 0] ** 2).sqrt()
    return psi, psi @ torch.linspace(-1, 1, H) + std * torch.randn(n, generator=g), std


@pytest.mark.parametrize("added", ["diag", "full", "lowrank"])
def test_a_hybrid_keeps_the_mean_and_learns_the_variance(added):
    g = torch.Generator().manual_seed(0)
    psi, y, _ = heteroscedastic(800, g)
    test, target, std = heteroscedastic(4000, g)
    closed, both = refit(head(), psi, y), refit(head(), psi, y, hybrid=True, added=added)
    torch.testing.assert_close(both(test).mean, closed(test).mean)
    oracle = torch.distributions.Normal(closed(test).mean, std).log_prob(target).mean()
    score = lambda bound: bound(test).log_prob(target).mean()
    assert score(closed) < oracle - 0.15
    assert score(both) > oracle - 0.03
    assert np.corrcoef(both(test).variance.detach(), std**2)[0, 1] > 0.98
    torch.testing.assert_close(both.ood_score(test), closed.ood_score(test))


def test_a_hybrid_is_free_of_units():
    """y -> a y, psi -> c psi: the same fit in other units."""
    g = torch.Generator().manual_seed(0)
    psi, y, _ = heteroscedastic(300, g)
    base = refit(head(), psi, y, hybrid=True, steps=100)
    other = refit(head(), 1e-3 * psi, 1e4 * y, hybrid=True, steps=100)
    torch.testing.assert_close(other(1e-3 * psi).mean / 1e4, base(psi).mean, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(other(1e-3 * psi).stddev / 1e4, base(psi).stddev, rtol=1e-6, atol=0)


def test_a_hybrid_of_batches_and_with_validation():
    g = torch.Generator().manual_seed(0)
    psi, y, _ = heteroscedastic(400, g)
    held = heteroscedastic(200, g)[:2]
    loader = DataLoader(TensorDataset(psi, y), batch_size=100)
    closed = refit(head(), psi, y)
    both = refit(head(), loader, hybrid=True, validation=held, steps=300)
    score = lambda bound: bound(held[0]).log_prob(held[1]).mean()
    assert score(both) > score(closed) + 0.1
    never = refit(head(), psi, y, hybrid=True, validation=held, steps=301, lr=1e-9)
    assert score(both) > score(never)
    assert not both.added.noise.requires_grad
    assert both.update(*held)(psi).variance.isfinite().all()


@pytest.mark.parametrize("batches", [1, 2])
def test_a_row_of_a_hybrid_counts_as_often_as_it_weighs(batches):
    psi, y = data()
    w = torch.arange(N) % 3
    each = torch.arange(N).repeat_interleave(w)
    split = N // batches
    weighed = [*zip(psi.split(split), y.split(split), w.double().split(split), strict=True)]
    nothing = psi[:0], y[:0], w[:0].double()
    again = [(psi[rows], y[rows]) for rows in (each[(each // split) == i] for i in range(batches))]
    ours, theirs = (
        refit(head(), rows, hybrid=True, steps=60) for rows in ([*weighed, nothing], again)
    )
    torch.testing.assert_close(ours(psi).stddev, theirs(psi).stddev, rtol=1e-8, atol=0)
    torch.testing.assert_close(ours.added.noise, theirs.added.noise, rtol=1e-8, atol=0)


def test_hybrid_replicates_keep_each_its_own_best():
    g = torch.Generator().manual_seed(0)
    psi = torch.randn(2, 200, H, generator=g)
    std = torch.stack([0.1 + psi[0, :, 0].abs(), torch.ones(200)])
    y = psi.sum(-1) + std * torch.randn(2, 200, generator=g)
    train, held = (psi[:, :120], y[:, :120]), (psi[:, 120:], y[:, 120:])
    stack = refit(
        RegressionHead(H, replicates=(2,), bias=False), *train, hybrid=True, validation=held
    )
    for r in range(2):
        one = refit(
            head(), psi[r, :120], y[r, :120], hybrid=True, validation=(held[0][r], held[1][r])
        )
        torch.testing.assert_close(stack.added.noise[r], one.added.noise, rtol=1e-8, atol=0)
        torch.testing.assert_close(stack(psi).variance[r], one(psi[r]).variance, rtol=1e-8, atol=0)


REFUSED = {
    "no targets": (lambda: refit(head(), torch.randn(N, H)), r"`y` must be given with a tensor of features, but got None"),
    "targets twice": (lambda: refit(head(), [data()], torch.randn(N)), r"`y` must be None when `features` gives pairs"),
    "not pairs": (lambda: refit(head(), [torch.randn(N, H)]), r"`features` must give pairs \(psi, y\), but got Tensor"),
    "nothing": (lambda: refit(head(), []), r"`features` must give at least one batch, but got none"),
    "numpy": (lambda: refit(head(), np.zeros((N, H)), np.zeros(N)), r"`features` must be a torch.Tensor, but got ndarray"),
    "not a head": (lambda: refit(torch.nn.Linear(H, 1), *data()), r"`head` must be a scroll head, but got Linear"),
    "only zeros": (lambda: refit(head(), torch.zeros(N, H), torch.randn(N)), r"`psi` must not be zero in every row"),
    "no spread": (lambda: refit(head(), torch.randn(N, H), torch.zeros(N)), r"`y` must differ from row to row"),
    "constant": (lambda: refit(RegressionHead(H), torch.randn(N, H), torch.full((N,), 3.0)), r"`y` must differ from row to row"),
    "no hybrid": (lambda: refit(head(), *data(), validation=data()), r"`validation` must be None unless `hybrid`"),
    "steps": (lambda: refit(head(), *data(), hybrid=True, steps=-1), r"`steps` must be a positive integer, but got -1"),
    "no draws": (lambda: refit(head(), *data()).sample_weights(-1), r"`n` must be a positive integer, but got -1"),
    "other features": (lambda: refit(head(), *data()).sample_weights(2)(torch.randn(3, H + 1)), r"`psi` must have shape \(..., N, "),
    "no rows": (lambda: refit(head(), 5), r"`features` must be a tensor or an iterable of pairs \(psi, y\), but got 5"),
    "infinite weight": (lambda: refit(head(), [(*data(), torch.full((N,), torch.inf))]), r"`weight` must be finite"),
    "steps without hybrid": (lambda: refit(head(), *data(), steps=3), r"`hybrid` must be True with `added`, `steps` or `lr`, but got False"),
    "validation": (lambda: refit(head(), *data(), hybrid=True, validation=torch.zeros(3)), r"`validation` must give pairs"),
    "read once": (lambda: refit(head(), iter([data()]), hybrid=True), r"`features` must be readable more than once for a hybrid"),
    "NaN": (lambda: refit(head(), torch.full((N, H), torch.nan), torch.randn(N)), r"`psi` must be finite"),
    "width": (lambda: refit(head(), *data(h=3)), r"`psi` must have shape \(N, 5\)"),
    "hyper": (lambda: refit(head(), *data(), hyper="best"), r"`hyper` must be one of 'evidence', 'head', but got 'best'"),
    "added": (lambda: refit(head(), *data(), hybrid=True, added="none"), r"`added` must be one of 'diag', 'full', 'lowrank'"),
    "a user's factor": (lambda: refit(HEADS["any"][0](H), *data()), r"`head` must have a likelihood for numbers"),
    "a probit's noise": (lambda: refit(HEADS["probit"][0](H), torch.randn(N, H), torch.ones(N).long(), hyper="head"), r"`hyper` must be 'evidence' for a likelihood that has no Gaussian noise"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input(case):
    attempt, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=message):
        attempt()


def test_fewer_rows_than_features():
    psi, y = data(n=3)
    bound = refit(head(), psi, y)
    assert bound(psi).log_prob(y).isfinite().all()
    assert (bound.leverage(psi) < 1).all()


def test_evidence_maximiser_broadcasts():
    values, along = torch.rand(2, 1, H) + 0.1, torch.randn(2, 3, H)
    square, count = 10 + along.square().sum(-1), torch.tensor(50.0)
    alpha, noise = maximise_evidence(values, along, square, count)
    assert alpha.shape == noise.shape == (2, 3)
    one = maximise_evidence(values[1], along[1, [2]], square[1, [2]], count)
    torch.testing.assert_close(alpha[1, [2]], one[0])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_hybrid_is_trained_also_where_gradients_are_off(mode):
    psi, y = data()
    torch.manual_seed(0)
    want = refit(head(), psi, y, hybrid=True, steps=20).update(psi, y).add(psi, y, steps=20)(psi)
    torch.manual_seed(0)
    with mode():
        bound = refit(head(), psi, y, hybrid=True, steps=20).update(psi, y)
        found = bound.add(psi * 1, y * 1, steps=20)(psi)
    torch.testing.assert_close(found.variance, want.variance.detach(), rtol=1e-9, atol=0)
