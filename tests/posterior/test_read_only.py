"""Read-only arrays, as memory maps and data frames hand them out, are taken without a warning."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from scroll import ScrollClassifier, ScrollRegressor

QUICK = {"body": "smooth", "n_members": 2, "max_steps": 3, "random_state": 0}


@pytest.fixture(autouse=True)
def _always():
    """Torch warns of read-only arrays once per process, unless filters say otherwise."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


def mapped(folder, name, array):
    np.save(folder / f"{name}.npy", array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


def frozen(array):
    array = np.array(array)
    array.flags.writeable = False
    return array


MODELS = {
    "regressor": (lambda: ScrollRegressor(routing="closed", **QUICK), lambda x: x[:, 0] + x[:, 1]),
    "counts": (
        lambda: ScrollRegressor(likelihood="poisson", **QUICK),
        lambda x: np.floor(np.exp(x[:, 0])),
    ),
    "classifier": (lambda: ScrollClassifier(**QUICK), lambda x: x[:, 0] > 0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_estimators_take_read_only_arrays(name, dtype, tmp_path):
    make, target = MODELS[name]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).astype(dtype)
    y = target(x + 0.3 * rng.normal(size=x.shape))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given, targets in (
            (mapped(tmp_path, "x", x), mapped(tmp_path, "y", y)),
            (frozen(x), frozen(y)),
            (pd.DataFrame(frozen(x), columns=["a", "b"], copy=False), pd.Series(frozen(y))),
        ):
            model = make().fit(given, targets, sample_weight=frozen(np.ones(60)))
            model.fit(given, targets, eval_set=(given, targets))
            model.predict(given)
            model.ood_score(given)
            model.score(given, targets)
            model.predict_dist(given).log_prob(frozen(np.asarray(y, dtype=int)))
            if name == "regressor":
                model.update(given, targets)
