"""Out-of-fold scores: each row judged by networks that did not see it."""

import pickle

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.base import clone

import scroll
from scroll import ScrollClassifier, ScrollRegressor
from scroll.estimators import pipeline
from scroll.estimators.arguments import check_seed
from scroll.factors import Poisson
from scroll.fitting.out_of_fold import OutOfFold, column_names, row_scores, summary
from scroll.fitting.split import split
from scroll.predictive import Categorical, Count, Normal, Ordered

QUICK = {"max_steps": 40, "random_state": 0, "body": (8,)}
N, M = 83, 3


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


def crps_of_normal(mean, std, y):
    z = (y - mean) / std
    return std * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.pi**0.5)


@pytest.fixture
def ensembles(monkeypatch):
    """What training returns to the estimators."""
    seen, real = [], pipeline.fit_ensemble

    def watched(*args, **how):
        seen.append(real(*args, **how))
        return seen[-1]

    monkeypatch.setattr(pipeline, "fit_ensemble", watched)
    return seen


def fold_of_rows(x, y, labels=False):
    """The fold of each row of a table, by the seed of `QUICK`."""
    found = split(x, y, None, 0.2, check_seed(0), labels=labels, folds=M)
    fold = np.empty(len(x), int)
    fold[found.train] = found.fold
    return fold


def test_numbers_are_judged_by_the_member_that_did_not_see_them(ensembles):
    """Recomputed from the networks; beliefs of the free route do not change afterwards."""
    x, y = table()
    y = 100 + 7 * y
    how = {"routing": "free", "tails": "gaussian", "target": "identity", "n_members": M}
    model = ScrollRegressor(**how, **QUICK).fit(x, y)
    ((part,), calibration) = ensembles[0].parts, ensembles[0].calibration
    codes = model.model_.encoder(torch.from_numpy(x))
    with torch.no_grad():
        p = part.network(codes.expand(M, -1, -1))
    own = fold_of_rows(x, y), np.arange(N)
    shift, scale = float(model.model_.shift), float(model.model_.scale)
    mean = shift + scale * p.mean.numpy()[own]
    std = scale * calibration.width * p.stddev.numpy()[own]
    order = np.argsort(model.oof_["row"])
    assert model.oof_["row"][order].tolist() == list(range(N))
    found = {name: column[order] for name, column in model.oof_.items()}
    want = {
        "log_prob": stats.norm.logpdf(y, mean, std),
        "error": y - mean,
        "crps": crps_of_normal(mean, std, y),
        "below": stats.norm.cdf(y, mean, std),
        "upto": stats.norm.cdf(y, mean, std),
    }
    assert {*found} == {*want, "row", "ood"}
    for name, column in want.items():  # networks are of single precision
        np.testing.assert_allclose(found[name], column, rtol=2e-4, atol=2e-4)
    scores = model.oof_scores(0.8)
    assert scores["nll"] == pytest.approx(-want["log_prob"].mean(), abs=1e-3)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean(want["error"] ** 2)), rel=1e-3)
    assert scores["crps"] == pytest.approx(want["crps"].mean(), rel=1e-3)
    level = want["upto"]
    assert scores["coverage"] == pytest.approx(np.mean((level >= 0.1) & (level <= 0.9)), abs=1e-6)


def test_labels_are_judged_by_the_member_that_did_not_see_them(ensembles):
    x, y = table()
    k = np.digitize(y, (-0.5, 0.5))
    model = ScrollClassifier(n_members=M, **QUICK).fit(x, k)
    ((part,), calibration) = ensembles[0].parts, ensembles[0].calibration
    with torch.no_grad():
        p = part.network(model.model_.encoder(torch.from_numpy(x)).expand(M, -1, -1))
    own = fold_of_rows(x, k, labels=True), np.arange(N)
    spec = model.model_.spec
    assert spec.power > calibration.power  # that of the mixture of all folds
    powered = p.probs.double().numpy()[own] ** calibration.power
    probs = powered / powered.sum(1, keepdims=True)
    probs = (1 - spec.lapse) * probs + spec.lapse * model.model_.rates.numpy()
    found = {name: column[np.argsort(model.oof_["row"])] for name, column in model.oof_.items()}
    rows = np.arange(N)
    np.testing.assert_allclose(found["log_prob"], np.log(probs[rows, k]), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found["correct"], probs.argmax(1) == k)
    brier = ((probs - np.eye(3)[k]) ** 2).sum(1)
    np.testing.assert_allclose(found["brier"], brier, rtol=1e-4, atol=1e-4)
    assert model.oof_scores() == pytest.approx(
        {
            "nll": -np.log(probs[rows, k]).mean(),
            "brier": brier.mean(),
            "accuracy": np.mean(probs.argmax(1) == k),
        },
        rel=1e-3,
    )


