"""`scroll bench` and `scroll records`: correct use and user errors."""

import csv
import errno
import gzip
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from paths import python_path
from scroll.cli.app import app
from scroll.training.bodies import ARCHITECTURES
from scroll.training.progress import progress
from scroll_paper.data.datasets import SETS, DataSet
from scroll_paper.grid import run
from scroll_paper.grid.experiments import GRID
from scroll_paper.registry import EXPERIMENTS
from scroll_paper.studies.study import Study
from scroll_paper.tables import rows as table_rows
from scroll_paper.tables.experiment import Request, Screen
from scroll_paper.tables.records import append, load
from scroll_paper.tables.selection import Selection
from scroll_paper.tables.table import Block, Cell, Table, table
from sweeps import exhaustive

runner = CliRunner()
ONE = ("headline", "--sets", "yacht", "--methods", "scroll-none", "--seeds", "5")
HERE = python_path(Path(__file__).parent)
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
ROWS = tuple(row._replace(where={"steps": 20}) for row in table_rows.SCROLL.rows)


def offline():
    raise URLError("no route to host")


def small(index, scope):
    values = {
        row.label: {s: index.values(s, row.method, [row.where], scope.seeds) for s in scope.sets}
        for row in filter(scope.wants, ROWS)
    }
    return [table("headline_nll", "Test NLL", scope.sets, [Block(values)])]


def register(put=dict.__setitem__):
    """A yacht of 60 rows that nobody publishes, and a headline of 20 steps."""
    put(SETS, "yacht", DataSet("yacht.csv.gz", 60, 3, None, "y", "a,b,c", "the moon", offline))
    put(EXPERIMENTS, "headline", replace(GRID["headline"], rows=ROWS, build=small))


def alone():
    """The command in a process of its own."""
    register()
    app(sys.argv[1:])


def put(folder, rows=60):
    x = np.random.default_rng(0).normal(size=(rows, 4))
    folder.mkdir(exist_ok=True)
    lines = ["a,b,c,target", *(",".join(map(str, row)) for row in x.tolist())]
    (folder / "yacht.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


@pytest.fixture(autouse=True)
def _a_place_of_its_own(tmp_path, monkeypatch):
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCROLL_CACHE", str(tmp_path / "cache"))
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "SCROLL_DATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Words that train three small fits of four bodies."""
    register(monkeypatch.setitem)
    put(tmp_path / "data")
    return ["headline", "--sets", "yacht", "--seeds", "5", "--data", "data", "--device", "cpu"]


def bench(*words):
    return runner.invoke(app, ["bench", *words, "--results", "records", "--workers", "1"])


def refused(done, *words):
    """Exit code 2 and one line that says why."""
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert done.stderr.count("scroll: ") == 1
    assert last.startswith("scroll: ")
    for word in words:
        assert word in last
    assert not Path("records").exists()
    return done.stderr


def record(architecture="relu", seed=5, nll=3.6, val=1.0, **fit):
    fit = {"set": "yacht", "method": "scroll-none", "architecture": architecture, **fit}
    return {
        "fit": fit | {"seed": seed},
        "metrics": {"nll": nll, "rmse": 6.25, "caliberr": 0.1},
        "val": val,
    }


def all_of_one():
    """What `ONE` needs; 3.6 is chosen."""
    return [record(a, nll=3.6 + k, val=1.0 + k) for k, a in enumerate(ARCHITECTURES)]


def cells(name):
    """A written table, by row and column."""
    with Path("tables", f"{name}.csv").open(newline="") as file:
        return {(row["row"], row["column"]): row for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], ["`experiment` must be a name that `scroll bench list` shows, but got 'nope'"]),
        (["headlin"], ["but got 'headlin'. Near it: 'headline'"]),
        (["headline", "--sets", "yacht,nope"],
         ["`sets` must be one of", "but got 'nope'", *map(repr, SETS)]),
        (["batching", "--methods", "map,vbll"],
         ["`methods` must be one of 'scroll-full', 'scroll-diag', 'scroll-none', 'map', but got",
          "'vbll'"]),
        (["headline", "--seeds", ","], ["`seeds` must name at least one, but got none"]),
        (["headline", "--sets", ","], ["`sets` must name at least one, but got none"]),
        (["headline", "--methods", " , "], ["`methods` must name at least one, but got none"]),
        (["headline", "--seeds", "9-5"], ["`seeds` must name at least one, but got none"]),
        (["headline", "--seeds", "5-x"], ["`seeds` must read like 5-24 or 5,6,9, but got '5-x'"]),
        (["headline", "--seeds", "five"], ["`seeds` must read like", "but got 'five'"]),
        (["headline", "--seeds", "-3"], ["`seeds` must read like", "but got '-3'"]),
        (["headline", "--device", "tpu"], ["`device` must be one of 'cpu', 'cuda', but got 'tpu'"]),
        (["headline", "--data", "nowhere"], ["`data` must be a folder, but got nowhere"]),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_in_a_line(words, said):
    assert refused(bench(*words), *said).count("\n") == 1


