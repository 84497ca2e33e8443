"""The recipes "fast" and "best": for every kind of target, in files and in graphs."""

import numpy as np
import pytest
import torch

import scroll
from scroll import ScrollClassifier, ScrollRegressor
from sweeps import exhaustive


@pytest.fixture(autouse=True)
def _single(_float64_and_seed):
    torch.set_default_dtype(torch.float32)  # as users have it


def table(n=160, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.2 * rng.normal(size=n)


KINDS = {
    "numbers": (ScrollRegressor, {}, lambda y: y),
    "costs": (ScrollRegressor, {"target": "log"}, np.exp),
    "two numbers": (ScrollRegressor, {}, lambda y: np.stack([y, -y], 1)),
    "counts": (ScrollRegressor, {"likelihood": "negbinomial"}, lambda y: np.floor(np.exp(y))),
    "labels": (ScrollClassifier, {}, lambda y: np.digitize(y, [-0.5, 0.5])),
    "order": (ScrollClassifier, {"ordered": True}, lambda y: np.digitize(y, [-0.5, 0.5])),
}


@pytest.mark.parametrize(("kind", "how", "of"), KINDS.values(), ids=KINDS)
def test_fast_models_learn_are_cross_fitted_and_come_back(kind, how, of, tmp_path):
    x, y = table()
    target = of(y)
    model = kind(recipe="fast", random_state=0, n_members=3, max_steps=100, **how).fit(x, target)
    assert set(model.bodies_) == {"fourier"}
    assert sorted(model.oof_["row"]) == list(range(160))
    new = of(table(seed=1)[1])
    log_p = model.predict_dist(table(seed=1)[0]).log_prob(torch.from_numpy(new))
    blind = kind(n_members=1, body="linear", max_steps=20, random_state=0, **how)
    noise = np.random.default_rng(0).normal(size=x.shape)
    other = blind.fit(noise, target).predict_dist(noise).log_prob(torch.from_numpy(target))
    assert log_p.sum() > other.sum()
    model.save(tmp_path / "m.scroll")
    again = scroll.load(tmp_path / "m.scroll").predict_dist(x)
    assert torch.equal(again.mean, model.predict_dist(x).mean)


def test_fast_numbers_need_no_training():
    x, y = table()
    model = ScrollRegressor(recipe="fast", random_state=0).fit(x, y)
    assert model.n_iter_ == 0
    assert set(model.routes_) <= {"closed", "hybrid"}
    again = ScrollRegressor(recipe="fast", random_state=0).fit(x, y)
    np.testing.assert_array_equal(model.predict(x), again.predict(x))
    more = model.predict(x[:5]), model.update(x[:5], y[:5] + 3.0).predict(x[:5])
    assert (more[1] > more[0]).all()


def test_many_rows_have_more_features():
    x, y = table(2400)
    few = ScrollRegressor(recipe="fast", n_members=2, random_state=0).fit(x[:100], y[:100])
    many = ScrollRegressor(recipe="fast", n_members=2, random_state=0).fit(x, y)
    assert (set(few.bodies_), set(many.bodies_)) == ({"fourier"}, {"fourier-wide"})


def test_a_body_of_your_own_goes_with_default_and_best_only():
    x, y = table(40)
    with pytest.raises(ValueError, match="`body` must be 'auto' with recipe 'fast'"):
        ScrollRegressor(recipe="fast", body="waves").fit(x, y)
    model = ScrollRegressor(recipe="best", body=(8,), max_steps=20, n_members=2, random_state=0)
    assert set(model.fit(x, y).bodies_) == {"8"}


@exhaustive
@pytest.mark.parametrize("kind", [ScrollRegressor, ScrollClassifier])
def test_best_has_ten_members_of_the_bodies_that_help(kind):
    x, y = table(200)
    target = y if kind is ScrollRegressor else np.digitize(y, [0.0])
    model = kind(recipe="best", max_steps=60, random_state=0).fit(x, target)
    names = {name.partition(",")[0] for name in model.tried_}
    assert names == {"smooth", "deep", "swell", "waves", "fourier", "linear"}
    assert all(model.bodies_.count(name) == 10 for name in set(model.bodies_))


def test_a_wide_belief_does_not_make_the_mean_of_a_cost_astronomic():
    """Far from the training rows beliefs are wide, and E exp z grows as exp(var z / 2)."""
    x, y = table()
    how = {"target": "log", "tails": "lapse", "random_state": 0}
    model = ScrollRegressor(recipe="fast", **how).fit(x, np.exp(y))
    before, spread = model.predict_quantiles(x, 0.5), float(model.model_.scale)
    for part in model.model_.parts:
        part.readout.widen(torch.tensor(300.0))
    base = model.model_.untailed(torch.from_numpy(x))
    np.testing.assert_allclose(base.parts.stddev, 2 * spread)
    assert (model.predict(x) < before * np.exp((2 * spread) ** 2 / 2) * 3).all()


def test_whole_weights_do_not_look_like_noise_free_rows():
    """The evidence would take a repeated row as a proof that there is no noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    y = np.exp(1 + x[:, 0] + 0.5 * rng.normal(size=300))
    how = {"recipe": "fast", "target": "log", "random_state": 0, "n_members": 2}
    plain = ScrollRegressor(**how).fit(x, y).oof_scores()
    twice = ScrollRegressor(**how).fit(x, y, np.where(x[:, 1] > 0, 5.0, 1.0)).oof_scores()
    assert twice["nll"] < plain["nll"] + 0.2
    assert twice["rmse"] < 2 * plain["rmse"]
