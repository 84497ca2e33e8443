"""The study of the two gaps: its variance model on known truths, and a short run."""

import gzip
import math

import numpy as np
import pytest
import torch

from scroll.training.batches import Rows
from scroll_paper.data.datasets import SETS, DataSet
from scroll_paper.data.protocol import Folds
from scroll_paper.studies import gaps
from scroll_paper.studies.registry import STUDIES
from scroll_paper.tables.experiment import Request, Screen


def squares(n, variance, seed=0):
    """Inputs and squared residuals of a given variance over V = 1."""
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, 3))
    return x, variance(x) * g.normal(size=n) ** 2


@pytest.mark.parametrize("ratio", [4.0, 16.0])
def test_what_a_variance_model_saves_is_the_gap_of_jensen(ratio):
    """V is right on average only: (log E s^2 - E log s^2)/2 (Prop. routing_selection)."""

    def variance(x):
        raw = np.where(x[:, 0] > 0, ratio, 1.0)
        return raw / ((1 + ratio) / 2)

    found = gaps.gain(*squares(4000, variance), *squares(4000, variance, 1))
    want = (math.log((1 + ratio) / 2) - math.log(ratio) / 2) / 2
    assert found == pytest.approx(want, abs=0.03)
    assert abs(gaps.gain(*squares(4000, variance), *squares(4000, variance, 1), 0)) < 5e-3


@pytest.mark.parametrize("n", [30, 100, 2000])
def test_a_variance_that_is_right_stays(n):
    for seed in range(3):
        flat = [squares(n, lambda x: 1.0, 10 * seed + part) for part in (0, 1)]
        assert -1 / n**0.5 < gaps.gain(*flat[0], *flat[1]) < 0.5 / n**0.5


@pytest.mark.parametrize("factor", [0.25, 9.0])
def test_a_constant_factor_is_the_whole_gap_of_a_wrong_scale(factor):
    at = [squares(4000, lambda x: factor, seed) for seed in (0, 1)]
    want = (factor - 1 - math.log(factor)) / 2  # KL of two normals
    assert gaps.gain(*at[0], *at[1], trees=0) == pytest.approx(want, rel=0.1)
    assert gaps.gain(*at[0], *at[1]) == pytest.approx(want, rel=0.1)


def test_the_constant_is_the_mean_square_or_one():
    x, u = squares(300, lambda x: 5.0)
    np.testing.assert_allclose(gaps.variance_ratio(x, u, x[:4], trees=0), u.mean(), rtol=1e-12)
    x, u = squares(300, lambda x: 1.0)
    u = u / u.mean()
    found = gaps.variance_ratio(x, u, x[:4], trees=0)
    np.testing.assert_allclose(found, 1, rtol=1e-12)


def toy(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(2, n, 3, generator=g)
    noise = (0.1 + (x[..., 1] > 0)) * torch.randn(2, n, generator=g)
    return Rows(x, x[..., 0] + noise)


def test_the_gaps_do_not_depend_on_the_unit_of_the_target():
    torch.set_default_dtype(torch.float32)
    folds = Folds(toy(300, 0), toy(100, 1), toy(100, 2))
    far = Folds(*(Rows(r.x, 1000 * r.y) for r in folds[:3]))
    here, there = (gaps.measured(gaps.scaled(f), (5, 6), 400) for f in (folds, far))
    for one, other in zip(here, there, strict=True):
        assert one.shape == (2,)
        torch.testing.assert_close(one, other, rtol=0, atol=2e-3)
    assert (here.routing > 0).all()  # the noise depends on an input: binding costs


def test_a_short_run_draws_and_tabulates(tmp_path, monkeypatch):
    torch.set_default_dtype(torch.float32)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("SCROLL_DATA", str(tmp_path))
    spec = DataSet("toy.csv.gz", 90, 3, None, "y", "a,b,c", "nowhere", lambda: np.empty((0, 4)))
    monkeypatch.setitem(SETS, "toy", spec)
    monkeypatch.setattr(gaps, "QUICK", ("toy",))
    cells = np.random.default_rng(0).normal(size=(90, 4)).tolist()
    lines = ["a,b,c,target", *(",".join(map(str, row)) for row in cells)]
    (tmp_path / "toy.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    said = []
    request = Request(output=tmp_path / "out", quick=True)
    (table,) = STUDIES["gaps"].run(request, Screen(said.append))
    assert said
    ((name, row),) = table.blocks[0].items()
    assert name == "toy"
    assert tuple(row) == tuple(table.columns) == gaps.COLUMNS
    assert all(math.isfinite(cell.mean) and cell.count == 2 for cell in row.values())
    picture, drawing = sorted((tmp_path / "out").iterdir())
    assert (picture.name, drawing.name) == ("gaps.png", "gaps.svg")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_scores_are_listed_by_seed():
    assert gaps.by_seed(torch.tensor([0.5, 2.0]), (5, 6)) == {5: 0.5, 6: 2.0}
