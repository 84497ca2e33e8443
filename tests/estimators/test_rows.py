"""The rows of a fit: how many folds, which rows are held out, how they weigh."""

import numpy as np
import pytest
import torch

from scroll import ScrollClassifier, ScrollRegressor
from scroll.estimators import rows
from scroll.estimators.rows import Sample, n_folds, split_rows
from scroll.estimators.tasks import LabelTask, RealTask
from scroll.tables.columns import TableSchema


@pytest.mark.parametrize(
    ("n_rows", "members", "folds"),
    [
        (100, 5, 5),
        (100, 10, 10),
        (100, 1, 0),  # a single member would learn from nothing
        (10, 5, 5),
        (9, 5, 0),  # two rows per fold, at least
        (50_000, 5, 5),
        (50_001, 5, 0),
    ],
)
def test_number_of_folds(n_rows, members, folds):
    assert n_folds(n_rows, members) == folds


def sample(n=60, labels=False):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    return Sample(x, rng.integers(3, size=n) if labels else rng.normal(size=n))


def parts(given, task, some, members=5, own=False, weight=None):
    schema = TableSchema.of(some.codes)
    return split_rows(given, task, schema, some, weight, members, seed=3, own=own)


@pytest.mark.parametrize("labels", [False, True])
def test_every_row_has_a_fold(labels):
    some = sample(labels=labels)
    task = LabelTask("ova", np.arange(3)) if labels else RealTask()
    found = parts(ScrollRegressor(), task, some)
    assert sorted(found.train) == list(range(60))
    assert np.bincount(found.fold).tolist() == pytest.approx([12] * 5, abs=2)
    if labels:
        counts = np.zeros((5, 3), int)
        np.add.at(counts, (found.fold, some.y[found.train]), 1)
        assert np.ptp(counts, axis=0).max() <= 1


@pytest.mark.parametrize(
    "how",
    [
        {"given": ScrollRegressor(recipe="paper")},
        {"members": 1},
        {"own": True},
        {"members": 40},
    ],
)
def test_otherwise_there_are_no_folds(how):
    found = parts(**{"given": ScrollRegressor(), "task": RealTask(), "some": sample()} | how)
    assert found.fold is None
    assert len(found.held) == (60 if how.get("own") else 12)


def test_above_a_number_of_rows_there_are_no_folds(monkeypatch):
    monkeypatch.setattr(rows, "CROSSFIT_ROWS", 59)
    found = parts(ScrollRegressor(validation_fraction=0.25), RealTask(), sample())
    assert found.fold is None
    assert len(found.held) == 15
    assert sorted([*found.train, *found.held]) == list(range(60))


def test_classes_weigh_in_every_fold():
    some = sample(labels=True)
    task = LabelTask("ova", np.arange(3), class_weight=np.array([1.0, 2.0, 4.0]))
    weight = np.linspace(0.5, 1.5, 60)
    found = parts(ScrollClassifier(), task, some, weight=weight)
    want = (weight * task.class_weight[some.y])[found.train]
    np.testing.assert_allclose(found.weight, want / want.mean(), rtol=1e-12)


def test_rows_of_your_own_are_encoded_by_the_training_rows():
    """They are shifted and scaled as the training rows are, and do not shift them."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    how = {"body": (8,), "n_members": 2, "max_steps": 20, "random_state": 0}
    near, far = (
        ScrollRegressor(**how).fit(x, y, eval_set=(x[:20] + shift, y[:20] + shift))
        for shift in (0, 100)
    )
    for one, other in (
        (near.model_.shift, far.model_.shift),
        (near.model_.scale, far.model_.scale),
    ):
        assert torch.equal(one, other)
    codes = torch.from_numpy(x)
    assert torch.equal(near.model_.encoder(codes), far.model_.encoder(codes))
    assert float(near.model_.shift) == pytest.approx(y.mean(), rel=1e-12)
