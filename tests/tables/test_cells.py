"""Which columns of text hold numbers, and which of their cells are read as missing."""

import warnings

import numpy as np
import pandas as pd
import pytest

from scroll._core.checks import invalid
from scroll.estimators import AmbiguousColumn, ScrollRegressor
from scroll.tables.cells import numeric, quantities, read
from scroll.tables.columns import Column, Remarks, TableSchema

MEASURED = [f"{v:.3f}" for v in np.random.default_rng(0).normal(size=99)]
RATINGS = [str(v) for v in np.random.default_rng(0).integers(1, 6, 99)]


def column(values, **named):
    remarks = Remarks()
    X = pd.DataFrame({"x": pd.Series(values, **named)})
    table = TableSchema.of(X, remarks)
    codes = table.codes(X, remarks=remarks)
    return table.columns[0], codes.ravel(), remarks


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e5", 1e5), (" 3 ", 3), ("1.", 1), (".5", 0.5), ("-0", 0), ("+2", 2), ("inf", np.inf),
        ("\u0661\u0662", 12), ("1" * 30, float("1" * 30)), ("1E400", np.inf), (True, 1), (7, 7),
        ("1_000", 1000), ("1,234", 1234), ("1,234,567.5", 1234567.5), ("1 234", 1234),
        ("1\u202f234", 1234), ("1'234", 1234), ("-1,234", -1234),
    ],
)  # fmt: skip
def test_a_number_is_read(text, number):
    cells = read([text])
    assert cells.numbers.tolist() == [number]
    assert not cells.unreadable
    assert not cells.marks


@pytest.mark.parametrize(
    "text",
    ["0x10", "12 kg", "$5", "5%", "1,5", "0,123", "12,34", "1,2345", "1.234,5", "1__0",
     "2020-01-01", "one", "1 2", "1,234 567", b"5", (1,), "<5", "3-4"],
)  # fmt: skip
def test_what_is_no_number_is_not_read(text):
    cells = read([text])
    assert cells.unreadable == (0,)
    assert np.isnan(cells.numbers).all()


@pytest.mark.parametrize(
    "text", ["?", "-", " n/a ", "NA", "unknown", "Missing", "", "NaN", "#REF!"]
)
def test_a_mark_of_a_missing_value_is_one(text):
    cells = read([text, "1.5"])
    assert cells.marks == (0,)
    assert np.isnan(cells.numbers[0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([*MEASURED, "oops"], True),
        ([*MEASURED, "?"], True),
        ([*MEASURED[:90], *["oops"] * 10], True),
        ([*MEASURED[:89], *["oops"] * 11], False),
        ([*MEASURED[:10], *["?"] * 80], True),  # a gap has an indicator: nothing is lost
        ([*RATINGS, "oops"], True),
        ([*RATINGS[:9], "oops"], True),
        ([*RATINGS[:97], "B", "B", "C"], False),  # codes, of which some are letters
        (["1", "2", "3", "B"] * 25, False),
        (["1", "2", "3", "B"], False),
        (["?", "unknown"], False),
        (["a", "b"], False),
    ],
)
def test_a_column_is_numeric_if_nearly_all_cells_are(values, expected):
    index, found = pd.factorize(np.array(values, dtype=object))
    assert numeric(read(list(found)), np.bincount(index)) is expected


def test_a_comma_is_a_thousands_separator_only_if_it_cannot_be_a_decimal_comma():
    assert read(["1,234", "950"]).grouped == (0,)
    assert read(["1,234", "1234.5"]).grouped == (0,)
    assert read(["1,234", "1234"]).unreadable == (0,)  # 1.234 or 1234
    assert read(["1,234", "1,5"]).unreadable == (0, 1)


@pytest.mark.parametrize("odd", ["?", "n/a ", "12 kg", "$5", "oops"])
@pytest.mark.parametrize("numbers", [float, str])
def test_one_cell_of_many_is_missing_and_named(odd, numbers):
    """An object column, as pandas reads it from a file or as it is made in Python."""
    values = [numbers(v) for v in MEASURED]
    values.insert(7, odd)
    found, codes, remarks = column(values, dtype=object)
    assert found == Column("x", "numeric", (), True)
    assert np.flatnonzero(np.isnan(codes)).tolist() == [7]
    np.testing.assert_array_equal(np.delete(codes, 7), np.array(MEASURED, float))
    (said,) = remarks.cells
    assert f"Column 'x' holds numbers, but {odd!r} in row 7: read as missing." in said


def test_text_that_is_meant_as_text_stays_text():
    assert column(["10115", "20095"] * 20)[0].categories == ("10115", "20095")
    assert column(["10115", "20095"] * 20, dtype="string")[0].kind == "categorical"
    assert column([*MEASURED, "?"], dtype="category")[0].kind == "categorical"
    assert column(["1.5", "2.5"])[0].kind == "numeric"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([f"{v} kg" for v in MEASURED], "read as categories, because of cells such as '0.126 kg'"),
        ([v.replace(".", ",") for v in MEASURED], "such as '0,126'"),
        ([*MEASURED[:60], *["low"] * 39], "such as 'low'"),
        (
            [f"id{i}" for i in range(60)],
            "Nothing is learned from column 'x': it holds 60 different",
        ),
        ([f"2020-01-{i:02}" for i in range(60)], "dates to days since a date"),
    ],
)
def test_a_column_that_may_be_meant_otherwise_is_named(values, said):
    found, _, remarks = column(values)
    assert found.kind == "categorical"
    assert len(remarks.cells) == 1
    assert said in remarks.cells[0]


@pytest.mark.parametrize("values", [["red", "blue"] * 50, ["1", "2", "B"] * 40, ["1st", "2nd"] * 9])
def test_plain_categories_need_no_word(values):
    assert column(values)[2] == Remarks()
    assert quantities(read(values), np.ones(len(values), int)) == ""


def test_later_rows_are_read_as_training_was():
    table, remarks = TableSchema.of(pd.DataFrame({"x": [1.0, 2.5]})), Remarks()
    later = pd.DataFrame({"x": [*MEASURED[:19], "oops"]})
    codes = table.codes(later, remarks=remarks)
    assert np.flatnonzero(np.isnan(codes)).tolist() == [19]
    assert "'oops' in row 19" in remarks.cells[0]
    with pytest.raises(ValueError, match=r"numbers in column 'x', but got 'oops' in row 1\. T"):
        table.codes(pd.DataFrame({"x": ["1.5", "oops"]}))


def test_the_estimators_warn_once():
    X = pd.DataFrame({"x": pd.Series([*map(float, MEASURED), "?"], dtype=object)})
    model = ScrollRegressor(n_members=1, max_steps=5, body=(4,), random_state=0)
    with pytest.warns(AmbiguousColumn, match=r"'x' holds numbers, but '\?' in row 99") as caught:
        model.fit(X, np.arange(100.0) - 50)
    assert sum(w.category is AmbiguousColumn for w in caught) == 1
    with pytest.warns(AmbiguousColumn, match=r"'\?' in row 99"):
        model.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X.iloc[:99])


def test_messages_stay_short():
    for parts in (("x" * 10**5, "hold", "it"), ("x", "hold", ["y" * 10**5] * 3)):
        assert len(str(invalid(*parts))) < 1000
    known, long = TableSchema.of(pd.DataFrame({"x": [1.0]})), pd.DataFrame({"x": ["y" * 10**5]})
    with pytest.raises(ValueError, match=r"column 'x', but got 'yyy.*yyy' in row 0") as it:
        known.codes(long)
    assert len(str(it.value)) < 300
