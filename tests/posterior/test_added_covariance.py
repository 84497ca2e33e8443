"""A model file keeps all of the covariance that a hybrid adds, whatever its family."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import scroll
from scroll import ScrollRegressor
from scroll.estimators.model import Model


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + 0.2 * rng.normal(size=120)


@pytest.mark.parametrize("family", ["diag", "lowrank", "full"])
def test_a_loaded_hybrid_predicts_bitwise_the_same(rows, family, tmp_path):
    x, y = rows
    how = {"body": "smooth", "routing": "hybrid", "max_steps": 30, "random_state": 0}
    fitted = ScrollRegressor(n_members=1, target="identity", tails="gaussian", **how)
    fitted.fit(x, y)
    old = fitted.model_
    model = Model(replace(old.spec, added=family)).eval()
    known = model.state_dict()
    tensors = old.state_dict()
    model.load_state_dict({name: tensors.get(name, known[name]) for name in known})
    part, before = model.each[0], old.each[0]
    psi = part.features(model.encoder(torch.from_numpy(x))).detach()
    unit = torch.from_numpy((y - old.shift.numpy()) / old.scale.numpy()).float()
    bound = before.bound.add(psi, unit[None], family=family, steps=60)
    part.hold(bound)
    fitted.model_ = model
    fitted.save(tmp_path / "m.scroll")
    loaded = scroll.load(tmp_path / "m.scroll")
    assert loaded.model_.spec.added == family
    for ours, theirs in zip(
        loaded.predict(x, return_std=True), fitted.predict(x, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    width = float(part.width) * old.scale.numpy()
    want = bound(psi).stddev[0].detach().numpy() * width
    np.testing.assert_allclose(fitted.predict(x, return_std=True)[1], want, rtol=1e-4)
    more = loaded.update(x[:20], y[:20]).predict(x, return_std=True)[1]
    np.testing.assert_array_equal(more, fitted.update(x[:20], y[:20]).predict(x, True)[1])


def test_a_model_refuses_the_covariance_of_another_family(rows):
    x, y = rows
    how = {"body": "smooth", "routing": "hybrid", "max_steps": 30, "random_state": 0}
    fitted = ScrollRegressor(n_members=2, **how)
    part = fitted.fit(x, y).model_.each[0]
    psi = part.features(fitted.model_.encoder(torch.from_numpy(x))).detach()
    other = part.bound.add(psi, psi[..., 0], family="lowrank", steps=2)
    with pytest.raises(ValueError, match=r"`added` must be .*'diag'.* but got .*'lowrank'"):
        part.hold(other)
