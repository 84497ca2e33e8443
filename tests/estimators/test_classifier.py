"""Class labels: weights, order, names, and invalid labels."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

import scroll
from scroll import ScrollClassifier

QUICK = {"max_steps": 60, "random_state": 0, "body": (16,), "n_members": 2}
LONG = QUICK | {"max_steps": 200, "n_members": 1}
ORDER = ("low", "mid", "high")  # sorting has another


def table(n=300, seed=0, edges=(-0.5, 0.5)):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, np.digitize(x[:, 0] + 0.3 * rng.normal(size=n), edges)


def rare(seed=0):
    """One row in six is of class 1, and the inputs do not say which for sure."""
    return table(300, seed, (1.0,))


def test_balanced_is_what_scikit_learn_calls_so():
    x, y = rare()
    balanced = ScrollClassifier(class_weight="balanced", **LONG).fit(x, y)
    weight = compute_sample_weight("balanced", y)
    same = ScrollClassifier(**LONG).fit(x, y, weight)
    np.testing.assert_allclose(balanced.predict_proba(x), same.predict_proba(x), rtol=1e-3)
    plain = ScrollClassifier(**LONG).fit(x, y)
    assert plain.predict_proba(x)[:, 1].mean() < 0.25  # as often as it comes
    # as often as it weighs: of all rows, weighed, half are of class 1
    assert abs(np.average(balanced.predict_proba(x)[:, 1], weights=weight) - 0.5) < 0.06


def test_a_dict_of_weights_multiplies_those_of_the_rows():
    x, y = rare()
    rows = np.random.default_rng(1).uniform(0.5, 2, len(y))
    some = ScrollClassifier(class_weight={1: 4.5}, **QUICK).fit(x, y, rows)
    same = ScrollClassifier(**QUICK).fit(x, y, rows * np.where(y, 4.5, 1.0))
    np.testing.assert_allclose(some.predict_proba(x), same.predict_proba(x), rtol=1e-3)
    alike = ScrollClassifier(class_weight={0: 2, 1: 2}, **QUICK).fit(x, y)
    plain = ScrollClassifier(**QUICK).fit(x, y)
    np.testing.assert_array_equal(alike.predict_proba(x), plain.predict_proba(x))
    words = ScrollClassifier(class_weight={"yes": 4.5}, **QUICK)
    words.fit(x, np.where(y, "yes", "no"), rows)
    np.testing.assert_allclose(words.predict_proba(x), some.predict_proba(x), rtol=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_rows_of_whole_weights_stay_repeated_rows():
    check_sample_weight_equivalence_on_dense_data(
        "ScrollClassifier", ScrollClassifier(class_weight="balanced", **QUICK)
    )


def test_held_out_rows_weigh_as_training_does():
    (x, y), (later, z) = rare(), rare(1)
    model = ScrollClassifier(class_weight={1: 20}, **LONG).fit(x, y, eval_set=(later, z))
    share, rates = model.model_.spec.lapse, model.model_.rates.numpy()
    # without lapses and power, which calibrate the ensemble
    bare = ((model.predict_proba(later) - share * rates) / (1 - share)) ** (
        1 / model.model_.spec.power
    )
    log_p = np.log((bare / bare.sum(1, keepdims=True))[np.arange(len(z)), z])
    want = -np.average(log_p, weights=np.where(z, 20, 1))
    assert model.scores_[0] == pytest.approx(want, rel=1e-4)
    assert abs(want + log_p.mean()) > 0.02  # the plain score is another


def test_a_class_of_no_weight_is_as_if_it_were_not_there():
    x, y = table()
    model = ScrollClassifier(class_weight={1: 0}, **LONG).fit(x, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(x)[:, 1].max() < 0.1
    with pytest.raises(ValueError, match="`y` must hold at least two classes, but got only one"):
        ScrollClassifier(class_weight={1: 0, 2: 0}, **QUICK).fit(x, y)
    with pytest.raises(ValueError, match="`eval_set` must hold a class of positive weight"):
        model.fit(x, y, eval_set=(x[y == 1], y[y == 1]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("heavy", "`class_weight` must be None, 'balanced' or a dict"),
        ([1, 2, 3], "`class_weight` must be None, 'balanced' or a dict"),
        ({7: 2.0}, "`class_weight` must name classes of y, 0, 1, 2, but got 7"),
        ({0: -1.0}, "`class_weight` must hold finite weights"),
        ({0: np.nan}, "`class_weight` must hold finite weights"),
    ],
)
def test_bad_class_weights(given, words):
    with pytest.raises(ValueError, match=words):
        ScrollClassifier(class_weight=given, **QUICK).fit(*table(40))


def test_weights_may_name_a_class_that_a_fold_lacks():
    x, y = table(60)
    few = y < 2
    ScrollClassifier(class_weight={0: 1, 1: 2, 2: 3}, **QUICK).fit(x[few], y[few])
    how = {"class_weight": "balanced", "likelihood": "gaussreg", "routing": "hybrid"}
    assert set(ScrollClassifier(**how, **QUICK).fit(x, y).routes_) == {"hybrid"}


@pytest.fixture(scope="module")
def ranked():
    x, k = table()
    return ScrollClassifier(ordered=ORDER, **QUICK).fit(x, np.array(ORDER)[k])


def test_an_order_is_kept_and_columns_are_sorted_as_scikit_learn_has_them(ranked):
    x, k = table()
    numbers = ScrollClassifier(ordered=True, **QUICK).fit(x, k)
    np.testing.assert_array_equal(ranked.predict_dist(x).probs, numbers.predict_dist(x).probs)
    assert ranked.levels_.tolist() == list(ORDER)
    assert ranked.classes_.tolist() == ["high", "low", "mid"]
    by_number = numbers.predict_proba(x)
    np.testing.assert_allclose(ranked.predict_proba(x), by_number[:, [2, 0, 1]], rtol=1e-15)
    np.testing.assert_allclose(np.exp(ranked.predict_log_proba(x)), ranked.predict_proba(x))
    assert log_loss(np.array(ORDER)[k], ranked.predict_proba(x)) == pytest.approx(
        log_loss(k, by_number)
    )
    for name in ("predict", "sample"):
        mine, other = getattr(ranked, name), getattr(numbers, name)
        how = {"random_state": 0} if name == "sample" else {}
        np.testing.assert_array_equal(mine(x, **how), np.array(ORDER)[other(x, **how)])
    np.testing.assert_array_equal(ranked.predict(x), np.array(ORDER)[by_number.argmax(1)])


def test_quantiles_and_intervals_are_classes(ranked):
    x, _ = table(100, 1)
    up_to = ranked.predict_dist(x).probs.numpy().cumsum(1)
    levels = [0.1, 0.5, 0.95]
    found = ranked.predict_quantiles(x, levels)
    want = np.stack([np.array(ORDER)[(up_to < q).sum(1)] for q in levels], 1)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(ranked.predict_quantiles(x, 0.5), want[:, 1])
    assert len({*found.ravel()}) == 3
    low, high = ranked.predict_interval(x, 0.8)
    first, last = (np.array([ORDER.index(label) for label in ends]) for ends in (low, high))
    rows = np.arange(len(x))
    inside = up_to[rows, last] - np.where(first > 0, up_to[rows, first - 1], 0)
    assert (inside >= 0.8).all()
    assert (first < last).any()
    for q in (0, 1, 95):
        with pytest.raises(ValueError, match="`q` must lie strictly between 0 and 1"):
            ranked.predict_quantiles(x, q)


def test_a_pandas_categorical_has_its_order_and_its_gaps():
    x, k = table()
    order = ["low", "mid", "very", "high"]
    words = pd.Categorical(np.array(ORDER)[k], order, ordered=True)
    model = ScrollClassifier(ordered=True, **LONG).fit(x, words)
    assert model.levels_.tolist() == order
    probs = model.predict_dist(x).probs.numpy()
    assert probs[:, 2].mean() < 0.1  # no row has it
    assert "very" not in model.predict(x)
    assert np.isfinite(model.scores_).all()
    assert model.score(x, words) > 0.6
    series = ScrollClassifier(ordered=True, **QUICK).fit(x, pd.Series(words))
    assert series.levels_.tolist() == order
    assert series.score(x, words) == np.mean(series.predict(x) == np.asarray(words))
    plain = ScrollClassifier(**QUICK).fit(x, words)  # nobody has asked for an order
    assert plain.classes_.tolist() == ["high", "low", "mid"]
    unordered = pd.Categorical(np.array(ORDER)[k], order)
    model = ScrollClassifier(likelihood="ordinal", **QUICK).fit(x, unordered)
    assert model.levels_.tolist() == ["high", "low", "mid"]


def test_ordered_integers_may_have_gaps():
    x, k = table()
    model = ScrollClassifier(ordered=True, **QUICK).fit(x, np.array([3, 4, 7])[k])
    assert model.levels_.tolist() == model.classes_.tolist() == [3, 4, 7]
    low, high = model.predict_interval(x)
    assert {*low, *high} <= {3, 4, 7}
    assert low.dtype == np.int64
    named = ScrollClassifier(ordered=[3, 4, 5, 6, 7], **QUICK).fit(x, np.array([3, 4, 7])[k])
    assert named.predict_proba(x).shape == (300, 5)
    down = ScrollClassifier(ordered=np.array([7, 4, 3]), **QUICK).fit(x, np.array([3, 4, 7])[k])
    assert down.levels_.tolist() == [7, 4, 3]
    assert (down.predict_quantiles(x, 0.01) >= down.predict_quantiles(x, 0.99)).all()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"ordered": "low"}, "`ordered` must be True, False or a sequence"),
        ({"ordered": 3}, "`ordered` must be True, False or a sequence"),
        ({"ordered": ("low",)}, "`ordered` must name at least two"),
        ({"ordered": (*ORDER, "low")}, "`ordered` must name each class once"),
        ({"ordered": ORDER[:2]}, "`ordered` must name every class of y, but got none called 'high"),
        ({"ordered": True, "likelihood": "gaussreg"}, "`likelihood` must be 'ordinal'"),
    ],
)
def test_bad_orders(how, words):
    x, k = table(60)
    with pytest.raises(ValueError, match=words):
        ScrollClassifier(**how, **QUICK).fit(x, np.array(ORDER)[k])


def test_classes_without_an_order_have_no_quantiles():
    model = ScrollClassifier(**QUICK).fit(*table(60))
    for ask in (lambda x: model.predict_quantiles(x, 0.5), model.predict_interval):
        with pytest.raises(ValueError, match=r"`ordered` must be True.*predict_proba"):
            ask(table(5)[0])


KINDS = {
    "text": np.array(["no", "yes", "?"]),
    "objects": np.array(["no", "yes", "?"], object),
    "integers": np.array([-1, 0, 5]),
    "booleans": np.array([False, True, True]),
    "floats": np.array([1.0, 2.0, 4.0]),
}


@pytest.mark.parametrize("names", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("copied", ["saved", "pickled"])
def test_names_weights_and_orders_come_back(names, copied, tmp_path):
    x, k = table(80)
    levels = list(dict.fromkeys(names.tolist()))[::-1]
    weights = {levels[0]: 2.5}
    model = ScrollClassifier(ordered=levels, class_weight=weights, **QUICK).fit(x, names[k])
    if copied == "saved":
        model.save(tmp_path / "model.scroll")
        again = scroll.load(tmp_path / "model.scroll")
    else:
        again = pickle.loads(pickle.dumps(model))
    assert again.get_params() == model.get_params()
    assert again.levels_.dtype == model.levels_.dtype
    assert again.levels_.tolist() == levels
    assert again.classes_.tolist() == sorted(levels)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    np.testing.assert_array_equal(again.predict_interval(x), model.predict_interval(x))
    assert {*again.predict(x).tolist()} <= {*levels}
    refitted = clone(again).fit(x, names[k])
    np.testing.assert_array_equal(refitted.predict_proba(x), model.predict_proba(x))


LABELS = {
    "text": (lambda k: np.array(ORDER)[k].tolist(), "high"),
    "pandas text": (lambda k: pd.Series(np.array(ORDER)[k], dtype="string"), "high"),
    "pandas integers": (lambda k: pd.Series(k, dtype="Int64"), 0),
    "objects that are integers": (lambda k: k.astype(object), 0),
    "booleans": (lambda k: k > 1, False),
}


@pytest.mark.parametrize(("make", "first"), LABELS.values(), ids=LABELS)
def test_labels_of_every_kind(make, first):
    x, k = table(60)
    model = ScrollClassifier(**QUICK).fit(x, make(k))
    assert model.classes_[0] == first
    assert type(model.classes_.tolist()[0]) is type(first)
    assert np.mean(model.predict(x) == np.asarray(make(k))) > 0.4


NONE = {
    "None": (lambda k: np.where(k > 1, None, "a"), "`y` must have a label in every row, but got"),
    "NaN among text": (
        lambda k: pd.Series(np.array(ORDER, object)[k]).where(k < 2),
        "`y` must have a label in every row",
    ),
    "pandas NA": (lambda k: pd.Series(k, dtype="Int64").where(k < 2), "missing|NaN"),
    "a level left out": (
        lambda k: pd.Categorical(np.array(ORDER)[k], ORDER[:2], ordered=True),
        "`y` must have a label in every row",
    ),
    "NaN": (lambda k: np.where(k > 1, np.nan, k), "the first in row 1. Drop or fill"),
    "infinity": (lambda k: np.where(k > 1, np.inf, k), "Input y contains infinity"),
    "numbers and text": (
        lambda k: np.array([1, "a"], object)[(k > 0) * 1],
        "`y` must hold labels of one kind, but got int and str",
    ),
    "measurements": (lambda k: k + 0.5, "Unknown label type: continuous"),
    "one class": (lambda k: np.full(len(k), "a"), "at least two classes, but got only one class"),
    "two columns": (lambda k: np.stack([k, k], 1), "y should be a 1d array"),
}


@pytest.mark.parametrize(("make", "words"), NONE.values(), ids=NONE)
def test_what_is_no_label(make, words):
    x, k = table(60)
    with pytest.raises(ValueError, match=words):
        ScrollClassifier(ordered=True, **QUICK).fit(x, make(k))


def test_unseen_classes_are_wrong_in_a_score_and_refused_to_stop_by(ranked):
    x, k = table()
    y = np.array(ORDER)[k]
    new = np.where(k > 1, "huge", y)
    assert ranked.score(x, new) == np.mean(ranked.predict(x) == new)
    with pytest.raises(ValueError, match=r"`y` must hold the classes of training.*'huge'"):
        ScrollClassifier(**QUICK).fit(x, y, eval_set=(x, new))
