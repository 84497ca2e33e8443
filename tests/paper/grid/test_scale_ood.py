"""Large data sets, frozen features and out-of-distribution rows: reading, scores, tables."""

import math
import os

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import BayesianRidge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from scroll.heads import RegressionHead
from scroll.posterior.posterior import refit
from scroll.predictive import Normal
from scroll.training.batches import Rows
from scroll.training.network import Network
from scroll_paper.data import datasets
from scroll_paper.data.datasets import SETS, Data, DataSet
from scroll_paper.data.protocol import Folds, folds
from scroll_paper.grid import run, stacks
from scroll_paper.grid.experiments import GRID
from scroll_paper.grid.plan import Group, Unit, Work, plan
from scroll_paper.grid.stacks import networks_at_once, train_stack
from scroll_paper.models import evaluation
from scroll_paper.models.evaluation import Fitted
from scroll_paper.models.method import Setting, prepared
from scroll_paper.models.methods import TABLE_METHODS
from scroll_paper.models.ood import auroc, ood_auroc
from scroll_paper.tables import published
from scroll_paper.tables import rows as table_rows
from scroll_paper.tables.builders import Scope, setting
from scroll_paper.tables.experiment import Request
from scroll_paper.tables.selection import Selection
from scroll_paper.tables.table import Block, path, table, to_markdown, to_text

CPU = torch.device("cpu")
DATA = os.environ.get("SCROLL_DATA")
real = pytest.mark.skipif(DATA is None, reason="$SCROLL_DATA names no folder of real tables")
SHIFTED = [row.method for block in table_rows.OOD for row in block.rows]
STEMS = list(dict.fromkeys(TABLE_METHODS[m].trained_as or m for m in SHIFTED))


@pytest.mark.parametrize("ties", [False, True])
def test_the_area_is_scikit_learns(ties):
    own, foreign = torch.randn(3, 40), torch.randn(3, 70) + 0.5
    if ties:
        own, foreign = own.round(), foreign.round()
    found = auroc(own, foreign)
    assert found.shape == (3,)
    for r in range(3):
        truth = np.r_[np.zeros(40), np.ones(70)]
        want = roc_auc_score(truth, np.r_[own[r].numpy(), foreign[r].numpy()])
        assert found[r].item() == pytest.approx(want, rel=1e-12)


def test_the_area_of_nothing_to_tell_and_of_what_is_broken():
    own = torch.zeros(2, 9)
    assert auroc(own, torch.zeros(2, 5)).tolist() == [0.5, 0.5]
    own[1, 3] = math.nan
    found = auroc(own, torch.ones(2, 5))
    assert found[0] == 1
    assert found[1].isnan()


def normal(belief, noise):
    belief, noise = torch.as_tensor(belief), torch.as_tensor(noise)
    return Normal(torch.zeros_like(belief), noise.expand_as(belief), belief)


def test_a_noise_that_all_rows_share_is_taken_off_to_the_last_digit():
    """In single precision sd^2 - sigma^2 would lose a variance so far below the noise."""
    small = torch.tensor([[1e-9, 2e-9, 3e-9]], dtype=torch.float32)
    noise = torch.full((1, 1), 1 / 3, dtype=torch.float32)
    assert ood_auroc(normal(small, noise), normal(10 * small, noise)).item() == 1
    assert ood_auroc(normal(0 * small, noise), normal(0 * small, noise)).item() == 0.5


def test_a_noise_of_each_row_counts():
    noise = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    none = torch.zeros(1, 4)
    assert ood_auroc(Normal(none, noise, none), Normal(none, noise + 4, none)).item() == 1
    assert ood_auroc(Normal(none, noise + 4, none), Normal(none, noise, none)).item() == 0


def tables(n=60, m=30, d=5, shift=6.0):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d)) * [1, 10, 0.1, 1, 0] + 3
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=n)
    far = (rng.normal(size=(m, d)) + shift) * [1, 10, 0.1, 1, 2] + 3
    columns = tuple("abcde")
    return Data("home", x, y, columns), Data("away", far, rng.normal(size=m), columns)


