"""Experiments end to end: what is trained, what is recorded, what the tables contain."""

import gzip
import json
import math
import multiprocessing
import os
import random
import time
import zlib
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scroll.training import memory
from scroll.training.bodies import ARCHITECTURES
from scroll_paper.data.datasets import SETS, UCI, DataSet
from scroll_paper.deep.endtoend import END_TO_END
from scroll_paper.grid import plan as planning
from scroll_paper.grid import run, stacks
from scroll_paper.grid.experiment import GridExperiment
from scroll_paper.grid.experiments import GRID
from scroll_paper.grid.plan import Group, Unit, Work, missing, plan
from scroll_paper.models.evaluation import Line
from scroll_paper.models.method import Setting
from scroll_paper.models.methods import METHODS
from scroll_paper.tables import published, records
from scroll_paper.tables import rows as table_rows
from scroll_paper.tables.builders import Scope
from scroll_paper.tables.experiment import Request, Results
from scroll_paper.tables.rows import Row
from scroll_paper.tables.selection import Selection
from scroll_paper.tables.table import Cell, path, to_text
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
    run.train(PLAY.works(asked), folder, run.Source(data, CPU), say=said.append, **how)
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
    groups = [Group("relu", s, k, 0) for s in (3, 4) for k in METHODS["map"].training.grid]
    bent = [g._replace(architecture="tanh") for g in groups]
    assert missing([asked], set()) == [Unit(asked, groups + bent)]
    fit = {"set": "toy", "method": "map", "steps": 20, "architecture": "relu", "seed": 3}
    done = {records.key(fit | {"knob": k, "member": 4}) for k in (1e-4, 1e-1)}
    done |= {
        records.key(fit | {"knob": k}) for k in METHODS["map"].training.grid
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
    read = run.reader(run.Source(data, CPU))
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
    run.train(PLAY.works(ALL), folder, run.Source(data, CPU), say=lambda _: None)
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


@pytest.mark.parametrize("method", [name for name, m in METHODS.items() if m.trained_as])
def test_the_networks_that_a_row_is_made_of_give_its_line(method, tmp_path, data):
    stem, members = METHODS[method].trained_as, METHODS[method].members
    labelled = stem == "softmax"
    name = "labels" if labelled else "toy"
    setting = Setting(name, stem, steps=20, width=8)
    asked = Work(setting, (0,), ("tanh",), METHODS[stem].training.grid[:1], members)
    (unit,) = missing([asked], set())
    rows = run.reader(run.Source(data, CPU))(name, (0,))
    found = [r for lines in stacks.train_stack(unit, rows) for r in lines]
    (mine,) = (r for r in found if r["fit"]["method"] == method)
    mixed = METHODS[method].ensemble and not labelled
    read = "gap" if method == "loo-gap" else "nll_mixture" if mixed else "nll"
    assert math.isfinite(mine["metrics"][read])
    assert math.isfinite(mine["val"])
    assert records.key(found[-1]) == asked.last(unit.groups[0])


# What the tables read of the records.


def line(seed, architecture="relu", *, nll, val, method="m", name="s", **fit):
    fit = {"set": name, "method": method, "architecture": architecture, "seed": seed, **fit}
    return {"fit": fit, "metrics": {"nll": nll}, "val": val}


def values(lines, where=None, seeds=(0, 1, 2), metric="nll"):
    return Selection(lines).values("s", "m", [where or {}], seeds, metric)


def test_each_seed_has_the_architecture_and_knob_of_its_least_objective():
    lines = [
        line(0, "relu", knob=0.1, nll=5.0, val=1.0),
        line(0, "relu", knob=1.0, nll=9.0, val=0.9),  # the least, though not the best
        line(0, "tanh", knob=0.1, nll=1.0, val=2.0),
        line(1, "relu", knob=0.1, nll=5.0, val=3.0),
        line(1, "tanh", knob=0.1, nll=6.0, val=2.0),
        line(9, "tanh", knob=0.1, nll=7.0, val=2.0),
    ]
    assert values(lines) == {0: 9.0, 1: 6.0}
    assert values(lines[::-1]) == {0: 9.0, 1: 6.0}
    assert values(lines, {"architecture": "relu"}) == {0: 9.0, 1: 5.0}
    assert values(lines, {"knob": 0.1}) == {0: 5.0, 1: 6.0}
    assert values(lines, {"knob": 0.1, "architecture": "tanh"}, seeds=(9,)) == {9: 7.0}
    assert values(lines, metric="rmse") == {}


def test_each_seed_has_the_better_of_two_settings():
    lines = [
        line(0, nll=1.0, val=1.0, short_steps=True),
        line(0, "tanh", nll=2.0, val=0.7, short_steps=True),
        line(0, nll=3.0, val=0.8, even_rows=True),
        line(1, nll=4.0, val=1.0, short_steps=True),
        line(1, nll=5.0, val=0.9, even_rows=True),
        line(2, nll=6.0, val=0.9, short_steps=True),  # the other is not there yet
        line(2, nll=7.0, val=0.1),
    ]
    ways = [{"short_steps": True}, {"even_rows": True}]
    for some in (ways, ways[::-1]):
        assert Selection(lines).values("s", "m", some, (0, 1, 2)) == {0: 2.0, 1: 5.0, 2: 6.0}


def test_another_setting_method_or_set_is_another_row():
    lines = [
        line(0, nll=1.0, val=1.0),
        line(0, nll=2.0, val=0.5, depth=2),
        line(0, nll=3.0, val=0.5, depth=2, batch=256),
        line(0, nll=4.0, val=0.5, method="other"),
        line(0, nll=5.0, val=0.5, name="t"),
    ]
    assert values(lines) == {0: 1.0}
    assert values(lines, {"depth": 2}) == {0: 2.0}
    assert values(lines, {"batch": 256, "depth": 2, "architecture": "relu"}) == {0: 3.0}
    assert values(lines, {"batch": 256}) == {}


def test_orders_are_averaged_before_the_choice():
    lines = [
        line(0, "relu", nll=2.0, val=1.0),
        line(0, "relu", nll=4.0, val=5.0, order=1),  # 3 on average
        line(0, "tanh", nll=7.0, val=2.0),
        line(0, "tanh", nll=9.0, val=2.0, order=1),
    ]
    assert values(lines) == {0: 8.0}


def test_members_are_not_rows_of_their_own():
    lines = [line(0, nll=2.0, val=1.0), *(line(0, nll=8.0, val=0.1, member=m) for m in (1, 4))]
    assert values(lines) == {0: 2.0}
    assert values([line(0, nll=3.0, val=1.0, members=5)]) == {0: 3.0}


@pytest.mark.parametrize("turn", [1, -1])
def test_a_fit_that_broke_is_not_chosen(turn):
    lines = [
        line(0, "relu", nll=1.0, val=math.nan),
        line(0, "tanh", nll=2.0, val=1e9),
        line(0, "tanh+LN", nll=math.nan, val=math.nan),
    ]
    assert values(lines[::turn]) == {0: 2.0}
    orders = [
        line(0, "relu", nll=1.0, val=0.0),
        line(0, "relu", nll=1.0, val=math.nan, order=1),
        line(0, "tanh", nll=2.0, val=3.0),
    ]
    assert values(orders[::turn]) == {0: 2.0}


def test_lines_of_something_else_are_passed_over():
    other = [{"fit": {"seed": 0}}, {"fit": {"set": "s", "method": "m", "seed": 0}, "val": 1.0}]
    assert values([*other, line(0, nll=2.0, val=1.0)]) == {0: 2.0}


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


# Tables of all experiments, from records as their fits would leave them.

METRICS = ("nll", "rmse", "caliberr", "train_nll", "nll_mixture", "gap", "d_eff", "h_max", "ece",
           "auroc")  # fmt: skip
MORE = {  # rows that the paper does not print
    *(row.label for row in table_rows.OURS.rows),
    "Mean predictor",
    *(row.label for block in table_rows.OOD[-2:] for row in block.rows),
}
UNPRINTED = {"table1_headline_caliberr": {"Exact corner (Full)"},
             "headline_rmse": {"Exact corner (Full)"}}  # fmt: skip


def figure(metric, seed, **fit):
    """A number for a fit that no other has; the seed adds to it."""
    text = json.dumps([metric, sorted(fit.items())])
    return zlib.crc32(text.encode()) % 10_000 / 1000 + seed / 10


@cache
def recorded(name):
    """The records of an experiment; the first architecture and knob have the least objective."""
    found, asked = {}, usual(name)
    for unit in missing(GRID[name].works(asked), set()):
        given = {n: m for n, m in METHODS.items() if m.trained_as == unit.work.setting.method}
        dummy = Line({"nll": torch.zeros(unit.fits)}, torch.zeros(unit.fits))
        each = {"": dummy} | {n: dummy for n, m in given.items() if not m.ensemble}
        more = unit.work.members > 1
        pooled = {n: dummy for n, m in given.items() if m.ensemble and more}
        for r in stacks.group_records(unit, unit.groups, (each, pooled), [0] * unit.fits, {}):
            fit = dict(r["fit"])
            seed, member = fit.pop("seed"), fit.pop("member", 0)
            fit.pop("order", None)
            fit.pop("members", None)
            knob = unit.work.training.knobs(fit["set"]).index(fit.get("knob"))
            r["val"] = knob + (
                ARCHITECTURES.index(a) if (a := fit["architecture"]) != "none" else 0
            )
            r["metrics"] = {m: math.nan if member else figure(m, seed, **fit) for m in METRICS}
            found[records.key(r)] = r
    return list(found.values())


def expected(row, name, metric, asked):
    """What a row reads on a set, seed by seed."""
    method = METHODS[row.method].training
    fit = {"set": name, "method": row.method, **row.at(name)[0]}
    usual = Setting._field_defaults  # which records leave out
    fit = {k: v for k, v in fit.items() if k not in usual or v != usual[k]}
    bare = method.raw or fit.get("depth") == 0
    fit["architecture"] = "none" if bare else fit.get("architecture", ARCHITECTURES[0])
    knob = fit.get("knob", method.knobs(name)[0])
    fit |= {} if knob is None else {"knob": knob}
    seeds, only = asked.seeds, METHODS[row.method].sets
    if only:
        seeds = seeds[:5] if name in only else ()
    return {seed: figure(metric, seed, **fit) for seed in seeds}


def cells(table):
    return {path(k): row for block in table.blocks for k, row in block.items()}


def usual(name, seeds=7):
    return Scope(GRID[name].sets, tuple(range(5, 5 + seeds)))


def built(name, lines, asked=None):
    return GRID[name].build(Selection(lines), asked or usual(name))


def body_table(where):
    body = where["architecture"].replace("+", "_").lower()
    return f"classification_{where.get('depth', 1)}l_{body}"


def rows_of(name, title):
    """The rows of a table that has sets along its top."""
    return {
        path(row.label): row
        for row in GRID[name].rows
        if (name != "architecture" or row.method.removeprefix("scroll-") in title)
        and (name != "classification-bodies" or title == body_table(row.where))
    }


@pytest.mark.parametrize("name", GRID)
def test_the_tables_of_an_experiment_have_the_papers_names_rows_and_columns(name):
    for table in built(name, recorded(name)):
        if table.name not in published.names():
            assert name == "classification-bodies" or table.name == "ood_nll"
            continue
        printed = {path(k): row for k, row in published.numbers(table.name).items()}
        rows = cells(table)
        assert printed.keys() <= rows.keys()
        more = {" / ".join(label) for label in rows.keys() - printed.keys()}
        assert more <= MORE | UNPRINTED.get(table.name, set())
        columns = max((list(row) for row in printed.values()), key=len)
        if table.name == "table_scale_nll":
            assert [c for c in table.columns if c != "flights"] == columns
        else:
            six = name.startswith("classification") and name != "classification-0l"
            more = ["wine_six"] if six else []
            assert columns + more == list(table.columns)
        for label, row in rows.items():
            slow = label == ("Diag seq",)
            for column in table.columns:
                empty = slow and column not in METHODS["seq-diag"].sets
                assert (row[column].mean is None) == empty, (table.name, label, column)
                if empty:
                    assert column not in printed[label]  # nor has the paper


def test_tables_that_the_paper_does_not_have_are_shown_alone():
    tables = built("classification-bodies", recorded("classification-bodies"))
    assert len(tables) == 6
    assert {len(cells(t)) for t in tables} == {14}
    for table in tables:
        assert published.beside(table) is table
        assert published.agreements(table) == []


def by_set():
    """Tables with sets along the top: an experiment, a table, a metric."""
    for name in GRID:
        if name in ("traintest-gap", "batching", "depth-trajectory", "loo-gap"):
            continue
        for table in built(name, []):
            metric = table.name.rpartition("_")[2]
            yield name, table.name, metric if metric in METRICS else "nll"


@pytest.mark.parametrize(("name", "title", "metric"), [*by_set()])
def test_each_cell_is_the_mean_of_its_rows_choices(name, title, metric):
    asked, rows = usual(name), rows_of(name, title)
    (table,) = (t for t in built(name, recorded(name)) if t.name == title)
    for label, line in cells(table).items():
        for column in set(table.columns) & set(asked.sets):
            row = rows[label]
            want = list(expected(row, column, row.metric or metric, asked).values())
            cell = line[column]
            assert cell.count == len(want)
            if want:
                assert cell.mean == pytest.approx(np.mean(want))
                assert cell.se == pytest.approx(np.std(want, ddof=1) / len(want) ** 0.5)


@pytest.mark.parametrize("name", GRID)
def test_without_records_all_is_empty(name):
    known = {"N_train", "H/N", "Train", "Infer"}
    full, tables = built(name, recorded(name)), built(name, [])
    assert [t.name for t in tables] == [t.name for t in full]
    for table, same in zip(tables, full, strict=True):
        assert cells(table).keys() == cells(same).keys()
        assert all(
            (row[c].mean is None) == (c not in known) and row[c].mark == ""
            for row in cells(table).values()
            for c in table.columns
        )
        assert "--" in to_text(table)
        published.beside(table)


@pytest.mark.parametrize(("name", "title", "metric"), [*by_set()])
def test_one_method_is_trained_and_shown_alone(name, title, metric):
    method = GRID[name].rows[-1].method
    asked = Scope(usual(name).sets[:1], (5, 6), (method,))
    works = GRID[name].works(asked)
    assert {w.setting.method for w in works} == {METHODS[method].trained_as or method}
    shown, (whole,) = (
        [t for t in built(name, [], which) if t.name == title] for which in (asked, None)
    )
    mine = {label for label, row in rows_of(name, title).items() if row.method == method}
    mine &= cells(whole).keys()
    assert [cells(table).keys() for table in shown] == ([mine] if mine else [])


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


def test_names_titles_and_what_is_everything():
    names = [t.name for e in GRID for t in built(e, [])]
    more = ("classification_", "ood_nll")  # that the paper does not have
    printed = [name for name in names if not name.startswith(more)]
    printed += [t.name for e in END_TO_END for t in END_TO_END[e].tables(Results(Path("nowhere")))]
    assert (
        sorted(printed) == published.names()
    )  # each table of the paper is made, by one experiment
    assert len(set(names)) == len(names)
    for experiment in GRID.values():
        assert experiment.about
        assert set(experiment.methods()) <= METHODS.keys()


def batching(changes, name="boston"):
    """The row of SCROLL-None where seed s changes by changes[s]."""
    lines = []
    for seed, change in enumerate(changes):
        for more, nll in (({}, 1.0 + seed), ({"batch": 256}, 1.0 + seed + change)):
            lines.append(line(seed, "relu+LN", nll=nll, val=0.0, name=name,
                              method="scroll-none", **more))  # fmt: skip
            lines.append(line(seed, "tanh", nll=99.0, val=-1.0, name=name,
                              method="scroll-none", **more))  # fmt: skip
    asked = Scope((name,), tuple(range(len(changes))))
    (table,) = built("batching", lines, asked)
    return table, cells(table)[("SCROLL-None",)][name]


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ([0.50, 0.52, 0.48, 0.51], "+0.502*"),
        ([-0.50, -0.52, -0.48, -0.51], "-0.502*"),
        ([0.5, -0.4, 0.3, -0.2], "+0.050"),
        ([0.0, 0.0, 0.0], "+0.000"),
        ([0.25], "+0.250"),
    ],
)
def test_mini_batches_are_told_by_a_sign_and_a_star(changes, shown):
    table, cell = batching(changes)
    assert cell.mean == pytest.approx(np.mean(changes))
    assert cell.star == shown.endswith("*")
    text = next(row for row in to_text(table, styled=False).splitlines() if "SCROLL-None" in row)
    assert text.split("│")[2].strip() == shown


