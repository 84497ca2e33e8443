"""The optimiser of a stack against torch's own: AdamW, its schedule, its averages."""

from math import cos, pi

import numpy as np
import pytest
import torch
from torch import nn

from scroll import ClassificationHead, RegressionHead
from scroll.training.batches import Feed, Rows
from scroll.training.bodies import MLP, Matern, Stacked, Tabular
from scroll.training.loop import train
from scroll.training.network import Network, held_out_nll, set_replicate, stack
from scroll.training.settings import Settings, step_factors
from scroll.training.state import TrainingState

R, N, D, H = 2, 24, 3, 6
SEEDS = (3, 5)
LR = (0.03, 0.01)
DECAY, SHRINK = 0.02, 0.3


def layers():
    return nn.Sequential(nn.Linear(D, H), nn.Tanh(), nn.Linear(H, H), nn.Tanh())


BODIES = {  # with some replicates; weight decay is for all of their parameters
    "mlp": lambda lead: MLP(D, H, 2, "tanh+LN", lead),
    "layers": lambda lead: Stacked(layers(), H, lead),
    "tabular": lambda lead: Tabular(D - 1, 1, H, 2, wavy=True, replicates=lead),
    "matern": lambda lead: Matern(D, H, lead),
}
HEADS = {
    "real": lambda lead: RegressionHead(H, replicates=lead),
    "labels": lambda lead: ClassificationHead(H, 3, replicates=lead),
}


def make(body="mlp", head="real"):
    return lambda lead: Network(BODIES[body](lead), HEADS[head](lead))


def data(seed=0, head="real", noise=0.3):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(R, N, D, generator=g)
    f = torch.sin(2 * x[..., 0]) + noise * torch.randn(R, N, generator=g)
    return Rows(x, f if head == "real" else (f > 0).long() + (f > 0.5).long())


def multiplier(step, steps):
    """By hand: a cosine from a 25th up to one, over a tenth of the steps, and one down to zero."""
    done = step / steps
    if done < 0.1:
        return 1 / 25 + (1 - 1 / 25) * (1 - cos(pi * done / 0.1)) / 2
    return (1 + cos(pi * (done - 0.1) / 0.9)) / 2


def by_torch(r, rows, settings, body="mlp", head="real"):
    """Yields the solo network after each step of torch.optim.AdamW under its LambdaLR."""
    torch.manual_seed(SEEDS[r])
    solo = make(body, head)(())
    groups = [
        {"params": [p for p in part.parameters() if p.requires_grad], "weight_decay": decay}
        for part, decay in ((solo.body, SHRINK), (solo.head, 0.0))
    ]
    adam = torch.optim.AdamW([g for g in groups if g["params"]], lr=LR[r])
    factors = lambda step: (
        1.0 if settings.schedule == "constant" else multiplier(step, settings.steps)
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, factors)
    for _ in range(settings.steps):
        adam.zero_grad()
        loss = N * solo.head.loss(solo.body(rows.x[r]), rows.y[r], total=N)
        (loss + DECAY * sum(p.square().sum() for p in solo.body.parameters())).backward()
        adam.step()
        schedule.step()
        yield solo


def falling():
    """A score that every look finds better than the one before, so that the last is kept."""
    looks = 0

    def score(network, held):
        nonlocal looks
        looks += 1
        return torch.full((len(held.y),), -float(looks))

    return score


def settings(**more):
    how = {"steps": 40, "lr": torch.tensor(LR), "decay": DECAY, "every": 8, "weight_decay": SHRINK}
    return Settings(**how | more)


def same(together, r, solo, **tolerance):
    tolerance = tolerance or {"rtol": 1e-9, "atol": 1e-11}
    for p, q in zip(together.parameters(), solo.parameters(), strict=True):
        torch.testing.assert_close(p[r], q.detach(), **tolerance)


@pytest.mark.parametrize("schedule", ["constant", "one-cycle"])
@pytest.mark.parametrize(
    ("body", "head"),
    [("mlp", "real"), ("mlp", "labels"), ("layers", "real"), ("tabular", "real"),
     ("matern", "real")],
)  # fmt: skip
def test_a_stack_takes_the_steps_of_torchs_adamw(body, head, schedule):
    """Decay falls on the body's weight matrices; biases, length-scales and the head have none."""
    rows, how = data(0, head), settings(schedule=schedule)
    start = stack(make(body, head), SEEDS)
    done = train(start, rows, data(1, head), how, score=falling())
    assert done.step.tolist() == [how.steps] * R
    for r in range(R):
        *_, solo = by_torch(r, rows, how, body, head)
        same(done.network, r, solo)
        # neither left where it began
        assert not torch.allclose(start.head.mean[r], solo.head.mean, atol=1e-2)


def test_weight_decay_is_felt():
    rows = data()
    with_it, without = (
        train(stack(make(), SEEDS), rows, data(1), settings(weight_decay=w), score=falling())
        for w in (SHRINK, 0.0)
    )
    for a, b in zip(with_it.network.body.weights, without.network.body.weights, strict=True):
        assert (a.norm() < b.norm()).all()


