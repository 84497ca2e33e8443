"""Tables of the grid from records alone: which fit each row chooses, and what the tables show."""

import json
import math
import zlib
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from scroll.training.bodies import ARCHITECTURES
from scroll_paper.data.datasets import UCI
from scroll_paper.deep.endtoend import END_TO_END
from scroll_paper.grid import stacks
from scroll_paper.grid.cells import CELLS
from scroll_paper.grid.checks import CHECKS
from scroll_paper.grid.experiments import GRID
from scroll_paper.grid.plan import missing
from scroll_paper.models.evaluation import Line
from scroll_paper.models.method import Setting
from scroll_paper.models.methods import TABLE_METHODS
from scroll_paper.tables import cell_rows, published, records
from scroll_paper.tables import rows as table_rows
from scroll_paper.tables.builders import Scope
from scroll_paper.tables.experiment import Results
from scroll_paper.tables.selection import Selection
from scroll_paper.tables.table import Cell, path, to_text


@pytest.fixture(autouse=True)
def _float32():
    torch.set_default_dtype(torch.float32)


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


# Tables of all experiments, from records as their fits would leave them.

METRICS = ("nll", "rmse", "caliberr", "train_nll", "nll_mixture", "gap", "d_eff", "h_max", "ece",
           "auroc", "code", "alpha")  # fmt: skip
OWN = {"classification-bodies", *CHECKS, *CELLS}  # experiments that the paper does not have
ALONE = {"ood_nll", "prior_ablation_caliberr"}  # tables of its experiments that it does not have
OTHER = {  # experiments whose tables have something else along the top
    "traintest-gap", "batching", "depth-trajectory", "loo-gap", "arithmetic", "text-shift",
}  # fmt: skip
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
    """The records of an experiment; the first architecture and least knob have the least loss."""
    found, asked = {}, usual(name)
    for unit in missing(GRID[name].works(asked), set()):
        given = {n: m for n, m in TABLE_METHODS.items() if m.trained_as == unit.work.setting.method}
        dummy = Line({"nll": torch.zeros(unit.fits)}, torch.zeros(unit.fits))
        each = {"": dummy} | {n: dummy for n, m in given.items() if not m.ensemble}
        more = unit.work.members > 1
        pooled = {n: dummy for n, m in given.items() if m.ensemble and more}
        for r in stacks.group_records(unit, unit.groups, (each, pooled), [0] * unit.fits, {}):
            fit = dict(r["fit"])
            seed, member = fit.pop("seed"), fit.pop("member", 0)
            fit.pop("order", None)
            fit.pop("members", None)
            r["val"] = (fit.get("knob") or 0) + (
                ARCHITECTURES.index(a) if (a := fit["architecture"]) != "none" else 0
            )
            r["metrics"] = {m: math.nan if member else figure(m, seed, **fit) for m in METRICS}
            found[records.key(r)] = r
    return list(found.values())


def expected(row, name, metric, asked):
    """What a row reads on a set, seed by seed."""
    method = TABLE_METHODS[row.method].training
    fit = {"set": name, "method": row.method, **row.at(name)[0]}
    usual = Setting._field_defaults  # which records leave out
    fit = {k: v for k, v in fit.items() if k not in usual or v != usual[k]}
    bare = method.raw or fit.get("depth") == 0
    fit["architecture"] = "none" if bare else fit.get("architecture", ARCHITECTURES[0])
    knob = fit.get("knob", method.knobs(name)[0])
    fit |= {} if knob is None else {"knob": knob}
    seeds, only = asked.seeds, TABLE_METHODS[row.method].sets
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
            assert name in OWN or table.name in ALONE
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
                empty = slow and column not in TABLE_METHODS["seq-diag"].sets
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
        if name in OTHER:
            continue
        for table in built(name, []):
            if table.name == "codes_ranks":
                continue
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
    assert {w.setting.method for w in works} == {TABLE_METHODS[method].trained_as or method}
    shown, (whole,) = (
        [t for t in built(name, [], which) if t.name == title] for which in (asked, None)
    )
    mine = {label for label, row in rows_of(name, title).items() if row.method == method}
    mine &= cells(whole).keys()
    assert [cells(table).keys() for table in shown] == ([mine] if mine else [])


def test_names_titles_and_what_is_everything():
    names = [t.name for e in GRID for t in built(e, [])]
    printed = [t.name for e in GRID if e not in OWN for t in built(e, []) if t.name not in ALONE]
    paper = (END_TO_END[e] for e in END_TO_END if e != "utkface-unscaled")
    printed += [t.name for e in paper for t in e.tables(Results(Path("nowhere")))]
    assert (
        sorted(printed) == published.names()
    )  # each table of the paper is made, by one experiment
    assert len(set(names)) == len(names)
    for experiment in GRID.values():
        assert experiment.about
        assert set(experiment.methods()) <= TABLE_METHODS.keys()


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


def test_the_code_length_is_ranked_against_the_test_nll():
    """Within a route, and over all networks of a seed; against scipy."""
    rng, bodies = np.random.default_rng(0), list(ARCHITECTURES)
    methods, lines, each = cell_rows.CODED[:2], [], {}
    for seed, method, body in product((5, 6), methods, bodies):
        nll, code, val = rng.normal(size=3)
        each[seed, method, body] = nll, code, val
        lines.append(line(seed, body, nll=nll, val=val, name="boston", method=method))
        lines[-1]["metrics"]["code"] = code
    (table,) = (t for t in built("code-length", lines, Scope(("boston",), (5, 6), methods))
                if t.name == "codes_ranks")  # fmt: skip
    got = cells(table)
    for which, label in ((methods[:1], "Prequential-Full"), (methods, "Routes and bodies")):
        for column, kind in ((1, "code length"), (2, "validation NLL")):
            want = []
            for seed in (5, 6):
                some = np.array([v for k, v in each.items() if k[0] == seed and k[1] in which])
                want.append(stats.spearmanr(some[:, column], some[:, 0]).statistic)
            cell = got[label, kind]["boston"]
            assert cell.mean == pytest.approx(np.mean(want))
            assert cell.count == 2