def test_a_batch_that_holds_all_rows_is_no_batch():
    assert batching([0.5, 0.6], "yacht")[1].mean == 0
    rows = GRID["batching"].works(Scope(("yacht", "boston"), (5,)))
    assert {(w.setting.set, w.setting.batch) for w in rows} == {
        ("yacht", 0),
        ("boston", 0),
        ("boston", 256),
    }


def test_the_gap_is_paired_by_seed():
    asked = Scope(("yacht",), (0, 1, 2))
    lines = []
    for seed, train, test in ((0, 1.0, 1.5), (1, 2.0, 2.5), (2, 4.0, 4.8)):
        r = line(seed, "relu+LN", nll=test, val=0.0, name="yacht", method="closed-full")
        r["metrics"]["train_nll"] = train
        lines.append(r)
    (table,) = built("traintest-gap", lines, asked)
    rows = cells(table)
    found = [rows["Closed route", kind]["yacht"] for kind in ("train", "test", "gap")]
    assert [c.mean for c in found] == pytest.approx([7 / 3, 8.8 / 3, 0.6])
    assert found[2].se == pytest.approx(0.1)
    assert rows["Free (shipped)", "gap"]["yacht"] == Cell(None)


def trajectory(means):
    """Depth by depth, SCROLL-Full and -Diag on yacht."""
    lines = []
    for column, mean in means.items():
        row = table_rows.TRAJECTORY[column]
        odd = dict(row.where)
        lines += [line(seed, nll=mean + (0.1 if seed else -0.1), val=0.0, name="yacht",
                       method=row.method, **odd) for seed in (0, 1)]  # fmt: skip
    (table,) = built("depth-trajectory", lines, Scope(("yacht",), (0, 1)))
    return cells(table)[("yacht",)]


