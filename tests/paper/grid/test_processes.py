"""Signals: a command that ends also ends its workers, prints one line, keeps complete records."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from test_engines import ALL, SWEEP, UNITS, dask, narrow, numbers, register, sweep, table  # noqa: F401
from typer.testing import CliRunner

from paths import python_path
from scroll.cli.app import app
from scroll.training import progress
from scroll_paper.grid import run
from scroll_paper.grid.engines import Engine, Recalled
from scroll_paper.tables import records
from sweeps import cases, exhaustive

HERE = python_path(Path(__file__).parent)
COMMAND = "from scroll_command import main; print('ready', flush=True); main()"
LONG = "SCROLL_TEST_LONG"
elsewhere, given_back = run.record_in_worker, run.records_of

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")


@pytest.fixture
def start():
    """Start Python with arguments; kill it in the end."""
    begun = []

    def started(code, *words, **more):
        environment = os.environ | {"PYTHONPATH": HERE, "OMP_NUM_THREADS": "1"} | more
        one = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        begun.append(one)
        return one

    yield started
    for one in begun:
        one.kill()
        one.communicate()


def soon(true, seconds=20):
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.05)
    return true()


@pytest.fixture
def fitting(start, tmp_path):
    """A fit of half a minute, as it starts to import."""
    x = np.random.default_rng(0).normal(size=(20_000, 8))
    path = tmp_path / "train.csv"
    np.savetxt(path, x, delimiter=",", header="a,b,c,d,e,f,g,y", comments="")
    one = start(COMMAND, "fit", path, "--target", "y", "-o", tmp_path / "model.scroll")
    assert one.stdout.readline() == "ready\n"
    return one


@pytest.mark.parametrize("delay", cases([0.05, 0.5, 2.0, 5.0], 0.05))
def test_an_interrupt_is_one_line_whenever_it_comes(fitting, tmp_path, delay):
    time.sleep(delay)
    fitting.send_signal(signal.SIGINT)
    out, errors = fitting.communicate(timeout=30)
    assert (fitting.returncode, out, errors) == (130, "", "scroll: interrupted\n")
    assert os.listdir(tmp_path) == ["train.csv"]


@exhaustive
def test_a_termination_is_one_line(fitting, tmp_path):
    time.sleep(3)
    fitting.terminate()
    out, errors = fitting.communicate(timeout=30)
    assert (fitting.returncode, out, errors) == (143, "", "scroll: terminated\n")
    assert os.listdir(tmp_path) == ["train.csv"]


def there(unit, results, done, source):
    """What a worker does, in a process that knows the toy; its second stack takes a minute."""
    register()
    torch.set_default_dtype(torch.float32)
    (Path(source.folder) / f"worker-{os.getpid()}").touch()
    if os.environ.get(LONG) and (Path(source.folder) / f"once-{os.getpid()}").exists():
        (Path(source.folder) / f"long-{os.getpid()}").touch()
        time.sleep(60)
    (Path(source.folder) / f"once-{os.getpid()}").touch()
    return elsewhere(unit, results, done, source)


def swept(results, data):
    """The sweep of two workers."""
    register()
    narrow()
    run.record_in_worker = there
    source = run.RowSource(data, torch.device("cpu"))
    run.train(SWEEP.works(ALL), Path(results), source, workers=2, say=str)


def marks(folder, kind):
    return [int(p.name.partition("-")[2]) for p in Path(folder).glob(f"{kind}-*")]


def alive(pid):
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@exhaustive
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_workers_end_with_their_parent_and_the_sweep_goes_on(start, tmp_path):
    data, results = table(tmp_path / "data"), tmp_path / "results"
    code = "import sys, test_processes; test_processes.swept(*sys.argv[1:])"
    parent = start(code, results, data, **{LONG: "1"})
    assert soon(lambda: len(marks(data, "long")) == 2, 90), parent.communicate(timeout=1)
    parent.kill()
    parent.wait(10)
    assert soon(lambda: not any(map(alive, marks(data, "worker"))), 10)
    found = records.load(results)
    assert not found.problems
    assert 0 < len(found.records) < UNITS
    again = start(code, results, data)
    assert again.wait(90) == 0
    assert len(numbers(results)) == UNITS
    assert len(records.file_of(results, "toy").read_bytes().splitlines()) == UNITS


def endless(unit, data, watch):
    """A fit that looks at its held-out rows for ever."""
    mark = Path(os.environ[LONG])
    (mark / f"looking-{os.getpid()}").touch()
    try:
        while True:
            watch(0, 1.0)
            time.sleep(0.02)
    except Recalled:
        (mark / f"left-{os.getpid()}").touch()
        raise
    yield


def there_for_ever(unit, source):
    register()
    torch.set_default_dtype(torch.float32)
    os.environ[LONG] = source.folder
    run.train_stack = endless
    return given_back(unit, source)


def swept_on_dask(results, data, address):
    register()
    narrow()
    run.records_of = there_for_ever
    sweep(results, data, Engine("dask", address))


@exhaustive
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_stops_working_for_a_client_that_is_killed(start, dask, tmp_path):  # noqa: F811
    data = table(tmp_path / "data")
    code = "import sys, test_processes; test_processes.swept_on_dask(*sys.argv[1:])"
    client = start(code, tmp_path / "results", data, dask)
    assert soon(lambda: len(marks(data, "looking")) == 2, 90), client.communicate(timeout=1)
    client.kill()
    assert soon(lambda: sorted(marks(data, "left")) == sorted(marks(data, "looking")))


@pytest.mark.parametrize("words", [(), ("--json",), ("--quiet",)])
def test_a_long_fit_says_that_it_goes_on(tmp_path, monkeypatch, words):
    """Where there is no bar, unless it is to be quiet."""
    monkeypatch.setattr(progress, "EVERY", 0.01)
    path = tmp_path / "train.csv"
    np.savetxt(path, np.eye(30, 2), delimiter=",", header="a,y", comments="")
    words = ["fit", path, "--target", "y", "-o", tmp_path / "m", "--max-steps", 20, *words]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    assert ("note: still fitting after 0:0" in done.stderr) == ("--quiet" not in words)
    assert "still" not in done.stdout
