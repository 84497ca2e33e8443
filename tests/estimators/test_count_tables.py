"""Count targets of the estimators: predictions are integers, and invalid counts are refused."""

import io
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from typer.testing import CliRunner

import scroll
from scroll import ScrollClassifier, ScrollRegressor
from scroll.cli.app import app
from scroll.heads.likelihoods import CountLikelihood
from scroll.predictive import metrics

KINDS = CountLikelihood.kinds
QUICK = {"max_steps": 150, "random_state": 0, "body": (16,), "n_members": 1}


def table(n=300, seed=0, excess=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    rate = np.exp(1 + x[:, 0])
    if excess:
        rate = rate * rng.gamma(1 / excess, excess, n)
    return x, rng.poisson(rate)


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    how = QUICK | {"n_members": 2}
    return ScrollRegressor(likelihood=request.param, **how).fit(*table())


def test_intervals_are_the_narrowest_integers_that_cover(model):
    x, y = table(100, 1)
    low, high = model.predict_interval(x, 0.9)
    assert low.dtype == high.dtype == np.int64
    p = model.predict_dist(x)
    cdf = lambda k: p.cdf(torch.from_numpy(k)).numpy()
    assert (cdf(high) - cdf(low - 1) >= 0.9).all()
    assert (cdf(high - 1) < 0.95).all()
    assert (cdf(low - 1) < 0.05).all()
    assert ((low <= y) & (y <= high)).mean() > 0.85  # 100 rows, and a short training
    found = model.predict_quantiles(x, [0.05, 0.5, 0.95])
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found[:, [0, 2]], np.stack([low, high], 1))
    np.testing.assert_array_equal(found[:, 1], model.predict_quantiles(x, 0.5))


def test_samples_are_integers_of_the_right_mean(model):
    x, _ = table(20, 1)
    mean, std = model.predict(x, return_std=True)
    draws = model.sample(x, 4000, random_state=0)
    assert draws.dtype == np.int64
    assert draws.min() >= 0
    # five standard errors
    assert (np.abs(draws.mean(0) - mean) < 5 * std / 4000**0.5).all()


def test_a_point_belief_is_scipys_poisson():
    x, y = table()
    model = ScrollRegressor(likelihood="poisson", covariance="none", **QUICK).fit(x, y)
    levels = [0.01, 0.5, 0.99]
    rate = model.predict(x)
    want = stats.poisson.ppf(np.array(levels), rate[:, None])
    np.testing.assert_array_equal(model.predict_quantiles(x, levels), want)


@pytest.mark.parametrize("kind", KINDS)
def test_the_excess_is_learned(kind):
    """A wide belief makes up for what the Poisson factor lacks."""
    later, z = table(600, 1, excess=1.0)
    fitted = ScrollRegressor(likelihood=kind, covariance="full", **QUICK | {"max_steps": 300})
    fitted.fit(*table(600, excess=1.0))
    low, high = fitted.predict_interval(later, 0.9)
    assert ((low <= z) & (z <= high)).mean() > 0.87
    true = stats.nbinom(1, 1 / (1 + np.exp(1 + later[:, 0])))
    score = float(metrics.nll(fitted.predict_dist(later), torch.from_numpy(z)))
    assert score < 0.05 - true.logpmf(z).mean()


def test_large_counts_stay_exact():
    x, y = table(100)
    large = ScrollRegressor(likelihood="poisson", **QUICK).fit(x, (y + 1) * 10**9)
    low, high = large.predict_interval(x)
    assert low.dtype == np.int64
    assert (low % 256 != 0).any()  # not rounded to float32
    assert (low < high).all()


@pytest.mark.parametrize("copied", ["saved", "pickled"])
def test_models_come_back(model, copied, tmp_path):
    x, _ = table(50, 1)
    if copied == "saved":
        model.save(tmp_path / "model.scroll")
        again = scroll.load(tmp_path / "model.scroll")
    else:
        again = pickle.loads(pickle.dumps(model))
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    np.testing.assert_array_equal(again.predict_interval(x), model.predict_interval(x))


