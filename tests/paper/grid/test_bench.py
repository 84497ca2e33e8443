"""Experiments end to end: what is trained, what is recorded, what the tables contain."""

import gzip
import json
import math
import multiprocessing
import os
import random
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scroll.training import memory
from scroll.training.bodies import ARCHITECTURES
from scroll_paper.data.datasets import SETS, UCI, DataSet
from scroll_paper.grid import plan as planning
from scroll_paper.grid import run, stacks
from scroll_paper.grid.experiment import GridExperiment
from scroll_paper.grid.experiments import GRID
from scroll_paper.grid.plan import Group, Unit, Work, missing, plan
from scroll_paper.models.method import Setting
from scroll_paper.models.methods import TABLE_METHODS
from scroll_paper.tables import records
from scroll_paper.tables.builders import Scope
from scroll_paper.tables.experiment import Request
from scroll_paper.tables.rows import Row
from scroll_paper.tables.selection import Selection
from sweeps import exhaustive

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")
CPU = torch.device("cpu")
FEW = {"steps": 20}
LABELLED_TOY = DataSet(
    "labels.csv.gz", 60, 3, None, "y", "a,b,c", "nowhere", lambda: np.empty((0, 4)), 3
)
TOY = DataSet("toy.csv.gz", 60, 3, None, "y", "a,b,c", "nowhere", lambda: np.empty((0, 4)))
PLAY = GridExperiment(
    "a toy",
    (
        Row("None", "scroll-none", FEW),
        Row("Full", "scroll-full", FEW),
        Row("Ens", "scroll-ens", FEW),
        Row("Laplace", "laplace-full", FEW | {"architecture": "relu"}),
    ),
    lambda index, scope: [],
    ("toy",),
    (0, 1),
)
ALL = Scope(PLAY.sets, PLAY.seeds)


def register(put=dict.__setitem__):
    """Make the toy known in this process."""
    put(SETS, "toy", TOY)
    put(SETS, "labels", LABELLED_TOY)


def narrow(put=setattr):
    """A device that holds one group of fits at a time."""
    for module in (memory, planning):
        put(module, "available", lambda device: 1)


