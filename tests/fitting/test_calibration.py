"""Calibration of an ensemble by rows that its members did not see: width, tails, power, lapses."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

import scroll
from scroll import ScrollClassifier, ScrollRegressor
from scroll.fitting import calibration
from scroll.fitting.calibration import (
    DEGREES,
    FACTORS,
    SHARES,
    Tails,
    best_power,
    fit_tails,
    fit_width,
    lapse_rate,
    log_density,
    power_of_mixture,
)
from scroll.predictive import Categorical, Normal, Ordered, Tail

CLOSE = 0.004  # of the logarithm of the width: where golden sections end
PLAIN = Tails(("gaussian",))
TAILS = [Tail(), Tail("student", df=3), Tail("student", df=30), Tail("lapse", 0, 0.05, 6.0)]


def members(rng, count=5, rows=400, wide=1.0, outputs=()):
    """Members that differ by as much as their noise, and targets around their centre."""
    truth = rng.normal(size=(rows, *outputs))
    mean = truth + rng.normal(size=(count, rows, *outputs))
    noise = np.full_like(mean, 0.7 * wide**2)
    belief = wide**2 * rng.uniform(0.1, 0.5, size=mean.shape)
    return Normal(*map(torch.from_numpy, (mean, noise, belief))), torch.from_numpy(
        truth + rng.normal(size=truth.shape)
    )


def one_member(errors):
    """A predictive N(0, 1) of each row, and these targets."""
    zero, one = torch.zeros(1, len(errors)), torch.ones(1, len(errors))
    return Normal(zero, 0.9 * one, 0.1 * one), torch.as_tensor(errors)


def density(tail):
    """The log density of noise of unit scale, by scipy."""
    if tail.kind == "student":
        return stats.t(tail.df).logpdf
    if tail.kind == "gaussian":
        return stats.norm.logpdf
    return lambda z: logsumexp(
        [stats.norm.logpdf(z), stats.norm.logpdf(z, scale=tail.factor)],
        axis=0,
        b=np.reshape([1 - tail.share, tail.share], (2, *[1] * np.ndim(z))),
    )


def log_p(p, y, width, tail):
    """The log density of each row under the mixture of the members, by scipy."""
    mean, std, y = p.mean.numpy(), width * p.variance.sqrt().numpy(), y.numpy()
    each = density(tail)((y - mean) / std) - np.log(std)
    mixed = logsumexp(each, axis=0) - np.log(len(each))
    return mixed.sum(-1) if mixed.ndim == 2 else mixed


def best(p, y, tail=TAILS[0], weight=None):
    """The logarithm of the best width of a tail, and the score that it reaches, by scipy."""
    found = minimize_scalar(
        lambda w: -np.average(log_p(p, y, np.exp(w), tail), weights=weight),
        bounds=(-1.6, 1.6),
        method="bounded",
    )
    return found.x, -found.fun


@pytest.mark.parametrize("tail", TAILS, ids=str)
def test_densities_of_noise(tail):
    z = torch.linspace(-40, 40, 161)
    np.testing.assert_allclose(log_density(z, tail), density(tail)(z.numpy()), rtol=1e-9)


@pytest.mark.parametrize("wide", [0.6, 1.0, 2.0])
@pytest.mark.parametrize("outputs", [(), (2,)])
def test_the_width_has_the_best_score(wide, outputs):
    p, y = members(np.random.default_rng(0), wide=wide, outputs=outputs)
    found = fit_tails(p, y, None, PLAIN)
    assert np.log(found.width) == pytest.approx(best(p, y)[0], abs=CLOSE)
    assert found.tail == Tail()
    want = log_p(p, y, found.width, Tail())
    np.testing.assert_allclose(found.log_p, want, rtol=1e-9, atol=1e-9)


def test_a_single_member_has_its_width_from_held_out_rows_too():
    p, y = one_member(2.5 * np.random.default_rng(1).normal(size=2000))
    found = fit_tails(p, y, None, Tails())
    assert found.width == pytest.approx(y.std().item(), rel=0.01)
    assert found.tail == Tail()


def test_rows_count_by_their_weight():
    p, y = members(np.random.default_rng(1))
    far = y - p.mean.mean(0)
    weight = torch.where(far.abs() > 1.5, 5.0, 0.2)
    weight /= weight.mean()
    want = best(p, y, weight=weight.numpy())[0]
    assert want > best(p, y)[0] + 0.2
    assert np.log(fit_tails(p, y, weight, PLAIN).width) == pytest.approx(want, abs=CLOSE)


@pytest.mark.parametrize("few", [False, True])
def test_few_rows_stay_as_they_are(few):
    p, y = members(np.random.default_rng(2), rows=19)
    found = fit_tails(p, y, None, Tails(), few)
    assert (found.width, found.tail) == (1.0, Tail())
    np.testing.assert_allclose(found.log_p, log_p(p, y, 1.0, Tail()), rtol=1e-9, atol=1e-9)


def test_of_many_rows_some_decide_and_all_are_scored(monkeypatch):
    monkeypatch.setattr(calibration, "MOST", 100)
    p, y = members(np.random.default_rng(3), rows=350)
    found = fit_tails(p, y, None, PLAIN)
    some = Normal(*(t[:, ::4] for t in (p.mean, p.noise_var, p.belief_var)))
    assert np.log(found.width) == pytest.approx(best(some, y[::4])[0], abs=CLOSE)
    assert abs(np.log(found.width) - best(p, y)[0]) > 2 * CLOSE
    assert found.log_p.shape == (350,)


@pytest.mark.parametrize("df", [3, 6])
def test_student_errors_have_a_student_tail(df):
    """The degrees of freedom and the width of the best score."""
    p, y = one_member(1.5 * stats.t(df).rvs(3000, random_state=df))
    found = fit_tails(p, y, None, Tails())
    scores = {k: best(p, y, Tail("student", df=k)) for k in DEGREES}
    assert found.tail == Tail("student", df=max(scores, key=lambda k: scores[k][1]))
    assert abs(found.tail.df - df) <= 2
    assert np.log(found.width) == pytest.approx(scores[found.tail.df][0], abs=CLOSE)
    want = log_p(p, y, found.width, found.tail)
    np.testing.assert_allclose(found.log_p, want, rtol=1e-9, atol=1e-9)


def test_contaminated_errors_have_lapses():
    """Some rows have fifteen times the error: no Student-t distribution fits both kinds."""
    rng = np.random.default_rng(4)
    p, y = one_member(rng.normal(size=3000) * np.where(rng.random(3000) < 0.05, 15, 0.5))
    found = fit_tails(p, y, None, Tails())
    assert found.tail.kind == "lapse"
    grid = [Tail("lapse", share=s, factor=f) for s in SHARES for f in FACTORS]
    assert found.tail == max(grid, key=lambda tail: best(p, y, tail)[1])
    assert found.width == pytest.approx(0.5, rel=0.05)
    assert found.tail.share == 0.05
    assert found.width * found.tail.factor == pytest.approx(15, rel=0.4)  # the grid is coarse
    want = log_p(p, y, found.width, found.tail)
    np.testing.assert_allclose(found.log_p, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [200, 2000])
def test_normal_errors_stay_normal(rows):
    for seed in range(5):
        p, y = one_member(np.random.default_rng(seed).normal(size=rows))
        assert fit_tails(p, y, None, Tails()).tail == Tail()


def test_a_tail_must_earn_what_its_parameter_costs():
    """By the Bayesian information criterion: log(n) / 2 per parameter."""
    kinds = []
    for seed in range(6):
        p, y = one_member(stats.t(4).rvs(60, random_state=seed))
        gains = [best(p, y, Tail("student", df=k))[1] - best(p, y)[1] for k in DEGREES]
        earned = 60 * max(gains) > np.log(60) / 2
        kinds.append(fit_tails(p, y, None, Tails(("gaussian", "student"))).tail.kind)
        assert kinds[-1] == ("student" if earned else "gaussian")
    assert set(kinds) == {"gaussian", "student"}


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("kinds", [("student",), ("lapse",), ("gaussian", "lapse")])
def test_only_allowed_tails_are_taken(kinds, few):
    for errors in (stats.t(3).rvs(500, random_state=0), np.random.default_rng(0).normal(size=500)):
        found = fit_tails(*one_member(errors), None, Tails(kinds), few)
        assert found.tail.kind in kinds


def test_lapses_are_no_wider_than_allowed():
    """Under a logarithm wide ones would have an infinite mean."""
    rng = np.random.default_rng(5)
    p, y = one_member(rng.normal(size=2000) * np.where(rng.random(2000) < 0.05, 20, 1))
    free, bounded = (
        fit_tails(p, y, None, Tails(("gaussian", "lapse"), widest)) for widest in (None, 3.0)
    )
    assert free.width * free.tail.factor > 15
    assert bounded.tail.kind == "lapse"
    assert bounded.width * bounded.tail.factor <= 3.0 + 1e-9


@pytest.mark.parametrize("kinds", [("gaussian", "lapse"), ("lapse",)])
def test_where_no_lapse_is_allowed_errors_stay_normal(kinds):
    found = fit_tails(
        *one_member(np.random.default_rng(0).normal(size=100)), None, Tails(kinds, 1e-3)
    )
    assert found.tail == Tail()


def test_the_width_of_censored_targets():
    rng = np.random.default_rng(6)
    p, y = members(rng, count=3)
    low, high = y.clone(), y.clone()
    low[::3] -= 1.0
    high[::3] = torch.inf  # known to be at least that
    weight = torch.from_numpy(rng.uniform(0.2, 2, len(y)))
    mean, std = p.mean.numpy(), p.variance.sqrt().numpy()

    def loss(log_width):
        wide = np.exp(log_width) * std
        each = stats.norm.logpdf(y.numpy(), mean, wide)
        each[:, ::3] = stats.norm.logsf(low[::3].numpy(), mean[:, ::3], wide[:, ::3])
        return -np.average(logsumexp(each, axis=0), weights=weight)

    want = minimize_scalar(loss, bounds=(-1.6, 1.6), method="bounded").x
    found = fit_width(p, torch.stack([low, high], -1), weight)
    assert np.log(found) == pytest.approx(want, abs=CLOSE)
    assert fit_width(p, torch.stack([y, y], -1), None) == pytest.approx(
        fit_tails(p, y, None, PLAIN).width, rel=CLOSE
    )
    few = Normal(*(t[:, :19] for t in (p.mean, p.noise_var, p.belief_var)))
    assert fit_width(few, torch.stack([y, y], -1)[:19], None) == 1.0


@pytest.fixture(scope="module")
def ensemble():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 4))
    y = np.sin(2 * x[:, 0]) * x[:, 1] + 0.3 * rng.normal(size=300)
    model = ScrollRegressor(
        n_members=3,
        routing="closed",
        tails="gaussian",
        body="smooth",
        max_steps=200,
        random_state=0,
    )
    return model.fit(x, y), x, y


def test_members_of_an_estimator_have_that_width(ensemble, tmp_path):
    """Also from a file, and after more rows."""
    model, x, y = ensemble
    (part,) = model.model_.each
    width = model.model_.spec.width
    assert float(part.width) == width != 1.0
    psi = part.features(model.model_.encoder(torch.from_numpy(x)))

    def check(fitted):
        (now,) = fitted.model_.each
        bare = now.bound(psi).variance
        wide = fitted.predict_dist(x).parts.variance / fitted.model_.scale**2
        torch.testing.assert_close(wide, bare.double() * width**2, rtol=1e-4, atol=0)
        return bare

    before = check(model)
    model.save(tmp_path / "m.scroll")
    again = scroll.load(tmp_path / "m.scroll")
    check(again)
    again.update(x[:100], y[:100])
    assert (check(again) < before).all()


def test_the_tail_of_a_model_is_that_of_its_errors(tmp_path):
    """Errors that no network predicts, so that the tail is known."""
    rng = np.random.default_rng(7)
    x, noise = (
        rng.normal(size=(600, 2)),
        {
            "gaussian": rng.normal(size=600),
            "student": rng.standard_t(3, size=600),
            "lapse": rng.normal(size=600) * np.where(rng.random(600) < 0.05, 30, 1),
        },
    )
    how = {"body": "linear", "n_members": 2, "max_steps": 40, "random_state": 0}
    for kind, errors in noise.items():
        model = ScrollRegressor(**how).fit(x, errors)
        assert model.model_.tail.kind == kind
    model.save(tmp_path / "m.scroll")
    again = scroll.load(tmp_path / "m.scroll")
    assert again.model_.tail == model.model_.tail
    np.testing.assert_array_equal(again.predict_interval(x), model.predict_interval(x))
    forced = ScrollRegressor(tails="gaussian", **how).fit(x, errors)
    assert forced.model_.tail == Tail()
    sharp, blunt = (
        m.predict_dist(x).log_prob(torch.from_numpy(errors)).mean() for m in (model, forced)
    )
    assert sharp > blunt + 0.3


@pytest.mark.filterwarnings("ignore::scroll.estimators.CollapsedNoise")
def test_two_rows_that_were_trained_on_calibrate_nothing():
    x = np.array([[0.0], [1.0]])
    few = ScrollRegressor(n_members=2, max_steps=20, random_state=0).fit(x, [-1.0, 1.0])
    assert few.model_.spec.width == 1.0
    assert few.model_.tail == Tail()


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
    model = ScrollClassifier(body=(16,), n_members=2, max_steps=100, random_state=0).fit(x, y)
    share = model.model_.spec.lapse
    assert share >= 0.999 / 201
    far = model.predict_proba(1e3 * x)
    assert far.min() >= 0.4 * share
    np.testing.assert_allclose(far.sum(-1), 1, rtol=1e-12)
    model.save(tmp_path / "m.scroll")
    np.testing.assert_array_equal(scroll.load(tmp_path / "m.scroll").predict_proba(1e3 * x), far)
    plain = ScrollClassifier(recipe="paper", max_steps=50, random_state=0).fit(x, y)
    assert plain.model_.spec.lapse == 0


def test_the_power_is_the_best_one():
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 3, generator=g, dtype=torch.float64)
    y = torch.multinomial((1.6 * logits).softmax(-1), 1, generator=g)[:, 0]
    weight = torch.rand(4000, generator=g, dtype=torch.float64)

    def nll(log_b):
        log_p = (np.exp(log_b) * logits).log_softmax(-1).gather(-1, y[:, None])[:, 0]
        return -float((log_p * weight).sum())

    best = np.exp(minimize_scalar(nll, bounds=(-0.7, 0.7), method="bounded").x)
    found = best_power(logits.log_softmax(-1), y, weight)
    assert found == pytest.approx(best, rel=0.02)
    assert found == pytest.approx(1.6, rel=0.1)
    assert best_power(logits[:5].log_softmax(-1), y[:5]) == 1.0


def entropies(log_p):
    """The entropy of each row, by scipy."""
    return stats.entropy(np.exp(log_p - logsumexp(log_p, axis=-1, keepdims=True)), axis=-1)


def disagreeing(spread, seed=0):
    """Members (5, 300, 3) whose logits differ by independent errors, and the true logits."""
    rng = np.random.default_rng(seed)
    truth = 2 * rng.normal(size=(300, 3))
    each = truth + spread * rng.normal(size=(5, 300, 3))
    return each - logsumexp(each, axis=-1, keepdims=True), truth


@pytest.mark.parametrize("weighted", [False, True])
def test_a_mixture_is_raised_to_the_entropy_of_its_members(weighted):
    each, _ = disagreeing(0.5)
    mixed = logsumexp(each, axis=0)
    weight = np.random.default_rng(1).uniform(0, 2, 300) if weighted else np.ones(300)
    wanted = np.average(entropies(0.8 * each).mean(0), weights=weight)
    want = brentq(lambda b: np.average(entropies(b * mixed), weights=weight) - wanted, 0.8, 1.2)
    given = torch.from_numpy(weight) if weighted else None
    found = power_of_mixture(torch.from_numpy(each), 0.8, given)
    assert found == pytest.approx(want, abs=1e-9)
    assert found > 0.82


def test_members_that_agree_keep_their_power():
    each, _ = disagreeing(0.0)
    assert power_of_mixture(torch.from_numpy(each), 0.8) == pytest.approx(0.8, abs=1e-9)
    sure = torch.tensor([[[0.0, -torch.inf]], [[0.0, -torch.inf]]])
    assert power_of_mixture(sure, 1.3) == 1.3
    torn = torch.tensor([[[0.0, -torch.inf]], [[-torch.inf, 0.0]]])  # no power helps
    assert power_of_mixture(torn, 1.0) == pytest.approx(1.5, abs=1e-9)


@pytest.mark.parametrize("spread", [0.3, 0.6, 1.0])
def test_the_power_of_the_mixture_is_better_than_that_of_its_members(spread):
    """The power is fitted to one member per row, as for rows out of fold."""
    each, truth = disagreeing(spread)
    p = np.exp(truth - logsumexp(truth, axis=-1, keepdims=True))
    y = np.array([np.random.default_rng(n).choice(3, p=row) for n, row in enumerate(p)])
    own = each[np.arange(300) % 5, np.arange(300)]
    power = best_power(torch.from_numpy(own), torch.from_numpy(y))

    def loss(b):
        """The expected NLL of new labels of these rows."""
        log_p = b * (logsumexp(each, axis=0) - np.log(5))
        return -(p * (log_p - logsumexp(log_p, axis=-1, keepdims=True))).sum(-1).mean()

    assert loss(power_of_mixture(torch.from_numpy(each), power)) < loss(power)