def test_the_best_depth_of_each_family_is_marked():
    row = trajectory(
        {"Full lin": 3.0, "Full 1L": 1.0, "Full 2L": 2.0, "Diag lin": 0.5, "Diag 2L": 0.7}
    )
    assert [c for c, cell in row.items() if cell.mark] == ["Full 1L", "Diag lin"]
    assert row["Full 1L"].mark == row["Diag lin"].mark == "best"
    assert row["Full 2L"].mean == pytest.approx(2.0)
    assert row["Diag 1L"].mean is row["None lin"].mean is None


@pytest.mark.parametrize("broken", ["Full lin", "Full 1L", "Full 2L"])
def test_a_depth_that_broke_is_not_the_best(broken):
    row = trajectory({"Full lin": 3.0, "Full 1L": 3.0, "Full 2L": 3.0} | {broken: math.nan})
    assert row[broken].mark == ""
    assert [row[c].mark for c in ("Full lin", "Full 1L", "Full 2L") if c != broken] == ["best"] * 2


def test_the_rows_of_the_gap_are_as_many_as_the_papers():
    (table,) = built("loo-gap", [])
    printed = published.numbers("loo_gap")
    assert sorted(int(row["N_train"].mean) for row in printed.values()) == [
        184, 303, 460, 618, 959, 4914, 5740, 7160,
    ]  # fmt: skip
    assert set(printed) == set(UCI)
    for name, row in cells(table).items():
        for column in ("N_train", "H/N"):
            theirs = printed[name[0]][column]
            assert round(row[column].mean, theirs.digits) == theirs.mean