@pytest.fixture(autouse=True)
def _float32():
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with the toy."""
    register(monkeypatch.setitem)
    monkeypatch.setenv("SCROLL_CACHE", str(tmp_path / "cache"))
    x = np.random.default_rng(0).normal(size=(60, 4))
    x[:, 3] = x[:, 0] - 2 * x[:, 1] + 0.3 * x[:, 3]
    folder = tmp_path / "data"
    folder.mkdir()
    lines = ["a,b,c,target", *(",".join(map(str, row)) for row in x.tolist())]
    (folder / "toy.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    x[:, 3] = np.digitize(x[:, 3], [-1.0, 1.0])
    lines = ["a,b,c,label", *(",".join(map(str, row)) for row in x.tolist())]
    (folder / "labels.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return str(folder)


@pytest.fixture
def units(monkeypatch):
    """The units that are trained in this process, as they come."""
    seen, fit = [], run.train_stack
    monkeypatch.setattr(
        run, "train_stack", lambda unit, *rest: seen.append(unit) or fit(unit, *rest)
    )
    return seen


def train(folder, data, asked=ALL, **how):
    """Train the toy; what was said."""
    said = []
    run.train(PLAY.works(asked), folder, run.RowSource(data, CPU), say=said.append, **how)
    return said


def numbers(folder, torn=0):
    """All that the records say except what they cost."""
    loaded = records.load(folder)
    assert len(loaded.problems) <= torn
    return {
        records.key(r): {"val": r["val"], "steps": r.get("steps", 0), **r["metrics"]}
        for r in loaded.records
    }


def close(ours, theirs):
    """Equal up to the rounding of single precision."""
    assert ours.keys() == theirs.keys()
    for key, line in ours.items():
        assert line == pytest.approx(theirs[key], rel=2e-5, abs=2e-6), key


def everything():
    """The last line of each group."""
    return {w.last(g) for w in PLAY.works(ALL) for g in w.groups()}


def fits(*methods, seeds=ALL.seeds):
    return Scope(("toy",), seeds, methods)


def flat(units):
    return [(u.work, g) for u in units for g in u.groups]


def test_missing_is_what_the_records_lack():
    setting = Setting("toy", "map", steps=20)
    asked = Work(setting, (3, 4), ("relu", "tanh"), members=5)
    groups = [Group("relu", s, k, 0) for s in (3, 4) for k in TABLE_METHODS["map"].training.grid]
    bent = [g._replace(architecture="tanh") for g in groups]
    assert missing([asked], set()) == [Unit(asked, groups + bent)]
    fit = {"set": "toy", "method": "map", "steps": 20, "architecture": "relu", "seed": 3}
    done = {records.key(fit | {"knob": k, "member": 4}) for k in (1e-4, 1e-1)}
    done |= {
        records.key(fit | {"knob": k}) for k in TABLE_METHODS["map"].training.grid
    }  # not the last line
    tanh = fit | {"architecture": "tanh", "member": 4}
    done |= {records.key(tanh | {"knob": g.knob, "seed": g.seed}) for g in groups}
    left = [g for g in groups if g.seed == 4 or g.knob in (1e-3, 1e-2)]
    assert missing([asked], done) == [Unit(asked, left)]
    assert missing([asked, asked], done)[0].fits == 5 * len(left)
    one = Work(setting, (3,), ("relu",), (1e-3,))
    assert missing([one], done) == []
    assert missing([Work(setting._replace(batch=8), (3,), ("relu",), (1e-3,))], done) != []


def test_what_has_no_body_has_no_architecture_and_what_has_orders_has_them_all():
    def bodies(method, **how):
        return [g.architecture for g in Work(Setting("toy", method, **how), (0,)).groups()]

    assert bodies("mean") == bodies("scroll-full", depth=0) == ["none"]
    assert bodies("scroll-full") == list(ARCHITECTURES)
    orders = Work(Setting("toy", "seq-diag"), (0,), ("relu",)).groups()
    assert [g.order for g in orders] == [0, 1, 2, 3]


def test_a_run_stops_and_resumes_and_never_repeats(tmp_path, data, units):
    folder, again = tmp_path / "a", tmp_path / "b"
    assert "fits in" in train(folder, data)[0]
    first, file = numbers(folder), records.file_of(folder, "toy")
    assert list(folder.iterdir()) == [file]
    assert everything() <= first.keys()
    assert sum(u.fits for u in units) == 2 * (4 + 5 * 4 + 4)  # None, an ensemble, a grid of MAP
    train(again, data)
    assert numbers(again) == first  # to the last digit

    units.clear()
    before = file.read_bytes()
    assert train(folder, data) == []
    assert not units
    assert file.read_bytes() == before

    lines = before.splitlines(keepends=True)
    alone = [i for i, line in enumerate(lines) if b'"scroll-none"' in line]
    lost = [alone[1], alone[4]]
    file.write_bytes(b"".join(line for i, line in enumerate(lines) if i not in lost))
    train(folder, data)
    gone = {records.key(json.loads(lines[i])) for i in lost}
    trained = {u.work.last(g) for u in units for g in u.groups}
    assert trained == gone
    assert len(file.read_bytes().splitlines()) == len(lines)
    close(numbers(folder), first)


def test_a_group_that_was_torn_is_trained_again_and_its_lines_stand_once(tmp_path, data, units):
    train(tmp_path, data, fits("scroll-ens", seeds=(0,)))
    file, first = records.file_of(tmp_path, "toy"), numbers(tmp_path)
    file.write_bytes(file.read_bytes()[:-40])  # within the last member of the last group
    kept = file.read_bytes()
    torn = next(iter(first.keys() - records.done(records.load(file).records)))
    assert json.loads(torn)["member"] == 4
    units.clear()
    said = train(tmp_path, data, fits("scroll-ens", seeds=(0,)))
    assert said[0].startswith(f"skipped {file}:{len(kept.splitlines())}: the file ends in mid-line")
    assert said[1].startswith("5 fits in 1 stacks")
    assert len(units) == 1
    loaded = records.load(file)
    assert len(loaded.problems) == 1
    assert [records.key(r) for r in loaded.records] == list(first)
    assert len(file.read_bytes().splitlines()) == len(first) + 1


def test_the_lines_of_an_ensemble_are_written_together(tmp_path, data, monkeypatch):
    writes, append = [], records.append
    monkeypatch.setattr(
        records, "append", lambda file, lines: writes.append(lines) or append(file, lines)
    )
    train(tmp_path, data, fits("scroll-ens", "laplace-full"))
    whole = {
        "scroll-full": [("scroll-ens", None), *(("scroll-full", m) for m in (None, 1, 2, 3, 4))],
        "map": [("laplace-full", None), ("map", None)],
    }
    for lines in writes:
        groups = {}
        for fit in (line["fit"] for line in lines):
            at = fit["architecture"], fit["seed"], fit.get("knob")
            groups.setdefault(at, []).append((fit["method"], fit.get("member")))
        assert all(group in whole.values() for group in groups.values())
    assert sum(map(len, writes)) == 2 * (6 * 4 + 2 * 4)


def test_more_members_add_only_what_is_new(tmp_path, data):
    one, five = tmp_path / "one", tmp_path / "five"
    train(one, data, fits("scroll-full"))
    single, lines = numbers(one), records.file_of(one, "toy").read_bytes()
    assert len(single) == 2 * 4
    said = train(one, data, fits("scroll-ens"))
    assert said[0].startswith("40 fits in 1 stacks")
    now = records.file_of(one, "toy").read_bytes()
    assert now.startswith(lines)
    assert len(now.splitlines()) == 2 * 4 * 6
    train(five, data, fits("scroll-ens"))
    close(numbers(one), numbers(five))
    assert train(five, data, fits("scroll-full")) == []  # one is among the five


def test_a_plan_cuts_a_stack_that_would_not_fit(data, monkeypatch):
    wanted = missing(PLAY.works(ALL), set())
    read = run.reader(run.RowSource(data, CPU))
    whole = plan(wanted, read, CPU)
    assert whole.units == wanted
    assert whole.fits == sum(u.fits for u in wanted) == 56
    per = {u.work.training: plan([u], read, CPU).bytes / u.fits for u in wanted}
    assert whole.bytes == max(per[u.work.training] * u.fits for u in wanted)

    free = int(8 * max(per.values()) / 0.6)
    for module in (memory, planning):
        monkeypatch.setattr(module, "available", lambda device: free)
    cut = plan(wanted, read, CPU)
    assert len(cut.units) > len(wanted)
    assert cut.fits == whole.fits
    assert cut.free == free
    assert cut.bytes == max(per[u.work.training] * u.fits for u in cut.units) <= 0.6 * free
    assert flat(cut.units) == flat(wanted)
    assert {u.fits for u in cut.units if u.work.members == 5} == {5}  # never within an ensemble

    for module in (memory, planning):
        monkeypatch.setattr(module, "available", lambda device: 1)
    assert {len(u.groups) for u in plan(wanted, read, CPU).units} == {1}


def test_split_stacks_record_what_whole_ones_do(tmp_path, data, monkeypatch, units):
    train(tmp_path / "whole", data)
    count = len(units)
    narrow(monkeypatch.setattr)
    said = train(tmp_path / "split", data)
    assert said == [f"56 fits in {len(units) - count} stacks; the largest takes about "
                    "1 MiB of 0 MiB free on cpu"]  # fmt: skip
    assert len(units) == count + 2 * (4 + 4 + 4)
    close(numbers(tmp_path / "split"), numbers(tmp_path / "whole"))


def test_progress_is_told_in_fits(tmp_path, data):
    class Watch:
        def __init__(self, fits):
            self.fits, self.heard = fits, []

        def __enter__(self):
            return lambda done, best: self.heard.append((done, best))

        def __exit__(self, *error):
            pass

    watches = []
    train(tmp_path, data, watch=lambda fits: watches.append(Watch(fits)) or watches[0])
    (watch,) = watches
    counts = [done for done, _ in watch.heard]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == watch.fits == 56
    best = min(r["val"] for r in records.load(tmp_path).records)
    assert min(best for _, best in watch.heard) == pytest.approx(best, rel=1e-3)


def live(folder, data, told, barrier=None):
    """A process that trains the toy, a group at a time, and tells what it has recorded."""
    torch.set_num_threads(1)
    register()
    narrow()
    append, load = records.append, records.load

    def tell(file, lines):
        append(file, lines)
        told.send([records.key(line) for line in lines])

    def together(folder):
        found = load(folder)
        barrier.wait()
        return found

    records.append = tell
    if barrier:
        records.load = together
    run.train(PLAY.works(ALL), folder, run.RowSource(data, CPU), say=lambda _: None)
    told.send(None)


@pytest.fixture
def start():
    """Starts `live` in a process; what it tells."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["scroll_paper.grid.run", "sklearn.model_selection", "pytest"])
    begun = []

    def start(*args, parties=0):
        barrier = context.Barrier(parties) if parties else None
        for _ in range(parties or 1):
            hears, told = context.Pipe(duplex=False)
            process = context.Process(target=live, args=(*args, told, barrier))
            process.start()
            told.close()
            begun.append(SimpleNamespace(process=process, hears=hears, barrier=barrier))
        return begun[-parties:] if parties else begun[-1]

    yield start
    for one in begun:
        one.process.kill()
        one.process.join()
        one.hears.close()


