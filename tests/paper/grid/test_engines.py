"""A sweep on a cluster gives the same records as one machine, even if a worker is killed."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Timer

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from paths import python_path
from scroll.cli.app import app
from scroll.training import memory
from scroll_paper.data.datasets import SETS, DataSet
from scroll_paper.grid import engines, plan, run
from scroll_paper.grid.engines import Engine, Failure, engine, spread
from scroll_paper.grid.experiment import GridExperiment
from scroll_paper.tables import records
from scroll_paper.tables.builders import Scope
from scroll_paper.tables.experiment import unwatched
from scroll_paper.tables.rows import Row
from sweeps import exhaustive

TOY = DataSet("toy.csv.gz", 60, 3, None, "y", "a,b,c", "nowhere", lambda: np.empty((0, 4)))
ROWS = (Row("None", "scroll-none", {"steps": 20}), Row("Full", "scroll-full", {"steps": 20}))
SWEEP = GridExperiment("a toy", ROWS, lambda index, scope: [], ("toy",), (0,))
ALL = Scope(SWEEP.sets, SWEEP.seeds)
UNITS = 2 * 4  # methods, architectures
trained_there = run.records_of


def register(put=dict.__setitem__):
    put(SETS, "toy", TOY)


def narrow(put=setattr):
    """A device that holds one group of fits at a time."""
    for module in (memory, plan):
        put(module, "available", lambda device: 1)


def marked(unit, source):
    """What a worker does, in a process that knows the toy; it leaves a mark before and after."""
    register()
    torch.set_default_dtype(torch.float32)
    name = f"{os.getpid()}-{time.time_ns()}"
    (Path(source.folder) / f"begun-{name}").touch()
    time.sleep(0.3)  # so that it can be killed here
    found = trained_there(unit, source)
    (Path(source.folder) / f"ended-{name}").touch()
    return found


def at_work(folder):
    """Processes that have begun and not ended a stack."""
    names = {
        kind: {p.name[6:] for p in Path(folder).glob(f"{kind}-*")} for kind in ("begun", "ended")
    }
    return sorted({int(name.partition("-")[0]) for name in names["begun"] - names["ended"]})


class Killer:
    """Hears of progress, and after the second stack kills a worker that is at one."""

    def __init__(self, folder):
        self.folder, self.counts, self.killed = folder, [], []

    @contextmanager
    def __call__(self, fits):
        yield self.tell

    def tell(self, done, best):
        self.counts.append(done)
        until = time.monotonic() + 20
        while len(self.counts) == 2 and not self.killed and time.monotonic() < until:
            if pids := at_work(self.folder):
                os.kill(pids[-1], signal.SIGKILL)
                self.killed = pids[-1:]


def sweep(results, data, where, watch=None):
    source = run.RowSource(data, torch.device("cpu"))
    run.train(
        SWEEP.works(ALL), Path(results), source, say=str, watch=watch or unwatched, engine=where
    )


def table(folder):
    folder.mkdir()
    x = np.random.default_rng(0).normal(size=(60, 4))
    lines = ["a,b,c,target", *(",".join(map(str, row)) for row in x.tolist())]
    (folder / "toy.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return str(folder)


def numbers(folder):
    found = records.load(folder)
    assert not found.problems
    return {records.key(r): {"val": r["val"], **r["metrics"]} for r in found.records}


def recorded_once(results, calm):
    lines = records.file_of(results, "toy").read_bytes().splitlines()
    keys = [records.key(json.loads(line)) for line in lines]
    assert len(keys) == len(set(keys)) == UNITS
    ours, theirs = numbers(results), numbers(calm)
    assert ours.keys() == theirs.keys()
    for key, line in ours.items():
        assert line == pytest.approx(theirs[key], rel=2e-5, abs=2e-6)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The data, and what one machine records of them."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.setenv("SCROLL_CACHE", str(tmp_path / "cache"))
    register(monkeypatch.setitem)
    narrow(monkeypatch.setattr)
    data = table(tmp_path / "data")
    sweep(tmp_path / "calm", data, run.LOCAL)
    monkeypatch.setattr(run, "records_of", marked)
    return data


@pytest.fixture
def dask():
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own dependencies
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster:
            yield cluster.scheduler_address


@exhaustive
@pytest.mark.filterwarnings("ignore")
def test_a_dask_sweep_is_finished_though_a_worker_is_killed(toy, dask, tmp_path):
    watch = Killer(toy)
    sweep(tmp_path / "far", toy, engine(f"dask:{dask}"), watch)
    assert watch.killed
    assert watch.counts == list(range(1, UNITS + 1))
    assert watch.killed[0] in at_work(toy)  # it never came to its end
    recorded_once(tmp_path / "far", tmp_path / "calm")
    begun = len(list(Path(toy).glob("begun-*")))
    assert begun == UNITS + 1  # what it was at, and nothing else, is begun again
    sweep(tmp_path / "far", toy, engine(f"dask:{dask}"))
    assert len(list(Path(toy).glob("begun-*"))) == begun  # nothing is left to do

    def refuse(number):
        raise ValueError(f"no {number}")

    left = {0: (3,)}
    assert list(spread(engine(f"dask:{dask}"), refuse, left)) == [(0, Failure("ValueError: no 3"))]


RAY = """
import test_engines as t
t.register(), t.narrow()
t.run.records_of = t.marked
watch = t.Killer({data!r})
t.sweep({results!r}, {data!r}, t.engine("ray"), watch)
assert watch.killed and watch.counts == list(range(1, t.UNITS + 1)), watch.counts
"""
HOLD = """
import ray, sys
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def ray(monkeypatch):
    """A cluster in a process of its own."""
    pytest.importorskip("ray")
    here = python_path(Path(__file__).parent)  # where its workers find this module
    settings = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": here}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", HOLD], text=True, **pipes) as holder:
        try:
            yield holder.stdout.readline().strip()
        finally:
            holder.stdin.close()
            holder.wait(30)


