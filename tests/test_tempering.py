"""How wide the members of an ensemble are: one factor, most of the way to what held-out
rows ask for."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

import scroll
from scroll import ScrollRegressor
from scroll.estimators.tempering import tempered
from scroll.predictive import Normal

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
    assert np.log(tempered(p, y)) == pytest.approx(asked(p, y) * 2 / 3, abs=STEP / 3 + 1e-6)


def test_rows_count_by_their_weight():
    rng = np.random.default_rng(1)
    p, y = members(rng)
    far = y - p.mean.mean(0)
    weight = torch.where(far.abs() > 1.5, 5.0, 0.2).double()
    weight /= weight.mean()
    want = asked(p, y, weight.numpy())
    assert want > asked(p, y) + 0.2
    assert np.log(tempered(p, y, weight)) == pytest.approx(want * 2 / 3, abs=STEP / 3 + 1e-6)


def test_a_single_member_or_few_rows_stay_as_they_are():
    p, y = members(np.random.default_rng(2), count=1)
    assert tempered(p, y) == 1.0
    p, y = members(np.random.default_rng(2), rows=19)
    assert tempered(p, y) == 1.0


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
