"""Which rows are held out, and which fold each row has."""

import numpy as np
import pytest

from scroll.fitting.split import split

N, D = 40, 3


def table(n=N, seed=0, classes=0):
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(n, D))
    codes[::7, 1] = np.nan  # missing
    codes[:, 2] = rng.integers(3, size=n)  # a category
    y = rng.integers(classes, size=n).astype(float) if classes else rng.normal(size=n)
    return codes, y


def seen(codes, y, found):
    """The rows themselves, in the order in which training sees them."""
    both = np.column_stack([codes, y])
    return both[found.train], both[found.held], found.weight, found.held_weight


def assert_same(mine, theirs):
    for a, b in zip(mine, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("weighed", [False, True])
def test_shuffled_rows_are_the_same_rows(labels, weighed):
    codes, y = table(classes=3 if labels else 0)
    weight = np.random.default_rng(1).random(N) if weighed else None
    base = seen(codes, y, split(codes, y, weight, 0.2, 5, labels))
    assert len(base[1]) == pytest.approx(8, abs=1)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(N)
        other = split(codes[order], y[order], weight[order] if weighed else None, 0.2, 5, labels)
        assert_same(seen(codes[order], y[order], other), base)


def test_several_targets_are_part_of_a_row():
    codes, _ = table()
    codes[:] = 0.0  # rows that only their targets tell apart
    y = np.random.default_rng(2).normal(size=(N, 2))
    order = np.random.default_rng(3).permutation(N)
    base = seen(codes, y, split(codes, y, None, 0.2, 5, False))
    other = split(codes[order], y[order], None, 0.2, 5, False)
    assert_same(seen(codes[order], y[order], other), base)


def test_another_seed_is_another_split():
    codes, y = table()
    one, two = (split(codes, y, None, 0.2, seed, False) for seed in (0, 1))
    assert set(one.held) != set(two.held)


def test_every_row_is_on_one_side():
    codes, y = table()
    found = split(codes, y, None, 0.25, 0, False)
    assert len(found.held) == 10
    assert sorted([*found.train, *found.held]) == list(range(N))
    assert found.weight is None


@pytest.mark.parametrize("labels", [False, True])
def test_whole_weights_are_repeated_rows(labels):
    """Zero among them: such a row is not there."""
    codes, y = table(classes=3 if labels else 0)
    counts = np.random.default_rng(1).integers(4, size=N)
    assert (counts == 0).any()
    weighed = split(codes, y, counts.astype(float), 0.2, 5, labels)
    assert weighed.weight is None
    more = np.repeat(codes, counts, 0), np.repeat(y, counts)
    assert_same(seen(codes, y, weighed), seen(*more, split(*more, None, 0.2, 5, labels)))
    assert len(weighed.train) + len(weighed.held) == counts.sum()
    np.testing.assert_array_equal(np.bincount([*weighed.train, *weighed.held], minlength=N), counts)


def test_weights_of_one_are_none():
    codes, y = table()
    plain, ones = (split(codes, y, w, 0.2, 5, False) for w in (None, np.ones(N)))
    assert_same(ones, plain)


def test_other_weights_weigh_with_a_mean_of_one():
    codes, y = table()
    weight = np.random.default_rng(1).random(N) + 0.1
    weight[[3, 8]] = 0
    found = split(codes, y, weight, 0.2, 5, False)
    assert not {3, 8} & {*found.train, *found.held}
    assert found.weight.mean() == pytest.approx(1, rel=1e-12)
    share = weight[found.train] / weight[found.train].sum()
    np.testing.assert_allclose(found.weight / len(found.train), share, rtol=1e-12)
    share = weight[found.held] / weight[found.held].sum()
    np.testing.assert_allclose(found.held_weight / len(found.held), share, rtol=1e-12)


def test_counts_too_many_to_repeat_weigh():
    codes, y = table()
    weight = np.ones(N)
    weight[0] = 1e6
    found = split(codes, y, weight, 0.2, 5, False)
    assert len(found.train) + len(found.held) == N
    want = weight[found.train]
    np.testing.assert_allclose(found.weight, want / want.mean(), rtol=1e-12)


def test_each_class_is_held_out_by_its_share():
    codes, _ = table(100)
    y = np.repeat([0.0, 1.0, 2.0, 3.0], [60, 30, 9, 1])
    for seed in range(5):
        found = split(codes, y, None, 0.2, seed, True)
        np.testing.assert_array_equal(
            np.bincount(y[found.held].astype(int), minlength=4), [12, 6, 2, 0]
        )
        np.testing.assert_array_equal(np.bincount(y[found.train].astype(int)), [48, 24, 7, 1])


@pytest.mark.parametrize("labels", [False, True])
def test_equal_rows_stay_together(labels):
    """None is tested on its own copy."""
    codes, y = (np.repeat(part, 3, 0) for part in table(15, classes=2 if labels else 0))
    for seed in range(5):
        found = split(codes, y, None, 0.2, seed, labels)
        assert not set(found.train // 3) & set(found.held // 3)
        assert sorted([*found.train, *found.held]) == list(range(45))
        assert 6 <= len(found.held) <= 15


def test_the_unit_of_the_target_does_not_matter():
    codes, y = table()
    base, other = (split(codes, t, None, 0.2, 5, False) for t in (y, 1e3 * y - 7))
    assert_same(base, other)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_few_rows(n, fraction, labels):
    """Where there are no more than two, they are held out as well."""
    codes, y = table(n, classes=2 if labels else 0)
    found = split(codes, y, None, fraction, 0, labels)
    assert len(found.train) > 0
    if n <= 2:
        assert found.held is found.train  # by which the estimator knows that they are the same
        assert sorted(found.train) == list(range(n))
    else:
        assert len(found.held) > 0
        assert sorted([*found.train, *found.held]) == list(range(n))


@pytest.mark.parametrize("labels", [False, True])
def test_something_is_always_left_to_train_on(labels):
    """However much is to be held out, and where nearly all rows are the same."""
    codes, y = table(classes=2 if labels else 0)
    for seed in range(5):
        assert len(split(codes, y, None, 0.99, seed, labels).train) > 0
    codes, y = np.repeat(codes[:4], [1, 1, 1, 97], 0), np.zeros(100)
    for seed in range(5):
        found = split(codes, y, None, 0.2, seed, labels)
        assert len(found.train) > 0
        assert len(found.held) > 0


def test_where_nothing_is_to_be_held_out_it_is_looked_at_itself():
    codes, y = table()
    found = split(codes, y, None, 0.0, 0, False)
    assert found.held is found.train
    assert sorted(found.train) == list(range(N))


def test_too_few_rows_to_hold_out_are_told_by_identity_also_without_weight():
    codes, y = np.arange(2.0)[:, None], np.arange(2.0)
    assert (plain := split(codes, y, None, 0.2, 0, False)).held is plain.train
    codes, y = np.arange(3.0)[:, None], np.arange(3.0)
    found = split(codes, y, np.array([1.0, 1.0, 0.0]), 0.2, 0, False)
    assert found.held is found.train
    assert 2 not in found.train


@pytest.mark.parametrize(
    ("classes", "rows", "folds"), [(5, 2, 5), (15, 2, 5), (3, 4, 5), (3, 9, 10)]
)
def test_no_fold_is_empty_if_every_class_has_few_rows(classes, rows, folds):
    y = np.repeat(np.arange(classes), rows)
    codes = np.random.default_rng(0).normal(size=(len(y), 3))
    found = split(codes, y, None, 0.2, 0, True, folds)
    sizes = np.bincount(found.fold, minlength=folds)
    assert sizes.min() >= 1
    assert sizes.max() - sizes.min() <= 1
    for label in range(classes):
        share = np.bincount(found.fold[y[found.train] == label], minlength=folds)
        assert share.max() - share.min() <= 1