@exhaustive
@pytest.mark.filterwarnings("ignore")
def test_a_ray_sweep_is_finished_though_a_worker_is_killed(toy, ray, tmp_path):
    """In a process of its own: Ray's backend changes joblib's classes."""
    script = RAY.format(data=toy, results=str(tmp_path / "far"))
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "RAY_ADDRESS": ray}, timeout=120,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    recorded_once(tmp_path / "far", tmp_path / "calm")


# What cannot be meant, and engines that are not there.


def test_what_an_engine_is_reached_by():
    pytest.importorskip("distributed")
    config = pytest.importorskip("dask.config")
    for at in ("tcp://10.0.0.1:8786", "tls://[::1]:8786", "head:8786"):
        assert engine(f"dask:{at}") == Engine("dask", at)
        with config.set({"scheduler-address": at}):  # or DASK_SCHEDULER_ADDRESS
            assert engine("dask") == Engine("dask", at)


def test_a_cluster_of_one_worker_does_the_work_itself():
    """And not the process that asks for it, which joblib would leave it to."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster:
            where = engine(f"dask:{cluster.scheduler_address}")
            found = dict(spread(where, os.getpid, {0: (), 1: ()}))
    assert found.keys() == {0, 1}
    assert os.getpid() not in found.values()


@pytest.mark.parametrize(
    ("text", "error", "want"),
    [
        ("slurm", ValueError, "`--engine` must be one of 'local', 'dask', 'ray', but got 'slurm'"),
        ("", ValueError, "`--engine` must be one of"),
        ("local:8786", ValueError, "`--engine` must have no address for this machine"),
        ("dask:foo", ValueError, "`--engine` must read like dask:tcp://HOST:8786, but got 'dask:f"),
        ("dask:tcp://", ValueError, "`--engine` must read like dask:tcp://HOST:8786"),
        ("dask:tcp://a:port", ValueError, "`--engine` must read like dask:tcp://HOST:8786"),
        ("ray:a b:1", ValueError, "`--engine` must read like ray:HOST:6379, but got 'ray:a b:1'"),
    ],
)
def test_an_engine_that_there_is_not_is_refused(text, error, want):
    with pytest.raises(error, match=want):
        engine(text)


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_an_engine_without_its_package_says_what_to_install(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed" if kind == "dask" else kind, None)
    want = rf"`--engine` must be one whose package is installed, .* pip install './paper\[{kind}"
    with pytest.raises(ImportError, match=want):
        engine(kind)


def test_dask_alone_and_dask_that_is_silent(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "WAIT", 1)
    for text in ("dask", "dask:"):
        with pytest.raises(ValueError, match=f"`--engine` must name a cluster, but got '{text}'"):
            engine(text)
    with pytest.raises(OSError, match="`--engine` must reach a dask cluster at tcp:"):
        next(spread(engine("dask:tcp://127.0.0.1:9"), abs, {0: (1,)}))


@contextmanager
def threads(address):
    """A cluster of two."""
    from joblib import parallel_config

    with parallel_config(backend="threading", n_jobs=2):
        yield


def test_who_reads_no_further_is_not_warned(monkeypatch):
    """As after a failure, which is told by an error of its own."""
    monkeypatch.setitem(engines.CLUSTERS, "dask", threads)
    gate = Event()

    def late(key):
        assert key == 0 or gate.wait(20)
        return key

    found = spread(Engine("dask", ""), late, {0: (0,), 1: (1,)})
    assert next(found) == (0, 0)
    Timer(0.5, gate.set).start()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found.close()
    assert not [str(w.message) for w in told]


def test_a_cluster_that_only_loses_is_given_up(monkeypatch):
    from joblib import Parallel

    lives = []

    def broken(self, tasks):
        lives.append(len(tasks))
        if len(lives) == 1:
            yield 0, "kept"
        raise ConnectionError("gone")

    monkeypatch.setitem(engines.CLUSTERS, "dask", threads)
    monkeypatch.setattr(Parallel, "__call__", broken)
    left, got = {0: (), 1: ()}, []

    def keep():
        for key, value in spread(Engine("dask", ""), abs, left):
            got.append(value)
            del left[key]

    with pytest.raises(RuntimeError, match=r"lost 3 times in a row .* ConnectionError: gone"):
        keep()
    assert got == ["kept"]
    assert lives == [2, 1, 1]  # what was kept is not given out again


def test_the_command_refuses_in_a_line(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    there = "dask:tcp://127.0.0.1:9"
    for words, want in (
        (("--engine", "slurm"), "`--engine` must be one of 'local', 'dask', 'ray'"),
        (("--engine", "dask"), "`--engine` must name a cluster, but got 'dask'"),
        (
            ("--engine", there, "--workers", "2"),
            f"`workers` must be left out with --engine {there}",
        ),
    ):
        done = CliRunner().invoke(app, ["bench", "headline", "--quick", "--device", "cpu", *words])
        assert done.exit_code == 2
        assert want in done.stderr
        assert "Traceback" not in done.stderr
        assert "stacks" not in done.output  # before anything is read or planned


def test_importing_brings_no_engine():
    names = "{'dask', 'distributed', 'ray', 'joblib'}"
    script = f"import sys, scroll, scroll_paper.grid.engines; print({names} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout.strip() == b"set()"


@pytest.mark.parametrize("download", [False, True])
def test_a_worker_may_fetch_what_its_caller_may(monkeypatch, download):
    register(monkeypatch.setitem)
    asked = []

    def load(name, folder, say, download):
        asked.append((name, folder, download))
        raise FileNotFoundError

    monkeypatch.setattr(run.datasets, "load", load)
    unit = plan.Unit(next(iter(SWEEP.works(ALL))), [plan.Group("relu", 0, None, 0)])
    source = run.RowSource(f"of {download}", torch.device("cpu"), download)
    for there in (
        lambda: trained_there(unit, source),
        lambda: run.record_in_worker(unit, Path(), set(), source),
    ):
        with pytest.raises(FileNotFoundError):
            there()
    assert asked == [("toy", f"of {download}", download)] * 2
