"""Tasks: one value per kind of target, with the same operations."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch

from scroll import CountHead
from scroll.estimators.tasks import CountTask, RealTask, Units, number_task
from scroll.estimators.tasks.labels import LabelTask

LEVELS = np.array(["low", "mid", "high"])
TASKS = [RealTask(), CountTask("poisson"), LabelTask("ordinal", LEVELS)]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_targets_come_back_as_the_user_gave_them(task):
    given = ["mid", "low", "high"] if task.levels is not None else [3.0, 0.0, 5.0]
    y = task.read(given)
    units = task.units(y, scaled=True)
    trained = task.encode(y, units, seed=0)
    assert len(trained) == 3
    own = torch.as_tensor(units.shift), torch.as_tensor(units.scale)
    values = own[0] + own[1] * trained if isinstance(task, RealTask) else trained
    back = task.decode(values)
    if task.levels is None:
        np.testing.assert_allclose(back, given, rtol=1e-6, atol=1e-6)
    else:
        assert back.tolist() == given
    with pytest.raises(FrozenInstanceError):
        task.likelihood = "other"


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_a_missing_target_is_refused_in_the_words_of_scikit_learn(task):
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        task.read(None)


def test_a_real_target_has_zero_mean_and_unit_spread():
    task, y = RealTask(), np.random.default_rng(0).normal(5, 3, (50, 2))
    units = task.units(y, scaled=True)
    z = task.encode(y, units, 0).double()
    torch.testing.assert_close(z.mean(0), torch.zeros(2).double(), atol=1e-6, rtol=0)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(2).double())
    assert task.n_outputs(y) == 2
    np.testing.assert_array_equal(task.units(y, scaled=False).scale, [1.0, 1.0])


def test_a_constant_target_is_noise_in_a_small_unit():
    task, y = RealTask(), np.full(30, 7.0)
    units = task.units(y, scaled=True)
    assert units.scale == pytest.approx(7e-6)
    assert 0.5 < float(task.encode(y, units, 0).std()) < 1.5


def test_counts_are_integers_and_keep_their_unit():
    task = number_task("poisson")
    assert task.units(np.array([1.0, 2.0]), scaled=True) == Units(0.0, 1.0)
    assert task.decode(torch.tensor([1.0, 4.0])).dtype == np.int64
    with pytest.raises(ValueError, match=r"`y` must hold counts 0, 1, 2"):
        task.read([1.0, 0.5])
    with pytest.raises(ValueError, match="`y` must be one column of counts"):
        task.read([[1.0, 2.0], [3.0, 4.0]])


def test_a_head_of_counts_starts_at_their_mean_and_dispersion():
    head, y = CountHead(4, "negbinomial"), torch.tensor([0.0, 0.0, 8.0, 8.0])
    with torch.no_grad():
        CountTask("negbinomial").start(head, y)
    assert head.bias.exp().item() == pytest.approx(4.0)
    concentration = head.likelihood.log_concentration.exp().item()
    assert concentration == pytest.approx(16 / (float(y.var()) - 4))  # var = mean + mean^2 / r
