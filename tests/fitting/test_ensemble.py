"""The ensemble: which rows each member sees, what held-out rows decide, which bodies are mixed."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch

import scroll
from scroll import RegressionHead, ScrollClassifier, ScrollRegressor
from scroll.estimators import rows as estimator_rows
from scroll.estimators.model import Model
from scroll.fitting import stacks
from scroll.fitting.calibration import Tails
from scroll.fitting.candidates import NAMES, candidates
from scroll.fitting.ensemble import best_mixture, fit_ensemble, pilot
from scroll.fitting.folds import Folds
from scroll.fitting.plans import Plan
from scroll.fitting.stacks import Data, Job
from scroll.training.batches import Rows
from scroll.training.loop import Run
from scroll.training.settings import Settings

QUICK = {"max_steps": 40, "random_state": 0, "body": (8,)}


def table(n=200, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    cuts = np.quantile(x[:, 0], np.linspace(0, 1, classes + 1)[1:-1])
    return x, np.digitize(x[:, 0] + 0.3 * rng.normal(size=n), cuts)


def numbers(n=200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=n)


TASKS = {
    "numbers": (ScrollRegressor, lambda k, y: y),
    "counts": (lambda **how: ScrollRegressor(likelihood="poisson", **how), lambda k, y: k),
    "classes": (ScrollClassifier, lambda k, y: k),
    "ordered": (lambda **how: ScrollClassifier(ordered=True, **how), lambda k, y: k),
    "least squares": (lambda **how: ScrollClassifier(likelihood="gaussreg", **how), lambda k, y: k),
}


@pytest.fixture
def trained(monkeypatch):
    """The rows that each training learns from and holds out."""
    seen = []

    class Watched(Run):
        def __init__(self, network, rows, held, *rest, **how):
            seen.append((rows, held))
            super().__init__(network, rows, held, *rest, **how)

    monkeypatch.setattr(stacks, "Run", Watched)
    return seen


def distinct(part, m):
    """The rows of a member that have a weight."""
    weight = torch.ones(len(part.x[m])) if part.weight is None else part.weight[m]
    return {tuple(row) for row, w in zip(part.x[m].tolist(), weight, strict=True) if w > 0}


@pytest.mark.parametrize("task", TASKS)
def test_a_member_learns_from_all_rows_but_its_own(task, trained):
    (x, k), (_, y) = table(103), numbers(103)
    make, target = TASKS[task]
    model = make(n_members=4, **QUICK).fit(x, target(k, y))
    ((rows, held),) = trained
    kept = [distinct(held, m) for m in range(4)]
    assert sum(map(len, kept)) == len(set.union(*kept)) == 103  # every row has one fold
    for m in range(4):
        assert not distinct(rows, m) & kept[m]
        assert len(distinct(rows, m) | kept[m]) == 103
        for part in (rows, held):
            assert float(part.weight[m].mean()) == pytest.approx(1, abs=1e-6)
    assert sorted(model.oof_["row"]) == list(range(103))
    assert len(model.scores_) == 4


@pytest.mark.parametrize("task", ["numbers", "classes"])
def test_out_of_fold_scores_are_those_of_rows_not_seen(task):
    """Targets by chance: a network that has seen a row knows it, another cannot."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 8))
    y = rng.integers(2, size=60) if task == "classes" else rng.normal(size=60)
    how = {"body": (64,), "max_steps": 400, "learning_rate": 0.03, "random_state": 0}
    make = TASKS[task][0]
    model = make(n_members=3, routing="free", **how).fit(x, y)
    (score,) = model.tried_.values()
    least = log(2) if task == "classes" else 0.5 * log(2 * np.pi) + 0.5  # of who knows nothing
    assert score > least - 0.15
    assert model.oof_scores()["nll"] > least - 0.15
    assert np.mean(model.scores_) > least - 0.15