def heard(hears):
    """What is in a pipe until its writer has gone or is done."""
    keys = []
    try:
        while (some := hears.recv()) is not None:
            keys += some
    except (EOFError, OSError):
        pass
    return keys


@exhaustive
@forks
def test_a_run_may_be_killed_at_any_moment(tmp_path, data, start, units, monkeypatch):
    narrow(monkeypatch.setattr)
    began = time.perf_counter()
    train(tmp_path / "calm", data)
    each = (time.perf_counter() - began) / len(units)
    units.clear()
    folder, rng, recorded = tmp_path / "killed", random.Random(0), set()
    for life in range(4):
        one = start(folder, data)
        first = one.hears.recv()
        time.sleep(rng.uniform(0, 4) * each)
        one.process.kill()
        one.process.join()
        assert one.process.exitcode == -9
        told = [*first, *heard(one.hears)]
        assert not recorded & set(told)  # what an earlier life has recorded is not trained again
        found, problems = records.load(folder)
        assert len(problems) <= life + 1
        assert records.done(found) >= recorded | set(told)
        recorded = records.done(found)
    assert not everything() <= recorded

    left = missing(PLAY.works(ALL), recorded)
    train(folder, data)
    assert flat(units) == flat(left)
    found, problems = records.load(folder)
    lines = records.file_of(folder, "toy").read_bytes().splitlines()
    assert len(lines) == len(found) + len(problems)
    assert numbers(folder, torn=4) == numbers(tmp_path / "calm")


