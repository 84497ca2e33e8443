"""Columns of a table as numbers: kinds, categories, missing values."""

import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse, special
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

from scroll.tables.columns import Column, TableSchema
from scroll.tables.encoder import CHUNK, SAMPLE, Encoder


def frame(n=200, seed=0):
    """Every kind of column that is taken, with and without missing values."""
    rng = np.random.default_rng(seed)
    some = rng.random(n) < 0.2
    text = rng.choice(["red", "green", "blue"], n)
    whole = rng.integers(-3, 4, n)
    return pd.DataFrame(
        {
            "float": rng.normal(3.0, 2.0, n),
            "holes": np.where(some, np.nan, rng.exponential(size=n)),
            "int": whole,
            "Int64": pd.array(np.where(some, None, whole), dtype="Int64"),
            "Float64": pd.array(rng.normal(size=n), dtype="Float64"),
            "numbers": pd.Series(np.where(some, None, whole), dtype=object),
            "object": pd.Series(np.where(some, None, text), dtype=object),
            "string": pd.array(text, dtype="string"),
            "category": pd.Categorical(whole),
            "bool": whole > 0,
            "boolean": pd.array(np.where(some, None, whole > 0), dtype="boolean"),
            "bools": pd.Series(np.where(some, None, whole > 0), dtype=object),
        }
    )


def encoded(X):
    table = TableSchema.of(X)
    codes = table.codes(X)
    encoder = Encoder.of(table, codes)
    return table, encoder, encoder(torch.from_numpy(codes)).double().numpy()


# The table


def test_columns_of_a_frame():
    kinds = {c.name: c for c in TableSchema.of(frame()).columns}
    assert [n for n, c in kinds.items() if c.kind == "numeric"] == list(frame())[:6]
    assert kinds["string"].categories == ("blue", "green", "red")
    assert kinds["category"].categories == tuple(range(-3, 4))
    gaps = [n for n, c in kinds.items() if c.missing]
    assert gaps == ["holes", "Int64", "numbers", "object", "boolean", "bools"]
    for name in ("bool", "boolean", "bools"):
        assert kinds[name].categories == (False, True)


def test_codes_of_a_frame():
    X = frame()
    table = TableSchema.of(X)
    codes = table.codes(X)
    for j, column in enumerate(table.columns):
        values = X[column.name]
        gone = values.isna().to_numpy()
        np.testing.assert_array_equal(np.isnan(codes[:, j]), gone)
        present = codes[~gone, j]
        if column.kind == "categorical":
            assert [column.categories[int(i)] for i in present] == list(values[~gone])
        else:
            np.testing.assert_array_equal(present, values[~gone].astype(float))


def test_columns_are_found_by_name():
    X = frame()
    table = TableSchema.of(X)
    np.testing.assert_array_equal(table.codes(X[list(X)[::-1]]), table.codes(X))
    np.testing.assert_array_equal(table.codes(X.to_numpy()), table.codes(X))  # by position
    np.testing.assert_array_equal(table.codes(X.to_numpy().tolist()), table.codes(X))


def test_unseen_categories_are_other():
    table = TableSchema.of(pd.DataFrame({"a": ["x", "y", None]}))
    codes = table.codes(pd.DataFrame({"a": ["z", "y", None, 7]}))
    np.testing.assert_array_equal(codes, [[2], [1], [np.nan], [2]])


def test_rare_categories_are_other():
    values = [f"c{i:03}" for i in range(60) for _ in range(1 if i < 10 else 2)]
    (column,) = TableSchema.of(pd.DataFrame({"a": values})).columns
    assert column.categories == tuple(f"c{i:03}" for i in range(10, 60))


def test_names_of_rows_are_no_categories():
    values = [f"id{i}" for i in range(90)] + ["often", "often"]
    (column,) = TableSchema.of(pd.DataFrame({"a": values})).columns
    assert column.categories == ("often",)


def test_a_truth_may_be_written_in_words():
    table = TableSchema.of(pd.DataFrame({"a": [True, False]}))
    codes = table.codes(pd.DataFrame({"a": ["True", "false", " TRUE ", "perhaps", None]}))
    np.testing.assert_array_equal(codes.ravel(), [1, 0, 1, 2, np.nan])


