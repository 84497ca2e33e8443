"""skpro's own checks, and that the adapter changes no number."""

import numpy as np
import pandas as pd
import pytest
import torch

from scroll.estimators import ScrollRegressor

pytest.importorskip("skpro")

from skpro.utils import check_estimator

from scroll.integrations.skpro import ScrollProba
from sweeps import exhaustive


@pytest.fixture(autouse=True)
def _single(_float64_and_seed):
    torch.set_default_dtype(torch.float32)  # as users have it


def table(outputs=1):
    rng = np.random.default_rng(0)
    index = pd.Index(range(100, 160))
    x = pd.DataFrame(rng.normal(size=(60, 2)), index, columns=["a", "b"])
    x["kind"] = pd.Categorical(rng.choice(["u", "v"], 60))  # skpro refuses plain text
    y = x["a"].to_numpy()[:, None] + 0.3 * rng.normal(size=(60, outputs))
    return x, pd.DataFrame(y, index, columns=[f"y{k}" for k in range(outputs)])


@exhaustive
@pytest.mark.filterwarnings("ignore::scroll.estimators.CollapsedNoise")
def test_conformance():
    check_estimator(ScrollProba, raise_exceptions=True, verbose=False)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("members", [1, 3])
def test_values_are_those_of_the_regressor(members, outputs):
    x, y = table(outputs)
    how = {"n_members": members, "body": "smooth", "max_steps": 40, "random_state": 0}
    ours = ScrollRegressor(**how).fit(x, y.to_numpy()[:, 0] if outputs == 1 else y.to_numpy())
    theirs = ScrollProba(**how).fit(x, y)
    mean, std = (m.reshape(60, -1) for m in ours.predict(x, return_std=True))
    dist = theirs.predict_proba(x)
    assert type(dist).__name__ == ("Normal" if members == 1 else "NormalMixture")
    for found, want in (
        (theirs.predict(x), mean),
        (theirs.predict_var(x), std**2),
        (dist.mean(), mean),
        (dist.var(), std**2),
        (
            dist.log_pdf(y),
            ours.predict_dist(x).log_prob(torch.from_numpy(y.to_numpy().squeeze())).reshape(60, -1),
        ),
    ):
        assert found.index.equals(x.index)
        assert list(found.columns) == list(y.columns)
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)
    levels = [0.05, 0.5, 0.95]
    want = ours.predict_quantiles(x, levels).reshape(60, -1)
    found = theirs.predict_quantiles(x, levels)
    assert list(found.columns) == [(name, level) for name in y for level in levels]
    np.testing.assert_allclose(found, want, rtol=1e-9)
    interval = theirs.predict_interval(x, coverage=0.9)["y0"][0.9]
    np.testing.assert_allclose(interval, want[:, [0, 2]], rtol=1e-9)