@exhaustive
@forks
def test_two_processes_may_train_at_once(tmp_path, data, start, monkeypatch):
    narrow(monkeypatch.setattr)
    both = start(tmp_path / "two", data, parties=2)
    told = [heard(one.hears) for one in both]
    train(tmp_path / "one", data)
    alone = numbers(tmp_path / "one")
    assert all(sorted(keys) == sorted(alone) for keys in told)  # neither knew of the other
    lines = records.file_of(tmp_path / "two", "toy").read_bytes().splitlines()
    assert sorted(records.key(json.loads(line)) for line in lines) == sorted([*alone, *alone])
    assert numbers(tmp_path / "two") == alone
    first = {}
    for line in map(json.loads, lines):
        first.setdefault(records.key(line), line["seconds"])
    loaded = records.load(tmp_path / "two").records
    assert {records.key(r): r["seconds"] for r in loaded} == first
    assert train(tmp_path / "two", data) == []


def test_workers_record_what_one_does(tmp_path, data, units):
    from joblib import parallel_config

    asked = fits("scroll-none", "laplace-full")
    counts = []

    class Watch:
        def __init__(self, fits):
            self.fits = fits

        def __enter__(self):
            return lambda done, best: counts.append(done)

        def __exit__(self, *error):
            assert counts == sorted(counts)
            assert counts[-1] == self.fits

    with parallel_config(backend="loky", initializer=register):
        train(tmp_path / "two", data, asked, workers=2, watch=Watch)
        assert not units  # none of it here
        assert train(tmp_path / "two", data, asked, workers=2) == []
        train(tmp_path / "more", data, fits("scroll-full", seeds=(0,)), workers=2)
        train(tmp_path / "more", data, fits("scroll-ens", seeds=(0,)), workers=2)
    lines = records.file_of(tmp_path / "more", "toy").read_bytes().splitlines()
    assert len(lines) == len(numbers(tmp_path / "more")) == 4 * 6  # none twice
    assert len(counts) == 2
    units.clear()
    train(tmp_path / "one", data, asked, workers=1)
    assert len(units) == 2
    assert numbers(tmp_path / "two") == numbers(tmp_path / "one")


