"""The estimators: scikit-learn's own checks, and user errors."""

import pickle
import warnings
from functools import cache, partial

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import nn

import scroll
from scroll import ScrollClassifier, ScrollRegressor
from scroll.estimators import CollapsedNoise, NegativeInterval, UnseenGap
from scroll.fitting.candidates import NAMES
from sweeps import cases, exhaustive

QUICK = {"max_steps": 40, "random_state": 0}
SMALL = QUICK | {"body": (16,)}  # where it is not the bodies that count
pytestmark = [
    pytest.mark.oldest,
    pytest.mark.filterwarnings("ignore::scroll.estimators.CollapsedNoise"),
]


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=n)


def frame(n=200, seed=0):
    rng = np.random.default_rng(seed)
    size, kind = rng.normal(50, 20, n), rng.choice(["flat", "house", "loft"], n)
    new = rng.random(n) < 0.3
    age = rng.integers(0, 90, n).astype(float)
    y = 3 * size + 40 * (kind == "house") + 20 * new - 0.2 * age + rng.normal(0, 5, n)
    age[::7] = np.nan
    columns = {"size": size, "kind": kind, "new": new, "age": age}
    x = pd.DataFrame(columns).assign(kind=lambda f: f.kind.where(rng.random(n) > 0.05))
    return x, y


@pytest.fixture(scope="module")
def fitted():
    x, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedNoise)
        return ScrollRegressor(n_members=3, tails="gaussian", **QUICK).fit(x, y)


def checks():
    """All of them on small models, and once more on models that choose among bodies."""
    for how in (SMALL, QUICK):
        marks = [exhaustive] * (how is QUICK)
        for make in (ScrollRegressor, ScrollClassifier):
            model = make(n_members=2, **how)
            for pair in estimator_checks_generator(model):
                yield pytest.param(*pair, marks=marks)


def _name(part):
    return part.func.__name__ if hasattr(part, "func") else type(part).__name__


@pytest.mark.parametrize(("estimator", "check"), list(checks()), ids=_name)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator, check):
    if _name(check) == "check_array_api_input":
        pytest.skip("needs SCIPY_ARRAY_API, as every estimator does")
    check(estimator)


def test_everything_that_comes_back(fitted):
    x, y = table(50, 1)
    mean, std = fitted.predict(x, return_std=True)
    p = fitted.predict_dist(x)
    assert mean.shape == std.shape == (50,)
    assert mean.dtype == std.dtype == np.float64
    np.testing.assert_array_equal(mean, fitted.predict(x))
    np.testing.assert_allclose(std**2, p.variance.numpy())
    low, high = fitted.predict_interval(x, 0.8)
    np.testing.assert_allclose(fitted.predict_quantiles(x, [0.1, 0.9]), np.stack([low, high], 1))
    level = torch.full((50,), 0.1, dtype=torch.float64)
    torch.testing.assert_close(p.cdf(torch.from_numpy(low)), level, rtol=1e-6, atol=0)
    draws = fitted.sample(x, 4000, random_state=0)
    assert draws.shape == (4000, 50)
    # five standard errors of the mean of 4000 draws
    assert (np.abs(draws.mean(0) - mean) < 5 * std / 4000**0.5).all()
    np.testing.assert_array_equal(draws, fitted.sample(x, 4000, random_state=0))
    aleatoric, epistemic = fitted.variance_parts(x)
    assert (aleatoric >= 0).all()
    assert (epistemic > 0).all()
    np.testing.assert_allclose(aleatoric + epistemic, std**2)
    assert fitted.score(x, y) > 0.5


def test_strange_rows_are_flagged(fitted):
    x, _ = table(50, 1)
    usual, strange = fitted.ood_score(x), fitted.ood_score(x + 30)
    assert usual.shape == (50,)
    assert np.median(strange) > 5 * np.median(usual)


def test_members_are_an_exact_mixture(fitted):
    x, _ = table(20, 1)
    p = fitted.predict_dist(x)
    n_bodies = len(set(fitted.bodies_))  # each has three members
    assert p.parts.mean.shape == (3 * n_bodies, 20)
    assert len(fitted.routes_) == len(fitted.bodies_) == len(fitted.scores_) == 3 * n_bodies
    assert set(fitted.bodies_) <= set(NAMES)
    mean = p.parts.mean.mean(0)
    torch.testing.assert_close(p.mean, mean, rtol=1e-12, atol=1e-12)
    want = p.parts.variance.mean(0) + p.parts.mean.var(0, correction=0)
    torch.testing.assert_close(p.variance, want, rtol=1e-12, atol=1e-12)