def test_foreign_rows_are_standardised_by_the_training_rows_at_home():
    home, away = tables()
    plain, both = folds(home, (0, 1)), folds(home, (0, 1), foreign=away)
    assert plain.foreign is None
    for a, b in zip(plain[:3], both[:3], strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)
    rest, _ = train_test_split(range(60), test_size=0.2, random_state=1)
    fold, _ = train_test_split(rest, test_size=0.25, random_state=1)
    mean, std = home.x[fold].mean(0)[:4], home.x[fold].std(0)[:4]
    want = (away.x[:, :4] - mean) / std  # the last column never varies at home
    np.testing.assert_allclose(both.foreign.x[1].numpy(), want, rtol=1e-5)
    taken = both.take(torch.tensor([1, 1, 0]))
    assert taken.foreign.x.shape == (3, 30, 4)
    assert torch.equal(taken.foreign.x[2], both.foreign.x[0])


def test_rows_of_length_one():
    home, away = tables()
    for rows in folds(home, (3,), unit_rows=True, foreign=away):
        np.testing.assert_allclose(rows.x.norm(dim=-1).numpy(), 1, rtol=1e-5)


def test_rows_of_length_one_on_average():
    """All by one factor: what is long stays longer than what is short."""
    home, away = tables()
    plain, even = (folds(home, (3,), even_rows=e, foreign=away) for e in (False, True))
    width = plain.train.x.shape[-1]
    for rows, scaled in zip(plain, even, strict=True):
        torch.testing.assert_close(scaled.x * width**0.5, rows.x)
    np.testing.assert_allclose(even.train.x.square().sum(-1).mean(), 1, rtol=1e-5)


@pytest.fixture
def known(monkeypatch):
    """Two sets that lie nowhere but here."""
    found = dict(zip(("home", "away"), tables(), strict=True))
    for name, made in found.items():
        spec = DataSet("", len(made.y), 5, None, "y", "a,b,c,d,e", "nowhere", lambda: np.empty(0))
        monkeypatch.setitem(SETS, name, spec)
    monkeypatch.setattr(datasets, "load", lambda name, *_: found[name])
    torch.set_default_dtype(torch.float32)


def fitted(method, seeds=(0,), members=1, **how):
    """The records of a method at home, told from away."""
    made = Setting("home", method, foreign="away", steps=20, width=8, **how)
    work = Work(made, seeds, ("relu", "tanh+LN"), None, members)
    read = run.reader(run.RowSource(None, CPU))
    units = plan([Unit(work, work.groups())], read, CPU).units
    return [
        r
        for u in units
        for lines in train_stack(u, read("home", seeds, *made.rows()))
        for r in lines
    ]


@pytest.mark.parametrize("stem", STEMS)
def test_every_row_of_the_table_is_scored(known, stem):
    members = TABLE_METHODS[stem].training.members if stem in ("map",) else 1
    found = fitted(stem, members=members)
    mine = [m for m in SHIFTED if (TABLE_METHODS[m].trained_as or m) == stem]
    for method in mine:
        scores = [r["metrics"] for r in found if r["fit"]["method"] == method]
        assert scores
        constant = method in ("scroll-none", "map")
        for each in scores:
            assert (each["auroc"] == 0.5) == constant
            assert 0 <= each["auroc"] <= 1
            assert math.isfinite(each["nll"])
    assert all(r["fit"]["foreign"] == "away" for r in found)


def test_foreign_rows_change_nothing_else(known):
    """Neither training nor selection sees them."""
    with_ = fitted("scroll-full")
    made = Setting("home", "scroll-full", steps=20, width=8)
    work = Work(made, (0,), ("relu", "tanh+LN"))
    read = run.reader(run.RowSource(None, CPU))
    without = [
        r for lines in train_stack(Unit(work, work.groups()), read("home", (0,))) for r in lines
    ]
    assert len(with_) == len(without) == 2
    for a, b in zip(with_, without, strict=True):
        assert "auroc" not in b["metrics"]
        assert a["metrics"] == b["metrics"] | {"auroc": a["metrics"]["auroc"]}
        assert a["val"] == b["val"]