def test_mixed_categories_stand_in_order_of_arrival():
    values = ["b", 1, 2.5, True, "a", "b"]
    table = TableSchema.of(pd.DataFrame({"a": pd.Series(values, dtype=object)}))
    assert table.columns[0].categories == ("b", 1, 2.5, "a")  # True == 1
    np.testing.assert_array_equal(
        table.codes(pd.DataFrame({"a": values})).ravel(), [0, 1, 2, 1, 3, 0]
    )


def test_a_column_without_a_value():
    X = pd.DataFrame({"a": pd.Series([None, None], dtype=object), "b": [np.nan, np.nan]})
    table = TableSchema.of(X)
    assert table.columns == (
        Column("a", "categorical", (), True),
        Column("b", "numeric", (), True),
    )
    assert np.isnan(table.codes(X)).all()
    assert table.codes(pd.DataFrame({"a": ["x"], "b": [2]})).tolist() == [[0, 2]]


def test_frames_without_names():
    X = pd.DataFrame([[1.0, "a"], [2.0, "b"]])
    table = TableSchema.of(X)
    assert not table.named
    named = X.set_axis(["p", "q"], axis=1)
    np.testing.assert_array_equal(table.codes(named), [[1, 0], [2, 1]])
    np.testing.assert_array_equal(TableSchema.of(named).codes(X), [[1, 0], [2, 1]])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.float16, object])
def test_arrays_of_any_numbers(dtype):
    x = np.array([[0, 1], [1, 1], [1, 0]]).astype(dtype)
    codes = TableSchema.of(x).codes(x)
    assert codes.dtype == np.float64
    np.testing.assert_array_equal(codes, x.astype(float))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_arrays_are_not_copied(dtype):
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(dtype)
    assert TableSchema.of(x).codes(x) is x
    assert TableSchema.of(pd.DataFrame(x)).codes(pd.DataFrame(x)).dtype == dtype


def test_objects_of_an_array():
    x = np.array([[1, None], [Decimal("2.5"), np.nan]], dtype=object)
    table = TableSchema.of(x)
    assert [c.missing for c in table.columns] == [False, True]
    np.testing.assert_array_equal(table.codes(x), [[1, np.nan], [2.5, np.nan]])
    np.testing.assert_array_equal(table.codes([[1, 2]]), [[1, 2]])