def test_every_route_of_a_body_is_tried(fitted):
    """Bodies that are far behind after a while are not trained to the end."""
    tried = {tuple(name.split(", ")) for name in fitted.tried_}
    assert {*zip(fitted.bodies_, fitted.routes_, strict=True)} <= tried
    for body in {body for body, _ in tried} & {"smooth", "waves"}:
        assert {route for b, route in tried if b == body} == {"free", "closed", "hybrid"}
    x, y = table(60)
    model = ScrollRegressor(n_members=2, body="linear", max_steps=20, random_state=0).fit(x, y)
    assert {*model.tried_} == {"linear, closed", "linear, hybrid"}


def test_few_rows_may_be_on_a_line(tmp_path):
    """Where Bayesian ridge regression is hard to beat."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 40))
    y = x[:, :3].sum(1) + 0.3 * rng.normal(size=600)
    model = ScrollRegressor(random_state=0, max_steps=100).fit(x[:80], y[:80])
    assert model.bodies_[:5] == ["linear"] * 5  # the best body is first
    assert set(model.routes_[:5]) <= {"closed", "hybrid"}
    mean, std = BayesianRidge().fit(x[:80], y[:80]).predict(x[80:], return_std=True)
    theirs = -norm(mean, std).logpdf(y[80:]).mean()
    ours = -model.predict_dist(x[80:]).log_prob(torch.from_numpy(y[80:])).mean()
    assert ours < theirs + 0.1
    model.save(tmp_path / "line.scroll")
    same = scroll.load(tmp_path / "line.scroll").predict(x[80:])
    np.testing.assert_array_equal(same, model.predict(x[80:]))


@pytest.mark.parametrize("make", [ScrollClassifier, partial(ScrollRegressor, likelihood="poisson")])
def test_a_linear_body_goes_with_every_likelihood(make):
    x, y = table()
    model = make(body="linear", n_members=1, max_steps=300, random_state=0)
    model.fit(x, np.digitize(y, (-0.5, 0.5)))
    assert set(model.bodies_) == {"linear"}
    assert model.score(x, np.digitize(y, (-0.5, 0.5))) > 0.3


@pytest.mark.parametrize("body", cases(["smooth", "auto"], "smooth"))
def test_the_same_seed_gives_the_same_model(body):
    x, y = table()
    one, again, other = (
        ScrollRegressor(body=body, n_members=2, max_steps=40, random_state=seed).fit(x, y)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(again.predict(x), one.predict(x))
    assert (other.predict(x) != one.predict(x)).any()


def test_one_member_is_the_first_of_several():
    """Of an ensemble whose members hold out the same rows, here the user's."""
    x, y = table()
    how = {"body": "smooth", "tails": "gaussian", **QUICK}
    one, two = (
        ScrollRegressor(n_members=m, **how).fit(x, y, eval_set=table(50, 1)) for m in (1, 2)
    )
    first = two.predict_dist(x).parts.mean[0]
    torch.testing.assert_close(one.predict_dist(x).mean, first, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("routing", ["free", "closed", "hybrid"])
@pytest.mark.parametrize("covariance", cases(["full", "diag", "lowrank", "none"], "full"))
def test_routes_and_covariances(routing, covariance):
    x, y = table()
    model = ScrollRegressor(covariance=covariance, routing=routing, n_members=2, **SMALL)
    assert model.fit(x, y).routes_ == [routing] * 2
    assert model.n_iter_ > 0  # the body is trained, whatever predicts on its features
    assert np.isfinite(model.predict_dist(x).log_prob(torch.from_numpy(y)).numpy()).all()


@pytest.mark.parametrize("body", ["auto", "smooth", "waves", "matern", "linear", (32, 16)])
def test_bodies(body):
    x, y = table()
    model = ScrollRegressor(body=body, n_members=2, **QUICK).fit(x, y)
    assert model.score(x, y) > 0.3


def test_a_users_own_module():
    x, y = table()
    body = nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Dropout(0.1))
    before = [p.detach().clone() for p in body.parameters()]
    model = ScrollRegressor(
        body=body, n_members=2, tails="gaussian", max_steps=100, random_state=0
    ).fit(x, y)
    assert model.bodies_ == ["yours", "yours"]
    assert model.score(x, y) > 0.5
    parts = model.predict_dist(x).parts.mean
    assert (parts[0] != parts[1]).any()
    for p, q in zip(before, body.parameters(), strict=True):  # it is a pattern, left as it is
        torch.testing.assert_close(p, q, rtol=0, atol=0)
    with pytest.raises(ValueError, match="`body` must take rows of 3 encoded columns"):
        ScrollRegressor(body=nn.Linear(5, 4), **QUICK).fit(x, y)