@pytest.mark.parametrize("stem", ["scroll-full-routed", "map", "mc-dropout", "closed-full"])
def test_measuring_a_few_at_a_time_is_measuring_all(known, monkeypatch, stem):
    members = 5 if stem == "map" else 1
    whole = fitted(stem, (0, 1), members)
    monkeypatch.setattr("scroll_paper.grid.stacks.networks_at_once", lambda work, data: 1)
    apart = fitted(stem, (0, 1), members)
    assert [r["fit"] for r in whole] == [r["fit"] for r in apart]
    for a, b in zip(whole, apart, strict=True):
        assert a["metrics"] == pytest.approx(b["metrics"], rel=1e-3, abs=1e-5)
        assert a["val"] == pytest.approx(b["val"], rel=1e-3)


def test_how_many_are_measured_at_once_goes_by_memory(known, monkeypatch):
    work = Work(Setting("home", "scroll-full", width=8), (0,))
    data = run.reader(run.RowSource(None, CPU))("home", (0,), foreign="away")
    rows = 60 + 30
    each = 4 * (4 * rows + 10 * 8 * rows)
    monkeypatch.setattr("scroll_paper.grid.stacks.available", lambda device: 70 * each)
    assert networks_at_once(work, data) == 7


def test_the_refit_takes_the_best_route_and_tells_by_leverage(known):
    torch.set_default_dtype(torch.float64)
    home, away = tables(n=200)
    data = folds(home, (0, 1), foreign=away)
    data = Folds(*(Rows(r.x.double(), r.y.double()) for r in data))
    made = Setting("home", "scroll-full", width=8)
    net = prepared(
        TABLE_METHODS["scroll-full"].training,
        made,
        ["relu", "tanh"],
        [0, 1],
        [None] * 2,
        data.train,
    )
    net = net.double().eval()
    with torch.no_grad():
        lines = evaluation.routed(Fitted(net, data))
        psi, held, test, far = (net.body(r.x) for r in data)
    with torch.enable_grad():
        hybrid = refit(net.head, psi, data.train.y, hybrid=True, validation=(held, data.val.y))
    routes = (net.head, refit(net.head, psi, data.train.y), hybrid)
    with torch.no_grad():
        val = torch.stack([-r(held).log_prob(data.val.y).mean(-1) for r in routes])
        nll = torch.stack([-r(test).log_prob(data.test.y).mean(-1) for r in routes])
        want = auroc(routes[1].leverage(test), routes[1].leverage(far))
        both = [torch.cat([net.body(r.x), r.x], -1) for r in data]
        wide = refit(RegressionHead(12, bias=False, replicates=(2,)), both[0], data.train.y)
        wider = auroc(wide.leverage(both[2]), wide.leverage(both[3]))
    line, other = lines["free-refit"], lines["free-refit-inputs"]
    torch.testing.assert_close(other.metrics["auroc"], wider)
    assert other.metrics["nll"] is line.metrics["nll"]
    torch.testing.assert_close(line.val, val.min(0).values)
    torch.testing.assert_close(line.metrics["nll"], nll.gather(0, val.argmin(0)[None])[0])
    torch.testing.assert_close(line.metrics["auroc"], want)
    assert (line.val <= lines[""].val).all()  # the free route is among them


def test_leverage_tells_what_is_far_off(known):
    """The inputs themselves as features, ten deviations away: nothing is missed."""
    home, away = tables(n=200, shift=10.0)
    data = folds(home, (0,), foreign=away)
    head = TABLE_METHODS["scroll-full"].training.head(4, (1,), Setting("home", "scroll-full"))
    with torch.no_grad():
        lines = evaluation.routed(Fitted(Network(torch.nn.Identity(), head), data))
    assert lines["free-refit"].metrics["auroc"].item() == 1