def test_a_negative_number_of_workers_is_refused():
    done = runner.invoke(app, ["bench", *ONE, "--results", "records", "--workers", "-1"])
    assert refused(done, "`workers` must be zero or more, but got -1").count("\n") == 1


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = refused(bench(*ONE, "--device", "cuda"), "`device` must be available", "'cuda'")
    assert "--device cpu" in said
    assert said.count("\n") == 1


def test_an_option_that_there_is_not_is_refused():
    done = bench(*ONE, "--speed", "fast")
    assert done.exit_code == 2
    assert "`--speed` must be an option of scroll bench" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_table_of_the_wrong_shape_is_refused_by_name(toy, tmp_path):
    put(tmp_path / "data", rows=59)
    said = refused(bench(*toy), "`yacht.csv.gz` must have shape (60, 4)", "but got (59, 4)")
    assert "Remove data/yacht.csv.gz" in said
    assert said.count("\n") == 1


def test_a_file_that_is_no_table_is_refused_by_name(toy, tmp_path):
    (tmp_path / "data" / "yacht.csv.gz").write_text("not gzip")
    said = refused(bench(*toy), "`yacht.csv.gz` must be a gzip CSV of numbers")
    assert said.count("\n") == 1


def test_missing_data_offline_says_where_they_were_looked_for(toy, tmp_path):
    (tmp_path / "data" / "yacht.csv.gz").unlink()
    said = refused(
        bench(*toy), "`yacht.csv.gz` must lie in data or", "the moon", "no route to host",
        "Go online, or set SCROLL_DATA",
    )  # fmt: skip
    assert said.splitlines()[0] == f"Downloading yacht.csv.gz from the moon into {tmp_path}/cache"
    assert said.count("\n") == 2


def test_training_prints_and_writes_a_table(toy):
    done = bench(*toy)
    assert done.exit_code == 0, done.stderr
    assert re.fullmatch(
        r"12 fits in 3 stacks; the largest takes about \d+ MiB of \S+ [GM]iB free on cpu\n",
        done.stderr,
    )
    assert not CONTROL.search(done.stdout + done.stderr)
    found = load("records").records
    assert len(found) == 12
    mine = [r for r in found if r["fit"]["method"] == "scroll-diag"]
    best = min(mine, key=lambda r: r["val"])["metrics"]["nll"]
    assert float(cells("headline_nll")["SCROLL-Diag", "yacht"]["mean"]) == best
    line = next(line for line in done.stdout.splitlines() if "SCROLL-Diag" in line)
    assert line.split("│")[2].strip() == f"{best:.3f}"
    assert "Written to tables/ as CSV and Markdown." in done.stdout


def test_what_is_recorded_is_not_trained_again(toy):
    first = bench(*toy)
    before = Path("records", "yacht.jsonl").read_bytes()
    again = bench(*toy)
    assert again.exit_code == 0
    assert again.stdout == first.stdout
    assert again.stderr == ""
    assert Path("records", "yacht.jsonl").read_bytes() == before
    more = bench(*toy, "--seeds", "5,6,6", "--methods", "scroll-none")
    assert "4 fits in 1 stacks" in more.stderr
    assert len(load("records").records) == 16


def test_a_corrupt_line_is_named_and_the_rest_is_used(monkeypatch):
    monkeypatch.setattr(run, "train_stack", lambda *_: pytest.fail("trained"))
    file = Path("records", "yacht.jsonl")
    append(file, all_of_one())
    lines = file.read_text().splitlines()
    other = '{"fit": {"seed": [1]}}'
    file.write_text("\n".join([lines[0], '{"fit": {"seed', *lines[1:], other, lines[0][:50]]))
    before = file.read_bytes()
    for words in (ONE, (*ONE, "--tables")):
        done = bench(*words)
        assert done.exit_code == 0
        assert done.stderr.count("\n") == 3
        for number, said in zip((2, 6, 7), done.stderr.splitlines(), strict=True):
            assert said.startswith(f"skipped {file}:{number}: ")
        assert "3.600" in done.stdout
        assert cells("headline_nll")["SCROLL-None", "yacht"]["mean"] == "3.6"
    assert file.read_bytes() == before


def test_a_record_of_something_else_does_no_harm():
    append("records/other.jsonl", [{"fit": {"seed": 1}, "metrics": {}}])
    append("records/yacht.jsonl", all_of_one())
    done = bench(*ONE)
    assert done.exit_code == 0
    assert cells("headline_nll")["SCROLL-None", "yacht"]["mean"] == "3.6"