NONE = {
    "negative": (lambda y: y - 1, "`y` must hold counts 0, 1, 2, ..., but got -1 in row"),
    "fractions": (lambda y: y + 0.5, "`y` must hold counts 0, 1, 2, ..., but got .*5 in row 0"),
    "NaN": (lambda y: np.where(y > 2, np.nan, y), "Input y contains NaN"),
    "infinity": (lambda y: np.where(y > 2, np.inf, y), "Input y contains infinity"),
    "words": (lambda y: np.where(y > 2, "many", "few"), "`y` must hold numbers, but got others"),
    "two columns": (lambda y: np.stack([y, y], 1), "`y` must be one column of counts, but got"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("make", "words"), NONE.values(), ids=NONE)
def test_what_is_no_count(make, words, kind):
    x, y = table(60)
    model = ScrollRegressor(likelihood=kind, **QUICK)
    with pytest.raises(ValueError, match=words):
        model.fit(x, make(y))
    with pytest.raises(ValueError, match=words):
        model.fit(x, y, eval_set=(x, make(y)))


def test_counts_that_are_text_booleans_or_all_zero():
    x, y = table(60)
    model = ScrollRegressor(likelihood="poisson", **QUICK | {"max_steps": 30})
    numbers = model.fit(x, y).predict(x)
    np.testing.assert_array_equal(model.fit(x, y.astype(str).astype(object)).predict(x), numbers)
    assert (model.fit(x, y > 1).predict(x) < 2).all()
    assert (model.fit(x, 0 * y).predict_interval(x)[1] == 0).all()


def test_what_only_real_targets_have(model):
    x, y = table(5)
    with pytest.raises(ValueError, match="`likelihood` must be 'gaussian' for variance_parts"):
        model.variance_parts(x)
    with pytest.raises(ValueError, match="`likelihood` must be 'gaussian' for update"):
        model.update(x, y)


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def good(done):
    assert done.exit_code == 0, done.output
    return done.stdout


FAST = ("--max-steps", "60", "--body", "16", "--members", "2")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Counts, ordered words and rare booleans, on disk."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    x, visits = table(150)
    frame = pd.DataFrame(x, columns=["a", "b"])
    frame["visits"], frame["rare"] = visits, visits > 6
    words = np.array(["low", "mid", "high"])[np.digitize(visits, [2, 5])]
    frame["grade"] = pd.Categorical(words, ["low", "mid", "very", "high"], ordered=True)
    for target in ("visits", "rare", "grade"):
        frame[["a", "b", target]].to_parquet(f"{target}.parquet")
        frame[["a", "b", target]].to_csv(f"{target}.csv", index=False)
    return frame


@pytest.mark.parametrize("kind", KINDS)
def test_counts_from_the_command_line(files, kind):
    told = json.loads(
        good(run("fit", "visits.csv", "--target", "visits", "-o", "m.scroll", "--json",
                 "--likelihood", kind, *FAST))
    )  # fmt: skip
    assert (told["task"], told["because"]) == ("regression", "--likelihood")
    assert json.loads(good(run("info", "m.scroll", "--json")))["likelihood"] == kind
    model = scroll.load("m.scroll")
    done = run("predict", "m.scroll", "visits.csv", "--quantiles", "0.5", "--interval", "0.8")
    out = pd.read_csv(io.StringIO(good(done)))
    assert list(out) == ["mean", "std", "lower", "upper", "q0.5"]
    assert (out.dtypes[["lower", "upper", "q0.5"]] == np.int64).all()
    x = files[["a", "b"]]
    np.testing.assert_array_equal(out[["lower", "upper"]].T, model.predict_interval(x, 0.8))
    np.testing.assert_allclose(out["mean"], model.predict(x))
    told = json.loads(good(run("evaluate", "m.scroll", "visits.csv", "--json")))
    assert list(told) == ["rows", "nll", "crps", "rmse", "calibration_error", "coverage_90"]
    low, high = model.predict_interval(x, 0.9)
    y = files["visits"].to_numpy()
    assert told["coverage_90"] == pytest.approx(np.mean((low <= y) & (y <= high)))
    assert told["rmse"] == pytest.approx(np.sqrt(np.mean((model.predict(x) - y) ** 2)))
    assert told["calibration_error"] < 0.2
    files.assign(visits=y - 1)[["a", "b", "visits"]].to_csv("minus.csv", index=False)
    done = run("evaluate", "m.scroll", "minus.csv")
    assert done.exit_code == 2
    assert "`visits` must hold counts 0, 1, 2, ..., but got -1 in row" in done.stderr


def test_the_randomised_pit_does_not_blame_the_truth(files):
    """At F(y) itself, rare counts look miscalibrated under their own distribution."""
    from scroll.cli.evaluate import calibration_error
    from scroll.factors import Poisson
    from scroll.predictive import Count

    torch.set_default_dtype(torch.float64)
    y = torch.from_numpy(np.random.default_rng(0).poisson(0.5, 5000)).double()
    true = Count(Poisson(), torch.full((5000,), np.log(0.5)), torch.full((5000,), 1e-12))
    assert float(calibration_error(true, y)) < 0.02
    assert float(metrics.calibration_error(true, y)) > 0.1
    far = Count(Poisson(), torch.full((5000,), np.log(2.0)), torch.full((5000,), 1e-12))
    assert float(calibration_error(far, y)) > 0.1


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("grade.csv", ("--levels", "low,mid,very,high")),
        ("grade.parquet", ("--ordered",)),
        ("grade.parquet", ("--likelihood", "ordinal")),
    ],
)
def test_ordered_words_from_the_command_line(files, file, words):
    done = run("fit", file, "--target", "grade", "-o", "m.scroll", *words, *FAST)
    good(done)
    assert "sorting" not in done.stderr  # the order is known
    told = json.loads(good(run("info", "m.scroll", "--json")))
    assert (told["likelihood"], told["classes"]) == ("ordinal", ["low", "mid", "very", "high"])
    out = pd.read_csv(
        io.StringIO(good(run("predict", "m.scroll", "grade.csv", "--quantiles", "0.25")))
    )
    names = [f"p_{label}" for label in ("low", "mid", "very", "high")]
    assert list(out) == ["prediction", "lower", "upper", "q0.25", *names]
    x, model = files[["a", "b"]], scroll.load("m.scroll")
    assert isinstance(model, ScrollClassifier)
    np.testing.assert_array_equal(out["q0.25"], model.predict_quantiles(x, 0.25))
    np.testing.assert_array_equal(out[["lower", "upper"]].T, model.predict_interval(x))
    probs = pd.DataFrame(model.predict_proba(x), columns=[f"p_{c}" for c in model.classes_])
    np.testing.assert_allclose(out[names], probs[names])
    told = json.loads(good(run("evaluate", "m.scroll", "grade.csv", "--json")))
    reached = np.array([[k >= names.index(f"p_{g}") for k in range(4)] for g in files["grade"]])
    want = np.square(probs[names].to_numpy().cumsum(1) - reached).sum(1).mean()
    assert told["ranked_probability_score"] == pytest.approx(want)
    files.assign(grade="huge")[["a", "b", "grade"]].to_csv("new.csv", index=False)
    done = run("evaluate", "m.scroll", "new.csv")
    assert done.exit_code == 2
    assert "must hold the classes of training" in done.stderr
    assert "'huge'" in done.stderr


