"""A user's own route, cavity, score and prior term work wherever ours do.

Nothing here is known to the package: it may look at what the parts declare, and at nothing else.
"""

import copy
import math
import pickle

import pytest
import torch
from scipy import stats

import scroll
from scroll import ClassificationHead, Objective, PriorGradient, Problem, RegressionHead
from scroll.beliefs import Belief, Diag, Full
from scroll.beliefs.covariances import Scaled, Sum
from scroll.factors import Gaussian, Moments
from scroll.objectives import (
    EARLIER_BELIEFS,
    ONE_BELIEF,
    REMOVABLE_POINTS,
    Cavity,
    Filtered,
    PriorTerm,
    Route,
    Score,
)
from scroll.objectives.cavities import leave_one_out, sequential, shared
from scroll.objectives.routes import conjugate, filtered_diag, free, posterior, sites
from scroll.objectives.terms import log_evidence, none
from sweeps import cases

N, H = 12, 3
HALVES = "the exact posterior of any half of the rows"  # two parts' own agreement


def _cautious(p):
    """The posterior under a prior of twice the precision."""
    return conjugate(p._replace(alpha=2 * p.alpha))


def _widened(p):
    """The cautious posterior with a learned covariance added."""
    bound = _cautious(p)
    return Belief(bound.mean, Sum(bound.cov, p.added))


def _halved(p):
    """The learned belief, with half of its standard deviation."""
    return Belief(p.free.mean, Diag(p.free.cov.var / 4))


def _prior_only(p):
    """N(0, I/alpha): no rows, no learned belief."""
    width = p.psi.shape[-1]
    var = (1 / p.alpha)[..., None].expand(*p.alpha.shape, width)
    return Belief(torch.zeros_like(var), Diag(var))


def _forgetful(p):
    """A filter that predicts each point from the prior alone."""
    path = _prior_only(p).project(p.psi)
    return Filtered(torch.zeros_like(p.psi[..., 0, :]), _prior_only(p).cov, path)


def _other_half(belief, p):
    """Each half of the rows is predicted by the posterior of the other half."""
    middle = p.y.shape[-1] // 2
    at = []
    for test, train in ((slice(middle), slice(middle, None)), (slice(middle, None), slice(middle))):
        one = posterior(p.alpha, *sites(p, p.psi[..., train, :], p.centred()[..., train]))
        at.append(one.project(p.psi[..., test, :]))
    mean, var = (torch.cat(each, -1) for each in zip(*at, strict=True))
    return Moments(mean + p.offset, var)


def _inflated(belief, p):
    """One belief for every point, with 10 % more variance."""
    at = shared(belief, p)
    return Moments(at.mean, 1.1 * at.var)


def _minus_crps(p, at):
    """-CRPS of N(m, s^2 + v)."""
    std = (p.factor.var + at.var).sqrt()
    z = (p.y - at.mean) / std
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2 * math.pi)
    return -std * (z * torch.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))


def _laplace(belief, p):
    """log p(mu) of a Laplace prior with precision alpha."""
    scale = (2 * p.alpha).sqrt()[..., None]
    return ((scale / 2).log() - scale * belief.mean.abs()).sum(-1)


def _noise_prior(belief, p):
    """A normal prior of log noise: it says nothing about w."""
    return -0.5 * p.factor.var[..., 0].log().square()


def _runs_away(belief, p):
    """log Z_w, by hand."""
    return belief.log_evidence(p.alpha)


BOUND = {"needs_every_row": True, "needs_gaussian": True}
cautious = Route(_cautious, gives={ONE_BELIEF, REMOVABLE_POINTS}, **BOUND)
widened = Route(_widened, gives={REMOVABLE_POINTS}, needs_added=True, **BOUND)
halved = Route(_halved, needs_belief=True)
prior_only = Route(_prior_only, diagonal=True)
forgetful = Route(_forgetful, gives={EARLIER_BELIEFS}, diagonal=True, **BOUND)
by_halves = Route(_cautious, gives={HALVES}, name="by_halves", **BOUND)
other_half = Cavity(_other_half, needs=HALVES, contains_prior=True, needs_gaussian=True)
inflated = Cavity(_inflated)
minus_crps = Score(_minus_crps, needs_gaussian=True)
laplace = PriorTerm(_laplace)
noise_prior = PriorTerm(_noise_prior, counts_prior=False, needs_gaussian=True)
runs_away = PriorTerm(_runs_away, unbounded_alpha=True)