def full(file, data):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_told_and_nothing_is_lost(toy, monkeypatch):
    file = Path("records", "yacht.jsonl")
    append(file, all_of_one())
    before = file.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        done = bench(*toy)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(
        rf"scroll: `{file}` must take \d+ more bytes, but got No space left on device\. "
        r"Nothing was added and nothing was lost: free some space and run again\.",
        last,
    )
    assert file.read_bytes() == before
    assert not Path("tables").exists()
    assert bench(*toy).exit_code == 0
    assert file.read_bytes().startswith(before)
    assert len(load(file).records) == 16


def test_a_folder_that_cannot_be_written_is_named(toy, monkeypatch):
    Path("records").write_text("")
    done = bench(*toy)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(
        "scroll: `records` must be a folder to write to, but got File exists"
    )
    assert Path("records").read_text() == ""
    Path("records").unlink()

    def closed(path, *rest, real=os.open):
        if str(path).endswith(".jsonl"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *rest)

    monkeypatch.setattr(os, "open", closed)
    done = bench(*toy)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        "scroll: `records/yacht.jsonl` must be writable, but got Permission denied. "
        "Make it and its folder writable, or choose another folder."
    )


def test_tables_that_cannot_be_written_are_a_line():
    append("records/yacht.jsonl", all_of_one())
    Path("tables").write_text("mine")
    done = bench(*ONE, "--tables")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "tables" in done.stderr
    assert Path("tables").read_text() == "mine"


def test_a_full_disk_leaves_no_partial_table():
    resource = pytest.importorskip("resource")
    append("records/yacht.jsonl", all_of_one())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))  # bytes that a file may have
    try:
        done = bench(*ONE, "--tables")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert ".csv` must be writable, but got File too large" in done.stderr
    assert list(Path("tables").iterdir()) == []