def test_what_the_inputs_alone_tell_is_that_of_a_linear_model(known):
    home, away = tables(n=200, shift=1.0)
    data = folds(home, (0, 1), foreign=away)
    data = Folds(*(Rows(r.x.double(), r.y.double()) for r in data))
    net = Network(
        torch.nn.Identity(),
        TABLE_METHODS["inputs"].training.head(4, (2,), Setting("home", "inputs")),
    )
    with torch.no_grad():
        line = evaluation.inputs_alone(Fitted(net, data))[""]
    flat = {"alpha_1": 0, "alpha_2": 0, "lambda_1": 0, "lambda_2": 0}
    for i in range(2):
        x, y, far = (t[i].numpy() for t in (data.train.x, data.train.y, data.foreign.x))
        theirs = BayesianRidge(fit_intercept=False, tol=1e-14, max_iter=20_000, **flat).fit(x, y)
        own = data.test.x[i].numpy()
        mean, std = theirs.predict(own, return_std=True)
        nll = -stats.norm(mean, std).logpdf(data.test.y[i].numpy()).mean()
        assert line.metrics["nll"][i].item() == pytest.approx(nll, rel=1e-6)
        spread = [np.einsum("ni,ij,nj->n", z, theirs.sigma_, z) for z in (own, far)]
        truth = np.repeat([0, 1], [len(own), len(far)])
        area = roc_auc_score(truth, np.concatenate(spread))
        assert line.metrics["auroc"][i].item() == pytest.approx(area)


# Settings and tables.


def test_the_settings_of_scale():
    row = table_rows.SCALE[0].rows[0]
    large = {"width": 100, "batch": 1024, "steps": 3000, "every": 25}
    for name in ("california", "protein", "flights"):
        assert setting(name, "scroll-full", *row.at(name)).odd() == large
    assert setting("year", "m", *row.at("year")).odd() == large | {"steps": 9000}
    for name in ("sick", "utkface"):
        often = {k: v for k, v in large.items() if k != "every"}  # a look every 5, as usual
        assert setting(name, "m", *row.at(name)).odd() == often | {"unit_rows": True}


def test_the_settings_of_a_shift():
    free, closed = table_rows.OOD[0].rows[0], table_rows.OOD[1].rows[0]
    large = {"width": 100, "batch": 1024, "steps": 3000}
    assert setting("wine", "m", *free.at("wine")).odd() == {"foreign": "wine_white"}
    deep = [setting("sick", "m", where).odd() for where in free.at("sick")]
    for found, way in zip(deep, ("short_steps", "even_rows"), strict=True):
        assert found == large | {"foreign": "ag_news", way: True}  # and rows of any length
    bound = setting("utkface", "m", closed.at("utkface")[0]).odd()
    alike = {k: v for k, v in large.items() if k != "batch"}
    assert bound == alike | {"foreign": "cifar10", "short_steps": True}
    for block in table_rows.OOD:
        for row in block.rows:
            for where in row.at("sick"):
                made = setting("sick", row.method, where)
                head = TABLE_METHODS[row.method].training.head(4, (1,), made)
                assert head.batches or not made.batch