def test_the_papers_recipe():
    x, y = table(60)
    model = ScrollRegressor(recipe="paper", **QUICK).fit(x, y)
    assert len(model.bodies_) == 1
    assert model.bodies_[0] in ("relu", "relu+LN", "tanh", "tanh+LN")
    assert model.routes_ == ["free"]
    assert model.score(x, y) > 0.5
    two = ScrollRegressor(recipe="paper", n_members=2, **QUICK).fit(x, y)
    assert two.bodies_ == [two.bodies_[0]] * 2  # of one architecture


def test_a_frame_as_it_is():
    x, y = frame()
    model = ScrollRegressor(body="smooth", n_members=2, max_steps=200, random_state=0).fit(x, y)
    assert model.feature_names_in_.tolist() == ["size", "kind", "new", "age"]
    assert model.score(x, y) > 0.9
    new = x.head(3).assign(kind=["castle", None, "flat"])
    assert np.isfinite(model.predict(new)).all()
    with pytest.raises(ValueError, match="none called 'age' and unknown 'years'"):
        model.predict(x.rename(columns={"age": "years"}))
    np.testing.assert_array_equal(model.predict(x[list(x)[::-1]]), model.predict(x))
    with pytest.raises(ValueError, match="column 'size'"):
        model.predict(x.astype({"size": object}).assign(size="big"))


def test_several_targets():
    x, y = table()
    both = np.stack([y, 100 - 50 * y + x[:, 2]], 1)
    model = ScrollRegressor(body="smooth", n_members=2, max_steps=150, random_state=0).fit(x, both)
    assert model.predict(x).shape == (200, 2)
    assert model.predict_quantiles(x, [0.1, 0.5]).shape == (200, 2, 2)
    assert model.score(x, both) > 0.8
    assert [part.shape for part in model.variance_parts(x)] == [(200, 2)] * 2


def test_counts():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = rng.poisson(np.exp(1 + x[:, 0]))
    for likelihood in ("poisson", "negbinomial"):
        how = SMALL | {"max_steps": 100, "n_members": 1}
        model = ScrollRegressor(likelihood=likelihood, **how)
        low, high = model.fit(x, y).predict_interval(x, 0.9)
        assert 0.8 < ((low <= y) & (y <= high)).mean() <= 1
        assert model.sample(x, 3).shape == (3, 300)
        assert (np.log(model.predict(x)) @ (1 + x[:, 0])) > 0
    with pytest.raises(ValueError, match="`y` must hold counts"):
        model.fit(x, y - 0.5)
    with pytest.raises(ValueError, match="`routing` must be 'auto' or 'free'"):
        model.set_params(routing="closed").fit(x, y)


def classes(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, np.array(["a", "b", "c"])[
        np.digitize(x[:, 0] + 0.3 * rng.normal(size=n), [-0.5, 0.5])
    ]


@pytest.mark.parametrize("how", [{}, {"likelihood": "gaussreg"}, {"ordered": True}])
def test_classes(how):
    x, y = classes()
    model = ScrollClassifier(n_members=2, **SMALL | {"max_steps": 400}, **how).fit(x, y)
    probs = model.predict_proba(x)
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.log(probs), model.predict_log_proba(x), atol=1e-6)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(x, y) > 0.75
    assert set(model.sample(x, 5).ravel()) <= {"a", "b", "c"}
    assert model.ood_score(x).shape == (300,)
    assert (model.predict_dist(x).mode.numpy() == probs.argmax(1)).all()


def test_an_ordered_classifier_knows_the_middle():
    x, y = classes()
    model = ScrollClassifier(ordered=True, n_members=1, **SMALL | {"max_steps": 200}).fit(x, y)
    near = model.predict_proba([[0.65, 0.0], [-0.65, 0.0]])  # of the outer thresholds
    assert near[0, 0] < near[0, 1] / 3
    assert near[1, 2] < near[1, 1] / 3


