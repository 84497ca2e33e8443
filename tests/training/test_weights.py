"""Row weights: a row of weight two equals that row twice, in a loss, in training, in a refit."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch.utils.data import DataLoader, TensorDataset

from parts import CONJUGATE, FREE, HEADS, make_head
from scroll import RegressionHead, refit
from scroll.training.batches import Feed, Rows
from scroll.training.bodies import MLP
from scroll.training.loop import train
from scroll.training.network import Network, stack
from scroll.training.settings import Settings

R, N, D, H = 2, 9, 3, 4
COUNTS = torch.tensor([2, 1, 3, 1, 0, 1, 4, 1, 1])


def again(x, axis=1):
    """Each row as often as it counts."""
    return x.repeat_interleave(COUNTS, axis)


def shaken(head):
    """Parameters off their starts, the replicates apart."""
    with torch.no_grad():
        for p in head.parameters():
            p += 0.2 * torch.randn_like(p)
    return head


def loss_and_grads(head, psi, y, total, **weight):
    """The loss on all rows, (R,), and its gradients."""
    loss = total * head.loss(psi, y, total=total, **weight)
    learned = [p for p in head.parameters() if p.requires_grad]
    return loss, torch.autograd.grad(loss.sum(), learned, allow_unused=True)


def assert_same(ours, theirs):
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-9, atol=0)
    for g, h in zip(ours[1], theirs[1], strict=True):
        assert (g is None) == (h is None)
        if g is not None:
            torch.testing.assert_close(g, h, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", HEADS)
def test_a_weight_is_a_number_of_rows(name):
    """The prior stays the same, so the loss on all rows does; zero is not there at all."""
    make, labels = HEADS[name]
    head, psi, y = shaken(make(H, replicates=(R,))), torch.randn(R, N, H), labels(R, N)
    weighed = loss_and_grads(head, psi, y, N, weight=COUNTS.double().expand(R, N))
    assert_same(weighed, loss_and_grads(head, again(psi), again(y), int(COUNTS.sum())))
    assert not torch.allclose(weighed[0], loss_and_grads(head, psi, y, N)[0])


@pytest.mark.parametrize("key", FREE)
def test_weights_of_one_change_nothing(key):
    head, psi, y = (
        shaken(make_head(key, H, replicates=(R,))),
        torch.randn(R, N, H),
        torch.randn(R, N),
    )
    assert_same(
        loss_and_grads(head, psi, y, 2 * N, weight=torch.ones(R, N)),
        loss_and_grads(head, psi, y, 2 * N),
    )


def test_each_replicate_has_its_own_weights():
    head, psi, y = (
        shaken(RegressionHead(H, replicates=(R,))),
        torch.randn(R, N, H),
        torch.randn(R, N),
    )
    weight = torch.rand(R, N)
    scores = -head(psi).log_prob(y)
    prior = N * head.loss(psi, y, total=N) - scores.sum(-1)
    want = (weight * scores).sum(-1) + prior
    torch.testing.assert_close(
        N * head.loss(psi, y, total=N, weight=weight), want, rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("key", CONJUGATE)
def test_a_bound_method_refuses_weights(key):
    with pytest.raises(ValueError, match=r"`weight` must be None for method '.*', whose belief"):
        make_head(key, H).loss(torch.randn(N, H), torch.randn(N), total=N, weight=torch.ones(N))


@pytest.mark.parametrize("shape", [(N,), (R, N, 1), (R, N - 1), ()])
def test_weights_of_another_shape_are_refused(shape):
    head = RegressionHead(H, replicates=(R,))
    with pytest.raises(ValueError, match=r"`weight` must have shape \(2, 9\) to go with the feat"):
        head.loss(torch.randn(R, N, H), torch.randn(R, N), total=N, weight=torch.ones(shape))


# In training


def network(lead):
    return Network(
        MLP(D, H, architecture="tanh", replicates=lead), RegressionHead(H, replicates=lead)
    )


def rows(n=N, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(R, n, D, generator=g)
    return Rows(x, torch.sin(2 * x[..., 0]) + 0.3 * torch.randn(R, n, generator=g))


def test_training_on_weights_is_training_on_repeated_rows():
    x, y, _ = rows()
    held, how = rows(20, 1), Settings(steps=30)
    weighed = train(stack(network, range(R)), Rows(x, y, COUNTS.double().expand(R, N)), held, how)
    repeated = train(stack(network, range(R)), Rows(again(x), again(y)), held, how)
    plain = train(stack(network, range(R)), Rows(x, y), held, how)
    torch.testing.assert_close(weighed.score, repeated.score, rtol=1e-9, atol=0)
    for p, q in zip(weighed.network.parameters(), repeated.network.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-7, atol=1e-9)  # 30 steps of rounding
    assert not torch.allclose(weighed.score, plain.score)


def test_batches_carry_the_weights_of_their_rows():
    x, y, _ = rows(40)
    weight = torch.rand(R, 40)
    feed = Feed(Rows(x, y, weight), 10, torch.arange(R), steps=4)
    feed.refill()
    parts = [feed.part(i) for i in range(4)]
    for part in parts:
        at = (part.y[:, :, None] == y[:, None, :]).int().argmax(-1)
        torch.testing.assert_close(part.weight, weight.gather(1, at), rtol=0, atol=0)
    net = stack(network, range(R))
    each = torch.stack([net.loss(part, 40) for part in parts])
    torch.testing.assert_close(each.mean(0), net.loss(Rows(x, y, weight), 40), rtol=1e-9, atol=0)
    assert Feed(Rows(x, y), None, torch.arange(R), steps=1).part(0).weight is None


@pytest.mark.parametrize(
    "keep", [torch.tensor([False, True, True, False]), torch.tensor([1, 2])], ids=["mask", "which"]
)
def test_rows_that_all_share_stay_shared(keep):
    x, y, weight = torch.randn(5, D), torch.randn(4, 5), torch.rand(5)
    some = Rows(x.expand(4, 5, D), y, weight.expand(4, 5)).take(keep)
    assert some.x.shape == (2, 5, D)
    assert some.x.stride(0) == some.weight.stride(0) == 0
    assert some.x.data_ptr() == x.data_ptr()
    torch.testing.assert_close(some.x, x.expand(2, 5, D), rtol=0, atol=0)
    torch.testing.assert_close(some.weight, weight.expand(2, 5), rtol=0, atol=0)
    torch.testing.assert_close(some.y, y[1:3], rtol=0, atol=0)
    own = Rows(torch.randn(4, 5, D), y, torch.rand(4, 5))
    for ours, everything in zip(own.take(keep), own, strict=True):
        torch.testing.assert_close(ours, everything[1:3], rtol=0, atol=0)
    assert own._replace(weight=None).take(keep).weight is None


# In a refit


def regression(n=60, h=H, lead=(), outputs=1):
    psi = torch.randn(*lead, n, h)
    y = psi @ torch.randn(*lead, h, outputs) + 0.4 * torch.randn(*lead, n, outputs) + 1
    return psi, y[..., 0] if outputs == 1 else y


def assert_bound_alike(ours, theirs, psi):
    for name in ("alpha", "noise"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=0)
    for part in (lambda b: b.weights.mean, lambda b: b.weights.cov.dense()):
        torch.testing.assert_close(part(ours), part(theirs), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(ours.ood_score(psi), theirs.ood_score(psi), rtol=1e-9, atol=0)


@pytest.mark.parametrize("hyper", ["evidence", "head"])
@pytest.mark.parametrize(
    ("lead", "outputs", "bias"), [((), 1, False), ((), 1, True), ((), 3, True), ((R,), 2, True)]
)
def test_whole_weights_in_a_refit_are_repeated_rows(lead, outputs, bias, hyper):
    """In several batches, one of which has no weights."""
    psi, y = regression(45, lead=lead, outputs=outputs)
    head = shaken(RegressionHead(H, outputs, bias=bias, replicates=lead))
    counts, axis = COUNTS.repeat(5), len(lead)
    counts[27:] = 1
    each = counts.double().expand(*lead, 45)
    part = lambda t, i, j: t.narrow(axis, i, j - i)
    weighed = refit(
        head,
        [
            (part(psi, 0, 18), part(y, 0, 18), each[..., :18]),
            (part(psi, 18, 27), part(y, 18, 27), each[..., 18:27]),
            (part(psi, 27, 45), part(y, 27, 45)),
        ],
        hyper=hyper,
    )
    twice = lambda t: t.repeat_interleave(counts, axis)
    assert_bound_alike(weighed, refit(head, twice(psi), twice(y), hyper=hyper), psi)
    plain = refit(head, psi, y, hyper=hyper)
    assert not torch.allclose(weighed.weights.mean, plain.weights.mean)
    assert weighed.statistics.count == counts.sum()


def test_any_weights_are_scikit_learns():
    psi, y = regression()
    weight = torch.rand(60) + 0.1
    bound = refit(
        RegressionHead(H, bias=False, alpha=2.0, noise=0.5), [(psi, y, weight)], hyper="head"
    )
    theirs = Ridge(2.0 * 0.5**2, fit_intercept=False, solver="cholesky")
    theirs.fit(psi.numpy(), y.numpy(), sample_weight=weight.numpy())
    np.testing.assert_allclose(bound.weights.mean[0], theirs.coef_, rtol=1e-9)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("hyper", ["evidence", "head"])
def test_replicates_may_have_weights_of_their_own(hyper, bias):
    """Each is as if it were alone, also where rows of weight zero stand for fewer rows."""
    psi, y = regression(lead=(R,))
    weight = torch.stack([torch.ones(60), torch.rand(60) + 1])
    weight[0, 50:] = 0
    head = RegressionHead(H, bias=bias, replicates=(R,))
    together = refit(
        head, [(psi[:, :20], y[:, :20], weight[:, :20]), (psi, y, weight)], hyper=hyper
    )
    for r in range(R):
        own = [(psi[r, :20], y[r, :20], weight[r, :20]), (psi[r], y[r], weight[r])]
        alone = refit(RegressionHead(H, bias=bias), own, hyper=hyper)
        for name in ("alpha", "noise", "offset"):
            close = {"rtol": 1e-9, "atol": 1e-12}
            torch.testing.assert_close(getattr(together, name)[r], getattr(alone, name), **close)
        torch.testing.assert_close(
            together.weights.mean[r], alone.weights.mean, rtol=1e-9, atol=1e-11
        )
        assert float(together.statistics.count[r]) == pytest.approx(float(alone.statistics.count))


def test_a_refit_refuses_negative_weights():
    psi, y = regression(lead=(R,))
    head = RegressionHead(H, bias=False, replicates=(R,))
    with pytest.raises(ValueError, match="`weight` must be zero or positive"):
        refit(head, [(psi, y, -torch.ones(R, 60))])


@pytest.mark.parametrize("shape", [(60, 1), (1,), (59,)])
def test_a_refit_refuses_weights_of_another_shape(shape):
    psi, y = regression()
    with pytest.raises(ValueError, match=r"`weight` must have shape \(60,\)"):
        refit(RegressionHead(H), [(psi, y, torch.ones(shape))])


def test_weights_may_come_from_a_loader():
    psi, y = regression()
    weight = torch.rand(60) + 0.1
    everything = refit(RegressionHead(H), [(psi, y, weight)])
    batches = refit(RegressionHead(H), DataLoader(TensorDataset(psi, y, weight), batch_size=13))
    assert_bound_alike(batches, everything, psi)


@pytest.mark.parametrize("family", ["diag", "full", "lowrank"])
@pytest.mark.parametrize("lead", [(), (R,)])
def test_adding_afterwards_is_a_hybrid_from_the_start(family, lead):
    psi, y = regression(lead=lead)
    held = regression(30, lead=lead)
    head = RegressionHead(H, replicates=lead)
    how = {"steps": 40, "lr": 0.03, "validation": held}
    torch.manual_seed(1)
    once = refit(head, psi, y, hybrid=True, added=family, **how)
    closed = refit(head, psi, y)
    torch.manual_seed(1)
    later = closed.add(psi, y, family=family, **how)
    torch.testing.assert_close(later.added.noise, once.added.noise, rtol=0, atol=0)
    torch.testing.assert_close(later.added.cov.dense(), once.added.cov.dense(), rtol=0, atol=0)
    torch.testing.assert_close(later(psi).variance, once(psi).variance, rtol=0, atol=0)
    assert not torch.allclose(later(psi).variance, closed(psi).variance)


def test_adding_a_family_that_is_none_is_refused():
    psi, y = regression()
    with pytest.raises(ValueError, match=r"`added` must be one of 'diag', 'full', 'lowrank', but"):
        refit(RegressionHead(H), psi, y).add(psi, y, family="none")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU"))])  # fmt: skip
@pytest.mark.parametrize("moved", [False, True])
def test_a_posterior_moves_with_its_head(device, moved):
    psi, y = regression()
    head = RegressionHead(H)
    bound = refit(head, psi, y, hybrid=True, steps=5)
    want, score = bound(psi), bound.ood_score(psi)
    if moved:
        head.to(device)
    bound = bound.to(device)
    for part in (bound.weights.mean, bound.statistics.gram, bound.noise, bound.added.noise):
        assert part.device.type == device
    got = bound(psi.to(device))
    for name in ("mean", "noise_var", "belief_var"):
        torch.testing.assert_close(
            getattr(got, name).cpu(), getattr(want, name), rtol=1e-9, atol=1e-12
        )
    torch.testing.assert_close(bound.ood_score(psi.to(device)).cpu(), score, rtol=1e-9, atol=0)