def test_a_large_set_is_used_where_it_is_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("SCROLL_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("SCROLL_CACHE", str(tmp_path))
    scale = GRID["scale"]
    assert "year" not in scale.scope().sets
    assert scale.scope(Request(sets=("year",))).sets == ("year",)
    (own := tmp_path / "own").mkdir()
    (own / "year.csv.gz").touch()
    assert "year" not in scale.scope().sets
    assert scale.scope(Request(data=own)).sets == scale.sets
    (tmp_path / "year.csv.gz").touch()
    assert scale.scope().sets == scale.sets


def test_a_shift_needs_a_set_that_has_a_partner():
    with pytest.raises(ValueError, match=r"^`sets` must be one of 'wine', .*but got 'yacht'"):
        GRID["ood"].scope(Request(sets=("yacht",)))


def test_the_greatest_area_is_marked():
    rows = {k: {"a": {s: v + s / 1e3 for s in range(5)}} for k, v in {"x": 0.5, "y": 0.9}.items()}
    for greatest, best in ((True, "y"), (False, "x")):
        made = table("t", "", ["a"], [Block(rows)], greatest=("a",) if greatest else ())
        assert {k: r["a"].mark for k, r in made.blocks[0].items()} == {
            k: "best" if k == best else "" for k in rows
        }
        assert made.blocks[0]["y"]["a"].mean == pytest.approx(0.902)


def test_the_caption_names_the_encoder_and_the_foreign_set():
    (scale,) = GRID["scale"].build(Selection([]), Scope(("california", "sick"), (5,)))
    assert scale.note.startswith("sick by all-MiniLM-L6-v2: ")
    assert "california by" not in scale.note
    ood, nll = GRID["ood"].build(Selection([]), Scope(("utkface", "wine"), (5,)))
    for made in (ood, nll):
        assert "utkface by EfficientNet-Lite0" in made.note
        assert "Wine: wine against wine_white" in made.note
        assert made.note in to_markdown(made)
        assert "utkface by EfficientNet-Lite0" in " ".join(to_text(made).split())
        assert published.beside(made).note == made.note
        assert list(made.columns) == ["Train", "Infer", "Vision", "Wine"]
    assert {path(k) for k in published.numbers("ood")} == {
        path(k) for b in ood.blocks[:-2] for k in b
    }


@real
def test_white_wine_is_told_from_red_by_leverage_and_not_by_a_constant():
    """Few steps of one seed: the closed corner tells, what has no covariance cannot."""
    torch.set_default_dtype(torch.float32)
    read, found = run.reader(run.RowSource(None, CPU), lambda *_: None), {}
    for method in ("closed-full", "map", "scroll-none"):
        made = Setting("wine", method, foreign="wine_white", steps=150)
        work = Work(made, (5,), ("relu",), (1e-3,) if method == "map" else None)
        unit = Unit(work, work.groups())
        (lines,) = train_stack(unit, read("wine", (5,), *made.rows()))
        found |= {r["fit"]["method"]: r["metrics"]["auroc"] for r in lines}
    assert found["closed-full"] > 0.85
    assert found["laplace-full"] > 0.7
    assert found["map"] == found["scroll-none"] == 0.5


def test_steps_are_shorter_where_rows_are_long(monkeypatch):
    """By sqrt(D), so that a step moves a hidden unit as far as on rows of length one."""
    rates = []

    def watched(start, train, val, recipe, **rest):
        rates.append(recipe.lr)
        return iter(())

    monkeypatch.setattr(stacks, "train_in_parts", watched)
    x, y = np.random.default_rng(0).normal(size=(40, 16)), np.arange(40.0)
    data = folds(Data("home", x, y, [f"x{i}" for i in range(16)]), (0,))
    for short in (False, True):
        work = Work(Setting("home", "scroll-none", short_steps=short), (0,))
        unit = Unit(work, [Group("relu", 0, None, 0)])
        stacks.finished_parts(unit, stacks.untrained(unit, data), data, None)
    assert rates == [0.03, 0.03 / 4]


@pytest.mark.parametrize("name", ["scroll-none", "scroll-full", "closed-full", "mvn", "vbll"])
def test_where_steps_are_short_a_noise_starts_at_the_spread(name):
    """Which short steps could not reach within a run: faces are 20 years apart."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(50, 6)), 20 * rng.normal(size=50)
    data = folds(Data("home", x, y, [f"x{i}" for i in range(6)]), (0, 1))
    spread = data.train.y.std(-1)
    method = TABLE_METHODS[name].training

    def variance(short):
        made = Setting("home", name, short_steps=short, width=8)
        net = prepared(method, made, ["relu"] * 2, [0, 1], [1.0, 1.0], data.train)
        return net.head.offset[:, 1].exp() if name == "mvn" else noise(net.head).exp()[:, 0] ** 2

    def noise(head):
        return head.log_noise if name == "vbll" else head.likelihood.log_noise

    np.testing.assert_allclose(variance(True).detach(), spread**2, rtol=1e-5)
    if name.startswith(("scroll", "mvn")):
        np.testing.assert_allclose(variance(False).detach(), 1)
