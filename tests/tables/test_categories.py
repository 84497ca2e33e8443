"""Categories in new data: spellings that match training, and warnings about unseen ones."""

import numpy as np
import pandas as pd
import pytest

from scroll.estimators import ScrollRegressor, UnseenCategory
from scroll.tables.categories import matcher
from scroll.tables.columns import Remarks, TableSchema


@pytest.mark.parametrize(
    ("categories", "same"),
    [
        ((False, True), [(False, 0, 0.0, "0", "0.0", "false", " False", "f", "N", "no"),
                         (True, 1, 1.0, "1", "1.0", "TRUE", " true ", "T", "y", "Yes")]),
        (("no", "yes"), [("no", "No ", False, 0, "f"), ("yes", "YES", True, "1", "t")]),
        (("blue", "red"), [("blue", "Blue", "BLUE "), ("red", " red", "Red", "\tred")]),
        (("1", "2", "x"), [("1", 1, 1.0, "1.0", " 1"), ("2", 2, "2."), ("x", "X")]),
        ((1, 2), [(1, "1", "1.0", 1.0), (2, "2", 2.0)]),
        ((0.5, 1.5), [("0.5", 0.5), ("1.50", 1.5)]),
        (("e\u0301",), [("\u00e9", "\u00c9")]),
    ],
)  # fmt: skip
def test_spellings_of_a_category(categories, same):
    match = matcher(categories)
    for i, values in enumerate(same):
        assert [match(v) for v in values] == [i] * len(values)


@pytest.mark.parametrize(
    ("categories", "value"),
    [
        (("Red", "red"), "RED"), (("01", "1"), "001"), (("1", "2"), "01"), (("a", "b"), "c"),
        ((False, True), "perhaps"), ((False, True), 2), (("no", "yes", "maybe"), True), ((), "x"),
        (("a", "b"), None), (("1",), float("inf")),
    ],
)  # fmt: skip
def test_what_is_ambiguous_or_new_matches_none(categories, value):
    assert matcher(categories)(value) == len(categories)


def test_categories_that_differ_by_case_stay_apart():
    match = matcher(("Red", "red"))
    assert [match("Red"), match("red")] == [0, 1]


def said(train, later):
    remarks = Remarks()
    TableSchema.of(pd.DataFrame({"c": train})).codes(pd.DataFrame({"c": later}), remarks=remarks)
    return remarks.unseen


def test_the_odd_unseen_category_is_ordinary():
    train = ["red", "blue"] * 50
    assert said(train, ["green"]) == []
    assert said(train, ["green"] * 4 + ["red"]) == []
    assert said(train, ["green"] * 9 + ["red"] * 991) == []
    assert said(train, [None] * 50) == []
    assert said(train, train) == []


def test_many_unseen_categories_are_counted():
    train = ["red", "blue"] * 50
    (some,) = said(train, ["green"] * 11 + ["red"] * 989 + [None])
    assert some.startswith("11 of 1000 rows of column 'c' hold categories that training never saw")
    assert "such as 'green'" in some
    (most,) = said(train, ["Rot"] * 97 + ["red"] * 3)
    assert most.startswith("Most rows of column 'c' (97 of 100) hold categories")
    assert "none of the known ones, such as 'blue'" in most


def test_rare_categories_of_training_are_no_news():
    rng = np.random.default_rng(0)
    train, later = ([f"c{v}" for v in rng.zipf(1.5, 2000)] for _ in range(2))
    assert said(train, train) == []
    assert said(train, later) == []
    (column,) = TableSchema.of(pd.DataFrame({"c": train})).columns
    assert 0.05 < column.unlisted < 0.3
    assert said([f"id{i}" for i in range(100)], [f"id{i}" for i in range(100, 200)]) == []


def test_the_estimators_warn():
    X = pd.DataFrame({"c": ["red", "blue"] * 20})
    model = ScrollRegressor(max_steps=5, body=(4,), random_state=0).fit(X, np.arange(40.0))
    expected = model.predict(X)
    np.testing.assert_array_equal(model.predict(X.assign(c=" " + X.c.str.upper())), expected)
    with pytest.warns(UnseenCategory, match=r"Most rows of column 'c' \(40 of 40\)"):
        model.predict(X.assign(c="Rot"))