def test_weights_weigh():
    x, y = table()
    shifted = np.where(np.arange(200) % 2, y, y + 10)
    heavy = np.where(np.arange(200) % 2, 1.5, 0.01)
    how = SMALL | {"max_steps": 300, "n_members": 2}
    model = ScrollRegressor(routing="free", **how).fit(x, shifted, heavy)
    odd = np.arange(200) % 2 == 1
    assert np.abs(model.predict(x) - shifted)[odd].mean() < 1.5


def test_an_eval_set_is_not_learned_from():
    """It decides when training ends, between bodies and routes, and calibrates."""
    x, y = table()
    held = table(100, 3)
    how = {"routing": "closed", "body": "smooth", "n_members": 2, **QUICK}
    model = ScrollRegressor(**how).fit(x, y, eval_set=held)
    assert model.model_.each[0].bound.statistics.count.tolist() == [[200]] * 2
    listed = ScrollRegressor(**how).fit(x, y, eval_set=[held])
    np.testing.assert_array_equal(model.predict(x), listed.predict(x))
    p, later = model.predict_dist(held[0]), torch.from_numpy(held[1])
    np.testing.assert_allclose(model.oof_["log_prob"], p.log_prob(later), rtol=1e-4, atol=1e-4)
    assert model.oof_["row"].tolist() == list(range(100))
    inside = ScrollRegressor(**how).fit(x, y)  # all rows, those of a member's fold as well
    assert inside.model_.each[0].bound.statistics.count.tolist() == [[200]] * 2


def test_update_is_as_if_it_had_been_there():
    x, y = table(260)
    how = {"body": "smooth", "n_members": 2, **QUICK}
    model = ScrollRegressor(routing="closed", **how).fit(x[:200], y[:200])
    before = model.ood_score(x[200:])
    model.update(x[200:], y[200:])
    assert (model.ood_score(x[200:]) < before).all()
    assert model.model_.each[0].bound.statistics.count.tolist() == [[260]] * 2
    free = ScrollRegressor(routing="free", **how).fit(x, y)
    with pytest.raises(ValueError, match="routing='closed'"):
        free.update(x, y)


def test_collapsed_noise_is_a_warning_with_a_remedy(monkeypatch):
    x, y = table(60)
    monkeypatch.setattr("scroll.estimators.user_warnings.INTERPOLATES", 10.0)
    with pytest.warns(CollapsedNoise, match="or routing='auto', which chooses"):
        ScrollRegressor(routing="closed", n_members=1, **SMALL).fit(x, y)
    monkeypatch.setattr("scroll.heads.diagnosis.COLLAPSED", 1.0)
    with pytest.warns(CollapsedNoise, match="Here: routing='closed' or 'hybrid', or beta=0.5"):
        ScrollRegressor(routing="free", n_members=1, **SMALL).fit(x, y)