# name -> (objective, covariance): every own part, with ours and with each other
OBJECTIVES = {
    "own bound route": (Objective(cautious), "full"),
    "own bound route, our leave-one-out": (Objective(cautious, leave_one_out, prior=none), "full"),
    "own hybrid route": (Objective(widened, leave_one_out, prior=none), "diag"),
    "own free route": (Objective(halved), "diag"),
    "own route without rows": (Objective(prior_only), "diag"),
    "own filter, our sequence": (Objective(forgetful, sequential, prior=none), "diag"),
    "own route and cavity": (Objective(by_halves, other_half, prior=none), "full"),
    "own cavity": (Objective(cavity=inflated), "lowrank"),
    "own cavity on our posterior": (Objective(conjugate, inflated), "full"),
    "own score": (Objective(score=minus_crps), "full"),
    "own score, left out": (Objective(conjugate, leave_one_out, minus_crps, none), "full"),
    "own prior term": (Objective(prior=laplace), "none"),
    "own hyperprior": (Objective(conjugate, leave_one_out, prior=noise_prior), "full"),
    "all own": (Objective(by_halves, other_half, minus_crps, noise_prior), "full"),
    "all own, free": (Objective(halved, inflated, minus_crps, laplace), "diag"),
}


def head(name, **kwargs):
    objective, covariance = OBJECTIVES[name]
    return RegressionHead(H, covariance=covariance, method=objective, **kwargs)


def data(n=N):
    psi = torch.randn(n, H)
    return psi, psi @ torch.tensor([1.0, -0.5, 0.2]) + 0.3 * torch.randn(n)


def problem(psi, y, **kwargs):
    return Problem(psi, y, Gaussian(torch.tensor(0.3)), torch.tensor(0.7), **kwargs)


def condition(head, psi, y):
    return head if head.batches else head.condition(psi, y)


@pytest.mark.parametrize("part", [cautious, other_half, minus_crps, laplace], ids=lambda p: p.name)
def test_a_part_is_a_value(part):
    assert part.name == part.compute.__name__[1:]
    assert repr(part) == f"{type(part).__name__}({part.name})"
    assert part.__doc__ == part.compute.__doc__
    assert copy.deepcopy(part) == part == pickle.loads(pickle.dumps(part))
    assert hash(copy.deepcopy(part)) == hash(part)
    with pytest.raises(AttributeError):
        part.name = "other"


