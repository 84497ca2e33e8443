"""Data frames of any library are matched by column name; nulls are missing values."""

import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from scroll.estimators import ScrollRegressor
from scroll.tables.columns import TableSchema


def made(n=40):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "gaps": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "int": rng.integers(0, 9, n),
            "flag": rng.random(n) < 0.5,
            "text": rng.choice(["x", "y"], n),
        }
    )


class Streamed:
    """Any library's frame: column names, and the arrow stream."""

    def __init__(self, table):
        self.table, self.columns = table, table.column_names

    def __arrow_c_stream__(self, schema=None):
        return self.table.__arrow_c_stream__(schema)


class Interchanged:
    """An older library's frame, which has the interchange protocol alone."""

    def __init__(self, table):
        self.table, self.columns = table, table.column_names

    def __dataframe__(self, *rest, **named):
        return self.table.__dataframe__(*rest, **named)


def polars(table):
    return pytest.importorskip("polars").from_arrow(table)


KINDS = {
    "pyarrow": lambda table: table,
    "batch": lambda table: table.to_batches()[0],
    "stream": Streamed,
    "interchange": Interchanged,
    "polars": polars,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_of_another_library_is_as_one_of_pandas(kind):
    X = made()
    arrow = pa.table({name: pa.array(X[name], from_pandas=True) for name in X})
    other = KINDS[kind](arrow)
    reordered = KINDS[kind](arrow.select(list(X)[::-1]))
    table = TableSchema.of(other)
    assert table == TableSchema.of(X)
    np.testing.assert_array_equal(table.codes(other), table.codes(X))
    np.testing.assert_array_equal(table.codes(reordered), table.codes(X))
    with pytest.raises(ValueError, match=r"none called 'gaps'\. Add or rename"):
        table.codes(KINDS[kind](arrow.drop_columns(["gaps"])))


def test_reordered_columns_give_the_same_predictions():
    X = made()
    y = X["a"] * 3 + X["int"]
    arrow = pa.Table.from_pandas(X)
    model = ScrollRegressor(max_steps=20, body=(8,), random_state=0).fit(arrow, y)
    assert model.feature_names_in_.tolist() == list(X)
    assert model.n_features_in_ == 5
    expected = model.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(model.predict(arrow.select(list(X)[::-1])), expected)
        np.testing.assert_array_equal(model.predict(X[list(X)[::-1]]), expected)
    with pytest.raises(ValueError, match="none called 'a' and unknown 'b'") as error:
        model.predict(X.rename(columns={"a": "b"}))
    assert "\n" not in str(error.value)


def test_arrow_columns_of_every_type():
    table = pa.table(
        {
            "null": pa.nulls(3),
            "ints": pa.array([1, None, 3]),
            "flags": pa.array([True, None, False]),
            "words": pa.array(["a", None, "b"]),
            "named": pa.array(["a", None, "b"]).dictionary_encode(),
            "codes": pa.array([7, None, 8]).dictionary_encode(),
            "single": pa.array([1.5, None, 2.5], pa.float32()),
        }
    )
    known = TableSchema.of(table)
    kinds = {c.name: (c.kind, c.categories) for c in known.columns}
    assert kinds == {
        "null": ("categorical", ()),
        "ints": ("numeric", ()),
        "flags": ("categorical", (False, True)),
        "words": ("categorical", ("a", "b")),
        "named": ("categorical", ("a", "b")),
        "codes": ("categorical", (7, 8)),
        "single": ("numeric", ()),
    }
    assert all(c.missing for c in known.columns)
    gone, codes = np.nan, known.codes(table)
    np.testing.assert_array_equal(codes[0], [gone, 1, 1, 0, 0, 0, 1.5])
    np.testing.assert_array_equal(codes[1], [gone] * 7)
    np.testing.assert_array_equal(codes[2], [gone, 3, 0, 1, 1, 1, 2.5])


@pytest.mark.parametrize(
    ("table", "error", "match"),
    [
        (pa.table({"a": pa.array([0], pa.date32())}), TypeError, "datetime64.*Convert it to num"),
        (pa.table({"a": [[1]]}), TypeError, "column 'a', but got others .*unhashable"),
        (pa.table([[1], [2]], names=["a", "a"]), ValueError, "distinct column names, but got 'a'"),
        (pa.table({"a": pa.array([], pa.int64())}), ValueError, r"0 sample\(s\)"),
        (pa.table({}), ValueError, "0 sample"),
    ],
)
def test_tables_that_are_refused(table, error, match):
    with pytest.raises(error, match=match):
        TableSchema.of(table)


def test_without_pyarrow_the_remedy_is_named(monkeypatch):
    frame = Streamed(pa.table({"a": [1.0]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"`pyarrow` must be installed .* pip install"):
        TableSchema.of(frame)


def test_a_lazy_frame_is_collected_by_its_owner():
    class Lazy:
        def collect_schema(self):
            return {}

    with pytest.raises(TypeError, match=r"a lazy one\. Use X\.collect\(\)"):
        TableSchema.of(Lazy())


@pytest.mark.parametrize("X", [[["a", 1.0], ["b", 2.0]], np.array([["a", 1.0], ["b", 2.0]])])
def test_text_needs_a_frame(X):
    with pytest.raises(ValueError, match=r"^`X` must hold numbers, but got 'a' in row 0") as error:
        ScrollRegressor().fit(X, [1.0, 2.0])
    assert "data frame" in str(error.value)
    assert "\n" not in str(error.value)


def test_lists_with_text_go_with_a_model_of_a_frame():
    X = made()
    model = ScrollRegressor(max_steps=5, body=(4,), random_state=0).fit(X, X["a"])
    with pytest.warns(UserWarning, match="valid feature names"):
        found = model.predict(X.to_numpy().tolist())
    np.testing.assert_array_equal(found, model.predict(X))
