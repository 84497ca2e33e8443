"""The spread due to rounding: how runs are perturbed, and what the table makes of them."""

import math

import numpy as np
import pytest
import torch

from scroll.training.batches import Rows
from scroll.training.bodies import ARCHITECTURES
from scroll_paper.grid.experiments import GRID
from scroll_paper.models.method import Setting, perturbed, prepared
from scroll_paper.models.methods import TABLE_METHODS
from scroll_paper.tables import records
from scroll_paper.tables.beyond import arithmetic
from scroll_paper.tables.builders import Scope
from scroll_paper.tables.selection import Selection
from scroll_paper.tables.table import Cell, path, to_text

SETS, SEEDS = ("yacht", "boston"), (5, 6, 7)


@pytest.fixture(autouse=True)
def _float32():
    torch.set_default_dtype(torch.float32)


def stacked(ulps, dtype):
    method = "fixed-alpha-full"
    rows = Rows(torch.ones(2, 3, 4, dtype=dtype), torch.ones(2, 3, dtype=dtype))
    setting, bodies = Setting("yacht", method, ulps=ulps), ("relu", "tanh+LN")
    return prepared(TABLE_METHODS[method].training, setting, bodies, (5, 6), (0.3, 0.7), rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ulps", [1, 3])
def test_each_trained_number_moves_by_its_last_bits(ulps, dtype):
    plain, moved = stacked(0, dtype).to(dtype), stacked(ulps, dtype)
    for name, p in plain.named_parameters():
        q = moved.get_parameter(name)
        assert q.dtype == dtype
        if not p.requires_grad:
            assert torch.equal(p, q)
            continue
        own, size = p.detach()[p != 0].abs(), q.detach()[p != 0].abs()
        units = (size - own) / (torch.nextafter(own, 2 * own) - own)
        assert torch.equal(p == 0, q == 0)
        assert ((units >= ulps) & (units <= 2 * ulps)).all()


def test_a_perturbation_is_in_place_and_none_is_the_usual_run():
    network = stacked(0, torch.float32)
    before = network.body.weights[0].detach().clone()
    assert perturbed(network, 0) is network
    assert torch.equal(network.body.weights[0], before)
    assert Setting("yacht", "mvn").odd() == {}  # the key of the records that there are
    assert Setting("yacht", "mvn", ulps=2).odd() == {"ulps": 2}


def test_spreads_are_those_of_numpy():
    y = np.random.default_rng(0).normal(size=(4, 6))
    found = arithmetic.spread([dict(enumerate(run)) for run in y])
    assert found.seeds == pytest.approx(np.mean([np.var(run, ddof=1) for run in y]) ** 0.5)
    assert found.rounding == pytest.approx(np.mean([np.var(c, ddof=1) for c in y.T]) ** 0.5)
    assert found.mean == pytest.approx(np.std(y.mean(1), ddof=1))
    assert found.n_seeds == 6


def test_only_seeds_with_all_perturbations_count():
    runs = [{5: 1.0, 6: 2.0, 7: 9.0}, {5: 1.5, 6: 2.5, 8: 9.0}]
    assert arithmetic.spread(runs) == arithmetic.spread([{5: 1.0, 6: 2.0}, {5: 1.5, 6: 2.5}])
    assert arithmetic.spread([{5: 1.0}, {5: 2.0}]) is None
    assert arithmetic.spread([{5: 1.0, 6: 2.0}]) is None
    assert arithmetic.spread([{5: 1.0, 6: 2.0}, {}]) is None


def record(nll, val, body, seed, ulps):
    fit = {"set": "yacht", "method": "mvn", "architecture": body, "seed": seed}
    fit |= {"knob": 0.01} | ({"ulps": ulps} if ulps else {})
    return {"fit": fit, "metrics": {"nll": nll}, "val": val}


def built(lines):
    tables = GRID["arithmetic"].build(Selection(lines), Scope(SETS, SEEDS))
    return {t.name: {path(k): r for b in t.blocks for k, r in b.items()} for t in tables}, tables


def test_the_table_selects_by_validation_and_stars_what_rounding_moves():
    y = np.random.default_rng(1).normal(size=(4, 3, len(ARCHITECTURES)))
    lines = [
        record(y[k, s, a], float(a != k % 2), body, seed, k)
        for k in arithmetic.ULPS
        for s, seed in enumerate(SEEDS)
        for a, body in enumerate(ARCHITECTURES)
    ]
    rows, tables = built(lines)
    chosen = np.stack([y[k, :, k % 2] for k in arithmetic.ULPS])
    for name, label, runs in (
        ("arithmetic", ("MVN",), chosen),
        *(("arithmetic_bodies", ("MVN", b), y[..., a]) for a, b in enumerate(ARCHITECTURES)),
    ):
        want = arithmetic.spread([dict(zip(SEEDS, run, strict=True)) for run in runs])
        cells = {kind[-1]: row["yacht"] for kind, row in rows[name].items() if kind[:-1] == label}
        assert cells["over seeds"].mean == pytest.approx(want.seeds)
        assert cells["over last bits"].mean == pytest.approx(want.rounding)
        assert cells["of the mean over seeds"].mean == pytest.approx(want.mean)
        assert cells["over last bits"].star == (want.rounding > 0.5 * want.seeds)
        assert cells["over seeds"].count == 3
    assert rows["arithmetic"]["MVN", "over seeds"]["boston"] == Cell(None)
    assert all("exceeds 0.5" in to_text(table) for table in tables)


@pytest.mark.parametrize(("step", "star"), [(0.4, False), (2.0, True)])
def test_a_star_says_that_rounding_is_more_than_half(step, star):
    lines = [
        record(seed + step * (k % 2), 0.0, "relu", seed, k)
        for k in arithmetic.ULPS
        for seed in SEEDS
    ]
    cell = built(lines)[0]["arithmetic"]["MVN", "over last bits"]["yacht"]
    assert cell.mean == pytest.approx(step / math.sqrt(3))
    assert cell.star == star


def keys(works):
    return {records.key(w.identity(g)) for w in works for g in w.groups()}


def test_the_unperturbed_runs_are_those_of_other_tables():
    asked = Scope(SETS, SEEDS)
    others = keys(GRID["headline"].works(asked) + GRID["attribution"].works(asked))
    works = GRID["arithmetic"].works(asked)
    assert keys(w for w in works if not w.setting.ulps) <= others
    assert {w.setting.ulps for w in works} == set(arithmetic.ULPS)
    assert len(keys(works)) == len(arithmetic.ULPS) * len(SETS) * len(SEEDS) * 4 * (3 + 4)
