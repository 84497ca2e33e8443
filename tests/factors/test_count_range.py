"""Counts stay finite: extreme features, huge counts, few rows."""

import numpy as np
import pytest
import torch

import scroll
from scroll import CountHead, ScrollRegressor
from scroll._core.checks import LARGEST_COUNT
from scroll.factors import Moments, NegativeBinomial, Poisson
from scroll.factors.confined import concentration, confined, inflation
from scroll.heads.likelihoods import CountLikelihood
from scroll.predictive import Count, counts
from scroll.tables.outliers import OutlyingTarget
from sweeps import cases, exhaustive

KINDS = CountLikelihood.kinds
H = 5


def finite(p, y):
    """Everything that a predictive gives is finite, and its parts agree."""
    low, high = p.interval(0.9)
    draws = p.sample(20, torch.Generator().manual_seed(0))
    for found in (p.mean, p.variance, p.stddev, low, high, draws, p.log_prob(y), p.cdf(y)):
        assert found.isfinite().all()
    assert (low <= high).all()
    slack = 1e-9 if low.dtype == torch.float64 else 0.02  # float32 rounds a large end
    assert (p.cdf(high) >= 0.95 - slack).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1.0, 100.0, 1e4])
def test_hostile_features_leave_numbers(size, kind, dtype):
    """Losses, gradients, weights after a few steps and predictives, for counts from 0 to 1e12."""
    torch.set_default_dtype(dtype)
    for n in (1, 3, 12):
        y = torch.tensor([0.0, 1.0, 7.0, 1e3, 1e6, LARGEST_COUNT] * 2)[:n]
        for method in ("scroll", "elbo"):
            head = CountHead(H, kind, method=method)
            psi = size * torch.randn(n, H)
            adam = torch.optim.Adam(head.parameters(), lr=0.05)
            for _ in range(5):
                adam.zero_grad()
                loss = head.loss(psi, y, total=n)
                loss.backward()
                assert loss.isfinite()
                assert all(p.grad.isfinite().all() for p in head.parameters())
                adam.step()
            with torch.no_grad():
                finite(head(psi), y)
                finite(head(100 * psi), y)


def test_ordinary_messages_are_not_touched():
    mean, var = torch.meshgrid(
        torch.linspace(-20, 3, 40), torch.logspace(-12, 0, 30), indexing="ij"
    )
    for dtype in (torch.float32, torch.float64):
        at = Moments(mean.to(dtype), var.to(dtype))
        for before, after in zip(at, confined(at, 50.0), strict=True):
            assert torch.equal(before, after)
    log_r = torch.linspace(-6, 14, 101)
    assert torch.equal(concentration(log_r), log_r.exp())
    logit = torch.linspace(-12, 12, 101)
    assert torch.equal(inflation(logit), logit)