def test_list_names_every_experiment_in_a_line():
    done = runner.invoke(app, ["bench", "list"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    for line, experiment in zip(lines, EXPERIMENTS.values(), strict=True):
        assert line.endswith(experiment.about)


def test_a_study_is_run_and_written(monkeypatch):
    said = Study("a toy", lambda output, quick, say: say(f"{output} {quick}") or [all_of_a_study()])
    monkeypatch.setitem(EXPERIMENTS, "toy-study", said)
    done = runner.invoke(app, ["bench", "toy-study", "--quick", "-o", "here"])
    assert done.exit_code == 0
    assert done.stderr == "here True\n"
    assert "1.500" in done.stdout
    assert {p.name for p in Path("here").iterdir()} == {"study.csv", "study.md"}


def all_of_a_study():
    return Table("study", "A study", ["x"], [{"row": {"x": Cell(1.5)}}])


@pytest.mark.parametrize(
    "option", ["--sets=yacht", "--seeds=5", "--compare", "--methods=map", "--workers=2"]
)
def test_a_study_has_nothing_to_choose_from(option):
    done = runner.invoke(app, ["bench", "two-moons", option])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert option.split("=")[0] in done.stderr
    assert "left out" in done.stderr


@pytest.mark.parametrize("name", GRID)
def test_tables_alone_train_nothing(name, monkeypatch):
    monkeypatch.setattr(run, "train", lambda *_, **__: pytest.fail("trained"))
    done = bench(name, "--tables", "--compare")
    assert done.exit_code == 0
    assert done.stderr == ""
    assert not Path("records").exists()
    tables = GRID[name].build(Selection([]), GRID[name].scope())
    for made in tables:
        assert made.title in done.stdout
        assert "--" in Path("tables", f"{made.name}.md").read_text()
    names = {f"{made.name}.{kind}" for made in tables for kind in ("csv", "md")}
    assert {path.name for path in Path("tables").iterdir()} == names


def test_each_table_is_written_as_csv_and_markdown():
    append("records/yacht.jsonl", [*all_of_one(), record(seed=6, nll=3.7)])
    done = bench(*ONE[:-1], "5,6", "--tables", "-o", "out/there")
    assert done.exit_code == 0
    assert "Written to out/there/" in done.stdout
    Path("out/there").rename("tables")
    for kind, digits in (("nll", "3.650"), ("rmse", "6.250")):
        name = f"headline_{kind}"
        row = cells(name)["SCROLL-None", "yacht"]
        assert float(row["mean"]) == pytest.approx(float(digits))
        assert row["count"] == "2"
        page = Path("tables", f"{name}.md").read_text()
        title, empty, header, rule, *rows = page.splitlines()
        assert title == f"Test {kind.upper()}"
        assert empty == ""
        assert header.replace(" ", "") == "||yacht|"
        assert set(rule) <= set("|-: ")
        assert rows[0].startswith(f"| SCROLL-None | **{digits}** |")
        assert digits in done.stdout


def test_compare_puts_the_papers_figure_beside():
    append("records/yacht.jsonl", [*all_of_one(), record(seed=6, nll=3.8)])
    words = (*ONE[:-1], "5,6", "--tables")
    plain, beside = bench(*words).stdout, bench(*words, "--compare").stdout
    assert "3.532" not in plain
    lines = [line.split("│")[1:-1] for line in beside.splitlines() if "│" in line]
    found = {kind.strip(): value.strip() for _, kind, value in lines[:3]}
    assert found == {"ours": "3.700 ± 0.100", "paper": "3.532", "difference": "+0.168 ± 0.141"}
    page = Path("tables", "headline_nll.md").read_text()
    assert "| paper | 3.532 |" in page
    assert cells("headline_nll").keys() == {("SCROLL-None", "yacht")}  # ours alone


def test_a_wide_table_is_whole_where_there_is_no_screen():
    done = bench("headline", "--tables", "--compare")
    assert "…" not in done.stdout
    for word in ("Exact corner (Full)", "SCROLL-Full, then hybrid", "concrete", "difference"):
        assert word in done.stdout


def test_long_lines_are_not_broken(toy, tmp_path):
    """A path can be copied from what is said, whatever its name."""
    deep = Path("a" * 60, "[b]" * 20)
    append(deep / "yacht.jsonl", [record()])
    (deep / "yacht.jsonl").write_text("{\n")
    done = runner.invoke(
        app, ["bench", *toy, "--results", str(deep), "--workers", "1", "-o", str(deep / "[bold]")]
    )
    assert done.exit_code == 0
    assert done.stderr.splitlines()[0].startswith(f"skipped {deep}/yacht.jsonl:1: ")
    assert done.stdout.splitlines()[-1] == f"Written to {deep}/[bold]/ as CSV and Markdown."


def test_records_from_elsewhere_are_added_once():
    append("a/x.jsonl", [record(seed=5), record(seed=6)])
    append("b.jsonl", [record(seed=6), record(seed=7), record(set="wine")])
    add = ["records", "a", "b.jsonl", "--into", "records"]
    done = runner.invoke(app, add)
    assert done.exit_code == 0
    assert done.stdout == "4 records added to records\n"
    assert sorted(path.name for path in Path("records").iterdir()) == ["wine.jsonl", "yacht.jsonl"]
    assert load("records/yacht.jsonl").records == [record(seed=s) for s in (5, 6, 7)]
    assert runner.invoke(app, add).stdout == "0 records added to records\n"


@pytest.mark.parametrize("bad", ["nowhere.jsonl", "other.jsonl"])
def test_records_that_cannot_be_added_are_refused(bad):
    append("good.jsonl", [record()])
    append("other.jsonl", [{"fit": {"seed": 1}}])
    done = runner.invoke(app, ["records", "good.jsonl", bad, "--into", "records"])
    assert refused(done, "`sources` must", bad).count("\n") == 1


def terminal(**how):
    return Console(file=io.StringIO(), width=100, **how)


def test_a_person_at_a_terminal_sees_how_far_it_is(toy):
    console = terminal(force_terminal=True)
    asked = Request(
        ("yacht",), seeds=(5,), device="cpu", data=Path("data"), results=Path("records"), workers=1
    )
    EXPERIMENTS["headline"].run(asked, Screen(watch=partial(progress, console)))
    assert "12/12" in console.file.getvalue()
    assert len(load("records").records) == 12


def test_in_a_pipe_there_are_only_words(toy):
    words = ["bench", *toy, "--results", "records", "--workers", "1", "--methods", "scroll-none"]
    done = subprocess.run(
        [sys.executable, "-c", "import test_bench_cli; test_bench_cli.alone()", *words],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": HERE},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "SCROLL-None" in done.stdout
    assert "4 fits in 1 stacks" in done.stderr
    assert not CONTROL.search(done.stdout + done.stderr)


def test_the_installed_command_refuses_without_a_traceback():
    script = os.path.join(os.path.dirname(sys.executable), "scroll")
    done = subprocess.run([script, "bench", "nope"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("scroll: `experiment` must be a name that")
    assert done.stderr.count("\n") == 1


DATA = os.environ.get("SCROLL_DATA", "").split(os.pathsep)[0]  # there may be several


@exhaustive
@pytest.mark.skipif(not DATA, reason="needs the real tables: set SCROLL_DATA")
def test_a_figure_of_the_paper_from_the_real_table():
    done = bench(*ONE, "--data", DATA, "--device", "cpu", "--compare")
    assert done.exit_code == 0, done.stderr
    found = load("records").records
    assert {r["fit"]["architecture"] for r in found} == set(ARCHITECTURES)
    best = min(found, key=lambda r: r["val"])["metrics"]["nll"]
    row = cells("headline_nll")["SCROLL-None", "yacht"]
    assert json.loads(row["mean"]) == best
    assert abs(best - 3.532) < 3
    assert "3.532" in done.stdout
