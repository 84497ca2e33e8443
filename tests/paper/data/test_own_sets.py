"""A user's own data set, `mine.csv:target`: how it is read, named, refused and trained on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scroll import RegressionHead
from scroll_paper.data import own
from scroll_paper.data.datasets import SETS, load
from scroll_paper.grid.experiments import GRID
from scroll_paper.models.method import Method, Training
from scroll_paper.models.methods import TABLE_METHODS
from scroll_paper.registry import check_methods
from scroll_paper.tables import records
from scroll_paper.tables.builders import Scope, by_set
from scroll_paper.tables.experiment import Request, Screen
from scroll_paper.tables.rows import group
from scroll_paper.tables.selection import Selection

FEW = {"steps": 20}
ROWS = group("scroll-none", where=FEW)
SHORT = replace(
    GRID["headline"], rows=ROWS.rows, build=by_set("t", "Test NLL", [ROWS], "nll"), where=FEW
)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """In a folder of its own; what is registered is forgotten afterwards."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    before = [(known, dict(known)) for known in (SETS, TABLE_METHODS)]
    yield
    for known, kept in before:
        known.clear()
        known.update(kept)


def write(path="mine.csv", rows=40, **columns):
    """Write a table of a number, a text and two targets; `columns` replace or add some."""
    g = np.random.default_rng(0)
    x, colour = g.normal(size=rows), g.choice(["red", "blue"], rows)
    found = {
        "x": x,
        "colour": colour,
        "price": x + (colour == "red"),
        "kind": np.where(x > 0, "b", "a"),
    }
    found |= columns
    lines = [",".join(map(str, row)) for row in zip(*found.values(), strict=True)]
    Path(path).parent.mkdir(exist_ok=True, parents=True)
    Path(path).write_text("\n".join([",".join(found), *lines]) + "\n")
    return found


def test_numbers_stay_and_texts_become_columns():
    want = write()
    data = load(own.add("mine.csv:price", labels=False))
    assert data.columns == ("x", "colour=blue", "colour=red", "kind=a", "kind=b")
    np.testing.assert_array_equal(data.x[:, 0], want["x"])
    np.testing.assert_array_equal(data.x[:, 2], want["colour"] == "red")
    np.testing.assert_array_equal(data.y, want["price"])
    assert data.classes == 0


def test_labels_are_coded_in_sorted_order():
    want = write()
    data = load(own.add("mine.csv:kind", labels=True))
    assert data.classes == 2
    np.testing.assert_array_equal(data.y, want["kind"] == "b")


def test_the_name_is_safe_and_depends_on_the_content():
    write()
    first = own.add("mine.csv:price", labels=False)
    assert first == own.add(str(Path("mine.csv").resolve()) + ":price", labels=False)
    assert first != own.add("mine.csv:x", labels=False)
    write(rows=41)
    assert first != own.add("mine.csv:price", labels=False)
    assert first.startswith("mine-price-")
    assert SETS[first].heading == "mine:price"
    write("my (1)/ü.csv", y=np.arange(40))
    name = own.add("my (1)/ü.csv:y", labels=False)
    assert name.isascii()
    assert name.replace("-", "").replace("_", "").isalnum()


def test_two_files_of_one_name_have_two_columns():
    write("a/mine.csv")
    write("b/mine.csv", rows=50)
    names = tuple(own.add(f"{folder}/mine.csv:price", labels=False) for folder in "ab")
    assert Scope(names, (5,)).headings() == {name: name for name in names}
    assert Scope(names[:1], (5,)).headings() == {names[0]: "mine:price"}