@pytest.mark.parametrize("n", cases([30, 60], 30))
def test_few_rows_do_not_lead_auto_astray(n):
    """More features than rows: a posterior that interpolates must not be taken, nor come later."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1060, 4))
    y = x[:, 0] + 0.5 * rng.normal(size=1060)
    model = ScrollRegressor(n_members=2, random_state=0, max_steps=300).fit(x[:n], y[:n])
    score = -model.predict_dist(x[60:]).log_prob(torch.from_numpy(y[60:])).mean()
    assert score < 3  # the mean predictor's is 1.5


def test_equal_rows_are_not_held_out_from_themselves():
    x, y = table(120)
    model = ScrollRegressor(routing="hybrid", n_members=2, **SMALL | {"max_steps": 200})
    one = model.fit(x, y).scores_
    five = clone(model).fit(x, y, sample_weight=np.full(120, 5)).scores_
    assert np.mean(five) > np.mean(one) - 0.5


@cache
def in_one_unit(target):
    x, y = table(80)
    how = SMALL | {"n_members": 2, "target": target}
    return ScrollRegressor(**how).fit(x, y if target == "identity" else np.exp(y))


def assert_same_in_units(target, y, a, shift):
    one = in_one_unit(target).predict_dist(table(80)[0])
    other = clone(in_one_unit(target)).fit(table(80)[0], a * (y + shift))
    assert other.scores_ == pytest.approx(
        [score + np.log(a) for score in in_one_unit(target).scores_], abs=1e-3
    )
    other = other.predict_dist(table(80)[0])
    least = 1e-4 * float(one.stddev.mean())  # a mean may be zero
    torch.testing.assert_close(other.mean / a - shift, one.mean, rtol=1e-4, atol=least)
    torch.testing.assert_close(other.stddev / a, one.stddev, rtol=1e-4, atol=0)


@settings(max_examples=5, deadline=None)
@given(st.floats(-6, 6), st.floats(-1e3, 1e3))
def test_units_do_not_matter(power, shift):
    """Scores are in the units of y, and change with them."""
    assert_same_in_units("identity", table(80)[1], 10**power, shift)


@settings(max_examples=3, deadline=None)
@given(st.floats(-6, 6))
def test_units_do_not_matter_under_a_logarithm(power):
    assert_same_in_units("log", np.exp(table(80)[1]), 10**power, 0.0)


def _sound(model, x):
    mean, std = model.predict(x, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert not np.isnan(model.ood_score(x)).any()


CARELESS = {
    "constant target": lambda x, y: (x, np.full_like(y, 7.0)),
    "zero target": lambda x, y: (x, np.zeros_like(y)),
    "constant columns": lambda x, y: (np.ones_like(x), y),
    "one constant column": lambda x, y: (np.c_[x, np.full(len(x), 3e9)], y),
    "duplicate rows": lambda x, y: (np.repeat(x[:10], 8, 0), np.repeat(y[:10], 8)),
    "few rows": lambda x, y: (x[:7], y[:7]),
    "two rows": lambda x, y: (x[:2], y[:2]),
    "more columns than rows": lambda x, y: (np.tile(x[:12], 20) + np.arange(60), y[:12]),
    "huge inputs": lambda x, y: (1e30 * x, y),
    "tiny inputs": lambda x, y: (1e-30 * x, y),
    "huge target": lambda x, y: (x, 1e30 * y),
    "tiny target": lambda x, y: (x, 1e-30 * y),
    "far target": lambda x, y: (x, 1e9 + y),
    "an outlier": lambda x, y: (np.r_[x, [[1e9, 0, 0]]], np.r_[y, 0.0]),
    "float16": lambda x, y: (x.astype(np.float16), y.astype(np.float16)),
    "integers": lambda x, y: ((10 * x).astype(int), (10 * y).astype(int)),
    "booleans": lambda x, y: (x > 0, y > 0),
    "missing values": lambda x, y: (np.where(x > 1, np.nan, x), y),
    "a missing column": lambda x, y: (np.c_[x, np.full(len(x), np.nan)], y),
    "lists": lambda x, y: (x.tolist(), y.tolist()),
}


@pytest.mark.filterwarnings("ignore::scroll.estimators.user_warnings.NegativeInterval")
@pytest.mark.parametrize("body", cases(["smooth", "auto"], "smooth"))
@pytest.mark.parametrize("make", CARELESS.values(), ids=CARELESS)
def test_careless_tables(make, body):
    x, y = make(*table(80))
    members = 2 if body == "auto" else 1
    _sound(ScrollRegressor(n_members=members, body=body, **QUICK).fit(x, y), x)


def test_what_is_constant_is_predicted():
    x, _ = table(50)
    model = ScrollRegressor(n_members=2, **SMALL).fit(x, np.full(50, 7.0))
    mean, std = model.predict(x, return_std=True)
    np.testing.assert_allclose(mean, 7, rtol=1e-4)
    assert (std < 1e-3).all()


@pytest.mark.parametrize("routing", ["auto", "free", "closed", "hybrid"])
def test_one_row_may_differ_from_all_others(routing):
    """The member that holds it out learns from equal targets."""
    x, y = table(60)[0], np.zeros(60)
    y[3] = 1.0
    how = SMALL | {"n_members": 2, "target": "identity", "routing": routing}
    model = ScrollRegressor(**how).fit(x, y)
    _sound(model, x)
    assert np.abs(np.median(model.predict(x))) < 0.2


BAD = [
    ({"routing": "loose"}, "`routing` must be one of"),
    ({"likelihood": "student"}, "`likelihood` must be one of"),
    ({"covariance": "block"}, "`covariance` must be one of"),
    ({"recipe": "mine"}, "`recipe` must be one of"),
    ({"body": "huge"}, "`body` must be 'auto', 'smooth'"),
    ({"body": (0, 3)}, "`body` must be 'auto', 'smooth'"),
    ({"n_members": 0}, "`n_members` must be"),
    ({"max_steps": -1}, "`max_steps` must be"),
    ({"learning_rate": 0.0}, "`learning_rate` must be positive and finite, but got 0.0"),
    ({"learning_rate": float("nan")}, "`learning_rate` must be positive"),
    ({"learning_rate": "a"}, "`learning_rate` must be a number, but got 'a'"),
    ({"beta": 5.0}, "`beta` must be at most 1, but got 5.0"),
    ({"beta": "x"}, "`beta` must be a number"),
    ({"beta": 0.5, "likelihood": "poisson"}, "`beta` must be 0 for likelihood 'poisson'"),
    ({"validation_fraction": 1.5}, "`validation_fraction` must"),
    ({"device": "cuda"}, "`device` must be available"),
]


@pytest.mark.parametrize(("how", "words"), BAD)
def test_bad_parameters(how, words):
    if how.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("a CUDA device is available")
    x, y = table(30)
    y = y if how.get("likelihood") != "poisson" else np.arange(30) % 4
    with pytest.raises((ValueError, TypeError), match=words):
        ScrollRegressor(**(QUICK | how)).fit(x, y)


def test_beta_has_no_place_among_ordered_classes():
    with pytest.raises(ValueError, match="`beta` must be 0 for likelihood 'ordinal'"):
        ScrollClassifier(beta=0.5, ordered=True, **QUICK).fit(*table(30)[:1], np.arange(30) % 3)


def test_a_gap_that_training_never_saw_is_a_warning():
    x, y = frame(60)
    model = ScrollRegressor(n_members=1, **SMALL).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(x)
    new = x.assign(size=x["size"].where(x["size"] > 40), new=x["new"].astype(object).where(y > 0))
    with pytest.warns(UnseenGap, match=r"No value in column 'size', 'new', which training"):
        model.ood_score(new)
    plain = ScrollRegressor(n_members=1, **SMALL).fit(table(30)[0], table(30)[1])
    with pytest.warns(UnseenGap, match="No value in column 1,"):
        plain.predict([[0.0, np.nan, *[0.0] * (plain.n_features_in_ - 2)]])


@pytest.mark.parametrize("unit", [1e160, 1e-165, 1e-310])
def test_units_that_overflow_are_refused(unit):
    x, y = table(30)
    with pytest.raises(ValueError, match=r"`y` must be zero or lie between 1e-150.*units"):
        ScrollRegressor(**QUICK).fit(x, y * unit)


def test_a_hybrid_takes_weights():
    """Which are no counts: a row of weight 0.5 is half of one."""
    x, y = table(120)
    y[60:] += 20
    weight = np.where(np.arange(120) < 60, 1.5, 1e-6)
    how = SMALL | {"routing": "hybrid", "n_members": 2}
    plain, weighed = (ScrollRegressor(**how).fit(x, y, sample_weight=w) for w in (None, weight))
    assert weighed.routes_ == ["hybrid"] * 2
    assert weighed.predict(x).mean() < 5 < plain.predict(x).mean()
    assert (
        weighed.predict(x, return_std=True)[1].mean() < plain.predict(x, return_std=True)[1].mean()
    )


def test_dispersion_starts_where_the_counts_are():
    """Few rows end training before it could come far."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    rate = np.exp(1 + 0.3 * x[:, 0])
    narrow, wide = rng.poisson(rate), rng.poisson(rate * rng.gamma(0.5, 2, 200))
    found = []
    for y in (narrow, wide):
        model = ScrollRegressor(likelihood="negbinomial", n_members=1, **SMALL).fit(x, y)
        found.append(model.predict_dist(x).variance / model.predict_dist(x).mean)
    assert found[0].mean() < 2 < 4 < found[1].mean()


