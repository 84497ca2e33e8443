"""Weights of bodies, beside a general optimiser; width and power of a mixture of all folds."""

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import minimize

from scroll import ScrollClassifier, load
from scroll.estimators import pipeline
from scroll.fitting.folds import Folds
from scroll.fitting.mixing import PRIOR, power_of_all, shrinkage, stacking_weights
from scroll.predictive import Categorical, Ordered


def scores(bodies, rows, seed=0):
    """Log densities of labels by bodies that differ in how good they are."""
    rng = np.random.default_rng(seed)
    good = 2 + 0.2 * np.arange(bodies)
    return np.log(rng.beta(good[:, None], 2, size=(bodies, rows)))


def best(log_p, weight):
    """The mode of the posterior over weights, by scipy."""

    def loss(logits):
        w = np.exp(logits - np.logaddexp.reduce(logits))
        fit = np.log((w[:, None] * np.exp(log_p)).sum(0)) * weight
        return -fit.sum() - PRIOR * np.log(w).sum()

    found = minimize(loss, np.zeros(len(log_p)), method="BFGS", options={"gtol": 1e-9}).x
    return np.exp(found - np.logaddexp.reduce(found))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weighted", [False, True])
def test_the_weights_have_the_greatest_posterior(seed, weighted):
    log_p = scores(3, 60, seed)
    weight = np.random.default_rng(seed).uniform(0, 2, 60) if weighted else np.ones(60)
    want = best(log_p, weight)
    assert want.min() > 0.06  # none is left out
    given = torch.from_numpy(weight) if weighted else None
    found = stacking_weights(torch.from_numpy(log_p), given)
    torch.testing.assert_close(found, torch.from_numpy(want), atol=2e-4, rtol=0)
    assert float(found.sum()) == pytest.approx(1, abs=1e-12)


def test_equal_bodies_share_and_a_useless_one_is_left_out():
    log_p = torch.from_numpy(scores(1, 200))
    twice = stacking_weights(torch.cat([log_p, log_p]))
    torch.testing.assert_close(twice, torch.full((2,), 0.5, dtype=torch.float64))
    for bad in (log_p - 5, torch.full_like(log_p, -torch.inf), torch.full_like(log_p, torch.nan)):
        assert stacking_weights(torch.cat([log_p, bad])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("kind", [Categorical, Ordered])
def test_a_weighted_mixture_is_the_weighted_mean_of_probabilities(kind):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), size=(3, 5))
    w = np.array([0.5, 0.3, 0.2])
    mixed = kind(torch.from_numpy(np.log(probs))).mixture(torch.from_numpy(w))
    want = np.einsum("m,mnk->nk", w, probs)
    np.testing.assert_allclose(mixed.probs.numpy(), want, atol=1e-12)
    equal = kind(torch.from_numpy(np.log(probs))).mixture(torch.full((3,), 1 / 3))
    np.testing.assert_allclose(equal.probs.numpy(), probs.mean(0), atol=1e-7)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_classifier_mixes_by_its_weights(ordered, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 3))
    y = np.digitize(x[:, 0] + 0.5 * rng.normal(size=150), [-0.5, 0.5])
    how = {"n_members": 2, "max_steps": 60, "random_state": 0}
    model = ScrollClassifier(ordered=ordered, **how).fit(x, y)
    weights, parts = model.model_.spec.weights, model.model_.each
    assert len(weights) == len(parts) > 1
    assert sum(weights) == pytest.approx(1)
    assert weights == sorted(weights, reverse=True)
    seen = model.model_.encoder(torch.from_numpy(x))
    each = [part.readout(part.features(seen)).log_probs.exp().double().mean(0) for part in parts]
    mixed = sum(w * p for w, p in zip(weights, each, strict=True))
    spec = model.model_.spec
    want = (spec.power * mixed.log()).softmax(-1)
    want = (1 - spec.lapse) * want + spec.lapse * model.model_.rates
    np.testing.assert_allclose(model.predict_proba(x), want.detach().numpy(), atol=1e-6)
    model.save(tmp_path / "m.scroll")
    same = load(tmp_path / "m.scroll")
    assert same.model_.spec.weights == weights
    np.testing.assert_array_equal(same.predict_proba(x), model.predict_proba(x))


def test_a_single_member_has_one_body_and_no_weights():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 2)), rng.integers(2, size=80)
    model = ScrollClassifier(n_members=1, max_steps=40, random_state=0).fit(x, y)
    assert model.model_.spec.weights is None
    assert len(model.bodies_) == 1


@pytest.mark.parametrize("rows", [60, 62])  # folds of equal and of different sizes
def test_the_ensemble_of_all_folds_is_as_confident_as_one_fold(monkeypatch, rows):
    """Recomputed from the networks of two bodies, over all training rows."""
    seen, real = [], pipeline.fit_ensemble
    monkeypatch.setattr(
        pipeline, "fit_ensemble", lambda *a, **k: seen.append(real(*a, **k)) or seen[-1]
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3))
    y = np.digitize(x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * rng.normal(size=rows), [-0.5, 0.5])
    model = ScrollClassifier(n_members=3, max_steps=100, random_state=0).fit(x, y)
    parts, power = model.model_.each, seen[0].calibration.power
    inputs = model.model_.encoder(torch.from_numpy(x))
    each = [p.readout(p.features(inputs)).log_probs.double().detach().numpy() for p in parts]
    fold = sum(w * np.exp(e) for w, e in zip(model.model_.spec.weights, each, strict=True))

    number = seen[0].judged.folds.number.numpy()
    folds = [model.model_.oof_rows.numpy()[row[row >= 0]] for row in number]

    def entropy(p, b):
        """The mean of the folds' means."""
        of_rows = np.atleast_2d(stats.entropy(p**b, axis=-1)).mean(0)
        return np.mean([of_rows[fold].mean() for fold in folds])

    assert len(parts) > 1
    assert len({len(fold) for fold in folds}) == 1 + (rows == 62)
    assert entropy(fold.mean(0), model.model_.spec.power) == pytest.approx(
        entropy(fold, power), abs=1e-6
    )
    assert model.model_.spec.power > power
    assert power_of_all([], None, Folds(*[None] * 5, crossed=False), power) == power
    assert shrinkage([], Folds(*[None] * 5, crossed=False), 1.0) == 1.0
