"""Censored targets of a table: learned as bounds, scored as bounds."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import norm

import scroll
from scroll import ScrollRegressor
from scroll.predictive import metrics

QUICK = {"n_members": 2, "max_steps": 200, "random_state": 0}


@pytest.fixture(autouse=True)
def _single(_float64_and_seed):
    torch.set_default_dtype(torch.float32)  # as users have it


def lifetimes(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    t = np.exp(1 + 0.8 * x[:, 0] - 0.4 * x[:, 1] + 0.5 * rng.normal(size=n))
    limit = rng.exponential(6, size=n)
    return x, np.minimum(t, limit), (t > limit).astype(int), t


@pytest.fixture(scope="module")
def fitted():
    x, y, runs, _ = lifetimes()
    how = {"body": "linear", "covariance": "none", "target": "log", "random_state": 0}
    return ScrollRegressor(**how).fit(x, y, censored=runs)


def test_a_line_is_the_maximum_likelihood_fit_of_scipy(fitted):
    x, y, runs, _ = lifetimes()

    def nll(at):
        z = (np.log(y) - at[0] - x @ at[1:3]) / np.exp(at[3])
        exact = norm.logpdf(z) - at[3]
        return -np.where(runs, norm.logsf(z), exact).sum()

    best = minimize(nll, np.array([1.0, 0, 0, 0])).x
    new = lifetimes(seed=1)[0]
    median = np.log(fitted.predict_quantiles(new, 0.5))
    assert np.abs(median - best[0] - new @ best[1:3]).max() < 0.15
    spread = np.log(fitted.predict_quantiles(new, 0.84)) - median
    assert np.median(spread) == pytest.approx(np.exp(best[3]), rel=0.1)


def test_ignoring_the_bounds_would_be_far_off(fitted):
    x, y, _, _ = lifetimes()
    *_, truth = lifetimes(seed=1)
    new = lifetimes(seed=1)[0]
    naive = ScrollRegressor(body="linear", covariance="none", target="log", **QUICK).fit(x, y)
    error = lambda model: abs(np.log(model.predict_quantiles(new, 0.5) / truth).mean())
    assert error(fitted) < 0.5 * error(naive)


def test_survival_score_and_out_of_fold_rows(fitted):
    x, y, runs, _ = lifetimes(seed=1)
    p = fitted.predict_dist(x)
    found = fitted.predict_survival(x, [1.0, 5.0])
    assert found.shape == (400, 2)
    want = 1 - p.cdf(torch.tensor(5.0, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(found[:, 1], want, atol=1e-12)
    c = fitted.score(x, y, censored=runs)
    flags = torch.from_numpy(runs)
    median = torch.from_numpy(fitted.predict_quantiles(x, 0.5))
    assert c == float(metrics.concordance(median, torch.from_numpy(y), flags))
    assert c > 0.75
    assert set(fitted.oof_scores()) == {"nll"}
    low = torch.from_numpy(y)
    new = metrics.censored_nll(p, low, torch.where(flags > 0, torch.inf, low))
    assert fitted.oof_scores()["nll"] == pytest.approx(float(new), abs=0.2)


def test_intervals_left_censored_rows_and_files(tmp_path):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(150, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=150)
    pairs = np.stack([np.floor(2 * y) / 2, np.ceil(2 * y) / 2], 1)
    model = ScrollRegressor(body=(8,), **QUICK).fit(x, pairs, censored="interval")
    assert np.corrcoef(model.predict(x), y)[0, 1] > 0.9
    model.save(tmp_path / "m.scroll")
    again = scroll.load(tmp_path / "m.scroll")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    low = np.maximum(y, -0.5)
    left = ScrollRegressor(body=(8,), **QUICK).fit(x, low, censored=-(y < -0.5).astype(int))
    assert left.predict(x).min() < -0.7


@pytest.mark.parametrize(
    ("how", "censored", "words"),
    [
        ({"likelihood": "poisson"}, [0] * 40, "`likelihood` must be 'gaussian' for censored"),
        ({"tails": "student"}, [0] * 40, "`tails` must be 'auto' for censored targets"),
        ({"routing": "closed"}, [0] * 40, "`routing` must be 'auto' for censored targets"),
        ({}, [2] * 40, r"`censored` must be -1 .*, but got 2 in row 0"),
        ({}, "between", "`censored` must be one of 'interval'"),
    ],
)
def test_what_does_not_go_with_censored_targets(how, censored, words):
    x, y, *_ = lifetimes(40)
    with pytest.raises(ValueError, match=words):
        ScrollRegressor(**how).fit(x, np.round(y), censored=censored)


def test_an_eval_set_of_pairs_decides():
    (x, y, runs, _), (later, z, ends, _) = lifetimes(100), lifetimes(60, 1)
    pairs = np.stack([z, np.where(ends, np.inf, z)], 1)
    model = ScrollRegressor(body=(8,), **QUICK).fit(x, y, censored=runs, eval_set=(later, pairs))
    assert len(model.oof_["row"]) == 60


def test_one_exact_target_gives_no_scale():
    x, y, *_ = lifetimes(20)
    words = r"^`y` must have at least two rows that are exact .*, but got 1 of 20\."
    with pytest.raises(ValueError, match=words):
        ScrollRegressor(**QUICK).fit(x, y, censored=np.arange(20) > 0)


def test_few_exact_targets_do_not_give_the_scale():
    """Five equal exact targets among bounds from 1 to 30: their spread is not that of y."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 2)), rng.uniform(1, 30, 200)
    open_end = np.arange(200) >= 5
    y[:5] = 3.0
    model = ScrollRegressor(recipe="fast", **QUICK).fit(x, y, censored=open_end)
    low, high = model.predict_interval(x[100:])
    assert np.median(high - low) > 5


