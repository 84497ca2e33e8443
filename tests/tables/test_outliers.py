"""Targets that are likely to be errors are named; a model without a finite score is refused."""

import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from scroll import ScrollClassifier, ScrollRegressor
from scroll.cli.app import app
from scroll.estimators import OutlyingTarget, pipeline
from scroll.fitting import stacks
from scroll.fitting.ensemble import fit_ensemble
from scroll.fitting.plans import BATCH, n_steps
from scroll.integrations.skpro import ScrollProba
from scroll.tables.outliers import far_rows

QUICK = {"body": (8,), "n_members": 2, "max_steps": 40, "random_state": 0}


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    return x, x[:, 0] + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("bad", [-9999.0, 1e6, 1e20, 1e140])
@pytest.mark.parametrize("row", range(0, 300, 60))  # some of them are held out
def test_a_sentinel_is_named_and_the_model_is_finite(bad, row):
    x, y = table()
    y[row] = bad
    with pytest.warns(OutlyingTarget, match=re.escape(f"y[{row}] = {bad:g}. If this value")):
        model = ScrollRegressor(**QUICK).fit(x, y)
    assert np.isfinite(model.scores_).all()
    mean, std = model.predict(x, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


def test_a_held_out_target_far_away_does_not_leave_the_model_untrained():
    x, y = table()
    later = table(50, 1)
    later[1][7] = 1e30
    with pytest.warns(OutlyingTarget, match=r"eval_set\[1\]\[7\] = 1e\+30"):
        model = ScrollRegressor(**QUICK).fit(x, y, eval_set=later)
    assert np.isfinite(model.scores_).all()
    assert model.n_iter_ > 0


def test_several_targets_are_named_by_row_and_column():
    x, y = table()
    y = np.stack([y, y], 1)
    y[4, 1], y[5, 1] = -9999, -9999
    with pytest.warns(OutlyingTarget, match=r"y\[4, 1\] = -9999, y\[5, 1\] = -9999"):
        ScrollRegressor(**QUICK).fit(x, y)


ORDINARY = {
    "normal": lambda rng: rng.normal(size=2000),
    "Cauchy-like": lambda rng: rng.standard_t(2, size=2000),
    "log-normal": lambda rng: np.exp(2 * rng.normal(size=2000)),
    "mostly zero": lambda rng: np.where(rng.random(2000) < 0.95, 0, rng.gamma(1, 100, 2000)),
    "mostly equal": lambda rng: np.where(rng.random(2000) < 0.95, 7, rng.normal(size=2000)),
    "constant": lambda rng: np.full(20, 3.0),
    "two values": lambda rng: np.array([0.0, 1e9]),
    "far from zero": lambda rng: 1e12 + rng.normal(size=500),
    "counts": lambda rng: rng.poisson(0.02, size=2000).astype(float),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_targets_are_not_named(name):
    y = ORDINARY[name](np.random.default_rng(0))
    assert len(far_rows(y)) == 0
    if name == "counts":
        assert len(far_rows(y, least=1.0)) == 0


def test_a_lone_count_is_named():
    y = np.ones(40)
    y[3] = 1e6
    assert far_rows(y, least=1.0).tolist() == [3]
    y = np.zeros(40)
    y[3] = 1e6
    assert far_rows(y, least=1.0).tolist() == [3]


def test_the_command_line_names_the_row_of_the_file(tmp_path):
    x, y = table(60)
    y[16] = -9999
    frame = pd.DataFrame(x, columns=list("abc")).assign(price=y)
    frame.to_csv(tmp_path / "t.csv", index=False)
    args = ["fit", str(tmp_path / "t.csv"), "--target", "price", "-o", str(tmp_path / "m.scroll")]
    done = CliRunner().invoke(app, [*args, "--max-steps", "20", "--body", "8"])
    assert done.exit_code == 0
    assert "note: Far from all other targets: -9999 in row 17 of" in done.stderr
    assert "y[16]" not in done.stderr
    assert CliRunner().invoke(app, ["info", str(tmp_path / "m.scroll")]).exit_code == 0


def test_members_without_a_finite_score_are_refused(monkeypatch):
    def failed(job, **how):
        found = fit_ensemble(job, **how)
        found.parts[0].scores[0] = np.inf
        return found

    monkeypatch.setattr(pipeline, "fit_ensemble", failed)
    with pytest.raises(ValueError, match=r"`y` must have a finite score on the held-out rows"):
        ScrollRegressor(**QUICK).fit(*table(60))


@pytest.mark.parametrize("by", [1e30, 1e300, 1e-300])
@pytest.mark.parametrize("kind", [ScrollRegressor, ScrollClassifier])
def test_weights_have_no_unit(by, kind):
    x, y = table(60)
    y = y if kind is ScrollRegressor else y > 0
    weight = np.random.default_rng(1).random(60) + 0.1
    one, other = (kind(**QUICK).fit(x, y, sample_weight=w) for w in (weight, weight * by))
    a, b = (m.predict_dist(x).mean.numpy() for m in (one, other))
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("top", [1e30, 1e308])
def test_one_weight_beside_which_all_others_vanish_is_refused(top):
    x, y = table(60)
    weight = np.ones(60)
    weight[5] = top
    with pytest.raises(ValueError, match=r"`sample_weight` must give weight to more .* in row 5"):
        ScrollRegressor(**QUICK).fit(x, y, sample_weight=weight)


# One set of defaults


class StoppedError(Exception):
    pass


def recipe_of(monkeypatch, fit):
    """The recipe that training is given, and the number of networks."""
    seen = []

    def run(network, rows, held, recipe, **how):
        seen.append((recipe, len(rows.x)))
        raise StoppedError

    monkeypatch.setattr(stacks, "Run", run)
    with pytest.raises(StoppedError):
        fit()
    return seen[0]


@pytest.mark.parametrize("recipe", ["default", "paper"])
def test_a_recipe_is_the_same_from_python_skpro_and_the_command_line(recipe, monkeypatch, tmp_path):
    x, y = table(60)
    frame = pd.DataFrame(x, columns=list("abc"))
    frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    one = recipe_of(monkeypatch, lambda: ScrollRegressor(recipe=recipe).fit(x, y))
    two = recipe_of(
        monkeypatch, lambda: ScrollProba(recipe=recipe).fit(frame, pd.DataFrame({"y": y}))
    )

    def from_the_command_line():
        args = ["fit", str(tmp_path / "t.csv"), "--target", "y", "-o", str(tmp_path / "m.scroll")]
        app([*args, "--recipe", recipe], standalone_mode=False)

    three = recipe_of(monkeypatch, from_the_command_line)
    assert one == two == three
    (how, members) = one
    want = {"default": (n_steps(60, "real"), BATCH, 5), "paper": (6000, None, 1)}
    assert (how.steps, how.batch, members) == want[recipe]