def test_the_gap_takes_a_fit_an_entry():
    lines = []
    for seed in (5, 6):
        for k, body in enumerate(ARCHITECTURES):
            r = line(seed, body, nll=0, val=0.0, name="yacht", method="loo-gap")
            r["metrics"] = {
                "gap": 0.1 * (k + 1),
                "d_eff": 10.0 * seed,
                "h_max": seed / 10 + k / 100,
            }
            lines.append(r)
    (table,) = built("loo-gap", lines, Scope(("yacht",), (5, 6)))
    row = cells(table)[("yacht",)]
    assert row["gap/plate (nats)"].count == 8
    assert row["gap/plate (nats)"].mean == pytest.approx(0.25)
    assert row["gap/(H/N)"].mean == pytest.approx(0.25 * 184 / 50)
    assert row["d_eff"].mean == pytest.approx(55)
    assert row["h_max"].mean == pytest.approx(0.63)


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
    read = run.reader(run.Source(data, CPU))
    one = read("toy", (0, 1))
    assert read("toy", (0, 1)) is one
    assert read("toy", (0,)).train.y.shape == (1, 36)
    assert torch.equal(read("toy", (1,)).train.x, one.train.x[1:])
    assert len(loads) == 1
    assert Path(loads[0][1]) == Path(data)