def test_confined_messages_are_smooth_and_bounded():
    """m' and m' + v'/2 are one bounded, increasing function of m and m + v/2."""
    largest = 50.0
    m = torch.linspace(-200, 200, 4001)
    mean = confined(Moments(m, torch.zeros_like(m)), largest).mean
    assert (mean.diff() > 0).all()
    assert mean.amin() > -30
    assert mean.amax() < np.log(10 * largest)
    for v in (1e-6, 0.3, 10.0, 1e8):
        at = confined(Moments(m, torch.full_like(m, v)), largest)
        assert (at.var > 0).all()
        assert (at.var < 20).all()
        assert ((at.mean + at.var / 2).exp() < 10 * largest).all()
        end = confined(Moments(m + v / 2, torch.zeros_like(m)), largest).mean
        narrow = 2 * (end - at.mean) < 16
        torch.testing.assert_close((at.mean + at.var / 2)[narrow], end[narrow])
    point = torch.tensor([-45.0, -20.0, 1.0, 3.9, 30.0], requires_grad=True)
    wide = torch.tensor([0.5, 70.0, 18.0, 0.2, 400.0], requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: confined(Moments(a, b), largest), (point, wide))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_share_of_extra_zeros_is_never_0_or_1(dtype):
    logit = torch.tensor([-torch.inf, -1e20, -50, -13, 13, 50, 1e20, torch.inf], dtype=dtype)
    pi = inflation(logit).sigmoid()
    assert ((pi > 0) & (pi < 1)).all()
    assert (inflation(logit[2:6]).diff() > 0).all()
    point = torch.tensor([-40.0, -12.5, 0.0, 12.5, 40.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(inflation, point)


def test_training_scores_the_predictive_that_it_gives():
    """Far outside the range as well as within: one distribution."""
    for kind in KINDS:
        head = CountHead(H, kind, method="no-prior", alpha=1e-300, largest=30)
        psi, y = 50 * torch.randn(20, H), torch.randint(30, (20,))
        torch.testing.assert_close(head.loss(psi, y, total=20), -head(psi).log_prob(y).mean())


def test_counts_beyond_the_range_are_refused():
    psi, y = torch.randn(3, H), torch.tensor([1.0, 2.0, 80.0])
    with pytest.raises(ValueError, match=r"`y` must hold counts up to 50, but got 80. Make .*=80"):
        CountHead(H, largest=50).loss(psi, y, total=3)
    want = r"`y` must hold counts up to 1e\+12, but got 1e\+140. Count in thousands"
    with pytest.raises(ValueError, match=want):
        CountHead(H).loss(psi, torch.tensor([1.0, 2.0, 1e140]), total=3)
    for bad in (0.5, 1e13, -1.0, float("nan")):
        with pytest.raises(ValueError, match="`largest` must"):
            CountHead(H, largest=bad)


@pytest.mark.parametrize("mean", [2.0, 12.0, 27.0])
@pytest.mark.parametrize("var", [1e-4, 4.0, 20.0])
def test_a_quantile_takes_few_evaluations(mean, var, monkeypatch):
    """At most 60, however large the counts are."""
    calls = []
    cdf = counts.count_cdf
    monkeypatch.setattr(counts, "count_cdf", lambda *a: calls.append(1) or cdf(*a))
    Count(Poisson(), torch.tensor([mean]), torch.tensor([var])).quantile(0.95)
    assert len(calls) <= 60


@pytest.mark.parametrize("kind", KINDS)
def test_one_huge_count_among_ones(kind):
    """The mean of any row stays below ten times the largest count."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), np.ones(40)
    y[17] = 1e6
    how = {"body": "smooth", "n_members": 2, "max_steps": 60, "random_state": 0}
    model = ScrollRegressor(likelihood=kind, **how)
    with pytest.warns(OutlyingTarget):
        model.fit(x, y)
    for rows in (x, 1e3 * x):
        mean, std = model.predict(rows, return_std=True)
        assert (mean < 1e7).all()
        assert np.isfinite(std).all()
        low, high = model.predict_interval(rows)
        assert high.dtype == np.int64
        assert (low <= high).all()


@pytest.mark.parametrize("n", cases((2, 5, 9), 2, 9))
@pytest.mark.parametrize("kind", KINDS)
def test_few_rows_on_a_matern_body(kind, n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(n, 2)), rng.poisson(3, n) * rng.choice([1, 10**9], n)
    how = {"body": "matern", "n_members": 2, "max_steps": 20, "random_state": 0}
    model = ScrollRegressor(likelihood=kind, **how)
    mean, std = model.fit(x, y).predict(10 * x, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.isfinite(model.predict_quantiles(10 * x, [0.01, 0.99])).all()


def test_counts_that_are_too_large_are_refused_by_the_estimator():
    x, y = np.arange(12.0)[:, None], np.ones(12)
    y[7] = 1e140
    want = r"`y` must hold counts up to 1e\+12, but got 1e\+140 in row 7. Count in thousands"
    with pytest.raises(ValueError, match=want):
        ScrollRegressor(likelihood="poisson", max_steps=5).fit(x, y)


@pytest.fixture(scope="module")
def ranged():
    """A model of counts, rows far from its data, where the range matters, and the largest count."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    y = rng.poisson(np.exp(1 + x[:, 0]))
    how = {"body": (8,), "n_members": 1, "max_steps": 60, "random_state": 0}
    model = ScrollRegressor(likelihood="poisson", **how)
    return model.fit(x, y), 200 * x, y.max()


def test_the_range_is_saved(tmp_path, ranged):
    model, far, largest = ranged
    model.save(tmp_path / "m.scroll")
    loaded = scroll.load(tmp_path / "m.scroll")
    assert loaded.model_.spec.largest == largest
    np.testing.assert_array_equal(loaded.predict(far), model.predict(far))
    assert (model.predict(far) < 10 * largest).all()


@exhaustive
def test_the_range_is_exported(tmp_path, ranged):
    model, far, _ = ranged
    onnxruntime = pytest.importorskip("onnxruntime")
    model.export_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    mean, std, quantiles = session.run(None, {"codes": far})
    want = model.predict(far, return_std=True)
    np.testing.assert_allclose(mean, want[0], rtol=1e-5)
    np.testing.assert_allclose(std, want[1], rtol=1e-5)
    found = model.predict_quantiles(far, [0.05, 0.5, 0.95])
    np.testing.assert_allclose(quantiles, found, rtol=1e-4, atol=1)


@pytest.mark.parametrize("std", [0.1, 3.0])
@pytest.mark.parametrize("factor", [Poisson(), NegativeBinomial(torch.tensor(2.0).double())])
def test_one_count_for_all_rows(factor, std):
    mean = torch.tensor([-1.0, 0.5, 2.0]).double()
    p = Count(factor, mean, torch.full((3,), std**2).double())
    torch.testing.assert_close(p.cdf(2.0), p.cdf(torch.full((3,), 2.0)), rtol=0, atol=0)
