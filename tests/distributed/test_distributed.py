"""Two processes against one: the same training, the same posterior, errors on both."""

import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
import warnings
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

import scroll
from scroll import ClassificationHead, CountHead, OrdinalHead, RegressionHead
from scroll import distributed as ours
from scroll.distributed import checkpoint
from scroll.objectives import Objective
from scroll.objectives.terms import minus_kl
from sweeps import exhaustive

ROOT = Path(__file__).parents[2]
N, D, H, K, STEPS, FIRST = 60, 4, 6, 3, 12, 43  # of 60 rows the first rank has 43
SHARDS = (slice(0, FIRST), slice(FIRST, N))

HEADS = {
    "full": partial(RegressionHead, H),
    "diag": partial(RegressionHead, H, covariance="diag"),
    "lowrank": partial(RegressionHead, H, covariance="lowrank", rank=2),
    "outputs": partial(RegressionHead, H, 2),
    "elbo": partial(RegressionHead, H, method="elbo"),
    "ova": partial(ClassificationHead, H, K),
    "gaussreg": partial(ClassificationHead, H, K, "gaussreg"),
    "ordinal": partial(OrdinalHead, H, K),
    "count": partial(CountHead, H),
    "beta": partial(RegressionHead, H, 2, beta=0.5),
    "map": partial(RegressionHead, H, covariance="none", method="map"),
    "weightless prior": partial(RegressionHead, H, prior_weight=0.0),
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def table(name):
    x = torch.randn(N, D, generator=seeded())
    real = torch.randn(N, 2, generator=seeded(1)) + x[:, :2]
    if name in ("ova", "gaussreg", "ordinal", "count"):
        return x, real[:, 0].abs().long().clamp(max=K - 1)
    return x, real if name in ("outputs", "beta") else real[:, 0]


class Direction(nn.Module):
    """Has no value where a row is zero."""

    def forward(self, x):
        return x / x.norm(dim=-1, keepdim=True)


def model(name):
    torch.manual_seed(0)
    first = Direction() if name == "elbo" else nn.Identity()
    return nn.Sequential(first, nn.Linear(D, H), nn.Tanh()), HEADS[name]()


def batches():
    """The rows of each step: of the sixth one rank has all, as of the last, which is one row."""
    for step in range(STEPS):
        rows = torch.randperm(N, generator=seeded(step))[:20]
        yield rows[rows < FIRST] if step == 5 else rows[:1] if step == STEPS - 1 else rows


def trained(loss, parts, choose, head=None):
    """With a head, its prior's gradient is found at every third step and added at all."""
    prior = head and scroll.PriorGradient(head, N)
    sgd = torch.optim.SGD([p for p in parts.parameters() if p.requires_grad], 0.05, 0.9)
    for i, rows in enumerate(batches()):  # not Adam: it cannot tell a gradient from its double
        sgd.zero_grad()
        loss(*choose(rows)).sum().backward()
        if prior:
            if i % 3 == 0:
                prior.find()
            prior.add()
        sgd.step()
    return {k: v.detach() for k, v in parts.named_parameters()}


def alone(name, weigh, apart=False):
    """In one process, by the head's own loss."""
    (body, head), (x, y), w = model(name), table(name), weights() if weigh else None

    def loss(rows):
        return head.loss(body(x[rows]), y[rows], N, None if w is None else w[rows], not apart)

    both = nn.ModuleDict({"body": body, "head": head})
    return trained(loss, both, lambda rows: (rows,), head if apart else None)


def together(rank, name, weigh, apart=False):
    """The same with a shard a rank, under DDP."""
    body, head = model(name)
    shard = SHARDS[rank]
    x, y, w = (t[shard] for t in (*table(name), weights()))
    part = ours.Loss(body, head, ours.total(len(x)), prior=not apart)

    def choose(rows):
        own = rows[(rows >= shard.start) & (rows < shard.stop)] - shard.start
        return (x[own], y[own], w[own]) if weigh else (x[own], y[own])

    return trained(DistributedDataParallel(part), part, choose, head if apart else None)


def weights():
    w = torch.rand(N, generator=seeded(2)) + 0.5
    return w / w.mean()


def bound(refit, head, rows, y, how):
    """A refit by tensors, by a stream or by weighted rows; what its posterior is."""
    torch.manual_seed(0)
    head = HEADS[head]()
    psi = torch.randn(N, H, generator=seeded(3))[rows]
    y = y[rows]
    if how == "tensor":
        given = (psi, y)
    elif how == "stream":
        given = (zip(psi.split(7), y.split(7), strict=True),) if len(y) else ([],)
    else:
        given = ([(psi, y, weights()[rows])],)
    return described(refit(head, *given))


def described(one):
    cov = one.weights.cov.quad(torch.eye(one.statistics.gram.shape[-1]))
    return {"alpha": one.alpha, "noise": one.noise, "mean": one.weights.mean, "cov": cov}


REFITS = [(name, how) for name in HEADS for how in ("tensor", "stream", "weights")
          if name in ("full", "outputs", "ova", "count") or how == "tensor"]  # fmt: skip
TRAINED = [*((name, False) for name in HEADS if name != "gaussreg"), ("full", True), ("beta", True)]


def normed(rank, dim):
    """What a normalising layer has counted after a step of which one rank has no row."""
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(D) if dim == 1 else nn.Sequential(nn.BatchNorm2d(D), nn.Flatten())
    body = nn.Sequential(norm, nn.Linear(D if dim == 1 else 4 * D, H))
    loss = ours.Loss(body, RegressionHead(H), N)
    x = 10 + torch.randn(8, D, *(() if dim == 1 else (2, 2)), generator=seeded(7))
    rows = slice(0, 0 if rank == 0 else 8)
    loss(x[rows], torch.ones(8)[rows]).backward()
    assert all(m.training for m in body.modules())
    return {"mean": (norm if dim == 1 else norm[0]).running_mean.clone()}


class Tokens(nn.Module):
    """A body of rows that are as long as the longest of their batch."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, H)

    def forward(self, x):
        return self.embed(x).mean(-2)


def padded(rank=None):
    """The loss of this rank's tokens, of which the other's are longer; of no rank, that of all."""
    torch.manual_seed(0)
    body, head = Tokens(), RegressionHead(H)
    x = [torch.randint(50, (4, 5 + k), generator=seeded(k)) for k in range(2)]
    y = torch.randn(2, 4, generator=seeded(4))
    if rank is None:
        return head.loss(torch.cat([body(x[0]), body(x[1])]), y.flatten(), N).detach()
    return ours.Loss(body, head, N)(x[rank], y[rank]).detach()


def on_purpose(rank):
    """Rows that two ranks may have in common."""
    x, y = torch.randn(8, D, generator=seeded(5)), torch.randn(8, generator=seeded(6))
    loss = ours.Loss(nn.Linear(D, H), RegressionHead(H), N)
    loss.eval()(x, y)  # what is held out
    mask = (torch.arange(8) % 2 == rank).double()
    loss.train()(x, y, mask)
    ours.Loss(nn.Linear(D, H), RegressionHead(H), N)(x.sign(), y.sign())  # by chance
    ours.Loss(nn.Linear(D, H), RegressionHead(H), N)(x[:1], y[:1])
    return True


def kept(rank, folder="."):
    """Whether the parts of both ranks stay when a file does not fit the second of one rank."""
    path = Path(folder) / "kept.safetensors"
    torch.manual_seed(rank)
    body, net = nn.Linear(2, 1), nn.Linear(2 + rank, 1)
    checkpoint.save(path, 7, body=nn.Linear(2, 1), net=nn.Linear(2, 1))
    dist.barrier()
    before = [p.detach().clone() for m in (body, net) for p in m.parameters()]
    with pytest.raises(ValueError, match="must fit this net"):
        checkpoint.resume(path, body=body, net=net)
    after = [p.detach() for m in (body, net) for p in m.parameters()]
    return all(map(torch.equal, before, after))


def grown(rank):
    """More rows later, on all ranks."""
    psi, (_, y) = torch.randn(N, H, generator=seeded(3)), table("full")
    early, late = slice(0, 30), slice(30, N)
    torch.manual_seed(0)
    head = HEADS["full"]()
    one = ours.refit(head, psi[early][rank::2], y[early][rank::2])
    return described(one.absorb(ours.statistics(head, psi[late][rank::2], y[late][rank::2])))


# What is wrong, on one rank or on both. Each is a function of the rank.


def loss_of(rank, *, features=H, classes=K, dtype=torch.float64, total=N, method="scroll"):
    body = nn.Linear(D, features, dtype=dtype)
    if method != "scroll":
        return ours.Loss(body, RegressionHead(features, method=method), total)
    return ours.Loss(body, ClassificationHead(features, classes).to(dtype), total)


def headed(rank, body=None, **how):
    ours.Loss(body or nn.Linear(D, H), RegressionHead(H, **how), N)


def frozen(rank):
    headed(rank, nn.Linear(D, H).requires_grad_(rank == 0))


def twins(rank, refit=False):
    """The sampler is forgotten."""
    x, y = torch.randn(8, D, generator=seeded(5)), torch.randn(8, generator=seeded(6))
    torch.manual_seed(0)
    if refit:
        ours.refit(RegressionHead(D), zip(x.split(4), y.split(4), strict=True))
    else:
        ours.Loss(nn.Linear(D, H), RegressionHead(H), ours.total(8))(x, y)


def step(rank, x=None, y=None, weight=None, **how):
    good = torch.zeros(5, D), torch.zeros(5, dtype=torch.long)
    loss_of(rank, **how)(good[0] if x is None else x, good[1] if y is None else y, weight)


def refitted(rank, width=H, rows=5, classes=K, dtype=torch.float64, last=0.0, same=True):
    torch.manual_seed(0 if same else rank)
    psi = torch.randn(rows, width, dtype=dtype) + last
    y = torch.arange(rows) % classes
    ours.refit(ClassificationHead(width, classes), psi, y)


def missing_total(rank):
    RegressionHead(H).loss(torch.ones(5, H), torch.ones(5))


def half_a_checkpoint(rank, folder="."):
    adam = torch.optim.Adam([nn.Parameter(torch.zeros(2))])
    path = Path(folder) / f"rank{rank}.safetensors"
    checkpoint.save(path, 7, adam=adam)  # only the first rank writes
    checkpoint.resume(path, adam=adam)


def another_checkpoint(rank, folder="."):
    """Of the same step, but of another run: the first rank writes both."""
    for k in range(2):
        adam = torch.optim.Adam([nn.Parameter(torch.zeros(2))], lr=0.1 + k)
        checkpoint.save(Path(folder) / f"other{k}.safetensors", 7, adam=adam)
    dist.barrier()
    checkpoint.resume(Path(folder) / f"other{rank}.safetensors", adam=adam)


def unlike_parts(rank, folder="."):
    """A file that fits the parts of one rank only."""
    path = Path(folder) / "unlike.safetensors"
    checkpoint.save(path, 7, net=nn.Linear(2, 1))
    dist.barrier()
    checkpoint.resume(path, net=nn.Linear(2 + rank, 1))


NAN = torch.full((5, D), torch.nan, dtype=torch.float64)
WRONG = {
    "features": (lambda r: loss_of(r, features=H - r), "`in_features` must be the same on every "
        "rank, but got 6 on rank 0, 5 on rank 1. Give every rank"),
    "classes": (lambda r: loss_of(r, classes=K + r), "`latents` must be the same"),
    "dtype": (lambda r: loss_of(r, dtype=(torch.float64, torch.float32)[r]),
        "`dtype` must be the same on every rank, but got torch.float64 on rank 0, torch.float32"),
    "totals": (lambda r: loss_of(r, total=FIRST + r), "`total` must be the same on every rank"),
    "no total": (lambda r: loss_of(r, total=None), "`total` must be the number of training rows"),
    "no total on one": (lambda r: loss_of(r, total=(N, None)[r]), "`total` must be the number"),
    "total of one shard": (lambda r: step(r, total=9), "`total` must be at least the 10 rows that"),
    "bound": (lambda r: loss_of(r, method="loo"), "`method` must train on a part of the rows"),
    "no head": (lambda r: ours.Loss(nn.Identity(), nn.Identity(), 5), "`head` must be a scroll"),
    "rows": (lambda r: ours.total(5 - 6 * r), "`rows` must be a number of rows, zero or more"),
    "width": (lambda r: step(r, torch.zeros(5, D + r)),
        "mat1 and mat2 shapes cannot be multiplied (5x5 and 4x6)"),
    "axes": (lambda r: step(r, torch.zeros(5, D, *[D] * r)), "`x` must be the same on every rank, "
        "but got torch.float64, each of 1 axes on rank 0, torch.float64, each of 2 axes on rank 1"),
    "kind of x": (lambda r: step(r, torch.zeros(5, D, dtype=(torch.float64, torch.float32)[r])),
        "`x` must be the same on every rank, but got torch.float64"),
    "beta": (lambda r: headed(r, beta=0.5 * r),
        "`beta` must be the same on every rank, but got 0.0 on rank 0, 0.5 on rank 1"),
    "floor": (lambda r: headed(r, floor=(1e-4, 0.1)[r]), "`floor` must be the same on every rank"),
    "family": (lambda r: headed(r, covariance=("full", "diag")[r]), "`covariance` must be the sa"),
    "method": (lambda r: headed(r, method=("scroll", "elbo")[r]), "`method` must be the same"),
    "objective": (lambda r: headed(r, method=(Objective(), Objective(prior=minus_kl))[r]),
        "`objective` must be the same on every rank, but got ['free', 'shared', 'log_marginal'"),
    "weight of prior": (lambda r: headed(r, prior_weight=0.5 + r), "`prior_weight` must be the s"),
    "link": (lambda r: ours.Loss(nn.Linear(D, H), ClassificationHead(H, 2, ("probit", "logit")[r]),
        N), "`likelihood` must be the same on every rank, but got ('Binary', 'Probit'"),
    "prior": (lambda r: ours.Loss(nn.Linear(D, H), RegressionHead(H), N, prior=r == 0),
        "`prior` must be the same on every rank"),
    "frozen": (frozen, "`parameters` must be the same on every rank"),
    "twins": (twins, "`rows` must differ from rank to rank, but got the very same on ranks 0 and 1"
        ". Give each rank its own part: torch.utils.data.DistributedSampler."),
    "refit: twins": (partial(twins, refit=True), "`rows` must differ from rank to rank, but got"),
    "refit: family": (lambda r: ours.refit(RegressionHead(H, covariance=("full", "diag")[r]),
        torch.ones(5, H), torch.ones(5)), "`covariance` must be the same on every rank"),
    "refit: hyper": (lambda r: ours.refit(RegressionHead(H), torch.ones(5, H), torch.ones(5),
        hyper=("evidence", "head")[r]), "`hyper` must be the same on every rank"),
    "kind": (lambda r: step(r, None, torch.zeros(5, dtype=(torch.long, torch.int32)[r])),
        "`y` must be the same on every rank"),
    "nan": (lambda r: step(r, NAN if r else None), "`psi` must be finite, but got 30 NaN"),
    "label": (lambda r: step(r, None, torch.full((5,), 2 + r)), "`y` must hold labels 0..2"),
    "nothing": (lambda r: step(r, torch.zeros(0, D), torch.zeros(0, dtype=torch.long)),
        "`x` must hold a row on some rank, but got none"),
    "missing": (missing_total, "Pass total=scroll.distributed.total(len(shard))"),
    "refit: features": (lambda r: refitted(r, width=H + r), "`in_features` must be the same"),
    "refit: classes": (lambda r: refitted(r, classes=K + r), "`latents` must be the same"),
    "refit: dtype": (lambda r: refitted(r, dtype=(torch.float64, torch.float32)[r]),
        "`dtype of psi` must be the same on every rank"),
    "refit: nan": (lambda r: refitted(r, last=(0.0, torch.nan)[r]), "`psi` must be finite"),
    "refit: heads": (lambda r: refitted(r, same=False), "`head` must have the same parameters"),
    "refit: nothing": (lambda r: ours.refit(model("full")[1], []), "`features` must give at least"),
    "rows refused": (lambda r: ours.total(True), "`rows` must be a number of rows, zero or more"),
    "weight": (lambda r: step(r, weight=torch.ones(5) - 2 * r), "`weight` must be zero or pos"),
    "weights": (lambda r: step(r, weight=torch.ones(5 + r)), "`weight` must have shape (5,)"),
    "weight of one": (lambda r: step(r, weight=(None, torch.ones(5))[r]), "`weight` must be the s"),
    "no tensor": (lambda r: step(r, {"ids": 1} if r else None), "`x` must be a torch.Tensor"),
    "no target": (lambda r: step(r, None, [0] * 5 if r else None), "`y` must be a torch.Tensor"),
    "checkpoint": (half_a_checkpoint, "on rank 0, no file on rank 1"),
    "checkpoints": (another_checkpoint, "`checkpoint` must be the same on every rank"),
    "parts": (unlike_parts, "unlike.safetensors` must fit this net, but got"),
}  # fmt: skip


def message_of(run, rank):
    try:
        run(rank)
    except Exception as error:
        return str(error)
    return "nothing"


def live(rank, folder, output):
    """A rank that goes through everything, and tells what came of it."""
    warnings.simplefilter("error")
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    os.chdir(folder)
    try:
        dist.init_process_group(
            "gloo", f"file://{folder}/meet", timedelta(seconds=60), world_size=2, rank=rank
        )
        found = {f"train {n} {w}": together(rank, n, w) for n, w in TRAINED}
        found["apart"] = together(rank, "full", False, apart=True)
        for name, how in REFITS:
            y, rows = table(name)[1], SHARDS[rank]
            found[f"refit {name} {how}"] = bound(ours.refit, name, rows, y, how)
        everything = (slice(0, 0), slice(0, N))[rank]
        found["empty"] = bound(ours.refit, "full", everything, table("full")[1], "stream")
        found["grown"] = grown(rank)
        nothing = torch.zeros(0, H), torch.zeros(0)
        found["nothing"] = described(ours.refit(HEADS["full"](), [nothing, *([] if rank else [
            (torch.ones(5, H), torch.arange(5.0)), nothing])]))  # fmt: skip
        found["normed"] = [normed(rank, dim) for dim in (1, 2)]
        found["padded"], found["on purpose"], found["kept"] = (
            run(rank) for run in (padded, on_purpose, kept)
        )
        found["wrong"] = {name: message_of(run, rank) for name, (run, _) in WRONG.items()}
        dist.destroy_process_group()
        torch.save(found, f"{folder}/{rank}.pt")
    except Exception:
        output.put(traceback.format_exc())
        raise


@pytest.fixture
def ranks(tmp_path):
    """What two ranks have found."""
    context = multiprocessing.get_context("spawn")
    output = context.SimpleQueue()
    both = [context.Process(target=live, args=(r, str(tmp_path), output)) for r in range(2)]
    for one in both:
        one.start()
    until = time.monotonic() + 120
    for one in both:
        one.join(max(0.0, until - time.monotonic()))
    hung = [one for one in both if one.is_alive()]
    for one in hung:
        one.kill()
        one.join()
    assert not hung, "a rank waits for ever"
    assert [one.exitcode for one in both] == [0, 0], output.get()
    return [torch.load(tmp_path / f"{r}.pt") for r in range(2)]


def alike(ours, theirs, tolerance):
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        torch.testing.assert_close(value, theirs[name], rtol=tolerance, atol=tolerance, msg=name)


def test_two_ranks_are_one_process(ranks):
    """One test, as the ranks take their time to start."""
    for name, weigh in TRAINED:
        first, second = (found[f"train {name} {weigh}"] for found in ranks)
        alike(first, second, 0)
        alike(first, alone(name, weigh), 1e-9)
    alike(ranks[0]["apart"], ranks[1]["apart"], 0)
    alike(ranks[0]["apart"], alone("full", False, apart=True), 1e-9)
    for name, how in REFITS:
        first, second = (found[f"refit {name} {how}"] for found in ranks)
        alike(first, second, 0)
        alike(first, bound(scroll.refit, name, slice(0, N), table(name)[1], how), 1e-9)
    everything = bound(scroll.refit, "full", slice(0, N), table("full")[1], "tensor")
    for found in ranks:
        alike(found["empty"], everything, 1e-9)
        alike(found["grown"], everything, 1e-9)
        for name, (_, want) in WRONG.items():
            assert want in found["wrong"][name], name
        assert found["on purpose"]
        assert found["kept"]
    mean = (ranks[0]["padded"] + ranks[1]["padded"]) / 2
    torch.testing.assert_close(mean, padded(), rtol=1e-12, atol=1e-12)
    alike(ranks[0]["nothing"], ranks[1]["nothing"], 0)
    for dim in range(2):  # one counted its rows, the other nothing
        first, second = (found["normed"][dim]["mean"] for found in ranks)
        assert (first == 0).all()
        assert ((second > 0.9) & (second < 1.1)).all()


def test_one_process_needs_no_group():
    assert ours.ranks() == 1
    assert ours.total(7) == 7
    body, head = model("full")
    x, y = table("full")
    assert ours.Loss(body, head, N)(x, y) == head.loss(body(x), y, N)
    with pytest.raises(ValueError, match="`rows` must be a number of rows"):
        ours.total(-1)
    with pytest.raises(ValueError, match="`features` must give at least one batch on some rank"):
        ours.refit(head, [])


def test_a_checkpoint_gives_back_everything(tmp_path):
    def made():
        body, head = model("full")
        some = [{"params": body.parameters(), "lr": 0.1}, {"params": [head.mean]}]
        adam = torch.optim.AdamW(some)
        return ours.Loss(body, head, N), adam, torch.optim.lr_scheduler.CosineAnnealingLR(adam, 30)

    def go(loss, adam, pace, steps):
        for _ in range(steps):
            adam.zero_grad()
            loss(*table("full")).backward()
            adam.step()
            pace.step()
        return dict(loss.named_parameters())

    path = tmp_path / "run.safetensors"
    straight = go(*made(), 20)
    loss, adam, pace = made()
    assert checkpoint.resume(path, loss=loss, adam=adam, pace=pace) == 0
    go(loss, adam, pace, 12)
    checkpoint.save(path, 12, loss=loss, adam=adam, pace=pace)
    go(loss, adam, pace, 3)  # what is lost when it dies
    loss, adam, pace = made()
    assert checkpoint.resume(path, loss=loss, adam=adam, pace=pace) == 12
    alike(go(loss, adam, pace, 8), straight, 0)
    assert [p.name for p in tmp_path.iterdir()] == ["run.safetensors"]


def test_a_compiled_network_has_the_file_of_a_plain_one(tmp_path):
    path, (one, other) = tmp_path / "run.safetensors", (nn.Linear(2, 1) for _ in range(2))
    checkpoint.save(path, torch.tensor(4), net=torch.compile(one))
    assert checkpoint.resume(path, net=other) == 4
    assert torch.equal(one.weight, other.weight)
    checkpoint.resume(path, net=torch.compile(other))
    with pytest.raises(ValueError, match="`step` must be a number of steps, zero or more, but got"):
        checkpoint.save(path, "a", net=one)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    path.write_bytes(b"torn")
    with pytest.raises(
        ValueError, match="must be a checkpoint of scroll, but got something that cannot"
    ):
        checkpoint.resume(path, head=RegressionHead(2))
    checkpoint.save(path, 3, head=RegressionHead(2))
    with pytest.raises(ValueError, match=r"must fit this head, but got family\.lower is"):
        checkpoint.resume(path, head=RegressionHead(3))
    with pytest.raises(ValueError, match="must hold"):
        checkpoint.resume(path, body=RegressionHead(2))
    odd = nn.Module()
    odd.state_dict = lambda: {"what": object()}
    with pytest.raises(TypeError, match="must be a tensor or plain to be saved, but got object"):
        checkpoint.save(path, 4, odd=odd)
    assert checkpoint.resume(path, head=RegressionHead(2)) == 3  # still there
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # one bit of a number
    path.write_bytes(content)
    with pytest.raises(ValueError, match="must be a checkpoint of scroll, but got a modified file"):
        checkpoint.resume(path, head=RegressionHead(2))


def test_a_checkpoint_that_fits_a_part_only_changes_none(tmp_path):
    def made(width=2):
        nets = nn.Linear(2, 2), nn.Linear(width, 2)
        return *nets, torch.optim.Adam(nets[0].parameters(), lr=0.1)

    path = tmp_path / "run.safetensors"
    first, second, adam = made()
    first(torch.ones(2)).sum().backward()
    adam.step()
    checkpoint.save(path, 5, first=first, adam=adam, second=second)
    first, second, adam = made(3)
    before = {k: v.clone() for k, v in first.state_dict().items()}
    with pytest.raises(ValueError, match=r"must fit this second, but got weight is \(2, 2\)"):
        checkpoint.resume(path, first=first, adam=adam, second=second)
    alike(first.state_dict(), before, 0)
    assert not adam.state


def test_what_has_no_state_is_not_saved(tmp_path):
    path = tmp_path / "run.safetensors"
    bound = scroll.refit(RegressionHead(2), torch.randn(5, 2), torch.randn(5))
    want = "`bound` must have a state_dict, but got Posterior. Modules, optimisers, schedulers and"
    with pytest.raises(TypeError, match=want):
        checkpoint.save(path, 5, bound=bound)
    assert not path.exists()
    with pytest.raises(TypeError, match=want):
        checkpoint.resume(path, bound=bound)


# torchrun, a rank that is killed, and the next run.


def launched(folder, *words):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
               "--nproc-per-node", "2", str(ROOT / "examples/distributed.py"), *words]  # fmt: skip
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
    )  # fmt: skip


def finished(process):
    """Its output; whatever happens, none of it goes on."""
    try:
        return process.communicate(timeout=100)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def second_rank(process):
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        if b"\0RANK=1\0" in Path(f"/proc/{child}/environ").read_bytes():
            return int(child)
    raise AssertionError(children)


@exhaustive
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
def test_a_rank_that_dies_stops_the_run_and_the_next_one_goes_on(tmp_path, monkeypatch, capsys):
    first = launched(tmp_path, "--steps", "1000000")
    until = time.monotonic() + 60
    while not (tmp_path / "diabetes.safetensors").exists() and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(second_rank(first), signal.SIGKILL)
    output = finished(first)
    assert first.returncode != 0
    assert "Signal 9 (SIGKILL)" in output
    second = launched(tmp_path, "--steps", "250")
    output = finished(second)
    assert second.returncode == 0, output
    start = int(output.split("2 ranks, 342 rows, from step ")[1].split()[0])
    assert 0 < start < 250
    torch.set_default_dtype(torch.float32)
    (tmp_path / "calm").mkdir()
    monkeypatch.chdir(tmp_path / "calm")
    monkeypatch.setattr(sys, "argv", ["distributed.py", "--steps", "250"])
    runpy.run_path(str(ROOT / "examples/distributed.py"), run_name="__main__")
    calm = capsys.readouterr().out
    assert "1 ranks, 342 rows, from step 0" in calm
    assert scores(output) == pytest.approx(scores(calm), abs=1e-8)


def scores(output):
    words = output.split("test NLL ")[1].replace(",", "").split()
    return float(words[0]), float(words[2])
