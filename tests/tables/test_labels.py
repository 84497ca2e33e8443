"""Labels as class indices, in one place for estimators and command line."""

import numpy as np
import pytest

from scroll.tables.labels import class_indices


@pytest.mark.parametrize(
    ("labels", "classes", "index"),
    [
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        (["low", "high"], ["low", "mid", "high"], [0, 2]),
        ([3, 1, 1], [3, 1], [0, 1, 1]),
        ([True, False], [False, True], [1, 0]),
        ([], ["a", "b"], []),
    ],
)
def test_index_of_each_label(labels, classes, index):
    found = class_indices(np.array(labels), classes)
    assert found.dtype == np.int64
    assert found.tolist() == index


def test_unknown_labels_are_named_once():
    want = r"`y` must hold the classes of training, 'a', 'b', but got 'c', 'd'\."
    with pytest.raises(ValueError, match=want):
        class_indices(np.array(["d", "a", "c", "d"]), ["a", "b"])


def test_a_class_by_its_text():
    """A file may hold "1" where training had 1; an exact match comes first."""
    assert class_indices(np.array(["1", "0"]), [0, 1], as_text=True).tolist() == [1, 0]
    assert class_indices(np.array([1, 0]), ["0", "1"], as_text=True).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"`target` must .* but got '2' in new\.csv\."):
        class_indices(np.array(["2"]), [0, 1], name="target", where=" in new.csv", as_text=True)
    with pytest.raises(ValueError, match="hold the classes of training"):
        class_indices(np.array(["1"]), [0, 1])
