"""Stacks: replicate r equals run r alone for every method; kernels, memory, size of a stack."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import layer_norm
from torch.profiler import ProfilerActivity, profile

from scroll import RegressionHead
from scroll._core import linalg
from scroll.training import memory
from scroll.training.batches import Rows
from scroll.training.bodies import ARCHITECTURES, MLP
from scroll.training.loop import train
from scroll.training.memory import footprint, stack_size
from scroll.training.network import Network
from scroll.training.settings import Settings
from scroll_paper.models.method import Setting, prepared
from scroll_paper.models.methods import TABLE_METHODS

R, N, D, H = 4, 24, 3, 6
SEEDS = (5, 6, 7, 1005)
TRAINED = {  # in float32, rounding depends on the size of the stack
    key: m.training
    for key, m in TABLE_METHODS.items()
    if not (m.trained_as or key.endswith("-single"))
}
LABELS = [key for key in TRAINED if key.startswith(("ova", "ordinal", "gaussreg", "softmax"))]
LABELS += ["vbll-softmax"]


def name_of(key):
    """A set of the kind that a method is for."""
    return "wine_quality" if key in LABELS else "yacht"


BATCHABLE = [
    key for key, m in TRAINED.items() if m.head(H, (1,), Setting(name_of(key), key)).batches
]
# "mean" and "inputs" train nothing, so that they are as good at the first look as ever.
STOP_TOGETHER = {"mean", "inputs", "ova-laplace-closed-full"}


def data(seed, n=N, r=R):
    """Noise enough that held-out scores soon get worse, and not all at once."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(r, n, D, generator=g)
    noise = torch.linspace(0.2, 1.0, r)[:, None] * torch.randn(r, n, generator=g)
    return Rows(x, torch.sin(2 * x[..., 0]) + noise)


def targets(key, rows):
    """The same as three labels, for a method that needs them."""
    if key not in LABELS:
        return rows
    return Rows(rows.x.double(), torch.bucketize(rows.y, torch.tensor([-0.5, 0.5])))


def trained(key, which, batch=None):
    """The replicates `which` of one experiment, as a stack."""
    method, keep = TRAINED[key], torch.tensor(which)
    rows, held = (targets(key, data(part)).take(keep) for part in (0, 1))
    seeds = [SEEDS[r] for r in which]
    grid = method.knobs(name_of(key))
    knobs = [grid[r % len(grid)] for r in which]
    setting = Setting(name_of(key), key, width=H)
    bodies = [ARCHITECTURES[r] for r in which]
    start = prepared(method, setting, bodies, seeds, knobs, rows).double()
    settings = Settings(
        steps=90,
        every=3,
        patience=3,
        decay=0.01 * (N if method.mean_form else 1),
        batch=batch,
    )
    return train(start, rows, held, settings, seeds=seeds, score=method.score)