def test_balanced_classes_from_the_command_line(files):
    for name, words in (("plain", ()), ("even", ("--class-weight", "balanced"))):
        good(run("fit", "rare.csv", "--target", "rare", "-o", f"{name}.scroll", *words, *FAST))
    told = json.loads(good(run("info", "even.scroll", "--json")))
    assert told["class_weight"] == "balanced"
    assert told["classes"] == [False, True]
    plain, even = (
        pd.read_csv(io.StringIO(good(run("predict", f"{name}.scroll", "rare.csv"))))["p_True"]
        for name in ("plain", "even")
    )
    assert even.mean() > plain.mean() + 0.05


def test_dispersion_that_the_inputs_explain_is_not_noise():
    """The counts are Poisson given their inputs, and far from it without them."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(900, 2))
    y = rng.poisson(np.exp(1 + x[:, 0])).astype(float)
    how = {"n_members": 2, "body": "linear", "max_steps": 100, "random_state": 0}
    new = torch.from_numpy(y[400:])
    nll = [
        -ScrollRegressor(likelihood=kind, **how)
        .fit(x[:400], y[:400])
        .predict_dist(x[400:])
        .log_prob(new)
        .mean()
        for kind in ("poisson", "negbinomial")
    ]
    assert float(nll[1] - nll[0]) < 0.02