@pytest.mark.parametrize(
    ("how", "n"),
    [({"n_members": 1}, 60), ({"recipe": "paper", "n_members": 2}, 60), ({"n_members": 2}, 70)],
)
@pytest.mark.parametrize("task", ["numbers", "classes"])
def test_otherwise_all_members_hold_out_the_same_rows(task, how, n, trained, monkeypatch):
    """A single member, the paper's recipe, and more than 50,000 rows."""
    monkeypatch.setattr(estimator_rows, "CROSSFIT_ROWS", 60)
    (x, k), (_, y) = table(n), numbers(n)
    make, target = TASKS[task]
    plain = {k: v for k, v in QUICK.items() if k != "body" or "recipe" not in how}
    model = make(**how, **plain).fit(x, target(k, y))
    for rows, held in trained:
        members = len(rows.x)
        if len(distinct(rows, 0)) == n:  # training on all rows, at last
            continue
        assert len({frozenset(distinct(held, m)) for m in range(members)}) == 1
        assert len(distinct(held, 0)) == pytest.approx(n / 5, abs=2)
        assert not distinct(rows, 0) & distinct(held, 0)
        assert len(distinct(rows, 0) | distinct(held, 0)) == n
    assert len(model.oof_["row"]) == pytest.approx(n / 5, abs=2)


@pytest.mark.parametrize("task", TASKS)
def test_rows_of_your_own_decide_and_are_not_learned_from(task, trained):
    (x, k), (_, y) = table(60), numbers(60)
    (later, j), (_, z) = table(30, seed=1), numbers(30, seed=1)
    make, target = TASKS[task]
    how = {"n_members": 2, "learning_rate": 0.03, **QUICK}
    model = make(**how).fit(x, target(k, y), eval_set=(later, target(j, z)))
    ((rows, held),) = trained  # nothing is trained on both
    for m in range(2):
        assert len(distinct(rows, m)) == 60
        assert len(distinct(held, m)) == 30
        assert not distinct(rows, m) & distinct(held, m)
    p = model.predict_dist(later)
    log_p = p.log_prob(torch.from_numpy(target(j, z)))
    np.testing.assert_allclose(model.oof_["log_prob"], log_p, rtol=1e-4, atol=1e-4)
    other = make(**how).fit(x, target(k, y), eval_set=(later, target(j, z)[::-1]))
    assert min(other.tried_.values()) > min(model.tried_.values()) + 0.1


@pytest.mark.parametrize("make", [ScrollRegressor, ScrollClassifier])
def test_the_number_of_members_is_the_recipes(make):
    x, y = table(60, 2)
    y = 2 * y - 1
    assert make().n_members is None
    assert len(make(**QUICK).fit(x, y).bodies_) == 5
    assert len(make(n_members=2, **QUICK).fit(x, y).bodies_) == 2
    assert len(make(recipe="paper", max_steps=20, random_state=0).fit(x, y).bodies_) == 1


def test_a_body_has_a_network_per_member_and_one_route():
    x, k = table()
    model = ScrollClassifier(max_steps=40, n_members=2, random_state=0).fit(x, k)
    assert len(model.bodies_) == len(model.scores_) == 2 * len(model.model_.each)
    assert model.routes_ == ["free"] * len(model.bodies_)
    assert set(model.bodies_) <= {name.split(",")[0] for name in model.tried_} <= set(NAMES)
    assert model.score(x, k) > 0.7
    assert np.isfinite(model.ood_score(x)).all()


def test_scores_are_in_the_units_of_the_target():
    x, y = numbers(80)
    one, other = (ScrollRegressor(n_members=2, **QUICK).fit(x, a * y) for a in (1.0, 1000.0))
    assert one.scores_ == pytest.approx([s - log(1000) for s in other.scores_], abs=1e-3)
    for name, score in one.tried_.items():
        assert score == pytest.approx(other.tried_[name] - log(1000), abs=1e-3)
    assert one.oof_scores()["nll"] == pytest.approx(other.oof_scores()["nll"] - log(1000), abs=1e-3)


def test_rare_classes_and_few_rows():
    """A class of a single row, and hardly more rows than folds."""
    x, y = table(40, 2)
    y[3] = 7
    model = ScrollClassifier(**QUICK).fit(x, y)
    assert model.predict_proba(x).shape == (40, 3)
    x, y = table(10, 2)
    assert ScrollClassifier(**QUICK).fit(x, y).predict_proba(x).shape == (10, 2)
    assert ScrollClassifier(**QUICK).fit(x[:4], [0, 1, 0, 1]).predict_proba(x).shape == (10, 2)