def test_bad_rows():
    x, y = table(30)
    model = ScrollRegressor(**QUICK)
    with pytest.raises(NotFittedError):
        model.predict(x)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.where(x > 1, np.inf, x), y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(x, np.where(y > 0, np.nan, y))
    with pytest.raises(ValueError, match="`eval_set` must be one pair"):
        model.fit(x, y, eval_set=x)
    with pytest.raises(ValueError, match="at least two classes"):
        ScrollClassifier(**QUICK).fit(x, np.zeros(30))
    with pytest.raises(ValueError, match="hold the classes of training"):
        ScrollClassifier(**QUICK).fit(x, y > 0, eval_set=(x, np.full(30, 5)))


def test_pickle_and_joblib(fitted, tmp_path):
    x, _ = table(20, 1)
    for copy in (pickle.loads(pickle.dumps(fitted)), _through_joblib(fitted, tmp_path)):
        np.testing.assert_array_equal(copy.predict(x), fitted.predict(x))
        np.testing.assert_array_equal(copy.ood_score(x), fitted.ood_score(x))


def _through_joblib(model, folder):
    joblib.dump(model, folder / "model.joblib")
    return joblib.load(folder / "model.joblib")


def test_a_line_is_what_bayesian_ridge_makes_of_it():
    """On a line with constant noise, distributions agree with a model made for it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = 2 + x @ [1.0, -3.0] + 0.5 * rng.normal(size=400)
    mean, std = BayesianRidge().fit(x, y).predict(x, return_std=True)
    model = ScrollRegressor(n_members=2, **SMALL | {"max_steps": 500}).fit(x, y)
    ours, spread = model.predict(x, return_std=True)
    assert np.abs(ours - mean).mean() < 0.15
    assert 0.8 < np.median(spread / std) < 1.2


def test_columns_of_one_name_are_refused_in_words():
    frame = pd.DataFrame(np.zeros((5, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="`X` must have distinct column names, but got 'a' more"):
        ScrollRegressor().fit(frame, np.zeros(5))


@pytest.mark.parametrize(
    ("how", "want"),
    [
        ({"recipe": "paper", "body": "waves"}, "`body` must be 'auto' with recipe 'paper'"),
        ({"recipe": "paper", "body": (16,)}, "`body` must be 'auto' with recipe 'paper'"),
    ],
)
def test_parameters_that_would_be_ignored_are_refused(how, want):
    with pytest.raises(ValueError, match=want):
        ScrollRegressor(**how).fit(np.zeros((9, 2)), np.arange(9))


def test_a_share_of_one_is_not_per_cent():
    x = np.random.default_rng(0).normal(size=(60, 3))
    y = 1 / (1 + np.exp(-2 * x[:, 0]))
    y[3] = 1.0
    with pytest.raises(ValueError, match=r"^`y` must lie strictly between 0 and 1, or 0 and 100"):
        ScrollRegressor(target="logit").fit(x, y)


def test_an_update_outside_of_the_map_is_refused():
    x = np.random.default_rng(0).normal(size=(60, 3))
    model = ScrollRegressor(target="log", routing="closed", body="smooth", max_steps=20)
    model.fit(x, np.exp(x[:, 0]))
    with pytest.raises(ValueError, match=r"^`y` must be positive for target='log', but got values"):
        model.update(x[:3], [1.0, 0.0, 2.0])


def test_the_paper_has_no_map():
    x = np.random.default_rng(0).normal(size=(60, 3))
    model = ScrollRegressor(recipe="paper", max_steps=20).fit(x, np.exp(x[:, 0]))
    assert model.task_.map is None


def test_advice_on_negative_intervals_can_be_followed():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.exponential(size=60) ** 2
    how = {"max_steps": 40, "n_members": 2, "random_state": 0}
    with pytest.warns(NegativeInterval, match="Set target='log' and tails='auto' to keep"):
        ScrollRegressor(tails="student", **how).fit(x, y)
    # a validation set with negative targets
    ScrollRegressor(**how).fit(x, y, eval_set=(x[:5], -y[:5]))


@pytest.mark.parametrize("n", range(2, 9))
def test_a_handful_of_rows_fits_without_warnings(n):
    rng = np.random.default_rng(0)
    ScrollRegressor(max_steps=20, random_state=0).fit(rng.normal(size=(n, 2)), rng.normal(size=n))


@pytest.mark.parametrize("target", ["log", "auto"])
def test_targets_may_be_read_only_and_reversed(target):
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(60, 2)), rng.normal(size=60)
    y = np.exp(x[:, 0] + 0.1 * noise)
    model = ScrollRegressor(target=target, routing="closed", body="smooth", max_steps=20)
    want = clone(model).set_params(random_state=0).fit(x, y).predict(x)
    back = y[::-1].copy()
    back.flags.writeable = False
    model = model.set_params(random_state=0).fit(x, back[::-1])
    np.testing.assert_array_equal(model.predict(x), want)
    model.update(x, back[::-1])