def compare(key, batch=None):
    together = trained(key, range(R), batch)
    if key not in STOP_TOGETHER:
        assert len(set(together.steps.tolist())) > 1  # some leave the stack before others
    new = data(2)
    with torch.no_grad():
        predicted = together.network(new.x)
    for r in range(R):
        alone = trained(key, [r], batch)
        assert alone.steps.item() == together.steps[r].item()
        assert alone.step.item() == together.step[r].item()
        torch.testing.assert_close(together.score[r], alone.score[0], rtol=1e-6, atol=0)
        for p, q in zip(alone.network.parameters(), together.network.parameters(), strict=True):
            torch.testing.assert_close(q[r], p[0], rtol=1e-6, atol=1e-9)
        with torch.no_grad():
            want = alone.network(new.x[[r]])
        torch.testing.assert_close(predicted.mean[r], want.mean[0], rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(predicted.variance[r], want.variance[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("key", TRAINED)
def test_a_replicate_of_a_stack_is_the_solo_run(key):
    compare(key)


@pytest.mark.parametrize("key", BATCHABLE)
def test_a_replicate_of_a_stack_is_the_solo_run_in_mini_batches(key):
    compare(key, batch=10)


def test_what_was_kept_is_what_predicts():
    """The held-out score of the network that comes back is the reported one: of a network with
    dropout, in eval."""
    done = trained("mc-dropout", range(R))
    with torch.no_grad():
        again = TRAINED["mc-dropout"].score(done.network, data(1))
    torch.testing.assert_close(again, done.score, rtol=1e-9, atol=0)


# What stacks are computed with


def test_row_square_is_the_sum_of_squares_twice_differentiable():
    x = torch.randn(2, 5, 3, requires_grad=True)
    torch.testing.assert_close(linalg.row_square(x), torch.linalg.vecdot(x, x), rtol=1e-12, atol=0)
    assert gradcheck(linalg.row_square, x)
    assert gradgradcheck(linalg.row_square, x)
    by = torch.randn(2, 5)
    ours, theirs = (
        torch.autograd.grad((by * f(x)).sum(), x)[0]
        for f in (linalg.row_square, lambda t: t.norm(dim=-1) ** 2)
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    each = torch.vmap(linalg.row_square)(x)
    torch.testing.assert_close(each, linalg.row_square(x), rtol=0, atol=0)


def test_last_and_square_is_both_twice_differentiable():
    x = torch.randn(2, 5, 4, requires_grad=True)
    last, square = linalg.last_and_square(x)
    torch.testing.assert_close(last, x[..., 3], rtol=0, atol=0)
    torch.testing.assert_close(square, x[..., :3].norm(dim=-1) ** 2, rtol=1e-12, atol=0)
    assert gradcheck(linalg.last_and_square, x)
    assert gradgradcheck(linalg.last_and_square, x)
    for each, joint in zip(torch.vmap(linalg.last_and_square)(x), (last, square), strict=True):
        torch.testing.assert_close(each, joint, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(5, 3), (4, 7, 50)])
def test_standardised_rows_are_layer_norm_forward_and_backward(shape):
    """The Function that a GPU uses, here on a CPU."""
    x = (3 * torch.randn(shape) + 2).requires_grad_()
    by = torch.randn(shape)
    ours, _ = linalg.Standardised.apply(x, 1e-5)
    theirs = layer_norm(x, shape[-1:], eps=1e-5)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    grads = [torch.autograd.grad(y, x, by)[0] for y in (ours, theirs)]
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-12)
    assert gradcheck(lambda t: linalg.Standardised.apply(t, 1e-5)[0], x[..., :2, :])
    each = torch.vmap(lambda t: linalg.Standardised.apply(t, 1e-5)[0])(x[None])[0]
    torch.testing.assert_close(each, theirs, rtol=1e-9, atol=1e-12)


def test_standardised_rows_that_hardly_vary_are_layer_norms_too():
    """Where eps counts, and a row of one value, which is zero with a gradient of 1/sqrt(eps)."""
    x = torch.cat([1 + 1e-3 * torch.randn(3, 8), torch.full((1, 8), 0.5)]).requires_grad_()
    by = torch.randn(4, 8)
    ours, theirs = linalg.Standardised.apply(x, 1e-5)[0], layer_norm(x, (8,), eps=1e-5)
    assert (ours[-1] == 0).all()
    # x less its mean is known to 1e-16, times 1/sqrt(eps) = 316
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    grads = [torch.autograd.grad(y, x, by)[0] for y in (ours, theirs)]
    torch.testing.assert_close(*grads, rtol=1e-9, atol=1e-9)


# How large a stack may be


def mlp(method="scroll", covariance="full"):
    head = RegressionHead(32, covariance=covariance, method=method, replicates=(1,))
    return Network(MLP(D, 32, 2, "tanh+LN", (1,)), head)


def peak(network, rows):
    """The most bytes that one step holds beyond parameters and data, by the allocator's count."""
    learned = [p for p in network.parameters() if p.requires_grad]
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        loss = network.loss(rows, rows.y.shape[1], 0.0).sum()
        torch.autograd.grad(loss, learned, allow_unused=True)
        del loss
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most


@pytest.mark.parametrize(
    ("method", "covariance"),
    [("scroll", "full"), ("map", "none"), ("closed", "full"), ("hybrid", "diag")],
)
def test_the_footprint_covers_a_step_within_a_factor_of_three(method, covariance):
    for n in (100, 1000):
        network, rows = mlp(method, covariance), data(0, n, 1)
        measured = peak(network, rows)
        assert measured > 8 * 2 * n * 32  # two layers, at least
        assert measured < footprint(network, rows) < 3 * measured


def test_the_footprint_is_linear_in_the_rows_of_a_batch():
    network, rows = mlp(), data(0, 1200, 1)
    some = lambda n: Rows(rows.x[:, :n], rows.y[:, :n])
    at = [footprint(network, some(n)) for n in (300, 600, 900)]
    assert at[2] - at[1] == at[1] - at[0] > 0
    parameters = 8 * sum(p.numel() for p in network.parameters())
    assert 2 * at[0] - at[1] >= 6 * parameters  # what no rows would take
    # of a batch, only the rows themselves are all there
    unused = 2 * 8 * (rows.x.numel() + rows.y.numel()) * (1200 - 300) // 1200
    assert footprint(network, rows, batch=300) == at[0] + unused


def test_a_stack_is_what_fits_and_on_a_cpu_what_is_cached(monkeypatch):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    monkeypatch.setattr(memory, "available", lambda device: 1000)
    assert stack_size(each=60, rows=1, device=gpu) == 10  # of 60 %
    assert stack_size(each=60, rows=1, device=cpu) == 10
    assert stack_size(each=601, rows=1, device=gpu) == 1  # one is always tried
    monkeypatch.setattr(memory, "available", lambda device: 10**12)
    assert stack_size(each=1000, rows=500, device=gpu) == 6 * 10**8
    assert stack_size(each=1000, rows=500, device=cpu) == 24  # 12,000 rows
    assert stack_size(each=1000, rows=20_000, device=cpu) == 1


def test_there_is_memory():
    assert 2**20 < memory.available(torch.device("cpu")) < 2**50