@pytest.mark.parametrize("body", ["auto", "swell"])
def test_a_model_of_every_body_is_put_together_again(body, tmp_path):
    """Whichever the rows choose."""
    x, y = table(80)
    model = ScrollClassifier(n_members=2, max_steps=20, random_state=0, body=body).fit(x, y)
    parts = [(name, ["free"]) for name in ("smooth", "swell", "waves", "linear")]
    if body == "auto":
        spec = replace(model.model_.spec, parts=parts)
        assert len(Model(spec, None).each) == 4
    model.save(tmp_path / "m.scroll")
    again = scroll.load(tmp_path / "m.scroll")
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


# Which bodies are mixed


def judged(n=200, weight=None):
    """Folds with judged rows only."""
    none = Rows(torch.empty(1, 0, 1), torch.empty(1, 0))
    return Folds(none, none, torch.empty(1, 0), torch.zeros(n), weight, crossed=True)


def mixture(log_p, single=False, weight=None):
    """The bodies of the best equal mixture; log_p (bodies, J)."""

    def mixed(some):
        return log_p[list(some)].logsumexp(0) - log(len(some))

    return best_mixture(len(log_p), mixed, judged(log_p.shape[1], weight), single)


def test_a_far_better_body_is_alone():
    worse = torch.randn(200)
    assert mixture(torch.stack([worse, worse + 2])) == [1]
    assert mixture(torch.stack([worse + 2, worse, worse - 1])) == [0]


def test_bodies_that_err_on_different_rows_are_mixed_and_the_best_is_first():
    half = torch.arange(200) < 100
    good, bad = torch.tensor(-0.5), torch.tensor(-4.0)
    log_p = torch.stack([torch.where(half, good, bad), torch.where(half, bad, good) + 0.1])
    assert mixture(log_p) == [1, 0]
    assert mixture(log_p, single=True) == [1]
    third = torch.full((1, 200), -9.0)
    assert mixture(torch.cat([third, log_p])) == [2, 1]


@pytest.mark.parametrize(("share", "chosen"), [(0.4, [0]), (0.6, [0, 1])])
def test_one_more_body_must_improve_by_half_a_standard_error(share, chosen):
    noise = torch.randn(400)
    noise -= noise.mean()
    gain = noise + share * noise.std() / 20  # of the mixture over the first body
    table = {(0,): torch.zeros(400), (1,): torch.full((400,), -1.0), (0, 1): gain}
    assert best_mixture(2, lambda some: table[tuple(some)], judged(400), False) == chosen


@pytest.mark.parametrize(("share", "chosen"), [(0.9, [0]), (1.1, [1])])
@pytest.mark.parametrize("single", [False, True])
def test_a_body_must_be_better_than_the_plain_one_by_a_standard_error(share, chosen, single):
    noise = torch.randn(400)
    noise -= noise.mean()
    table = {(0,): torch.zeros(400), (1,): noise + share * noise.std() / 20}
    table[1, 0] = table[(1,)] - 1
    choose = lambda *plain: best_mixture(
        2, lambda some: table[tuple(some)], judged(400), single, *plain
    )
    assert choose() == [1]
    assert choose(0) == chosen
    table[(0,)] = torch.full((400,), torch.nan)
    assert choose(0) == [1]


def test_the_plain_body_is_alone_if_a_mixture_with_it_is_no_better():
    """It joins the best body by chance, which is better than either by little."""
    noise = torch.randn(2, 400)
    noise -= noise.mean(1, keepdim=True)
    both = torch.zeros(400) + 0.01 * noise[1]
    table = {(0,): noise[0], (1,): noise[0] - 0.001, (0, 1): noise[0] + 0.001 + both}
    choose = lambda *plain: best_mixture(
        2, lambda some: table[tuple(some)], judged(400), False, *plain
    )
    assert choose() == [0, 1]
    assert choose(1) == [0, 1]  # better than the second by four standard errors
    table[(1,)] = noise[0] - 0.0001
    table[0, 1] = noise[0] + 0.0004 + both
    assert choose() == [0, 1]
    assert choose(1) == [1]


def test_rows_choose_bodies_by_their_weight():
    first = torch.arange(200) < 50
    log_p = torch.where(torch.stack([first, ~first]), 0.0, -1.0)
    weight = torch.where(first, 3.9, (200 - 3.9 * 50) / 150)
    assert mixture(log_p, single=True) == [1]
    assert mixture(log_p, single=True, weight=weight) == [0]


