"""Arguments found by the fuzzer: each is accepted, or refused in one line that names it."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from scroll import ScrollClassifier, ScrollRegressor
from scroll.cli.app import app

QUICK = {"max_steps": 3, "random_state": 0, "body": "linear", "routing": "free", "n_members": 1}
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 2)), RNG.normal(size=20)
TALL = RNG.normal(size=400)

PARAMETERS = {
    "body": (None, 3, {"a": 1}),
    "random_state": ("seed", -1, np.random.default_rng(0)),
    "device": ("tpu", 5.5),
    "validation_fraction": ("half", None),
}
TARGETS = {
    "complex": Y + 1j,
    "too large for a float": np.array([10**400] * 20, object),
    "text": np.array(["a"] * 20),
    "missing": pd.Series([1, None] * 10, dtype="Int64"),
    "lists": np.array([[1, 2]] * 20, object)[:, None],
}


def refused(name, call):
    with pytest.raises((TypeError, ValueError), match=rf"^`{name}` must .+, but got ") as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return str(caught.value)


CASES = [(name, value) for name, values in PARAMETERS.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES, ids=str)
def test_parameters_of_the_wrong_type(name, value):
    refused(name, lambda: ScrollRegressor(**(QUICK | {name: value})).fit(X, Y))


def test_a_body_of_the_wrong_type_beside_the_papers_recipe():
    refused("body", lambda: ScrollRegressor(body=None, recipe="paper", max_steps=3).fit(X, Y))


@pytest.mark.parametrize("y", TARGETS.values(), ids=TARGETS)
def test_targets_that_are_not_numbers(y):
    refused("y", lambda: ScrollRegressor(**QUICK).fit(X, y))


def test_labels_that_are_sequences():
    y = np.empty(20, object)
    y[:] = [[1, 2], [3]] * 10
    refused("y", lambda: ScrollClassifier(**(QUICK | {"routing": "auto"})).fit(X, y))


def test_a_table_of_one_axis_is_not_quoted_in_full():
    message = refused("X", lambda: ScrollRegressor(**QUICK).fit(TALL, TALL))
    assert "Reshape your data" in message  # which scikit-learn's checks look for


@pytest.mark.filterwarnings("ignore::scroll.estimators.AmbiguousColumn")
def test_names_of_rows_are_nothing_to_learn_from():
    frame = pd.DataFrame({"name": [f"row {i}" for i in range(60)]})
    refused("X", lambda: ScrollRegressor(**QUICK).fit(frame, TALL[:60]))


def test_targets_of_an_eval_set_have_as_many_columns():
    both = np.stack([Y, Y], 1)
    refused("eval_set", lambda: ScrollRegressor(**QUICK).fit(X, both, eval_set=(X, Y)))
    refused("eval_set", lambda: ScrollRegressor(**QUICK).fit(X, Y, eval_set=(X, both)))


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_a_frame_without_rows_is_refused_by_every_method(likelihood):
    frame = pd.DataFrame(X, columns=["a", "b"])
    y = Y if likelihood == "gaussian" else np.abs(Y).round()
    model = ScrollRegressor(likelihood=likelihood, **QUICK).fit(frame, y)
    for method in (model.predict, model.predict_interval, model.ood_score):
        refused("X", lambda method=method: method(frame[:0]))


def test_a_reversed_column_is_taken():
    x = X[:, :1].copy()
    model = ScrollRegressor(**QUICK).fit(x, Y)
    np.testing.assert_array_equal(model.predict(x[:, ::-1]), model.predict(x))


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 2, done.output
    return done.stderr.splitlines()


def test_whole_numbers_that_no_float_tells_apart_are_no_classes(tmp_path):
    rows = "".join(f"{i},{1e300 if i % 2 else -1e300}\n" for i in range(20))
    (tmp_path / "rows.csv").write_text(f"a,y\n{rows}")
    words = ("--target", "y", "--task", "classification", "-o", tmp_path / "model")
    (line,) = run("fit", tmp_path / "rows.csv", *words)
    assert line.startswith("scroll: `y` must hold whole numbers below 2**53 to be classes")


def test_a_usage_error_names_the_value_that_counts():
    (line,) = run("fit", "rows.csv", "--members", "1", "--members", "x")
    assert line.startswith("scroll: `--members` must be an integer, but got 'x'.")
