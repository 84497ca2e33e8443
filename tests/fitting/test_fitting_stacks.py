"""Training again on all rows: each network up to the step that was best on held-out rows."""

import numpy as np
import pytest
import torch

from scroll import ClassificationHead, ScrollClassifier, ScrollRegressor
from scroll.estimators import rows as estimator_rows
from scroll.fitting import stacks
from scroll.fitting.stacks import train_for
from scroll.training.batches import Rows
from scroll.training.bodies import MLP
from scroll.training.loop import train
from scroll.training.network import Network, stack
from scroll.training.settings import Settings

SEEDS = (3, 4, 5)


def make(lead):
    return Network(MLP(2, 8, replicates=lead), ClassificationHead(8, 3, replicates=lead))


def rows(n=60):
    g = torch.Generator().manual_seed(0)
    return Rows(torch.randn(3, n, 2, generator=g), torch.randint(3, (3, n), generator=g))


@pytest.mark.parametrize("average", [1, 5])
def test_each_replicate_stops_at_its_own_look(average):
    """As if it had been trained for so many steps and no more."""
    data = rows()
    settings = Settings(steps=200, lr=0.01, every=4, batch=20, average=average)
    found = train_for(stack(make, SEEDS), data, torch.tensor([2, 9, 5]), settings, SEEDS, None)
    for r, looks in enumerate((2, 9, 5)):
        keep = torch.tensor([r])
        short = Settings(steps=4 * looks, lr=0.01, every=4, batch=20, average=average)
        steps = iter(range(1000))
        alone = train(
            stack(make, SEEDS[r : r + 1]),
            data.take(keep),
            data.take(keep),
            short,
            seeds=SEEDS[r : r + 1],
            score=lambda network, held, steps=steps: torch.tensor([-float(next(steps))]),
        ).network
        for p, q in zip(found.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(p[r], q[0], rtol=1e-9, atol=1e-12)


@pytest.fixture
def calls(monkeypatch):
    """The rows that each last training sees."""
    seen = []

    def watched(fresh, data, looks, *rest):
        seen.append((data, looks))
        return train_for(fresh, data, looks, *rest)

    monkeypatch.setattr(stacks, "train_for", watched)
    return seen


def table(n=80):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    return x, (x[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


def test_a_classifier_learns_from_all_rows(calls, monkeypatch):
    monkeypatch.setattr(estimator_rows, "CROSSFIT_ROWS", 0)  # as if there were too many for folds
    x, y = table()
    weight = np.linspace(0.5, 1.5, 80)
    model = ScrollClassifier(body="smooth", max_steps=60, n_members=2, random_state=0)
    model.fit(x, y, weight)
    ((data, looks),) = calls
    assert data.x.shape[:2] == (2, 80)
    assert sorted(data.y[0].tolist()) == sorted(y.tolist())
    assert sorted(data.weight[0].tolist()) == pytest.approx(sorted(weight), rel=1e-6)
    assert (looks == looks.round()).all()
    assert (looks >= 1).all()
    assert model.ood_score(x).shape == (80,)
    assert np.isfinite(model.predict_proba(x)).all()


def test_rows_of_your_own_are_not_learned_from(calls):
    x, y = table()
    how = {"body": (8,), "n_members": 2, "max_steps": 40, "random_state": 0}
    ScrollClassifier(**how).fit(x[:60], y[:60], eval_set=(x[60:], y[60:]))
    assert calls == []


def test_members_of_folds_have_learned_from_all_rows_together(calls):
    x, y = table()
    how = {"body": (8,), "n_members": 2, "max_steps": 40, "random_state": 0}
    ScrollClassifier(**how).fit(x, y)
    assert calls == []


def test_a_regressor_has_its_posterior_for_that(calls, monkeypatch):
    monkeypatch.setattr(estimator_rows, "CROSSFIT_ROWS", 0)
    x, y = table()
    how = {"body": (8,), "n_members": 2, "max_steps": 40, "random_state": 0}
    ScrollRegressor(**how).fit(x, y - 0.5 + 0.1 * x[:, 0])
    assert calls == []