def test_a_body_that_failed_gets_no_member():
    log_p = torch.randn(2, 200)
    log_p[0, 3] = torch.nan
    assert mixture(log_p) == [1]


# The ensemble from its parts


def job(n=60, members=3, body=(8,), weight=None, steps=40, **plan):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, 2, generator=g)
    y = torch.sin(2 * x[:, 0]) + 0.3 * torch.randn(n, generator=g)
    data = Data(
        x, y, weight, x[:0], y[:0], None, own=False, seen=False, fold=torch.arange(n) % members
    )
    settings = Settings(steps=steps, lr=0.01, every=10)
    made = Plan(candidates(body, 2, 0, names=("smooth", "deep")), settings, **plan)
    return Job(data, made, lambda h, lead: RegressionHead(h, covariance="diag", replicates=lead))


def test_the_mixture_is_narrower_than_a_member_by_half_the_variance_between_them():
    """Rows out of fold are judged by one member; the mean of all of them is more accurate."""
    some = job()
    found = fit_ensemble(some, members=3, routing="free", tails=Tails(("gaussian",)), seed=0)
    (part,), calibration = found.parts, found.calibration
    with torch.no_grad():
        p = part.network(some.data.x.expand(3, -1, -1)).widened(calibration.width)
    within, between = p.variance.mean(0), p.mean.var(0, correction=0)
    assert calibration.shrinkage < 0.999
    mixed = within * calibration.shrinkage**2 + between
    assert float(((mixed + between / 2) / within).mean()) == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("weighed", [False, True])
def test_a_posterior_learns_from_all_rows_by_their_weight(weighed):
    """From those of a member's own fold as from the others."""
    n = 61  # folds of different sizes
    weight = torch.rand(n, generator=torch.Generator().manual_seed(1)) ** 3 + 0.01
    some = job(n, weight=weight / weight.mean() if weighed else None)
    found = fit_ensemble(some, members=3, routing="closed", tails=Tails(), seed=0)
    (part,), weight = found.parts, weight if weighed else torch.ones(n)
    with torch.no_grad():
        psi = part.network.body(some.data.x.expand(3, -1, -1))
    psi = torch.cat([psi, torch.ones_like(psi[..., :1])], -1)
    want = (psi.mT * weight) @ psi / weight.sum()
    has = part.bound.statistics
    gram = has.gram.reshape(3, *want.shape[1:]) / has.count.reshape(-1, 1, 1)
    torch.testing.assert_close(gram, want, rtol=1e-9, atol=1e-12)


def test_a_race_does_not_change_the_bodies_that_stay():
    how = {"members": 3, "routing": "free", "tails": Tails(), "seed": 0}
    plain = fit_ensemble(job(body="auto"), **how)
    raced = fit_ensemble(job(body="auto", race=(20, torch.inf)), **how)
    assert plain.tried == raced.tried
    short = fit_ensemble(job(body="auto", race=(20, 0.0)), **how)
    assert len(short.tried) == 1
    assert short.tried.items() <= plain.tried.items()


@pytest.mark.parametrize("body", ["auto", "linear"])
def test_a_pilot_is_continued_as_if_it_had_not_been_paused(body):
    some, how = job(body=body), {"members": 3, "routing": "auto", "tails": Tails(), "seed": 0}
    first = pilot(some, members=3, seed=0)
    assert (first.run is None) == (body == "linear")  # its features need no training
    if first.run is not None:
        assert 0 < first.run.left < some.plan.settings.steps
        assert first.score == -float(first.run.best().mean())
    plain, continued = fit_ensemble(some, **how), fit_ensemble(some, begun=first.run, **how)
    assert plain.tried == continued.tried
    for one, two in zip(plain.parts, continued.parts, strict=True):
        for p, q in zip(one.network.parameters(), two.network.parameters(), strict=True):
            assert torch.equal(p, q)


@pytest.mark.parametrize(("most", "left"), [(1000, 300), (60, 340), (5, 390)])
def test_a_pilot_takes_a_quarter_of_the_steps_or_as_many_as_the_plan_allows(most, left):
    """At least one evaluation."""
    assert pilot(job(steps=400, pilot=most), members=3, seed=0).run.left == left
