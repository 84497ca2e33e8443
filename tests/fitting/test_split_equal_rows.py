"""Rows with equal inputs: cells are learned, repeated records are held out together."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures
from statsmodels.miscmodels.ordinal_model import OrderedModel

from scroll import ScrollClassifier, ScrollRegressor
from scroll.fitting.split import split
from sweeps import cases, exhaustive

QUICK = {"body": "smooth", "max_steps": 600, "random_state": 0}

# Died and survived, by sex and age, in first, second and third class and the crew (Dawson 1995).
TITANIC = {
    ("male", "child"): ([0, 0, 35, 0], [5, 11, 13, 0]),
    ("female", "child"): ([0, 0, 17, 0], [1, 13, 14, 0]),
    ("male", "adult"): ([118, 154, 387, 670], [57, 14, 75, 192]),
    ("female", "adult"): ([4, 13, 89, 3], [140, 80, 76, 20]),
}


def titanic():
    rows = [
        (sex, age, rank, lived)
        for (sex, age), counts in TITANIC.items()
        for lived, each in zip(("no", "yes"), counts, strict=True)
        for rank, count in zip(("first", "second", "third", "crew"), each, strict=True)
        for _ in range(count)
    ]
    frame = pd.DataFrame(rows, columns=["sex", "age", "class", "survived"])
    return frame[["sex", "age", "class"]], frame["survived"]


@exhaustive
def test_the_titanic_table_is_learned_as_well_as_by_logistic_regression_with_interactions():
    x, y = titanic()
    assert len(y) == 2201
    one_hot = OneHotEncoder(drop="first", sparse_output=False).fit_transform(x)
    design = PolynomialFeatures(2, interaction_only=True).fit_transform(one_hot)
    logistic = LogisticRegression(C=1e6, max_iter=5000).fit(design, y)
    lived = (y == "yes").to_numpy().astype(int)
    rows = np.arange(len(y))
    theirs = -logistic.predict_log_proba(design)[rows, lived].mean()
    assert theirs == pytest.approx(0.4766, abs=1e-3)
    model = ScrollClassifier(n_members=3, **QUICK).fit(x, y)
    assert -model.predict_log_proba(x)[rows, lived].mean() < theirs + 0.01
    woman = pd.DataFrame({"sex": ["female"], "age": ["adult"], "class": ["first"]})
    assert model.predict_proba(woman)[0, 1] == pytest.approx(140 / 144, abs=0.03)


def test_one_binary_feature_is_learned():
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=(500, 1)).astype(float)
    y = rng.random(500) < np.where(x[:, 0] > 0, 0.65, 0.28)
    model = ScrollClassifier(n_members=2, **QUICK | {"max_steps": 200}).fit(x, y)
    for value in (0.0, 1.0):
        want = y[x[:, 0] == value].mean()
        assert model.predict_proba([[value]])[0, 1] == pytest.approx(want, abs=0.03)


def cells(rng, n, means):
    """Two categories, the effect of which is that of their cell."""
    x = rng.integers(means.shape, size=(n, 2))
    frame = pd.DataFrame({"a": [f"a{i}" for i in x[:, 0]], "b": [f"b{i}" for i in x[:, 1]]})
    design = np.eye(means.size)[x[:, 0] * means.shape[1] + x[:, 1]]
    return frame, means[tuple(x.T)], design


TARGETS = {
    "gaussian": lambda rng, f: f + 0.5 * rng.normal(size=len(f)),
    "integers": lambda rng, f: np.round(3 * f + rng.normal(size=len(f))),
    "poisson": lambda rng, f: rng.poisson(np.exp(0.5 + 0.7 * f)).astype(float),
    "negbinomial": lambda rng, f: rng.poisson(np.exp(f) * rng.gamma(2, 0.5, len(f))).astype(float),
    "ordered": lambda rng, f: np.digitize(f + 0.7 * rng.normal(size=len(f)), [-0.7, 0.3, 1.1]),
    "labels": lambda rng, f: (f[:, None] * [1, -1, 0] + rng.gumbel(size=(len(f), 3))).argmax(1),
}


def linear(task, x, y, new_x, new_y):
    """NLL on new rows of the linear model with one parameter per cell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that have nearly converged
        if task in ("gaussian", "integers"):
            fit = sm.OLS(y, x).fit()
            error = new_y - fit.predict(new_x)
            return 0.5 * np.log(2 * np.pi * fit.scale) + (error**2).mean() / (2 * fit.scale)
        if task == "ordered":
            fit = OrderedModel(y, x[:, 1:], distr="probit").fit(method="bfgs", disp=False)
            return -np.log(fit.predict(new_x[:, 1:])[np.arange(len(new_y)), new_y]).mean()
        if task == "labels":
            fit = LogisticRegression(C=1e3, max_iter=2000).fit(x, y)
            return -fit.predict_log_proba(new_x)[np.arange(len(new_y)), new_y].mean()
        if task == "poisson":
            fit = sm.Poisson(y, x).fit(disp=0)
            return -stats.poisson.logpmf(new_y, fit.predict(new_x)).mean()
        fit = sm.NegativeBinomial(y, x).fit(disp=0)
        r, rate = 1 / fit.params[-1], fit.predict(new_x)
        return -stats.nbinom.logpmf(new_y, r, r / (r + rate)).mean()


