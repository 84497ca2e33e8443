"""The training loop: replicates share a graph and nothing else."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from scroll import RegressionHead
from scroll.training.batches import Feed, Rows
from scroll.training.bodies import MLP
from scroll.training.loop import train, train_in_parts
from scroll.training.network import Network, held_out_nll, join, stack, take
from scroll.training.settings import Settings
from scroll.training.state import Trained

R, N, D, H = 4, 40, 3, 8


def make(method="scroll", architecture="tanh+LN"):
    def network(replicates):
        body = MLP(D, H, architecture=architecture, replicates=replicates)
        return Network(body, RegressionHead(H, method=method, replicates=replicates))

    return network


def data(seed=0, r=R, n=N):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(r, n, D, generator=g)
    y = torch.sin(2 * x[..., 0]) + 0.3 * torch.randn(r, n, generator=g)
    return Rows(x, y)


def one(rows, r):
    return Rows(rows.x[r : r + 1], rows.y[r : r + 1])


@pytest.mark.parametrize("batch", [None, 16])
@pytest.mark.parametrize("method", ["scroll", "closed", "hybrid"])
def test_a_replicate_of_a_stack_is_the_solo_run(method, batch):
    """Stops, checkpoints, mini-batches and leaving the stack included."""
    if batch and method != "scroll":
        return
    settings = Settings(steps=150, every=1, patience=6, batch=batch)
    rows, held = data(), data(1)
    seeds = (3, 5, 8, 13)
    together = train(stack(make(method), seeds), rows, held, settings, seeds=seeds)
    assert len(set(together.steps.tolist())) > 1  # they stop at different times
    for r, seed in enumerate(seeds):
        alone = train(
            stack(make(method), [seed]), one(rows, r), one(held, r), settings, seeds=[seed]
        )
        assert alone.steps.item() == together.steps[r].item()
        torch.testing.assert_close(alone.score[0], together.score[r], rtol=1e-6, atol=0)
        for p, q in zip(alone.network.parameters(), together.network.parameters(), strict=True):
            torch.testing.assert_close(p[0], q[r], rtol=1e-6, atol=1e-9)


def test_the_kept_network_has_the_best_score():
    rows, held = data(), data(1)
    done = train(stack(make(), range(R)), rows, held, Settings(steps=100, patience=5))
    torch.testing.assert_close(held_out_nll(done.network, held), done.score)
    assert (done.step <= done.steps).all()
    start = held_out_nll(stack(make(), range(R)), held)
    assert (done.score < start).all()


def test_an_accident_stays_with_its_replicate():
    """NaN rows in one replicate: it stops where it was, the others never notice."""
    rows, held = data(), data(1)
    bad = Rows(rows.x.clone(), rows.y)
    bad.x[1, 0, 0] = torch.nan
    settings = Settings(steps=60, patience=100)
    clean = train(stack(make(), range(R)), rows, held, settings)
    hurt = train(stack(make(), range(R)), bad, held, settings)
    for r in (0, 2, 3):
        torch.testing.assert_close(hurt.score[r], clean.score[r], rtol=1e-9, atol=0)
    assert all(p.isfinite().all() for p in hurt.network.parameters())
    assert hurt.steps[1] == 0


def test_each_replicate_has_its_own_step_size():
    rows, held = data(), data(1)
    lr = torch.tensor([0.03, 0.0, 0.03, 0.1])
    start = stack(make(), range(R))
    done = train(start, rows, held, Settings(steps=10, lr=lr))
    moved = (done.network.head.mean - start.head.mean).abs().flatten(1).sum(-1)
    assert moved[1] == 0
    assert (moved[[0, 2, 3]] > 0).all()


def test_the_given_network_is_left_alone_and_runs_repeat():
    rows, held = data(), data(1)
    start = stack(make(), range(R))
    before = {k: v.clone() for k, v in start.state_dict().items()}
    first, second = (train(start, rows, held, Settings(steps=20)) for _ in range(2))
    for k, v in start.state_dict().items():
        torch.testing.assert_close(v, before[k], rtol=0, atol=0)
    torch.testing.assert_close(first.score, second.score, rtol=0, atol=0)


def test_mini_batches_see_every_row_and_estimate_the_same_loss():
    rows = data(r=2)
    feed = Feed(rows, 10, torch.arange(2), steps=N // 10)
    feed.refill()
    seen = torch.cat([feed.part(i).y for i in range(N // 10)], 1)
    torch.testing.assert_close(seen.sort(-1).values, rows.y.sort(-1).values)
    network = stack(make(), range(2))
    parts = torch.stack([network.loss(feed.part(i), N, 0.01) for i in range(N // 10)])
    torch.testing.assert_close(parts.mean(0), network.loss(rows, N, 0.01))


def test_a_bound_head_takes_no_mini_batches():
    with pytest.raises(ValueError, match=r"`batch` must be None for a method whose"):
        train(stack(make("closed"), range(R)), data(), data(1), Settings(batch=8))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own compiler
def test_a_compiled_loss_trains_the_same():
    """Leaving the stack included, where it is compiled anew."""
    rows, held, seeds = data(), data(1), (3, 5, 8, 13)
    plain = Settings(steps=60, every=5, patience=2)
    first = train(stack(make(), seeds), rows, held, plain)
    second = train(stack(make(), seeds), rows, held, replace(plain, compile=True))
    assert len(set(first.steps.tolist())) > 1
    assert first.steps.tolist() == second.steps.tolist()
    torch.testing.assert_close(first.score, second.score, rtol=1e-9, atol=0)


def test_replicates_are_handed_out_as_they_finish():
    rows, held, seeds = data(), data(1), (3, 5, 8, 13)
    settings = Settings(steps=150, every=1, patience=6)
    parts = list(train_in_parts(stack(make("closed"), seeds), rows, held, settings))
    together = train(stack(make("closed"), seeds), rows, held, settings)
    assert len(parts) > 1
    assert sorted(torch.cat([p.which for p in parts]).tolist()) == [0, 1, 2, 3]
    for part in parts:  # conditioned on its own rows, and where it was best
        torch.testing.assert_close(held_out_nll(part.network, held.take(part.which)), part.score)
        torch.testing.assert_close(part.score, together.score[part.which])


def test_progress_is_told():
    calls = []
    done = train(
        stack(make(), range(R)),
        data(),
        data(1),
        Settings(steps=200, patience=3),
        watch=lambda stopped, best: calls.append((stopped, best)),
    )
    assert isinstance(done, Trained)
    assert [t[0] for t in calls] == sorted(t[0] for t in calls)
    assert calls[-1][1] == pytest.approx(done.score.min().item())


def test_layer_norm_follows_the_activation():
    body, x = MLP(D, H, architecture="relu+LN"), torch.randn(N, D)
    layer = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.LayerNorm(H, elementwise_affine=False))
    torch.testing.assert_close(body(x), layer(x @ body.weights[0]))


def test_depth_and_names_are_checked():
    body = MLP(D, H, depth=2)
    assert [tuple(w.shape) for w in body.weights] == [(D, H), (H, H)]
    with pytest.raises(ValueError, match=r"`architecture` must be one of 'relu', 'relu\+LN'"):
        MLP(D, H, architecture="gelu")
    with pytest.raises(ValueError, match="`architecture` must be one name, or one name per"):
        MLP(D, H, architecture=("tanh", "relu"), replicates=(3,))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"lr": -1.0}, "`lr` must be zero or positive, and finite, but got -1.0"),
        ({"lr": float("nan")}, "`lr` must be zero or positive, and finite"),
        ({"decay": -1.0}, "`decay` must be zero or positive"),
        ({"weight_decay": "a"}, "`weight_decay` must be a number, but got 'a'"),
        ({"batch": 0}, "`batch` must be a positive integer, but got 0"),
        ({"batch": 2.5}, "`batch` must be a positive integer, but got 2.5"),
    ],
)
def test_settings_that_makes_no_sense_are_refused(how, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Settings(**how)


def test_a_buffer_that_all_replicates_share_is_not_cut():
    """Although it is as long as the stack."""

    class Scaled(nn.Module):
        def __init__(self, lead):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(*lead, 2, 5) * 0.5)
            self.register_buffer("scale", torch.tensor([1.0, 100.0]))

        def forward(self, x):
            return (x / self.scale @ self.weight).tanh()

    x = torch.randn(2, 60, 2) * torch.tensor([1.0, 100.0])
    rows = Rows(x, x[..., 1] / 100 + 0.1 * torch.randn(2, 60))
    made = stack(lambda lead: Network(Scaled(lead), RegressionHead(5, replicates=lead)), (0, 1))
    ends = [
        train(made, rows, rows, Settings(steps=300, patience=20, lr=torch.tensor([lr, 0.03])))
        for lr in (0.0, 0.03)
    ]
    torch.testing.assert_close(ends[0].score[1], ends[1].score[1], rtol=1e-12, atol=0)


def test_the_parts_of_a_stack_join_to_the_stack():
    """Parameters, buffers and the number of replicates; the parts are left as they are."""
    made = make(architecture=("tanh", "relu", "relu+LN", "tanh+LN"))((R,))
    keep = torch.tensor([True, True, False, False])
    first, second = take(made, keep), take(made, ~keep)
    again = join(first, second)
    for name, value in made.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], value, rtol=0, atol=0)
        torch.testing.assert_close(first.state_dict()[name], value[:2], rtol=0, atol=0)
    assert again.head.replicates == again.body.replicates == (R,)
    assert first.head.replicates == second.body.replicates == (2,)
    assert [p.requires_grad for p in again.parameters()] == [
        p.requires_grad for p in made.parameters()
    ]
