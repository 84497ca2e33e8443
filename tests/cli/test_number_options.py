"""Options of `scroll fit` and `evaluate` for numbers: maps, tails, censored targets, recipes."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from scroll.cli.app import app
from scroll.estimators.loading import load

FAST = ("--max-steps", "20", "--body", "8", "--members", "2")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def made(n=80, seed=0):
    r = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": r.normal(size=n), "b": r.normal(size=n)})
    frame["cost"] = np.exp(3 + frame["a"] + 0.3 * r.normal(size=n))
    frame["runs"] = (r.random(n) < 0.3).astype(int)
    frame["name"] = np.where(frame["a"] > 0, "up", "down")
    return frame


def scroll(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def good(done):
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(done, words):
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())


def fit(*words):
    made().to_csv("all.csv", index=False)
    drop = "name" if "--censored" in words else "name,runs"
    drop = words[words.index("--drop") + 1] if "--drop" in words else drop
    words = [w for w in words if w not in ("--drop", drop)]
    common = ("fit", "all.csv", "--target", "cost", "-o", "m.scroll", "--drop", drop)
    return scroll(*common, *FAST, *words)


def test_map_and_tails_reach_the_model():
    good(fit("--map", "log", "--tails", "lapse"))
    facts = json.loads(good(scroll("info", "m.scroll", "--json")))
    assert (facts["map"], facts["tails"]) == ("log", "lapse")
    made(30, 1).to_csv("new.csv", index=False)
    good(scroll("predict", "m.scroll", "new.csv", "-o", "p.csv"))
    assert (pd.read_csv("p.csv")["lower"] > 0).all()
    assert load("m.scroll").get_params()["target"] == "log"


def test_censored_targets_are_fitted_and_scored():
    made(40, 1).to_csv("valid.csv", index=False)
    good(fit("--censored", "runs", "--eval", "valid.csv"))
    model = load("m.scroll")
    assert model.model_.spec.likelihood == "censored"
    assert [column.name for column in model.schema_.columns] == ["a", "b"]
    scores = json.loads(
        good(scroll("evaluate", "m.scroll", "valid.csv", "--censored", "runs", "--json"))
    )
    assert set(scores) == {"rows", "nll", "concordance"}
    frame = made(40, 1)
    want = model.score(frame[["a", "b"]], frame["cost"], censored=frame["runs"])
    assert scores["concordance"] == pytest.approx(want)
    bounded = scroll("evaluate", "m.scroll", "valid.csv", "--censored", "runs").output
    assert "'runs'" not in bounded  # it is not among the columns that are ignored
    assert "fitted to censored targets" not in bounded
    assert "fitted to censored targets" in scroll("evaluate", "m.scroll", "valid.csv").output


def test_a_recipe_is_passed_on():
    made().to_csv("all.csv", index=False)
    words = ("--target", "cost", "--drop", "name,runs", "-o", "m.scroll", "--recipe", "fast")
    good(scroll("fit", "all.csv", *words))
    assert set(load("m.scroll").bodies_) == {"fourier"}


def test_wrong_uses_are_one_line():
    refused(fit("--map", "sqrt"), "`target` must be one of 'auto', 'identity', 'log'")
    refused(fit("--tails", "fat"), "`tails` must be one of 'auto', 'gaussian'")
    refused(fit("--censored", "ends"), "`--censored` must name columns of all.csv, but got 'ends'")
    refused(fit("--censored", "a"), "`a` must hold -1, 0 or 1 to mark censored targets, but got")
    made().to_csv("all.csv", index=False)
    words = ("--target", "name", "-o", "m.scroll", "--map", "log")
    refused(scroll("fit", "all.csv", *words), "`--map` must go with numbers")
    good(scroll("fit", "all.csv", "--target", "name", "-o", "n.scroll", *FAST))
    done = scroll("evaluate", "n.scroll", "all.csv", "--censored", "runs")
    refused(done, "`--censored` must be used with regression models")
