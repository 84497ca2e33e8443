"""One body: its routes judged by held-out rows, and the race between bodies."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from scroll import RegressionHead
from scroll.fitting.calibration import Tails, fit_tails
from scroll.fitting.candidates import Candidate, candidates
from scroll.fitting.folds import folds_of
from scroll.fitting.plans import ADDED, Plan
from scroll.fitting.stacks import Data, Job, features, posterior
from scroll.fitting.trials import allowed, predict, promising, trial_of, untrained
from scroll.training.settings import Settings

M, N, STEPS = 2, 60, 60
PLAIN = Tails(("gaussian",))


class Blind(nn.Module):
    """A body whose features do not depend on the row."""

    def __init__(self, lead):
        super().__init__()
        self.features = nn.Parameter(torch.randn(*lead, 1, 4))

    def forward(self, x):
        return self.features.expand(*x.shape[:-1], 4)


class Small(nn.Module):
    """The columns, much smaller."""

    def __init__(self, lead):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(*lead, 1, 1))

    def forward(self, x):
        return 1e-3 * self.scale * x


(SIGHTED,) = candidates((8,), 2, 0)
BLIND = Candidate("blind", Blind, 4, 4)


@pytest.fixture
def job():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N, 2, generator=g)
    y = x[:, 0] + 0.1 * torch.randn(N, generator=g)
    y = (y - y.mean()) / y.std()
    data = Data(x, y, None, x[:0], y[:0], None, False, False, fold=torch.arange(N) % M)
    plan = Plan((SIGHTED, BLIND), Settings(steps=STEPS, lr=0.05, every=10))
    return Job(data, plan, lambda h, lead: RegressionHead(h, covariance="diag", replicates=lead))


def run(job, body, folds):
    network = job.fresh(body, folds.rows, (0, 1))
    return job.run(network, body, folds.rows, folds.held, (0, 1))


def runs(job):
    folds = folds_of(job.data, M)
    return [(body, run(job, body, folds)) for body in job.plan.candidates], folds


def kept(job, race, routing="auto"):
    made, folds = runs(job)
    return [body.name for body, _ in promising(made, folds, routing, PLAIN, race)], made


def test_a_hopeless_body_is_dropped_after_a_while(job):
    names, made = kept(job, (30, 0.3))
    assert names == ["8"]
    assert [STEPS - run.left for _, run in made] == [30, 30]


def test_a_body_that_is_not_far_behind_stays(job):
    assert kept(job, (30, 50.0))[0] == ["8", "blind"]


@pytest.mark.parametrize("routing", ["auto", "free", "closed", "hybrid"])
def test_a_body_is_judged_by_the_route_that_will_predict(job, routing):
    """A posterior of small features is exact at once; a free head must learn large weights."""
    small = Candidate("small", Small, 2, 1)
    job = replace(job, plan=replace(job.plan, candidates=(SIGHTED, small)))
    names = kept(job, (30, 0.3), routing)[0]
    assert ("small" in names) == (routing != "free")


def test_without_a_race_nothing_is_trained_yet(job):
    names, made = kept(job, (0, 0.3))
    assert names == ["8", "blind"]
    assert [run.left for _, run in made] == [STEPS] * 2
    made, folds = runs(job)
    assert promising(made[:1], folds, "auto", PLAIN, (30, 0.3)) == made[:1]  # none to beat
    assert made[0][1].left == STEPS


def test_the_best_route_is_that_of_the_best_score(job):
    made, folds = runs(job)
    trial = trial_of(SIGHTED, made[0][1].finish(), folds, "auto", PLAIN, ADDED)
    assert list(trial.routed) == ["free", "closed", "hybrid"]
    scores = {route: float(found.log_p.mean()) for route, found in trial.routed.items()}
    assert trial.route == max(scores, key=scores.get)
    assert trial.best is trial.routed[trial.route]


@pytest.mark.parametrize("route", ["free", "closed"])
def test_rows_are_judged_by_the_member_that_did_not_see_them(job, route):
    """Row n is held out by member n % M: its predictive, calibrated."""
    made, folds = runs(job)
    trial = trial_of(SIGHTED, made[0][1].finish(), folds, route, PLAIN, ADDED)
    assert list(trial.routed) == [route]
    network = trial.done.network
    psi = features(network, job.data.x.expand(M, -1, -1))
    with torch.no_grad():
        p = predict(network, posterior(network, folds.rows), route, psi)
    rows = torch.arange(N)
    own = type(p)(
        *(t.expand(M, N)[rows % M, rows][None] for t in (p.mean, p.noise_var, p.belief_var))
    )
    want = fit_tails(own, job.data.y, None, PLAIN).log_p
    torch.testing.assert_close(trial.best.log_p, want, rtol=1e-6, atol=1e-6)
    assert trial.best.members.shape == (M, N // M)


def test_features_that_are_not_trained_have_no_free_route(job):
    """They are judged without any training."""
    (line,) = candidates("linear", 2, 0)
    folds = folds_of(job.data, M)
    network = job.fresh(line, folds.rows, (0, 1))
    assert allowed(network, "auto") == ("closed", "hybrid")
    assert allowed(network, "free") == ("free",)
    done = untrained(network, M)
    assert done.steps.tolist() == [0] * M
    trial = trial_of(line, done, folds, "auto", PLAIN, ADDED)
    assert list(trial.routed) == ["closed", "hybrid"]
    assert float(trial.best.log_p.mean()) > 0  # the mean predictor has -1.4