def test_the_schedule_by_hand():
    factors = step_factors(Settings(steps=200, schedule="one-cycle"), torch.zeros(()))
    want = torch.tensor([multiplier(step, 200) for step in range(200)])
    torch.testing.assert_close(factors, want, rtol=1e-12, atol=1e-15)
    assert factors[0].item() == pytest.approx(1 / 25, rel=1e-12)
    assert factors.argmax().item() == 20
    assert factors[20].item() == 1
    assert (factors[:21].diff() > 0).all()
    assert (factors[20:].diff() < 0).all()
    assert 0 < factors[-1] < 1e-3
    assert step_factors(Settings(steps=200), torch.zeros(())).tolist() == [1]


def test_the_schedule_is_torchs_one_cycle():
    """But for where torch lets its two phases end, a step earlier."""
    steps, parameter = 1000, nn.Parameter(torch.zeros(()))
    adam = torch.optim.SGD([parameter], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        adam, 1.0, steps, pct_start=0.1, cycle_momentum=False, div_factor=25, final_div_factor=1e9
    )
    rates = []
    for _ in range(steps):
        rates.append(adam.param_groups[0]["lr"])
        adam.step()
        theirs.step()
    ours = step_factors(Settings(steps=steps, schedule="one-cycle"), torch.zeros(())).numpy()
    # the steepest step is pi/2 * 0.96 / 100
    np.testing.assert_allclose(ours, rates, rtol=0, atol=0.016)


@pytest.mark.parametrize("average", [1, 7, 1000])
def test_what_is_kept_is_the_average_at_the_best_look(average):
    """1/min(step, average) of each new point goes into the mean; by hand, over torch's AdamW."""
    rows, held = data(0, noise=1.0), data(1, noise=1.0)
    how = settings(schedule="one-cycle", average=average, steps=100, every=4)
    done = train(stack(make(), SEEDS), rows, held, how)
    assert (done.step < how.steps).any()  # the best look is not the last
    for r in range(R):
        mean, best = None, (torch.inf, 0, None)
        for step, solo in enumerate(by_torch(r, rows, how), 1):
            now = [p.detach().clone() for p in solo.parameters()]
            share = 1 / min(step, average)
            mean = now if mean is None else [
                (1 - share) * m + share * p for m, p in zip(mean, now, strict=True)
            ]  # fmt: skip
            if step % how.every == 0:
                torch.manual_seed(0)
                shown = make()(())
                with torch.no_grad():
                    for p, m in zip(shown.parameters(), mean, strict=True):
                        p.copy_(m)
                    score = -shown(held.x[r]).log_prob(held.y[r]).mean()
                if score < best[0]:
                    best = (score, step, shown)
        assert done.step[r].item() == best[1]
        torch.testing.assert_close(done.score[r], best[0], rtol=1e-9, atol=1e-12)
        same(done.network, r, best[2])
    torch.testing.assert_close(held_out_nll(done.network, held), done.score, rtol=1e-12, atol=0)


def test_a_look_at_the_average_does_not_move_the_parameters():
    """Those that go on are the steps', with averages as without."""
    rows, ends = data(), []
    for average in (1, 10):
        how = settings(average=average)
        now = TrainingState(
            stack(make(), SEEDS), Feed(rows, None, torch.arange(R), 8), data(1), how, held_out_nll
        )
        for _ in range(3):
            now.cycle(8)
        ends.append(
            (now.adam.flat.values.clone(), [p.detach().clone() for p in now.network.parameters()])
        )
    torch.testing.assert_close(*(end[0] for end in ends), rtol=0, atol=0)
    for p, q in zip(*(end[1] for end in ends), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=0)
    assert not torch.equal(now.mean, now.adam.flat.values)


@pytest.mark.parametrize("batch", [None, 10])
def test_averages_and_schedules_stay_with_their_replicate(batch):
    """Stops and leaving the stack included: each is its solo run."""
    rows, held = data(0, noise=1.0), data(1, noise=1.0)
    how = settings(
        steps=150, every=1, patience=6, schedule="one-cycle", average=5, lr=0.03, batch=batch
    )
    together = train(stack(make(), SEEDS), rows, held, how, seeds=SEEDS)
    assert len(set(together.steps.tolist())) == R  # one goes on alone
    for r, seed in enumerate(SEEDS):
        only = torch.arange(R) == r
        alone = train(stack(make(), [seed]), rows.take(only), held.take(only), how, seeds=[seed])
        assert alone.steps.item() == together.steps[r].item()
        torch.testing.assert_close(alone.score[0], together.score[r], rtol=1e-9, atol=0)
        solo = make()(())
        put_back(solo, alone.network)
        same(together.network, r, solo, rtol=1e-7, atol=1e-9)


@torch.no_grad()
def put_back(solo, alone):
    for p, q in zip(solo.parameters(), alone.parameters(), strict=True):
        p.copy_(q[0])


def test_put_is_what_the_comparisons_stand_on():
    together = stack(make(), SEEDS)
    one = make()(())
    set_replicate(together, 1, one)
    same(together, 1, one, rtol=0, atol=0)


REFUSED = {
    "schedule": ({"schedule": "cosine"}, r"be one of 'constant', 'one-cycle', but got 'cosine'"),
    "average": ({"average": 0}, "be a positive integer, but got 0"),
    "steps": ({"steps": 1.5}, r"be a positive integer, but got 1\.5"),
    "every": ({"every": -1}, "be a positive integer, but got -1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_settings(case):
    how, words = REFUSED[case]
    with pytest.raises(ValueError, match=f"`{case}` must {words}"):
        Settings(**how)
