"""Model files: a loaded model equals the saved one; other files are refused in one line."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

import scroll
from scroll import ScrollClassifier, ScrollRegressor
from scroll.estimators.modelfile import FORMAT

pytestmark = [
    pytest.mark.oldest,
    pytest.mark.filterwarnings("ignore::scroll.estimators.CollapsedNoise"),
]
QUICK = {"max_steps": 30, "random_state": 0, "n_members": 1}


def frame(n=80):
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", None], n)
    x = pd.DataFrame({"u": rng.normal(size=n), "kind": kind, "on": rng.random(n) < 0.5})
    x.loc[::5, "u"] = np.nan
    return x, np.where(x.on, 3.0, 1.0) + x.u.fillna(0) + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def model():
    return ScrollRegressor(**QUICK | {"n_members": 2}).fit(*frame())


def same(a, b, x):
    np.testing.assert_array_equal(a.predict(x), b.predict(x))
    np.testing.assert_array_equal(a.ood_score(x), b.ood_score(x))


@pytest.mark.parametrize(
    "how",
    [
        {"n_members": 3},
        {"n_members": None, "body": (8,)},
        {"tails": "student", "body": (8,), "n_members": 2},
        {"tails": "lapse", "body": (8,)},
        {"target": "logit", "body": (8,), "n_members": 2},
        {"routing": "closed", "body": "smooth"},
        {"routing": "hybrid", "body": "waves", "covariance": "diag"},
        {"covariance": "lowrank", "body": (16, 8)},
        {"covariance": "none", "body": "matern"},
        {"recipe": "paper"},
    ],
)
def test_what_is_loaded_is_what_was_saved(how, tmp_path):
    x, y = frame()
    y = np.clip(y / 10 + 0.5, 0.01, 0.99) if how.get("target") == "logit" else y
    saved = ScrollRegressor(**(QUICK | how)).fit(x, y)
    saved.save(tmp_path / "model.scroll")
    loaded = scroll.load(tmp_path / "model.scroll")
    same(loaded, saved, x)
    assert loaded.get_params() == saved.get_params()
    assert loaded.feature_names_in_.tolist() == ["u", "kind", "on"]
    assert (loaded.routes_, loaded.bodies_) == (saved.routes_, saved.bodies_)
    assert (loaded.scores_, loaded.tried_) == (saved.scores_, saved.tried_)
    if how.get("routing") == "closed":
        for each in (saved, loaded):
            each.update(x[:10], y[:10])
        same(loaded, saved, x)


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1, 2], [True, False]])
def test_classes_come_back(labels, tmp_path):
    x, _ = frame()
    y = np.array(labels)[np.arange(80) % len(labels)]
    saved = ScrollClassifier(ordered=len(labels) == 3, **QUICK).fit(x, y)
    saved.save(tmp_path / "model.scroll")
    loaded = scroll.load(tmp_path / "model.scroll")
    assert loaded.classes_.dtype == saved.classes_.dtype
    same(loaded, saved, x)


def test_several_targets_and_counts(tmp_path):
    x, y = frame()
    both = ScrollRegressor(**QUICK).fit(x, np.stack([y, -y], 1))
    counts = ScrollRegressor(likelihood="zinb", **QUICK).fit(x, np.round(np.abs(y)))
    for saved in (both, counts):
        saved.save(tmp_path / "model.scroll")
        same(scroll.load(tmp_path / "model.scroll"), saved, x)


def test_a_users_own_body_is_asked_for_again(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(-30.0, 30.0)
    body = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
    saved = ScrollRegressor(body=body, **QUICK).fit(x, y)
    saved.save(tmp_path / "model.scroll")
    with pytest.raises(ValueError, match="`body` must be given again"):
        scroll.load(tmp_path / "model.scroll")
    same(scroll.load(tmp_path / "model.scroll", body=body), saved, x)
    other = nn.Sequential(nn.Linear(3, 9), nn.Tanh())
    with pytest.raises(ValueError, match="does not fit together"):
        scroll.load(tmp_path / "model.scroll", body=other)


def test_the_file_is_tensors_and_json(model, tmp_path):
    path = tmp_path / "model.scroll"
    model.save(path)
    with safe_open(path, framework="pt") as file:
        what = json.loads(file.metadata()[FORMAT])
    assert what["estimator"] == "ScrollRegressor"
    assert what["versions"]["scroll"] == scroll.__version__
    assert [c["name"] for c in what["table"]["columns"]] == ["u", "kind", "on"]
    assert b"pickle" not in path.read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(share, model, tmp_path):
    path = tmp_path / "model.scroll"
    model.save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="must be a model that scroll has saved"):
        scroll.load(path)


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "model.scroll"
    path.write_text("hello")
    with pytest.raises(ValueError, match="must be a model that scroll has saved"):
        scroll.load(path)
    save_file({"a": torch.zeros(3)}, path)
    with pytest.raises(ValueError, match="but got another file"):
        scroll.load(path)
    with pytest.raises(FileNotFoundError, match="`path` must be a file"):
        scroll.load(tmp_path / "nowhere")


def test_a_file_is_written_whole_or_not_at_all(model, tmp_path, monkeypatch):
    path = tmp_path / "model.scroll"
    model.save(path)
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        model.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match="must lie in a folder that exists"):
        model.save(tmp_path / "no" / "model.scroll")


def test_loading_does_not_import_the_compiler(model, tmp_path):
    """Its import takes longer than all else of `scroll predict`."""
    model.save(tmp_path / "model.scroll")
    code = (
        "import sys, scroll; scroll.load(sys.argv[1]).predict([[0.0, 'a', True]]); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    run = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "model.scroll")]
    assert subprocess.run(run, check=False).returncode == 0