def test_numbers_known_as_objects_later():
    table = TableSchema.of(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    later = pd.DataFrame({"a": pd.Series([3, pd.NA, True], dtype=object), "b": ["x", None, "y"]})
    np.testing.assert_array_equal(table.codes(later), [[3, 0], [np.nan, np.nan], [1, 1]])
    np.testing.assert_array_equal(table.codes(later.to_numpy()), table.codes(later))


def test_json_round_trip():
    X = frame().assign(
        mixed=["b", 1, 2.0, "a"] * 50, float_category=pd.Categorical([0.5, 1.0] * 100)
    )
    for table in (TableSchema.of(X), TableSchema.of(np.zeros((2, 3)))):
        again = TableSchema.from_json(json.loads(json.dumps(table.to_json(), allow_nan=False)))
        assert again == table
        for a, b in zip(again.columns, table.columns, strict=True):
            assert list(map(type, a.categories)) == list(map(type, b.categories))
            assert {type(v) for v in a.categories} <= {str, int, float, bool}


# Its refusals


def day(n=3):
    return pd.date_range("2020-01-01", periods=n)


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        (pd.DataFrame({"a": day()}), TypeError, r"datetime64\[ns\] in column 'a'\. Convert it"),
        (pd.DataFrame({"a": day() - day()}), TypeError, r"timedelta64\[ns\] in column 'a'"),
        (pd.DataFrame({"a": day().to_period("D")}), TypeError, r"Period.* in column 'a'\. Conv"),
        (pd.DataFrame({"a": [[1], [2]]}), TypeError, "column 'a', but got others .*unhashable"),
        (pd.DataFrame({"a": ["x", np.inf]}), TypeError, "finite numbers.* got inf in column 'a'"),
        (pd.DataFrame({"a": [1j]}), TypeError, "Complex data not supported"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "distinct .* 'a' more than once"),
        (pd.DataFrame([[1, 2]], columns=["a", 0]), TypeError, r"names .* Convert them with"),
        (pd.DataFrame({"a": []}), ValueError, r"rows, but got 0 sample\(s\) \(shape=\(0, 1\)\)"),
        (pd.DataFrame(index=[0]), ValueError, r"columns, but got 0 feature\(s\)"),
        (np.zeros((0, 3)), ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1"),
        (np.zeros((3, 0)), ValueError, r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1"),
        (np.zeros(3), ValueError, r"two axes.* shape \(3,\)\. Reshape your data"),
        (np.zeros((3, 2), complex), ValueError, "Complex data not supported"),
        (day().to_numpy()[:, None], TypeError, "Convert dates"),
        (np.array([[1.0, "x"]], dtype=object), ValueError, "'x' in row 0, column 1.*data frame"),
        (np.array([[{}]], dtype=object), TypeError, "argument must be .*string.* number"),
        ([["x", 1.0]], ValueError, "numbers, but got 'x' in row 0, column 0.*data frame"),
        (sparse.csr_array(np.eye(2)), TypeError, "sparse matrix. Use X.toarray"),
    ],
)
def test_what_is_no_table(X, error, match):
    with pytest.raises(error, match=match):
        TableSchema.of(X)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda X: X.drop(columns="int"), r"none called 'int'\. Add or rename the first\."),
        (lambda X: X.assign(new=1), r"training, but got unknown 'new'\. Drop the unknown ones\."),
        (
            lambda X: X.rename(columns={"int": "Int"}),
            "none called 'int' and unknown 'Int'. Add or rename the first. Drop the unknown ones.",
        ),
        (
            lambda X: X.assign(float="high"),
            "numbers in column 'float', but got 'high' in row 0 and 199 more\\. T",
        ),
        (lambda X: X.assign(float=np.inf), "be finite, but got infinity in column 'float'"),
        (
            lambda X: X.to_numpy()[:, :5],
            "^X has 5 features, but Reg is expecting 12 features as input$",
        ),
        (lambda X: X.set_axis(range(12), axis=1).iloc[:, :5], "^X has 5 features, but Reg is"),
        (lambda X: X["float"], "Reshape your data"),
    ],
)
def test_what_does_not_go_with_a_frame(change, match):
    with pytest.raises(ValueError, match=match):
        TableSchema.of(frame()).codes(change(frame()), "Reg")


def test_what_does_not_go_with_an_array():
    table = TableSchema.of(np.zeros((3, 2)))
    for X in (np.zeros((3, 4)), pd.DataFrame(np.zeros((3, 4)))):
        with pytest.raises(ValueError, match=r"^X has 4 features, but model is expecting 2 feat"):
            table.codes(X)
    with pytest.raises(ValueError, match="infinity in column 1"):
        table.codes([[0, -np.inf]])
    with pytest.raises(ValueError, match="column 0, but got 'x'"):
        table.codes(pd.DataFrame([["x", 0]]))
    with pytest.raises(TypeError, match="column 1"):
        table.codes(pd.DataFrame({"a": [0, 0, 0], "b": day()}))


# The encoder


def test_numbers_against_scikit_learn():
    rng = np.random.default_rng(0)
    x = rng.normal(1e6, [1e-2, 3.0, 1e4], (300, 3))
    x[rng.random(x.shape) < [0.0, 0.1, 0.3]] = np.nan
    x = np.c_[x, np.full(300, 0.1)]
    _, encoder, ours = encoded(x)
    impute = SimpleImputer(strategy="constant", fill_value=0, add_indicator=True)
    theirs = impute.fit_transform(StandardScaler().fit_transform(x))
    assert (encoder.plain, encoder.ranked, ours.shape) == (6, 4, (300, 10))
    np.testing.assert_allclose(ours[:, :6], theirs, atol=1e-6)  # ours are float32


