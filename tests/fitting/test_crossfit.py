"""Cross-fitting: which rows each member sees, and what the out-of-fold rows decide."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

import scroll
from scroll import ScrollClassifier
from scroll.estimators import labels
from scroll.estimators.model import Model
from scroll.fitting import crossfit
from scroll.fitting.calibration import best_power
from scroll.fitting.split import split

QUICK = {"max_steps": 60, "random_state": 0, "body": (16,)}


def table(n=200, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    cuts = np.quantile(x[:, 0], np.linspace(0, 1, classes + 1)[1:-1])
    return x, np.digitize(x[:, 0] + 0.3 * rng.normal(size=n), cuts)


def test_every_row_has_one_fold_and_every_fold_its_share_of_each_class():
    x, y = table(203)
    found = split(x, y, None, 0.2, 1, labels=True, folds=5)
    assert sorted(found.train) == list(range(203))
    assert len(found.held) == 0
    for label in range(3):
        sizes = np.bincount(found.fold[y[found.train] == label], minlength=5)
        assert np.ptp(sizes) <= 1


def test_equal_rows_share_a_fold_and_the_order_of_rows_says_nothing():
    x, y = table(60)
    x, y = np.repeat(x, 3, 0), np.repeat(y, 3)
    found = split(x, y, None, 0.2, 1, labels=True, folds=5)
    folds = {}
    for row, fold in zip(found.train, found.fold, strict=True):
        folds.setdefault(row // 3, set()).add(fold)
    assert all(len(each) == 1 for each in folds.values())
    order = np.random.default_rng(2).permutation(len(y))
    again = split(x[order], y[order], None, 0.2, 1, labels=True, folds=5)
    same = dict(zip(found.train // 3, found.fold, strict=True))
    assert same == dict(zip(order[again.train] // 3, again.fold, strict=True))


@pytest.fixture
def trained(monkeypatch):
    """What each call of `train` was given."""
    seen, real = [], crossfit.train

    def watched(network, rows, held, *rest, **how):
        seen.append((rows, held))
        return real(network, rows, held, *rest, **how)

    monkeypatch.setattr(crossfit, "train", watched)
    return seen


def test_a_member_learns_from_all_rows_but_its_own(trained):
    x, y = table(103)
    ScrollClassifier(n_members=4, **QUICK).fit(x, y)
    ((rows, held),) = trained
    for m in range(4):
        mine, kept = (
            {tuple(row) for row, w in zip(part.x[m].tolist(), part.weight[m], strict=True) if w > 0}
            for part in (rows, held)
        )
        assert not mine & kept
        assert len(mine | kept) == 103
        for part in (rows, held):
            assert float(part.weight[m].mean()) == pytest.approx(1, abs=1e-6)
    counts = (held.weight > 0).sum(1).tolist()
    assert sum(counts) == 103


def test_as_it_comes_there_are_five_and_bodies_are_chosen_by_all_rows():
    x, y = table()
    model = ScrollClassifier(max_steps=40, random_state=0).fit(x, y)
    assert len(model.bodies_) == len(model.scores_) == 5
    assert set(model.tried_) == {"smooth, free", "swell, free", "waves, free"}
    assert model.routes_ == ["free"] * 5
    assert model.score(x, y) > 0.7
    assert np.isfinite(model.ood_score(x)).all()


def test_out_of_fold_scores_are_those_of_rows_not_seen(trained):
    """Labels by chance: who has seen a row knows it, who has not does not."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 8)), rng.integers(2, size=60)
    how = {"body": (64,), "max_steps": 400, "learning_rate": 0.03, "random_state": 0}
    model = ScrollClassifier(n_members=3, **how).fit(x, y)
    (score,) = model.tried_.values()
    assert score > 0.6
    assert model.scores_ == pytest.approx([score] * 3, abs=0.2)


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        ({"n_members": 1}, 200),
        ({"likelihood": "gaussreg", "n_members": 2}, 200),
        ({"recipe": "paper", "n_members": 2}, 200),
        ({"n_members": 2}, 150),
    ],
)
def test_otherwise_all_members_hold_out_the_same(how, rows, trained, monkeypatch):
    monkeypatch.setattr(labels, "CROSSFIT_ROWS", 180 if rows == 200 else 100)
    x, y = table(rows)
    plain = {k: v for k, v in QUICK.items() if k != "body" or "recipe" not in how}
    ScrollClassifier(**how, **plain).fit(x, y)
    assert not trained


def test_an_eval_set_holds_out_for_all(trained):
    x, y = table()
    ScrollClassifier(n_members=2, **QUICK).fit(x, y, eval_set=table(seed=1))
    assert not trained


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


def test_rare_classes_and_few_rows():
    """A class of a single row, and hardly more rows than folds."""
    x, y = table(40, 2)
    y[3] = 7
    model = ScrollClassifier(**QUICK).fit(x, y)
    assert model.predict_proba(x).shape == (40, 3)
    x, y = table(10, 2)
    assert ScrollClassifier(**QUICK).fit(x, y).predict_proba(x).shape == (10, 2)
    assert ScrollClassifier(**QUICK).fit(x[:4], [0, 1, 0, 1]).predict_proba(x).shape == (10, 2)


@pytest.mark.parametrize("body", ["auto", "swell"])
def test_a_model_of_every_body_is_put_together_again(body, tmp_path):
    """Whichever the rows choose."""
    x, y = table(80)
    model = ScrollClassifier(max_steps=40, random_state=0, body=body).fit(x, y)
    parts = [(name, ["free"]) for name in ("smooth", "swell", "waves")]
    if body == "auto":
        spec = replace(model.model_.spec, parts=parts)
        assert len(Model(spec, None).each) == 3
    model.save(tmp_path / "m.scroll")
    again = scroll.load(tmp_path / "m.scroll")
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
