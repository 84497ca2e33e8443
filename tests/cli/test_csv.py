"""Tables on disk as people write them: marks, separators, duplicated headers, odd bytes."""

import codecs
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from scroll.cli.app import app
from sweeps import cases

FAST = ("--max-steps", "200", "--body", "16")


def scroll(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def fit(path="train.csv", *words, target="y"):
    return scroll("fit", path, "--target", target, "-o", "m.scroll", *FAST, "--json", *words)


def good(done):
    assert done.exit_code == 0, done.output
    return done


def refused(done, *words):
    assert done.exit_code == 2, done.output
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert lines[0].startswith("scroll: `")
    assert len(lines[0]) < 1000
    for word in words:
        assert word in lines[0]


def made(n=200, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    return pd.DataFrame({"a": a, "b": b, "y": 2 * a + b / 2 + 0.3 * rng.normal(size=n)})


def kinds():
    told = json.loads(good(scroll("info", "m.scroll", "--json")).stdout)
    return {column["name"]: column["kind"] for column in told["columns"]}


def scores(path="test.csv"):
    done = good(scroll("evaluate", "m.scroll", path, "--json"))
    return json.loads(done.stdout), done.stderr


@pytest.fixture(autouse=True)
def _a_place_of_its_own(tmp_path, monkeypatch):
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    made().to_csv("train.csv", index=False)
    made(100, 1).to_csv("test.csv", index=False)


def with_cell(frame, name, row, value):
    frame = frame.astype({name: object})
    frame.loc[row, name] = value
    return frame


@pytest.mark.parametrize("odd", cases(["?", "n/a ", "12 kg"], "12 kg"))
def test_one_cell_does_not_cost_a_column(odd):
    with_cell(made(), "a", 7, odd).to_csv("train.csv", index=False)
    done = good(fit())
    note = f"note: Column 'a' of train.csv holds numbers, but {odd!r} in row 8: read as missing."
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(note)
    assert kinds() == {"a": "numeric", "b": "numeric"}
    assert scores()[0]["rmse"] < 0.6  # 2.1 without the column
    with_cell(made(100, 1), "a", 3, odd).to_csv("test.csv", index=False)
    told, notes = scores()
    assert told["rmse"] < 0.8
    assert f"Column 'a' of test.csv holds numbers, but {odd!r} in row 4: read as missing." in notes


def test_thousands_separators_are_understood():
    for path, frame in (("train.csv", made()), ("test.csv", made(100, 1))):
        frame.assign(a=[f"{1000 * v:,.2f}" for v in frame["a"]]).to_csv(path, index=False)
    done = good(fit())
    assert "Column 'a' of train.csv holds numbers such as '1," in done.stderr
    assert "the comma is read as a thousands separator" in done.stderr
    assert kinds() == {"a": "numeric", "b": "numeric"}
    assert scores()[0]["rmse"] < 0.6


def test_thousands_separators_in_a_target():
    made().assign(y=[f"{v:,.0f}" for v in 1000 * made()["y"]]).to_csv("train.csv", index=False)
    done = good(fit("train.csv", "--max-steps", "3"))
    assert json.loads(done.stdout)["task"] == "regression"
    assert "Column 'y' of train.csv holds numbers such as" in done.stderr


def test_spellings_of_training_are_known_later():
    frame, later = (
        f.assign(flag=f["a"] > 0, colour=np.where(f["b"] > 0, "red", "blue"))
        for f in (made(), made(100, 1))
    )
    frame.to_csv("train.csv", index=False)
    good(fit())
    later.to_csv("test.csv", index=False)
    expected, notes = scores()
    assert notes == ""
    spelled = later["colour"].map({"red": " red", "blue": "Blue"})
    later.assign(flag=later["flag"].astype(int), colour=spelled).to_csv("test.csv", index=False)
    assert scores() == (expected, "")
    later.assign(colour="gelb").to_csv("test.csv", index=False)
    assert "note: Most rows of column 'colour' (100 of 100) hold categories that" in scores()[1]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet"])
def test_a_duplicated_header_is_refused(suffix):
    path = Path(f"twice.{suffix}")
    sep = "\t" if suffix == "tsv" else ","
    text = "\n".join(sep.join(row) for row in ("xzyy", *["1234", "2345", "5678"] * 5)).encode()
    if suffix == "parquet":
        pq.write_table(pa.table([[1.0, 2.0]] * 4, names=["x", "z", "y", "y"]), path)
    else:
        path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    refused(fit(path), f"`{path}` must", "'y'")
    good(fit("train.csv", "--max-steps", "3"))
    for command in ("predict", "evaluate"):
        refused(scroll(command, "m.scroll", path), f"`{path}` must", "'y'")


def test_empty_names_are_no_duplicates():
    Path("train.csv").write_text("x,y,,\n" + "".join(f"{i},{2 * i},,\n" for i in range(20)))
    good(fit("train.csv", "--max-steps", "3"))


@pytest.mark.parametrize("odd", ["unknown", "oops", "-"])
def test_text_among_the_numbers_of_a_target_is_named(odd):
    counts = made()["y"].round().astype(int)
    with_cell(made().assign(y=counts), "y", 11, odd).to_csv("train.csv", index=False)
    words = (f"{odd!r} in row 12 of train.csv", "numbers in 199 of 200 rows", "--task classif")
    refused(fit(), "`y` must hold", *words)
    refused(fit("train.csv", "--task", "regression"), "`y` must hold numbers", words[0])
    assert not Path("m.scroll").exists()


def test_labels_that_look_like_numbers_are_classified_if_asked():
    labels = [*["1", "2", "3"] * 32, *["other"] * 4]
    frame = made(100).assign(y=labels)
    frame.to_csv("train.csv", index=False)
    refused(fit(), "'other' in row 97", "--task classification")
    words = ("--max-steps", "10", "--members", "1", "--task", "classification")
    told = json.loads(good(fit("train.csv", *words)).stdout)
    assert told["classes"] == ["1", "2", "3", "other"]
    frame.assign(y=["1", "2", "3", "other"] * 25).to_csv("train.csv", index=False)
    told = json.loads(good(fit("train.csv", *words[:4])).stdout)  # a class like the others
    assert told["task"] == "classification"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,y\n1,ab\0cd\n", ["NUL", "UTF-8"]),
        ("a,y\n1,2\n".encode("utf-16"), ["NUL", "UTF-8"]),
        ("a,y\ncaf\u00e9,2\n".encode("latin-1"), ["codec can't decode", "UTF-8"]),
        (b"a;y\n1,5;2\n", ["be a table that can be read"]),
        (b"a;y\n1;2\n", ["commas between its columns"]),
        (b"a,y\n", ["a header only"]),
        (b"", ["No columns"]),
        (b"\n\n", ["be a table"]),
        (b"a,y\n" + b"1,2\n" * 9 + b"3," + b"x" * 10**5, ["`y` must hold", "in row 10"]),
        (b"a,y\n" + b"1,2\n" * 9 + b"inf,3", ["be finite", "'a'"]),
    ],
)
def test_odd_files_are_refused_in_a_line(content, words):
    Path("train.csv").write_bytes(content)
    refused(fit(), *words)


@pytest.mark.parametrize(
    "cells",
    [
        ["1e5", " 3 ", "1.", ".5"], ["1_000", "2_000"], ["\u0661\u0662", "7"], ["1" * 40, "3"],
        ["x" * 10**5, "b"], ['"a\nb"', "c"], ["", "1"], ["", ""], ["2020-01-01", "2021-01-01"],
        ["True", "0"], ["0x10", "3"],
    ],
)  # fmt: skip
def test_odd_cells_are_read_without_an_error(cells):
    rows = (f"{cells[i % len(cells)]},{i}\n\n" for i in range(20))
    Path("train.csv").write_bytes(codecs.BOM_UTF8 + b"a,y\n" + "".join(rows).encode())
    good(fit("train.csv", "--max-steps", "3"))
    assert list(kinds()) == ["a"]
    done = good(scroll("predict", "m.scroll", "train.csv"))
    assert done.stdout.count("\n") == 21