def test_float32_codes_lose_nothing_more():
    x = np.random.default_rng(0).normal(1e4, 1.0, (300, 2)).astype(np.float32)
    encoder = Encoder.of(TableSchema.of(x), x)
    out = encoder(torch.from_numpy(x))
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, encoder(torch.from_numpy(x).double()), atol=0, rtol=0)
    np.testing.assert_allclose(
        out[:, :2], StandardScaler().fit_transform(x.astype(float)), atol=1e-6
    )


def test_outliers_are_clipped():
    x = np.r_[np.zeros(999), 1.0][:, None]
    _, encoder, out = encoded(x)
    assert out[-1, 0] == 5
    assert encoder(torch.tensor([[-1e300], [torch.inf]])).abs()[:, 0].tolist() == [5, 5]


def test_categories_against_scikit_learn():
    X = frame()[["string", "object", "category"]]
    table, encoder, ours = encoded(X)
    values = X.astype(object).where(X.notna(), None)
    hot = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(values)
    np.testing.assert_array_equal(ours, hot.transform(values))
    later = pd.DataFrame({"string": ["pink", None], "object": [None, "pink"], "category": [9, 3]})
    codes = torch.from_numpy(table.codes(later))
    np.testing.assert_array_equal(encoder(codes), hot.transform(later.astype(object)))
    assert (encoder.plain, encoder.ranked) == (ours.shape[1], 0)


def test_order_of_the_parts():
    X = pd.DataFrame({"c": ["x", "y", None], "a": [1.0, np.nan, 3.0], "b": [2.0, 2.0, 2.0]})
    _, encoder, out = encoded(X)
    assert (encoder.plain, encoder.ranked) == (6, 2)
    # a, b, a missing; c is x, y, missing
    np.testing.assert_allclose(
        out[:, :6], [[-1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 1]]
    )
    np.testing.assert_allclose(
        out[:, 6:], [[-special.ndtri(0.95), 0], [0, 0], [special.ndtri(0.95), 0]]
    )