@pytest.mark.parametrize("task", cases(TARGETS, "gaussian"))
def test_cells_of_categories_are_learned_as_well_as_by_the_matching_linear_model(task):
    rng = np.random.default_rng(3)
    means = rng.normal(size=(4, 3))
    (x, f, design), (new_x, new_f, new_design) = (cells(rng, n, means) for n in (800, 2000))
    y, new_y = (TARGETS[task](rng, part) for part in (f, new_f))
    theirs = linear(task, design, y, new_design, new_y)
    if task in ("ordered", "labels"):
        model = ScrollClassifier(ordered=task == "ordered", n_members=3, **QUICK)
    else:
        likelihood = task if task in ("poisson", "negbinomial") else "gaussian"
        model = ScrollRegressor(likelihood=likelihood, n_members=3, **QUICK)
    p = model.fit(x, y).predict_dist(new_x)
    assert -float(p.log_prob(torch.from_numpy(new_y)).mean()) < theirs + 0.01


def test_rows_of_a_cell_are_split():
    """Every fold, and the held-out part, has its share of every cell."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(3, size=(600, 2)).astype(float), rng.integers(2, size=600)
    cell = (3 * x[:, 0] + x[:, 1]).astype(int)
    found = split(x, y, None, 0.2, 0, labels=True, folds=5)
    counts = np.zeros((5, 9), int)
    np.add.at(counts, (found.fold, cell[found.train]), 1)
    assert counts.min() > 0
    found = split(x, y, None, 0.2, 0, labels=True)
    assert len(found.held) == pytest.approx(120, abs=2)
    assert set(cell[found.held]) == set(range(9))


def test_equal_inputs_of_different_classes_stay_together_where_they_are_the_exception():
    """Grouped by inputs and target, a fold would lose all rows of one class of a cell."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2))
    x[100:130] = x[:30]  # 60 rows of 200 come in pairs
    y = rng.integers(2, size=200)
    assert (y[:30] != y[100:130]).any()
    for seed in range(5):
        found = split(x, y, None, 0.2, seed, labels=True)
        held = np.isin(np.arange(200), found.held)
        np.testing.assert_array_equal(held[:30], held[100:130])
        found = split(x, y, None, 0.2, seed, labels=True, folds=5)
        fold = np.empty(200, int)
        fold[found.train] = found.fold
        np.testing.assert_array_equal(fold[:30], fold[100:130])


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("labels", [False, True])
def test_a_table_of_measurements_that_is_repeated_is_no_table_of_cells(copies, labels):
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(100, 3)), rng.integers(2, size=100) if labels else rng.normal(size=100)
    found = split(np.repeat(x, copies, 0), np.repeat(y, copies), None, 0.2, 0, labels)
    assert not set(found.train // copies) & set(found.held // copies)


def test_categories_that_determine_the_target_are_cells():
    """One column alone would tell such rows apart only if it held numbers."""
    x, y = np.repeat(np.arange(40.0)[:, None], 10, 0), np.repeat(np.arange(40) % 2, 10)
    found = split(x, y, None, 0.2, 0, labels=True, numeric=np.array([False]))
    assert set(x[found.train, 0]) == set(range(40))
    found = split(x, y, None, 0.2, 0, labels=True, numeric=np.array([True]))
    assert set(x[found.train, 0]) != set(range(40))


def test_one_large_group_is_split_whatever_the_rest():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    x[:60] = 0.0
    found = split(x, y, None, 0.2, 0, labels=False)
    assert 5 <= (found.held < 60).sum() <= 20


CHANGES = {
    "unit": lambda x: 1000 * x,
    "Fahrenheit": lambda x: 1.8 * x + 32,
    "shift": lambda x: x + 1e6,
    "float32": lambda x: x.astype(np.float32),
    "sign of zero": lambda x: np.where(x == 0, -0.0, x),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("folds", [0, 5])
def test_the_split_does_not_depend_on_units_or_precision_of_the_inputs(change, folds):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(300, 4)), rng.integers(3, size=300)
    x[:, 1], x[::9, 2] = rng.integers(4, size=300), np.nan
    one = split(x, y, None, 0.2, 7, labels=True, folds=folds)
    other = split(CHANGES[change](x), y, None, 0.2, 7, labels=True, folds=folds)
    np.testing.assert_array_equal(one.train, other.train)
    np.testing.assert_array_equal(one.held, other.held)
    if folds:
        np.testing.assert_array_equal(one.fold, other.fold)


@pytest.mark.parametrize("change", ["unit", "Fahrenheit", "float32"])
def test_the_model_does_not_depend_on_units_or_precision_of_the_inputs(change):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(150, 3))
    y = np.sin(x[:, 0]) + 0.2 * rng.normal(size=150)
    how = {"body": "smooth", "n_members": 2, "max_steps": 40, "random_state": 0}
    one = ScrollRegressor(**how).fit(x, y).predict(x)
    x = CHANGES[change](x)
    other = ScrollRegressor(**how).fit(x, y).predict(x)
    np.testing.assert_allclose(other, one, atol=5e-3)