def test_objectives_of_own_parts_are_the_sums_they_say():
    psi, y = data()
    x, t = psi.numpy(), y.numpy()
    p = problem(psi, y)
    ours = Objective(prior=none).loss(p._replace(free=conjugate(p._replace(alpha=2 * p.alpha))))
    torch.testing.assert_close(Objective(cautious, prior=none).loss(p), ours)

    total = 0.0  # each half by scipy, from the other half
    for test, train in ((slice(6), slice(6, None)), (slice(6, None), slice(6))):
        cov = x[train] @ x[train].T / 0.7 + 0.09 * torch.eye(6).numpy()
        gain = torch.linalg.solve(torch.tensor(cov), torch.tensor(x[train] @ x[test].T / 0.7)).T
        mean = (gain @ torch.tensor(t[train])).numpy()
        var = (
            torch.tensor(x[test] @ x[test].T / 0.7)
            - gain @ torch.tensor(x[train] @ x[test].T / 0.7)
        ).diag()
        total += stats.norm.logpdf(t[test], mean, (0.09 + var).sqrt().numpy()).sum()
    loss = Objective(by_halves, other_half, prior=none).loss(p)
    assert loss.item() == pytest.approx(-total, rel=1e-9)

    free_belief = Belief(torch.randn(H), Full(0.1 * torch.eye(H)))
    p = p._replace(free=free_belief)
    predictive = scroll.predictive.Normal(
        *shared(free_belief, p)[:1], torch.full((N,), 0.09), shared(free_belief, p).var
    )
    crps = scroll.metrics.crps(predictive, y)
    prior = stats.laplace.logpdf(free_belief.mean.numpy(), scale=(2 * 0.7) ** -0.5).sum()
    loss = Objective(score=minus_crps, prior=laplace).loss(p).item()
    assert loss == pytest.approx(N * crps.item() - prior, rel=1e-6)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_heads_train_predict_and_stack(name):
    psi, y = data()
    one = head(name)
    adam = torch.optim.Adam([p for p in one.parameters() if p.requires_grad], lr=0.03)
    losses = []
    for _ in range(30):
        adam.zero_grad()
        loss = one.loss(psi, y, total=N)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    predictive = condition(one, psi, y)(psi)
    assert predictive.log_prob(y).isfinite().all()
    assert predictive.variance.gt(0).all()
    assert one.method == "your own"
    again = copy.deepcopy(one)
    torch.testing.assert_close(again(psi).mean, predictive.mean, rtol=0, atol=0)
    stacked = head(name, replicates=(2,))
    state = {k: v.expand(2, *v.shape) if v.dim() else v for k, v in one.state_dict().items()}
    stacked.load_state_dict(state)
    both = stacked.loss(psi.expand(2, N, H), y.expand(2, N), total=N)
    torch.testing.assert_close(both, one.loss(psi, y, total=N).expand(2), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_only_rows_that_a_route_needs_are_asked_for(name):
    psi, y = data()
    one = head(name)
    if OBJECTIVES[name][0].route.needs_every_row:
        with pytest.raises(ValueError, match="`psi` must hold all 24 training rows"):
            one.loss(psi, y, total=2 * N)
        with pytest.raises(RuntimeError, match="`head` must be given the training data"):
            one(psi)
    else:
        whole = one.loss(psi, y, total=N)
        parts = [one.loss(psi[i : i + 4], y[i : i + 4], total=N) for i in range(0, N, 4)]
        torch.testing.assert_close(torch.stack(parts).mean(), whole, rtol=1e-10, atol=0)
        with pytest.raises(ValueError, match="`method` must bind the belief to data"):
            one.condition(psi, y)


@pytest.mark.parametrize("name", cases(["own bound route", "own free route", "all own"], "all own"))
@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
def test_own_parts_compile(name):
    psi, y = data()
    one = head(name)
    compiled = torch.compile(one.loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(psi, y, total=N), one.loss(psi, y, total=N))


def test_a_free_route_is_what_predicts():
    psi, _ = data()
    one = head("own free route", floor=0.0)
    var = one.family().var / 4
    torch.testing.assert_close(one.message(psi).var, Diag(var).quad(psi[None]))
    from_prior = head("own route without rows", alpha=4.0)
    torch.testing.assert_close(from_prior(psi).belief_var, psi.square().sum(-1) / 4)


def test_prior_gradient_of_an_own_term():
    psi, y = data()
    whole, apart = head("own prior term"), head("own prior term")
    apart.load_state_dict(whole.state_dict())
    whole.loss(psi, y, total=N).backward()
    apart.loss(psi, y, total=N, prior=False).backward()
    prior = PriorGradient(apart, total=N)
    prior.find()
    prior.add()
    for a, b in zip(whole.parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_diagnosis_goes_by_what_the_parts_declare():
    psi, y = data()
    small = {"init_std": 1e-3, "floor": 0.0}
    ours = RegressionHead(H, covariance="diag", **small)
    own = RegressionHead(H, covariance="diag", method=Objective(prior=runs_away), **small)
    own.load_state_dict(ours.state_dict())
    assert own.diagnose(psi, y).alpha_runs_away == ours.diagnose(psi, y).alpha_runs_away
    torch.testing.assert_close(own.diagnose().runaway, ours.diagnose().runaway)
    assert head("own prior term").diagnose().runaway is None
    assert "binds the belief" in str(head("own bound route").diagnose(psi, y))
    assert head("own free route").diagnose(psi).noise_share is not None


@pytest.mark.parametrize("name", ["own free route", "all own", "own bound route"])
def test_the_distributed_loss_takes_own_parts(name):
    psi, y = data()
    one = head(name)
    loss = scroll.distributed.Loss(torch.nn.Identity(), one, total=N)
    torch.testing.assert_close(loss(psi, y), one.loss(psi, y, total=N))


@pytest.mark.parametrize("name", ["own free route", "own score", "own route and cavity"])
def test_a_refit_takes_own_parts(name):
    psi, y = data()
    bound = scroll.refit(condition(head(name), psi, y), psi, y)
    assert bound(psi).log_prob(y).isfinite().all()


def wrong_covariance():
    liar = Route(lambda p: Belief(p.psi.new_zeros(1, H), Diag(p.psi.new_ones(1, H))), **BOUND)
    return RegressionHead(H, method=Objective(liar)).condition(*data())


def another_sum():
    def doubled(p):
        return Belief(conjugate(p).mean, Sum(conjugate(p).cov, Scaled(p.added, p.alpha)))

    liar = Route(doubled, gives={REMOVABLE_POINTS}, needs_added=True, **BOUND)
    one = RegressionHead(H, covariance="diag", method=Objective(liar, leave_one_out, prior=none))
    return one.condition(*data())


REFUSED = {
    "a route that gives one belief only": (
        lambda: Objective(Route(_cautious, **BOUND), leave_one_out, prior=none),
        r"`route` must give a belief that each point can be taken out of for the `leave_one_out` "
        r"cavity, but got `cautious`. Use route `conjugate` .*, or cavity `shared`",
    ),
    "a route of another agreement": (
        lambda: Objective(by_halves, shared),
        r"`route` must give one belief .* for the `shared` cavity, but got `by_halves`. Use route",
    ),
    "a cavity of another agreement": (
        lambda: Objective(free, other_half, prior=none),
        r"`route` must give the exact posterior of any half of the rows for the `other_half` "
        r"cavity, but got `free`.*Use cavity `shared`",
    ),
    "a sequence without one": (
        lambda: Objective(cautious, sequential, prior=none),
        r"`route` must give the beliefs before each point .*, but got `cautious`",
    ),
    "a reason of its own": (
        lambda: Objective(Route(_halved, gives=(), reason="it is shy"), inflated),
        r"for the `inflated` cavity, but got `halved`: it is shy\. Use route",
    ),
    "an own cavity that contains the prior": (
        lambda: Objective(by_halves, other_half, prior=log_evidence),
        r"`prior` must not count the prior, which the `other_half` cavity already contains, but "
        r"got `log_evidence`",
    ),
    "an own prior term that counts it": (
        lambda: Objective(conjugate, leave_one_out, prior=laplace),
        r"`prior` must not count the prior, .* but got `laplace`",
    ),
    "an own score of Gaussians": (
        lambda: ClassificationHead(H, 3, method=Objective(score=minus_crps)),
        r"`likelihood` must be Gaussian for method 'your own', but got Probit",
    ),
    "an own cavity of Gaussians": (
        lambda: ClassificationHead(
            H, 3, method=Objective(cavity=Cavity(_inflated, needs_gaussian=True))
        ),
        r"`likelihood` must be Gaussian for method 'your own', but got Probit",
    ),
    "an own prior term of Gaussians": (
        lambda: ClassificationHead(H, 3, method=Objective(prior=noise_prior)),
        r"`likelihood` must be Gaussian",
    ),
    "the weight of nothing": (
        lambda: RegressionHead(
            H, method=Objective(prior=PriorTerm(_laplace, zero=True)), prior_weight=2.0
        ),
        r"`prior_weight` must be left at 1",
    ),
    "a covariance that a route does not learn": (
        lambda: RegressionHead(H, covariance="lowrank", method=Objective(prior_only)),
        r"`covariance` must be 'diag', the covariance that route `prior_only` returns",
    ),
    "a covariance that was not declared": (
        wrong_covariance,
        r"`route` must return a belief with a `Full` covariance, but got `Diag` from",
    ),
    "a learned covariance that was changed": (
        another_sum,
        r"`route` must return a belief with a `Full` covariance, plus `problem.added`, but got "
        r"`Sum` from `doubled`",
    ),
    "two learned covariances": (
        lambda: Route(_halved, needs_belief=True, needs_added=True),
        r"`needs_added` must be False for a route with `needs_belief`",
    ),
    "one description that is not in a set": (
        lambda: Route(_cautious, gives=REMOVABLE_POINTS),
        r"`gives` must be a set, but got 'a belief that each point .*'. Put it in a set",
    ),
    "a part without a function": (
        lambda: Score("crps"),
        r"`compute` must be a function, but got 'crps'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_combinations_are_refused_from_declarations(case):
    attempt, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        attempt()
    assert "\n" not in str(caught.value)


def test_ours_are_values_of_the_same_kinds():
    """What is declared is all there is to ours: copies under other names do the same."""
    psi, y = data()
    p = problem(psi, y)
    other = Route(
        filtered_diag.compute, gives=filtered_diag.gives, diagonal=True, name="x", **BOUND
    )
    named = Objective(filtered_diag, sequential, prior=none)
    copied = Objective(other, copy.deepcopy(sequential), prior=none)
    torch.testing.assert_close(copied.loss(p), named.loss(p), rtol=0, atol=0)
