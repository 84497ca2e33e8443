"""Record files: appending, reading, merging, and damaged lines."""

import errno
import gzip
import json
import math
import multiprocessing
import os
import random
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scroll.cli.app import app
from scroll_paper.tables.records import (
    append,
    differing,
    done,
    file_of,
    key,
    load,
    merge,
    skipped,
    supersede,
)

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")


def run(number, **more):
    return {"fit": {"data": "yacht", "seed": number}, "metrics": {"nll": number / 7}, **more}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "results" / "runs.jsonl"


@pytest.fixture
def processes():
    """Processes that start from one in which the import has been done."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["scroll_paper.tables.records"])
    return context


def test_what_is_written_is_read(file):
    first, second = [run(0, steps=40, versions={"torch": "2.6"})], [run(1), run(2)]
    append(file, first)
    append(file, second)
    append(file, [])
    assert load(file) == (first + second, [])
    assert load(file.parent) == (first + second, [])
    assert len(file.read_text().splitlines()) == 3


def test_a_folder_is_read_by_name_and_nothing_there_is_nothing(file):
    append(file.with_name("b.jsonl"), [run(1)])
    append(file.with_name("a.jsonl"), [run(2)])
    file.with_name("notes.txt").write_text("not a record\n")
    assert load(file.parent).records == [run(2), run(1)]
    assert load(file) == ([], [])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"lr": 0.1, "data": "wine"}, {"data": "wine", "lr": 1e-1}),
        ({"width": 1}, {"width": 1.0}),
        ({"decay": 0.0}, {"decay": -0.0}),
        ({"steps": 1e4}, {"steps": 10_000}),
        ({"seed": 3}, {"fit": {"seed": 3}, "metrics": {"nll": 1.0}}),
    ],
)
def test_equal_fits_have_equal_keys(a, b):
    assert key(a) == key(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"lr": 0.1}, {"lr": 0.1 + 2**-50}),
        ({"lr": 1}, {"lr": "1"}),
        ({"on": True}, {"on": 1}),
        ({"lr": 1}, {"rate": 1}),
        ({"batch": None}, {}),
    ],
)
def test_different_fits_have_different_keys(a, b):
    assert key(a) != key(b)


def test_a_key_is_the_same_before_and_after(file):
    record = {"fit": {"lr": 0.1, "depth": 2.0, "name": "é", "on": True, "batch": None}}
    append(file, [record])
    assert key(load(file).records[0]) == key(record)
    assert key(record) == '{"batch":null,"depth":2,"lr":0.1,"name":"\\u00e9","on":true}'
    assert done([record, run(1)]) == {key(record), key(run(1))}


def test_numbers_that_are_not_finite_come_back(file):
    fit = {"data": "nan", "seed": 0}  # a name is a name
    metrics = {"nll": math.nan, "rmse": math.inf, "gap": -math.inf, "calibration": 0.1}
    append(file, [{"fit": fit, "metrics": metrics, "val": math.inf, "trace": [1.0, math.nan]}])

    def strict(name):
        raise AssertionError(name)

    json.loads(file.read_text(), parse_constant=strict)
    (record,), problems = load(file)
    assert record["fit"] == fit
    assert not problems
    assert math.isnan(record["metrics"].pop("nll"))
    assert record["metrics"] == {"rmse": math.inf, "gap": -math.inf, "calibration": 0.1}
    assert record["val"] == math.inf
    assert record["trace"][0] == 1.0
    assert math.isnan(record["trace"][1])


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ({"metrics": {}}, ValueError, '`records` must each hold a dict "fit"'),
        ({"fit": {"lr": math.nan}}, ValueError, r"`fit\['lr'\]` must be finite, but got nan"),
        ({"fit": {"arch": [1]}}, ValueError, "must be text, a number, a bool or None"),
        ({"fit": {}, "metrics": {"nll": object()}}, TypeError, "must hold plain values"),
    ],
)
def test_a_bad_record_is_refused_before_anything_is_written(file, bad, error, words):
    with pytest.raises(error, match=words):
        append(file, [run(0), bad])
    assert not file.exists()


def test_a_name_that_load_would_miss_is_refused(file):
    with pytest.raises(ValueError, match=r"`path` must end in \.jsonl"):
        append(file.with_suffix(".json"), [run(0)])


def test_corrupt_lines_are_reported_and_the_rest_is_used(file):
    good = [json.dumps(run(n)).encode() for n in range(3)]
    bad = [b'{"fit": ', b"[1]", b'{"metrics": {}}', b'{"fit": {}, "val": NaN}', b'{"fit": "\xff"}']
    nested = b'{"fit": {"a": {"b": 1}}}'
    deep = b"[" * 100_000
    file.parent.mkdir()
    file.write_bytes(b"\n".join([good[0], *bad, b"", good[1], nested, deep, good[2]]) + b"\n")
    loaded = load(file)
    assert loaded.records == [run(n) for n in range(3)]
    where = [problem.removeprefix(f"{file}:").split(": ", 1) for problem in loaded.problems]
    assert [number for number, _ in where] == ["2", "3", "4", "5", "6", "9", "10"]
    words = ["Expecting value", "not a list", '"fit"', "NaN is not JSON", "utf-8", "fit['a']"]
    for (_, why), word in zip(where, words, strict=False):
        assert word in why


def test_a_torn_last_line_is_reported_and_stays_apart(file):
    append(file, [run(0), run(1)])
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    records, problems = load(file)
    assert records == [run(0)]
    assert problems[0].startswith(f"{file}:2: the file ends in mid-line; ")
    append(file, [run(2)])
    assert file.read_bytes().startswith(whole[:-20] + b"\n")
    records, problems = load(file)
    assert records == [run(0), run(2)]
    assert len(problems) == 1
    assert problems[0].startswith(f"{file}:2: ")


def test_a_line_that_lacks_only_its_end_is_a_record(file):
    append(file, [run(0)])
    file.write_bytes(file.read_bytes()[:-1])
    append(file, [run(1)])
    assert load(file) == ([run(0), run(1)], [])


def test_a_gzipped_file_is_read_as_what_it_holds(file):
    append(file, [run(s) for s in range(3)])
    packed = file.with_suffix(".gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert load(packed) == load(file)


def test_many_problems_are_said_in_few_lines():
    assert skipped(["a:1: x", "a:2: y"]) == ["skipped a:1: x", "skipped a:2: y"]
    assert skipped(["x"] * 9, most=2) == ["skipped x", "skipped x", "skipped 7 more lines"]


def test_of_duplicates_the_first_stands(file):
    append(file, [run(0, val=1), run(0, val=2)])
    append(file.with_name("z.jsonl"), [run(0, val=3), run(1)])
    append(file.with_name("a.jsonl"), [run(1, val=4)])
    assert load(file.parent).records == [run(1, val=4), run(0, val=1)]


def write_some(path, name, count, start):
    start.wait()
    for number in range(count):
        append(path, [{"fit": {"who": name, "number": number}, "metrics": {"nll": 0.5}}])


@forks
def test_two_processes_write_at_once(file, processes):
    start = processes.Barrier(2)
    writers = [processes.Process(target=write_some, args=(file, who, 300, start)) for who in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    records, problems = load(file)
    assert not problems
    assert done(records) == {key({"who": who, "number": n}) for who in "ab" for n in range(300)}
    assert len(file.read_bytes().splitlines()) == 600
    order = [record["fit"]["who"] for record in records]
    assert order not in (["a"] * 300 + ["b"] * 300, ["b"] * 300 + ["a"] * 300)


def write_forever(path, life, told):
    for number in range(10_000):
        fits = [{"life": life, "number": number, "part": part} for part in range(100)]
        append(path, [{"fit": fit, "pad": "x" * 300} for fit in fits])
        told.send(number)


@forks
def test_a_writer_may_be_killed_at_any_moment(file, processes):
    """What append has returned from is there; a kill tears one line at most."""
    rng = random.Random(0)
    for life in range(12):
        hears, told = processes.Pipe(duplex=False)
        writer = processes.Process(target=write_forever, args=(file, life, told))
        writer.start()
        told.close()
        finished = {hears.recv()}
        time.sleep(rng.uniform(0, 0.02))
        writer.kill()
        writer.join()
        assert writer.exitcode == -9
        while hears.poll():
            try:
                finished.add(hears.recv())
            except (EOFError, OSError):
                break
        hears.close()
        append(file, [run(life)])
        records, problems = load(file)
        keys = done(records)
        assert keys >= {
            key({"life": life, "number": n, "part": part}) for n in finished for part in range(100)
        }
        assert keys >= {key(run(n)) for n in range(life + 1)}
        assert len(problems) <= life + 1
        lines = file.read_bytes().splitlines()
        assert len(lines) == len(records) + len(problems)


def short(file, data, write=os.write):
    return write(file, data[: len(data) // 2])


def full(file, data):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def late(file, data, write=os.write):
    write(file, data[:10])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("broken", [short, full, late])
@pytest.mark.parametrize("torn", [False, True])
def test_a_full_disk_leaves_the_file_as_it_was(file, monkeypatch, broken, torn):
    append(file, [run(0), run(1)])
    if torn:
        file.write_bytes(file.read_bytes()[:-5])
    before = file.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", broken)
        with pytest.raises(OSError, match=f"`{file}` must take .* more bytes, but got ") as caught:
            append(file, [run(2), run(3)])
    words = "room for" if broken is short else "No space left on device"
    assert words in str(caught.value)
    assert "free some space" in str(caught.value)
    assert file.read_bytes() == before
    append(file, [run(2)])
    assert load(file).records == [run(n) for n in ((0, 2) if torn else (0, 1, 2))]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_device_that_is_full(tmp_path):
    (tmp_path / "full.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match="more bytes, but got No space left on device"):
        append(tmp_path / "full.jsonl", [run(0)])


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may write anywhere")
def test_an_unwritable_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="must be writable, but got Permission denied"):
        append(tmp_path / "runs.jsonl", [run(0)])


def test_what_cannot_be_opened_is_named(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    with pytest.raises(OSError, match=r"`.*taken/runs.jsonl` must be writable, but got"):
        append(tmp_path / "taken" / "runs.jsonl", [run(0)])
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(IsADirectoryError, match=r"`.*folder.jsonl` must be writable"):
        append(tmp_path / "folder.jsonl", [run(0)])

    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match="must be writable, but got Permission denied"):
        append(tmp_path / "runs.jsonl", [run(0)])


def test_without_locks_records_are_still_written(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    append(file, [run(0)])
    assert load(file).records == [run(0)]


def of(name, number, **more):
    return run(number, **more) | {"fit": {"set": name, "seed": number}}


def test_merging_takes_what_is_new_and_only_once(tmp_path):
    folder, there, alone = tmp_path / "results", tmp_path / "there", tmp_path / "b.jsonl"
    append(folder / "yacht.jsonl", [of("yacht", 0, val=1)])
    append(folder / "old.jsonl", [of("yacht", 1)])
    append(there / "a.jsonl", [of("yacht", 0, val=2), of("yacht", 1), of("wine", 2)])
    append(alone, [of("wine", 2, val=3), of("yacht", 3), of("wine", 0)])
    with (there / "a.jsonl").open("a") as out:
        out.write('{"fit": {"torn')
    assert merge([there, alone], folder) == 3
    assert load(file_of(folder, "yacht")).records == [of("yacht", 0, val=1), of("yacht", 3)]
    assert load(file_of(folder, "wine")) == ([of("wine", 2), of("wine", 0)], [])
    assert load(folder / "old.jsonl").records == [of("yacht", 1)]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert sorted(path.name for path in before) == ["old.jsonl", "wine.jsonl", "yacht.jsonl"]
    assert merge([there, alone], folder) == 0
    assert merge([folder, folder / "old.jsonl"], folder) == 0
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_newer_record_of_the_same_fit_moves_the_older_one_to_the_readings(tmp_path):
    folder, newer = tmp_path / "results", tmp_path / "newer.jsonl"
    append(folder / "yacht.jsonl", [of("yacht", 0), of("yacht", 1)])
    append(folder / "old.jsonl", [of("yacht", 2)])
    with (folder / "yacht.jsonl").open("a") as out:
        out.write('{"torn')
    changed = [of("yacht", seed) | {"metrics": {"nll": 9.0 + seed}} for seed in (1, 2)]
    append(newer, [of("yacht", 0), *changed, of("yacht", 3)])
    kept = (folder / "yacht.jsonl").read_text().splitlines()[0]
    assert differing([newer], folder) == changed
    assert supersede(differing([newer], folder), folder) == 2
    assert load(folder / "yacht.jsonl").records == [of("yacht", 0), *changed]
    assert (folder / "yacht.jsonl").read_text().splitlines()[:2] == [kept, '{"torn']
    assert load(folder / "old.jsonl").records == []
    readings = folder / "readings"
    assert load(readings / "yacht.jsonl").records == [of("yacht", 1)]
    assert load(readings / "old.jsonl").records == [of("yacht", 2)]
    assert differing([newer], folder) == []
    assert merge([newer], folder) == 1


def test_an_older_record_is_safe_before_its_file_changes(tmp_path, monkeypatch):
    append(tmp_path / "yacht.jsonl", [of("yacht", 0)])
    before = (tmp_path / "yacht.jsonl").read_bytes()

    def fails(path, content):
        raise OSError("stopped")

    monkeypatch.setattr("scroll_paper.tables.records.write", fails)
    with pytest.raises(OSError, match="stopped"):
        supersede([of("yacht", 0) | {"metrics": {"nll": 1.0}}], tmp_path)
    assert (tmp_path / "yacht.jsonl").read_bytes() == before
    assert load(tmp_path / "readings" / "yacht.jsonl").records == [of("yacht", 0)]


def test_the_command_keeps_the_first_record_unless_told(tmp_path):
    folder, newer = tmp_path / "results", tmp_path / "newer.jsonl"
    append(folder / "yacht.jsonl", [of("yacht", 0)])
    append(newer, [of("yacht", 0) | {"metrics": {"nll": 1.0}}])
    words = ["records", str(newer), "--into", str(folder)]
    kept = CliRunner().invoke(app, words)
    assert "1 records left out" in kept.output
    assert load(folder).records == [of("yacht", 0)]
    moved = CliRunner().invoke(app, [*words, "--supersede"])
    assert "1 records replaced" in moved.output
    assert load(folder).records[0]["metrics"] == {"nll": 1.0}


@pytest.mark.parametrize("make", [lambda path: None, lambda path: append(path, [run(0)])])
def test_of_bad_sources_nothing_is_merged(tmp_path, make):
    append(tmp_path / "good.jsonl", [of("wine", 0)])
    make(tmp_path / "bad.jsonl")
    with pytest.raises((FileNotFoundError, ValueError), match=r"`sources` must .*bad.jsonl"):
        merge([tmp_path / "good.jsonl", tmp_path / "bad.jsonl"], tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_the_file_is_written_once_and_synced(file, monkeypatch):
    calls = []
    write, fsync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda f, b: calls.append("write") or write(f, b))
    monkeypatch.setattr(os, "fsync", lambda f: calls.append("fsync") or fsync(f))
    append(file, [run(n) for n in range(5000)])
    assert calls == ["write", "fsync"]
    assert len(load(file).records) == 5000