def test_an_eval_set_may_be_censored_altogether():
    x, y, *_ = lifetimes(60)
    held = x[:30], np.c_[y[:30], np.full(30, np.inf)]
    model = ScrollRegressor(recipe="fast", target="log", **QUICK)
    model.fit(x, y, censored=np.arange(60) % 2, eval_set=held)
    assert np.isfinite(model.oof_scores()["nll"])


def test_an_interval_beyond_the_support_of_a_map_is_open():
    """A share in (0.3, 1.5) is a share of at least 0.3."""
    x = lifetimes(80)[0]
    share = 1 / (1 + np.exp(-x[:, 0]))
    pairs, same = np.c_[share, share], np.c_[share, share]
    pairs[::4, 1], same[::4, 1] = 1.5, np.inf
    beyond, open_end = (
        ScrollRegressor(target="logit", **QUICK).fit(x, some, censored="interval")
        for some in (pairs, same)
    )
    np.testing.assert_array_equal(beyond.predict(x), open_end.predict(x))


def test_times_must_be_numbers(fitted):
    with pytest.raises(ValueError, match=r"^`times` must not be NaN"):
        fitted.predict_survival(lifetimes(5)[0], [1.0, np.nan])


def test_an_interval_from_zero_fits_on_the_log_scale():
    x, y, *_ = lifetimes(80)
    whole = np.c_[np.floor(y), np.floor(y) + 1]
    model = ScrollRegressor(target="log", **QUICK).fit(x, whole, censored="interval")
    assert (model.predict_quantiles(x, 0.001) > 0).all()
    assert (model.target_, model.tails_) == ("log", "gaussian")


def test_one_column_is_no_interval():
    x, y, *_ = lifetimes(20)
    with pytest.raises(ValueError, match=r"^`y` must have two columns, low and high, but got one"):
        ScrollRegressor().fit(x, y, censored="interval")


def test_the_score_of_intervals_is_refused(fitted):
    x, y, *_ = lifetimes(20)
    with pytest.raises(ValueError, match=r"^`censored` must be 0 or 1 per row, but got interval"):
        fitted.score(x, np.c_[y, y], censored="interval")