def by_hand(train, x):
    """The quantile-normal transform by np.interp."""
    count = min(50, max(10, len(train) // 30))
    p = np.linspace(0, 1, count)
    z = special.ndtri(np.clip(p, 1 / (2 * count), 1 - 1 / (2 * count)))
    q = np.quantile(train, p)
    knots = sorted(set(q))
    return np.interp(x, knots, [z[q == k].mean() for k in knots])


@pytest.mark.parametrize("n", [1, 2, 40, 700, 5000])
def test_ranks_by_hand(n):
    rng = np.random.default_rng(n)
    train = np.c_[rng.normal(size=n), rng.integers(0, 3, n), np.exp(3 * rng.normal(size=n))]
    later = np.r_[train, rng.normal(0, 5, (300, 3))]
    encoder = Encoder.of(TableSchema.of(train), train)
    ours = encoder(torch.from_numpy(later))[:, encoder.plain :]
    theirs = np.stack([by_hand(train[:, j], later[:, j]) for j in range(3)], 1)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)  # ours are float32


def test_ranks_against_scikit_learn():
    x = np.random.default_rng(0).gamma(2.0, size=(4000, 2))
    _, encoder, out = encoded(x)
    theirs = QuantileTransformer(n_quantiles=50, output_distribution="normal").fit_transform(x)
    middle = np.abs(theirs) < 1.9  # their tails go to 5.2, and ours end at 2.3
    # they interpolate probabilities and we ndtri of them, so they agree roughly
    np.testing.assert_allclose(out[:, encoder.plain :][middle], theirs[middle], atol=0.03)


def test_ranks_pass_over_missing_values():
    x = np.random.default_rng(0).normal(size=(500, 1))
    holes = np.r_[x, np.full((300, 1), np.nan)]
    _, _, with_holes = encoded(holes)
    np.testing.assert_array_equal(with_holes[:500, -1], encoded(x)[2][:, -1])
    assert (with_holes[500:] == [0, 1, 0]).all()


def test_quantiles_of_many_rows_are_those_of_some():
    x = np.random.default_rng(0).normal(size=(3 * SAMPLE, 1)).astype(np.float32)
    encoder, again = (Encoder.of(TableSchema.of(x), x) for _ in range(2))
    torch.testing.assert_close(encoder.knots, again.knots, atol=0, rtol=0)
    later = torch.linspace(-2, 2, 9)[:, None]
    # the sample's quantiles err by about 1/sqrt(SAMPLE)
    torch.testing.assert_close(encoder(later)[:, 1:], later.float(), atol=0.03, rtol=0)


def test_chunks_of_rows_change_nothing():
    x = torch.randn(CHUNK + 5, 2)
    encoder = Encoder.of(TableSchema.of(x), x.numpy())
    torch.testing.assert_close(encoder(x)[CHUNK:], encoder(x[CHUNK:]), atol=0, rtol=0)
    assert encoder(x[:0]).shape == (0, 4)


def everything():
    table, encoder, _ = encoded(frame())
    later = frame(57, seed=1)
    later.loc[:20, "string"] = "unseen"
    later.loc[10:30, "float"] = None
    return encoder, torch.from_numpy(table.codes(later))


def test_state_and_layout_are_all_there_is():
    encoder, codes = everything()
    layout = json.loads(json.dumps(encoder.layout()))
    again = Encoder.from_layout(layout)
    again.load_state_dict(encoder.state_dict())
    assert not list(encoder.parameters())
    assert (again.plain, again.ranked, again.columns) == (encoder.plain, encoder.ranked, 12)
    torch.testing.assert_close(again(codes), encoder(codes), atol=0, rtol=0)


@pytest.mark.parametrize("columns", [list(frame()), ["float"], ["holes"], ["string"]])
def test_an_exported_graph_agrees(columns):
    table, encoder, _ = encoded(frame()[columns])
    later = torch.from_numpy(table.codes(frame(57, seed=1)[columns]))
    rows = {"codes": {0: torch.export.Dim("rows")}}
    graph = torch.export.export(encoder, (later[:5],), dynamic_shapes=rows).module()
    for n in (57, 2, 1):
        torch.testing.assert_close(graph(later[:n]), encoder(later[:n]), atol=1e-6, rtol=0)


@pytest.mark.filterwarnings("ignore:`isinstance.treespec:FutureWarning")  # torch.onnx's own
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_onnx_agrees(dtype, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    encoder, codes = everything()
    codes = codes.to(dtype)
    codes[-2], codes[-1] = torch.inf, -torch.inf
    rows = {"codes": {0: torch.export.Dim("rows")}}
    path = str(tmp_path / "encoder.onnx")
    torch.onnx.export(
        encoder.eval(),
        (codes[:5],),
        path,
        dynamo=True,
        dynamic_shapes=rows,
        input_names=["codes"],
        verbose=False,
    )
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for n in (57, 1):
        (out,) = session.run(None, {"codes": codes[:n].numpy()})
        np.testing.assert_allclose(out, encoder(codes[:n]), atol=1e-6)


anything = st.floats(allow_nan=True, allow_infinity=True)


@settings(deadline=None, max_examples=200)
@given(
    train=arrays.arrays(np.float64, st.tuples(st.integers(1, 40), st.just(2)), elements=anything),
    codes=arrays.arrays(np.float64, (7, 3), elements=anything),
)
def test_never_nan(train, codes):
    columns = [Column(None, "numeric", (), bool(np.isnan(train[:, j]).any())) for j in range(2)]
    table = TableSchema((*columns, Column(None, "categorical", ("x", "y"), True)))
    train = np.c_[train, np.arange(len(train)) % 2]
    encoder = Encoder.of(table, train)
    for x in (train, codes, codes.clip(-1e30, 1e30).astype(np.float32)):
        out = encoder(torch.from_numpy(x))
        assert out.isfinite().all()
        assert (out.abs() <= 5).all()


def test_the_estimators_import_without_what_is_optional():
    absent = ("pandas", "pyarrow", "onnx", "onnxruntime", "onnxscript", "matplotlib", "skpro")
    code = f"import sys; sys.modules.update(dict.fromkeys({absent}))\nimport scroll.estimators"
    subprocess.run([sys.executable, "-c", code], check=True)