@pytest.mark.parametrize("method", [name for name, m in TABLE_METHODS.items() if m.trained_as])
def test_the_networks_that_a_row_is_made_of_give_its_line(method, tmp_path, data):
    stem, members = TABLE_METHODS[method].trained_as, TABLE_METHODS[method].members
    labelled = stem.startswith(("softmax", "ova", "ordinal"))
    name = "labels" if labelled else "toy"
    setting = Setting(name, stem, steps=20, width=8)
    asked = Work(setting, (0,), ("tanh",), TABLE_METHODS[stem].training.grid[:1], members)
    (unit,) = missing([asked], set())
    rows = run.reader(run.RowSource(data, CPU))(name, (0,))
    found = [r for lines in stacks.train_stack(unit, rows) for r in lines]
    (mine,) = (r for r in found if r["fit"]["method"] == method)
    mixed = TABLE_METHODS[method].ensemble and not labelled
    read = "gap" if method == "loo-gap" else "nll_mixture" if mixed else "nll"
    assert math.isfinite(mine["metrics"][read])
    assert math.isfinite(mine["val"])
    assert records.key(found[-1]) == asked.last(unit.groups[0])


def test_a_stack_that_the_device_refuses_is_halved(monkeypatch, tmp_path):
    """Whatever the plan said: others may use the device."""
    tried = []

    def fit(unit, rows, tell):
        tried.append(len(unit.groups))
        if len(unit.groups) > 2:
            raise torch.OutOfMemoryError("full")
        for group in unit.groups:
            identity = unit.work.identity(group)
            yield [{"fit": identity, "metrics": {}, "val": float(group.seed)}]

    monkeypatch.setattr("scroll_paper.grid.run.train_stack", fit)
    work = Work(Setting("yacht", "scroll-none"), (5, 6, 7, 8, 9), ("relu",))
    unit = Unit(work, work.groups())
    least = run.record_unit(unit, tmp_path, set(), lambda *_: None, None)
    assert (tried, least) == ([5, 2, 3, 1, 2], 5)
    assert sorted(r["fit"]["seed"] for r in records.load(tmp_path).records) == [5, 6, 7, 8, 9]
    monkeypatch.setattr(
        "scroll_paper.grid.run.train_stack",
        lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("full")),
    )
    with pytest.raises(torch.OutOfMemoryError):
        run.record_unit(
            unit._replace(groups=unit.groups[:1]), tmp_path, set(), lambda *_: None, None
        )


def test_the_scope_is_what_was_asked_for_or_the_usual():
    headline, quickly = GRID["headline"], Request(quick=True)
    assert headline.scope() == Scope(UCI, tuple(range(5, 25)))
    assert GRID["ood"].scope().sets == ("sick", "utkface", "wine")
    assert GRID["ood"].scope(quickly).sets == ("wine",)  # what needs no encoder
    assert GRID["scale"].scope(quickly).sets == ("california", "protein")
    asked = headline.scope(Request(("wine",), ("map",), (7, 9)))
    assert asked == Scope(("wine",), (7, 9), ("map",))
    assert [w.setting.set for w in GRID["headline"].works(asked)] == ["wine"]
    quick = headline.scope(quickly)
    assert quick.sets == ("yacht", "boston")
    assert quick.seeds == tuple(range(5, 10))
    assert set(quick.methods) < set(GRID["headline"].methods())
    assert headline.scope(Request(seeds=(5, 6, 5))).seeds == (5, 6)  # each is trained once


def test_folds_are_read_once_while_they_last(data, monkeypatch):
    loads, load = [], run.datasets.load
    monkeypatch.setattr(run.datasets, "load", lambda *a: loads.append(a) or load(*a))
    read = run.reader(run.RowSource(data, CPU))
    one = read("toy", (0, 1))
    assert read("toy", (0, 1)) is one
    assert read("toy", (0,)).train.y.shape == (1, 36)
    assert torch.equal(read("toy", (1,)).train.x, one.train.x[1:])
    assert len(loads) == 1
    assert Path(loads[0][1]) == Path(data)


def test_of_a_run_with_its_grid_the_table_reads_the_choice(tmp_path, data):
    """From training to a value, by hand."""
    train(tmp_path, data, fits("laplace-full"))
    found = records.load(tmp_path).records
    for method in ("map", "laplace-full"):
        mine = [r for r in found if r["fit"]["method"] == method]
        assert len(mine) == 2 * 4
        want = {}
        for seed in ALL.seeds:
            best = min((r for r in mine if r["fit"]["seed"] == seed), key=lambda r: r["val"])
            want[seed] = best["metrics"]["nll"]
        assert Selection(found).values("toy", method, [FEW], ALL.seeds) == want