TASKS = {
    "numbers": (ScrollRegressor(n_members=2, **QUICK), lambda y: y),
    "two numbers": (ScrollRegressor(n_members=2, **QUICK), lambda y: np.stack([y, y**2], 1)),
    "logarithms": (ScrollRegressor(target="log", n_members=2, **QUICK), np.exp),
    "lapses": (ScrollRegressor(tails="lapse", n_members=2, **QUICK), lambda y: y),
    "counts": (
        ScrollRegressor(likelihood="negbinomial", n_members=2, **QUICK),
        lambda y: np.floor(np.exp(y)),
    ),
    "classes": (ScrollClassifier(n_members=2, **QUICK), lambda y: np.digitize(y, (-0.5, 0.5))),
    "ordered": (
        ScrollClassifier(ordered=True, n_members=2, **QUICK),
        lambda y: np.digitize(y, (-0.5, 0.5)),
    ),
}


@pytest.mark.parametrize("task", TASKS)
def test_scores_are_saved_with_the_model(task, tmp_path):
    x, y = table()
    model, target = clone(TASKS[task][0]), TASKS[task][1]
    model.fit(x, target(y))
    model.save(tmp_path / "m.scroll")
    for again in (scroll.load(tmp_path / "m.scroll"), pickle.loads(pickle.dumps(model))):
        assert again.oof_.keys() == model.oof_.keys()
        for name, column in model.oof_.items():
            np.testing.assert_array_equal(again.oof_[name], column)
            assert again.oof_[name].dtype == column.dtype
        assert again.oof_scores() == model.oof_scores()


@pytest.mark.parametrize("task", TASKS)
def test_scores_of_rows_of_your_own_are_those_of_the_model(task):
    """Their rows are numbered in their own table, which may be longer than that of training."""
    (x, y), (later, z) = table(40), table(60, 1)
    model, target = clone(TASKS[task][0]), TASKS[task][1]
    model.fit(x, target(y), eval_set=(later, target(z)))
    assert model.oof_["row"].tolist() == list(range(60))
    log_p = model.predict_dist(later).log_prob(torch.from_numpy(target(z)))
    want = log_p if log_p.dim() == 1 else log_p.sum(-1)
    np.testing.assert_allclose(model.oof_["log_prob"], want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.oof_["ood"], model.ood_score(later), rtol=1e-3)
    if task == "two numbers":
        for k in range(2):
            error = target(z)[:, k] - model.predict(later)[:, k]
            np.testing.assert_allclose(model.oof_[f"error_{k}"], error, rtol=1e-3, atol=1e-4)


def test_repeated_rows_are_judged_as_often_as_they_count():
    x, y = table(40)
    weight = np.arange(40) % 3
    model = ScrollRegressor(n_members=2, **QUICK).fit(x, y, sample_weight=weight)
    np.testing.assert_array_equal(np.bincount(model.oof_["row"], minlength=40), weight)


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90])
def test_coverage_is_a_share(coverage):
    model = ScrollRegressor(n_members=1, **QUICK).fit(*table(40))
    with pytest.raises(ValueError, match="`coverage` must lie strictly between 0 and 1"):
        model.oof_scores(coverage)


# The columns


def predictives(n=50):
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(n, 4, generator=g).log_softmax(-1)
    mean = torch.randn(n, generator=g)
    return {
        "counts": (Count(Poisson(), mean, torch.full((n,), 0.2)), torch.arange(n) % 7),
        "ordered": (Ordered(logits), torch.arange(n) % 4),
        "numbers": (Normal(mean, mean.square() + 0.1, mean.abs()), 2 * mean),
    }