@pytest.mark.parametrize(
    ("word", "columns", "want"),
    [
        ("mine.csv:nope", {}, r"must have the column 'nope', but got none; it has 'x'"),
        ("none.csv:price", {}, r"must be a file, but got .*none.csv"),
        ("mine.csv:", {}, r"`mine.csv:` must name the target after a colon"),
        ("mine.csv:kind", {}, r"must have numbers in 'kind', but got 'b', 'a'"),
        ("mine.csv:price", {"gap": ["", *range(39)]}, r"no missing values in 'gap', but got 1"),
        ("mine.csv:price", {"x": ["inf", *range(39)]}, r"be finite in 'x', but got 1"),
        ("mine.csv:price", {"id": [f"row {k}" for k in range(200)]}, r"at most 100 different"),
        ("mine.xls:price", {}, r"must end in \.csv"),
    ],
)
def test_a_file_that_is_no_data_set_is_refused(word, columns, want):
    write(rows=200 if "id" in columns else 40, **columns)
    with pytest.raises((ValueError, OSError), match=want):
        GRID["headline"].scope(Request(sets=(word,)))


def test_too_few_rows_are_refused():
    write(rows=19)
    with pytest.raises(ValueError, match="must hold at least 20 rows"):
        own.add("mine.csv:price", labels=False)


def test_labels_need_two_classes():
    write(kind=["a"] * 40)
    with pytest.raises(ValueError, match="must have 2 to 100 classes in 'kind', but got 1: 'a'"):
        GRID["classification"].scope(Request(sets=("mine.csv:kind",)))


def test_named_and_own_sets_stand_side_by_side():
    write()
    scope = GRID["headline"].scope(Request(sets=("yacht", "mine.csv:price")))
    assert list(scope.headings().values()) == ["yacht", "mine:price"]


def test_a_set_of_the_other_kind_is_refused():
    with pytest.raises(ValueError, match="must have numbers to predict, but got 'pima'"):
        GRID["headline"].scope(Request(sets=("pima",)))
    with pytest.raises(ValueError, match="must have labels to predict, but got 'yacht'"):
        GRID["classification"].scope(Request(sets=("yacht",)))


def test_out_of_distribution_tables_take_no_file():
    write()
    with pytest.raises(ValueError, match="`sets` must be one of 'wine'"):
        GRID["ood"].scope(Request(sets=("mine.csv:price",)))


def head(features, replicates, setting):
    return RegressionHead(features, covariance="diag", bias=False, replicates=replicates)


def test_worker_processes_know_a_users_own_set_and_method():
    write()
    TABLE_METHODS["own"] = Method("Own", Training(head), experiments=("headline",))
    asked = Request(("mine.csv:price",), seeds=(5,), device="cpu", results=Path("two"), workers=2)
    (two,) = SHORT.run(asked, Screen())
    (one,) = SHORT.run(replace(asked, results=Path("one"), workers=1), Screen())
    assert one == two
    assert [label for block in one.blocks for label in block] == ["SCROLL-None", "Own"]
    assert list(one.columns) == ["mine:price"]
    (file,) = Path("two").iterdir()
    assert file.name.startswith("mine-price-")
    assert {r["fit"]["method"] for r in records.load(file).records} == {"scroll-none", "own"}


def test_a_method_is_shown_only_where_it_asks_to_be():
    TABLE_METHODS["own"] = Method("Own", Training(head), experiments=("headline",))
    assert GRID["headline"].methods()[-1] == "own"
    assert "own" not in GRID["attribution"].methods()
    first, *_, floor = GRID["headline"].build(Selection([]), GRID["headline"].scope())
    assert list(first.blocks[-1]) == ["Own"]
    assert [list(block) for block in floor.blocks] == [["Mean predictor"]]


@pytest.mark.parametrize("asked", ["architecture", "cifar", "nowhere"])
def test_a_method_cannot_ask_for_a_table_without_room(asked):
    TABLE_METHODS["own"] = Method("Own", Training(head), experiments=(asked,))
    want = rf"`TABLE_METHODS\['own'\]\.experiments` must be one of 'headline'.*, but got '{asked}'"
    with pytest.raises(ValueError, match=want):
        check_methods()
