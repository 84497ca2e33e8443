"""Calibration of an ensemble: one factor on the standard deviations, from held-out rows."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

import scroll
from scroll import ScrollClassifier, ScrollRegressor
from scroll.fitting.calibration import lapse_rate, width_factor
from scroll.predictive import Categorical, Normal, Ordered

STEP = 0.025  # of the factors, in logarithms


def members(rng, count=5, rows=400, wide=1.0, outputs=()):
    """Members that are apart by as much as their noise, and targets around their centre."""
    truth = rng.normal(size=(rows, *outputs))
    mean = truth + rng.normal(size=(count, rows, *outputs))
    noise = np.full_like(mean, 0.7 * wide**2)
    belief = wide**2 * rng.uniform(0.1, 0.5, size=mean.shape)
    return Normal(*map(torch.from_numpy, (mean, noise, belief))), torch.from_numpy(
        truth + rng.normal(size=truth.shape)
    )


def asked(p, y, weight=None):
    """What the rows ask for, by scipy."""
    mean, std, y = p.mean.numpy(), p.variance.sqrt().numpy(), y.numpy()

    def score(log_factor):
        each = norm.logpdf(y, mean, std * np.exp(log_factor))
        log_p = logsumexp(each, axis=0)
        log_p = log_p.sum(-1) if log_p.ndim == 2 else log_p
        return -np.average(log_p, weights=weight)

    return minimize_scalar(score, bounds=(-0.9, 0.5), method="bounded").x


@pytest.mark.parametrize("wide", [0.6, 1.0, 1.3])
@pytest.mark.parametrize("outputs", [(), (2,)])
def test_two_thirds_of_what_held_out_rows_ask_for(wide, outputs):
    p, y = members(np.random.default_rng(0), wide=wide, outputs=outputs)
    assert np.log(width_factor(p, y)) == pytest.approx(asked(p, y) * 2 / 3, abs=STEP / 3 + 1e-6)


def test_rows_count_by_their_weight():
    rng = np.random.default_rng(1)
    p, y = members(rng)
    far = y - p.mean.mean(0)
    weight = torch.where(far.abs() > 1.5, 5.0, 0.2).double()
    weight /= weight.mean()
    want = asked(p, y, weight.numpy())
    assert want > asked(p, y) + 0.2
    assert np.log(width_factor(p, y, weight)) == pytest.approx(want * 2 / 3, abs=STEP / 3 + 1e-6)


def test_a_single_member_or_few_rows_stay_as_they_are():
    p, y = members(np.random.default_rng(2), count=1)
    assert width_factor(p, y) == 1.0
    p, y = members(np.random.default_rng(2), rows=19)
    assert width_factor(p, y) == 1.0


@pytest.fixture(scope="module")
def ensemble():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 4))
    y = np.sin(2 * x[:, 0]) * x[:, 1] + 0.3 * rng.normal(size=300)
    model = ScrollRegressor(
        n_members=3, routing="closed", body="smooth", max_steps=200, random_state=0
    )
    return model.fit(x, y), x, y


def test_members_of_an_estimator_have_that_width(ensemble, tmp_path):
    """Also from a file, and after more rows."""
    model, x, y = ensemble
    (part,) = model.model_.each
    width = float(part.width)
    assert width != 1.0
    psi = part.features(model.model_.encoder(torch.from_numpy(x)))

    def check(fitted):
        (now,) = fitted.model_.each
        bare = now.bound(psi).variance
        said = fitted.predict_dist(x).parts.variance / fitted.model_.scale**2
        torch.testing.assert_close(said, bare.double() * width**2, rtol=1e-4, atol=0)
        return bare

    before = check(model)
    model.save(tmp_path / "m.scroll")
    again = scroll.load(tmp_path / "m.scroll")
    check(again)
    again.update(x[:100], y[:100])
    assert (check(again) < before).all()


def test_a_single_member_keeps_its_own_width(ensemble):
    _, x, y = ensemble
    one = ScrollRegressor(body="smooth", max_steps=40, random_state=0).fit(x, y)
    assert [float(part.width) for part in one.model_.each] == [1.0]


def test_rows_that_were_trained_on_do_not_say_how_wide(ensemble):
    """Two distinct rows: none can be held out."""
    x, y = np.repeat([[0.0], [1.0]], 30, 0), np.repeat([0.0, 1.0], 30)
    few = ScrollRegressor(n_members=2, max_steps=20, random_state=0).fit(x, y)
    assert {float(part.width) for part in few.model_.each} == {1.0}


def guesses(rng, wrong, rows=2000):
    """Two members that are sure, of labels of which a share is any."""
    y = rng.integers(3, size=rows)
    said = np.where(rng.random(rows) < wrong, rng.integers(3, size=rows), y)
    sure = np.full((2, rows, 3), -12.0)
    sure[:, np.arange(rows), said] = -np.log1p(2 * np.exp(-12.0))
    return torch.from_numpy(sure), torch.from_numpy(y)


@pytest.mark.parametrize("wrong", [0.01, 0.05])
def test_the_lapse_rate_is_that_of_the_best_score(wrong):
    log_probs, y = guesses(np.random.default_rng(4), wrong)
    rates = torch.tensor([0.2, 0.3, 0.5])
    p, floor = log_probs.exp().mean(0)[torch.arange(len(y)), y].numpy(), rates[y].numpy()
    best = minimize_scalar(
        lambda share: -np.log((1 - share) * p + share * floor).mean(),
        bounds=(1e-4, 0.1),
        method="bounded",
    ).x
    found = lapse_rate(log_probs, y, rates, rows=10_000)
    assert found == pytest.approx(best, rel=0.1)
    assert found == pytest.approx(wrong, rel=0.5)
    missed = torch.from_numpy(p < 0.5)
    heavy = torch.where(missed, 2.0, 1.0)
    assert lapse_rate(log_probs, y, rates, 10_000, heavy) > 1.3 * found


def test_a_lapse_rate_is_no_smaller_than_the_rows_can_tell():
    log_probs, y = guesses(np.random.default_rng(5), 0.0)
    rates = torch.full((3,), 1 / 3)
    assert lapse_rate(log_probs, y, rates, rows=99) == pytest.approx(0.01)
    assert lapse_rate(log_probs[:, :5], y[:5], rates, rows=99) == 0.01  # nor do few say more


@pytest.mark.parametrize("kind", [Categorical, Ordered])
def test_lapsed_labels_are_a_mixture(kind):
    p = kind(torch.randn(4, 3).log_softmax(-1))
    rates = torch.tensor([0.1, 0.0, 0.9])
    found = p.recalibrated(1.0, 0.2, rates)
    assert type(found) is kind
    torch.testing.assert_close(found.probs, 0.8 * p.probs + 0.2 * rates, rtol=1e-12, atol=0)
    torch.testing.assert_close(found.probs.sum(-1), torch.ones(4), rtol=1e-12, atol=0)


def test_no_label_is_impossible(tmp_path):
    """Not even far away from all rows; in a file as in the model, and not in the paper's recipe."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, 2))
    y = (x[:, 0] > 0).astype(int)
    model = ScrollClassifier(body=(16,), max_steps=200, random_state=0).fit(x, y)
    share = model.model_.spec.lapse
    assert share >= 0.999 / 201
    far = model.predict_proba(1e3 * x)
    assert far.min() >= 0.4 * share
    np.testing.assert_allclose(far.sum(-1), 1, rtol=1e-12)
    model.save(tmp_path / "m.scroll")
    np.testing.assert_array_equal(scroll.load(tmp_path / "m.scroll").predict_proba(1e3 * x), far)
    plain = ScrollClassifier(recipe="paper", max_steps=50, random_state=0).fit(x, y)
    assert plain.model_.spec.lapse == 0