@pytest.mark.parametrize("name", predictives())
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_coverage_is_that_of_the_intervals(name, coverage):
    """Also of counts and ordered classes, which have both ends inside."""
    p, y = predictives()[name]
    scores = OutOfFold(column_names("poisson", 1), row_scores(p, y, torch.zeros(50)))
    low, high = p.interval(coverage)
    inside = ((low <= y) & (y <= high)).double().mean()
    assert summary(scores, coverage)["coverage"] == pytest.approx(float(inside))
    at = dict(zip(scores.names, scores.values.T, strict=True))
    torch.testing.assert_close(at["upto"], p.cdf(y.double()).float())
    torch.testing.assert_close(at["crps"], p.crps(y).float())
    if name != "numbers":
        mass = (at["upto"] - at["below"]).double()  # P(. <= y) - P(. < y)
        torch.testing.assert_close(mass, p.log_prob(y).exp(), rtol=1e-5, atol=1e-6)


def test_scores_of_classes():
    g = torch.Generator().manual_seed(0)
    p, y = Categorical(torch.randn(50, 3, generator=g).log_softmax(-1)), torch.arange(50) % 3
    values = row_scores(p, y, torch.arange(50.0)).double()
    probs = p.probs
    brier = (probs - torch.nn.functional.one_hot(y, 3)).square().sum(-1)
    want = [p.log_prob(y), torch.arange(50.0), brier, (probs.argmax(-1) == y).double()]
    torch.testing.assert_close(values, torch.stack(want, -1), rtol=1e-6, atol=1e-6)


def test_every_output_has_columns_of_its_own():
    names = column_names("gaussian", 2)
    assert names == (
        "log_prob", "ood", "crps_0", "error_0", "below_0", "upto_0",
        "crps_1", "error_1", "below_1", "upto_1",
    )  # fmt: skip
    mean, y = torch.randn(30, 2), torch.randn(30, 2)
    p = Normal(mean, torch.ones(30, 2), torch.ones(30, 2))
    values = row_scores(p, y, torch.zeros(30))
    at = dict(zip(names, values.double().T, strict=True))
    torch.testing.assert_close(at["log_prob"], p.log_prob(y).sum(-1), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(at["error_1"], (y - mean)[:, 1], rtol=1e-6, atol=1e-6)
    scores = summary(OutOfFold(names, values), 0.9)
    assert scores["rmse"] == pytest.approx(float((y - mean).square().mean().sqrt()), rel=1e-6)


def test_p_values_of_unusual_rows():
    """About uniform for rows like those of training, small far away from them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 3))
    y = np.sin(x[:, 0]) + 0.2 * rng.normal(size=800)
    model = ScrollRegressor(body="smooth", max_steps=60, random_state=0)
    model.fit(x[:400], y[:400])
    p = model.ood_pvalue(x[400:])
    by_hand = [(1 + (model.oof_["ood"] >= s).sum()) / 401 for s in model.ood_score(x[400:])]
    np.testing.assert_allclose(p, by_hand, rtol=1e-12)
    for level in (0.1, 0.25, 0.5, 0.75):
        assert abs((p <= level).mean() - level) < 0.12
    assert (model.ood_pvalue(20 + x[:5]) <= 1 / 401 + 1e-12).all()


HALVES = np.where(np.arange(300) < 200, 0.5, 2.0)


@pytest.mark.parametrize("target", ["log", "identity"])
@pytest.mark.parametrize("how", ["crossed", "weighed", "own", "one member"])
def test_held_out_scores_are_in_the_units_of_the_target(target, how):
    """The map's slope is that of the rows that judge, by their weights."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (300, 2))
    y = np.exp(3 * x[:, 0] + 0.12 * rng.normal(size=300))
    new = rng.uniform(0, 0.3, (200, 2))
    held = (new, np.exp(3 * new[:, 0] + 0.12 * rng.normal(size=200))) if how == "own" else None
    settings = {"body": "smooth", "tails": "gaussian", "routing": "free", "max_steps": 40}
    members = 1 if how == "one member" else 3
    model = ScrollRegressor(target=target, n_members=members, random_state=0, **settings)
    weight = HALVES if how == "weighed" else None
    model.fit(x, y, sample_weight=weight, eval_set=held)
    log_p, rows = model.oof_["log_prob"].astype(float), model.oof_["row"]
    if how == "own":
        assert len(log_p) == 200
    want = -np.average(log_p, weights=None if weight is None else HALVES[rows])
    found = model.tried_["smooth, free"]
    assert found == pytest.approx(want, abs=2e-3)  # widths are found to 0.004 both times
