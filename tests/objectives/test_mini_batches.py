"""Hybrids in mini-batches: what a batch is scored by, and the sums over the other rows."""

import numpy as np
import pytest
import torch
from torch import nn

from oracles import normal_log_density
from parts import IN_BATCHES, make_head
from scroll import ClassificationHead, RegressionHead
from scroll.beliefs.sums import RowSums, row_sums
from scroll.heads import SeenRows
from scroll.training import MLP, Network, Rows, Settings, stack, train
from scroll.training.memory import footprint

N, H = 24, 4


def shaken(head, seed=1):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in head.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=g))
    return head


def data(*lead):
    return torch.randn(*lead, N, H), torch.randn(*lead, N)


def over_batches(head, psi, y, batches):
    """The mean loss of an epoch with a frozen body."""
    seen = SeenRows(head, psi, y)
    losses = [
        head.loss(psi[index], y[index], total=N, rest=seen.swap(index, psi[index]))
        for index in batches
    ]
    return torch.stack(losses).mean()


def refit(psi, y, head):
    """Mean and covariance of the weights given some rows, S+ added, by numpy."""
    own = head.log_site_noise  # of the posterior that S+ is added to
    site = head.likelihood.factor().noise.item() if own is None else own.exp().item()
    bias = 0.0 if head.bias is None else head.bias.item()
    x, t = psi.numpy(), y.numpy() - bias
    a = x.T @ x / site**2 + head.log_alpha.exp().item() * np.eye(H)
    mean = np.linalg.solve(a, x.T @ t / site**2)
    added = 0.0 if head.family is None else head.family().dense()[0].detach().numpy()
    return mean, np.linalg.inv(a) + added, bias


@pytest.mark.parametrize("family", ["full", "diag", "lowrank"])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_batch_is_scored_by_a_refit_without_it(family, size):
    psi, y = data()
    head = shaken(make_head(f"block-hybrid-{family}", H, rank=2))
    noise = head.likelihood.factor().var.item()
    batches = torch.randperm(N).split(size)
    nll = 0.0
    for index in batches:
        keep = np.setdiff1d(np.arange(N), index.numpy())
        mean, cov, bias = refit(psi[keep], y[keep], head)
        for n in index.tolist():
            x = psi[n].numpy()
            nll -= normal_log_density(y[n].item(), mean @ x + bias, x @ cov @ x + noise)
    ours = over_batches(head, psi, y, batches).item()
    assert ours == pytest.approx(nll / N, rel=1e-9)


@pytest.mark.parametrize("family", ["full", "diag", "lowrank"])
def test_batches_of_one_row_are_the_hybrid(family):
    psi, y = data()
    head = shaken(make_head(f"block-hybrid-{family}", H, rank=2))
    whole = make_head(f"hybrid-{family}", H, rank=2)
    whole.load_state_dict(head.state_dict())
    want = whole.loss(psi, y, total=N).item()
    ours = over_batches(head, psi, y, torch.randperm(N).split(1)).item()
    assert ours == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("size", [1, 3, 8, N])
@pytest.mark.parametrize("key", ["hybrid-full", "hybrid-diag", "hybrid-lowrank", "closed-full"])
def test_features_that_stay_give_the_loss_of_all_rows_at_once(key, size):
    psi, y = data()
    head = shaken(make_head(f"batch-{key}", H, rank=2))
    whole = make_head(key, H, rank=2)
    whole.load_state_dict(head.state_dict())
    want = whole.loss(psi, y, total=N).item()
    ours = over_batches(head, psi, y, torch.randperm(N).split(size)).item()
    assert ours == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("key", IN_BATCHES)
def test_predictions_are_those_of_training_on_all_rows_at_once(key):
    """N(mean, A^-1), and S+ for a hybrid, over all rows."""
    psi, y = data()
    head, whole = shaken(make_head(key, H)), make_head(key.partition("-")[2], H)
    whole.load_state_dict(head.state_dict())
    ours, want = (h.condition(psi, y)(psi) for h in (head, whole))
    torch.testing.assert_close(ours.mean, want.mean, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(ours.variance, want.variance, rtol=1e-9, atol=1e-12)
    mean, cov, bias = refit(psi, y, head)
    np.testing.assert_allclose(ours.mean.detach(), psi.numpy() @ mean + bias, rtol=1e-9)
    spread = np.einsum("nh,hk,nk->n", psi.numpy(), cov, psi.numpy())
    np.testing.assert_allclose(ours.belief_var.detach(), spread, rtol=1e-9)


def test_the_sums_are_those_of_the_features_that_each_row_was_last_seen_with():
    y, head = torch.randn(N), make_head("block-hybrid-diag", H)
    last = torch.randn(N, H)
    seen = SeenRows(head, last, y)
    for _ in range(200):
        index, psi = torch.randperm(N)[:5], 10 * torch.randn(1).exp() * torch.randn(5, H)
        keep = np.setdiff1d(np.arange(N), index.numpy())
        rest = seen.swap(index, psi)
        x, t = last[keep].numpy(), y[keep].numpy()
        np.testing.assert_allclose(rest.gram[0], x.T @ x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(rest.cross[0], x.T @ t, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(rest.total[0], x.sum(0), rtol=1e-9, atol=1e-9)
        last[index] = psi


@pytest.mark.parametrize("key", IN_BATCHES)
def test_the_gradient_flows_through_the_features_of_the_batch_alone(key):
    psi, y = data()
    psi.requires_grad_()
    head, index = shaken(make_head(key, H)), torch.arange(6)
    seen = SeenRows(head, psi, y)
    rest = seen.swap(index, psi[index])
    assert not any(t.requires_grad for t in (rest.gram, rest.cross, rest.total, seen.psi))
    loss = head.loss(psi[index], y[index], total=N, rest=rest)
    (grad,) = torch.autograd.grad(loss, psi)
    assert (grad[6:] == 0).all()
    assert (grad[:6] != 0).any(-1).all()

    def at(part):
        return head.loss(part, y[index], total=N, rest=rest)

    assert torch.autograd.gradcheck(at, psi.detach()[index].requires_grad_())


def test_outputs_share_the_sums_of_the_features():
    """Each output of a head is a head of its own, with its own noise, alpha and offset."""
    psi, y = torch.randn(N, H), torch.randn(N, 3)
    head = shaken(RegressionHead(H, 3, covariance="diag", method="block-hybrid"))
    index = torch.arange(8)
    loss = head.loss(
        psi[index], y[index], total=N, rest=SeenRows(head, psi, y).swap(index, psi[:8])
    )
    alone = 0.0
    for k in range(3):
        one = RegressionHead(H, covariance="diag", method="block-hybrid")
        state = {n: v[[k]] if v.dim() else v for n, v in head.state_dict().items()}
        one.load_state_dict(state)
        rest = SeenRows(one, psi, y[:, k]).swap(index, psi[:8])
        alone += one.loss(psi[:8], y[:8, k], total=N, rest=rest)
    torch.testing.assert_close(loss, alone, rtol=1e-10, atol=0)


def test_labels_as_numbers_have_a_block_hybrid():
    head = ClassificationHead(H, 3, "gaussreg", covariance="diag", method="block-hybrid")
    psi, y, index = torch.randn(N, H), torch.randint(3, (N,)), torch.arange(6)
    loss = head.loss(psi[:6], y[:6], total=N, rest=SeenRows(head, psi, y).swap(index, psi[:6]))
    signs = 2.0 * nn.functional.one_hot(y, 3) - 1
    want = row_sums(psi[None, 6:], signs[6:].mT)
    rest = SeenRows(head, psi, y).swap(index, psi[:6])
    torch.testing.assert_close(rest.cross, want.cross)
    torch.testing.assert_close(head.loss(psi[:6], y[:6], total=N, rest=want), loss)


@pytest.mark.parametrize("key", IN_BATCHES)
def test_a_replicate_is_the_solo_head(key):
    psi, y = data(3)
    heads = shaken(make_head(key, H, replicates=(3,)))
    seen = SeenRows(heads, psi, y)
    index = torch.stack([torch.randperm(N)[:6] for _ in range(3)])
    some = psi.gather(1, index[..., None].expand(-1, -1, H))
    losses = heads.loss(some, y.gather(1, index), total=N, rest=seen.swap(index, some))
    less = seen.take(torch.tensor([False, True, False]))
    torch.testing.assert_close(less.sums.gram, seen.sums.gram[1:2])
    for r in range(3):
        one = make_head(key, H)
        one.load_state_dict({n: v[r] if v.dim() else v for n, v in heads.state_dict().items()})
        rest = SeenRows(one, psi[r], y[r]).swap(index[r], psi[r][index[r]])
        alone = one.loss(psi[r][index[r]], y[r][index[r]], total=N, rest=rest)
        torch.testing.assert_close(losses[r], alone, rtol=1e-10, atol=0)


def test_sums_add_and_subtract():
    psi, y = torch.randn(1, N, H), torch.randn(2, N)
    parts = row_sums(psi[:, :9], y[:, :9]), row_sums(psi[:, 9:], y[:, 9:])
    whole = row_sums(psi, y)
    for ours, want in ((parts[0].plus(parts[1]), whole), (whole.minus(parts[0]), parts[1])):
        assert isinstance(ours, RowSums)
        torch.testing.assert_close(ours.gram, want.gram)
        torch.testing.assert_close(ours.cross, want.cross)
        torch.testing.assert_close(ours.total, want.total)
    s2, offset = torch.tensor([[0.3], [2.0]]), torch.tensor([[1.5], [-0.5]])
    precision, shift = whole.sites(s2, offset)
    for k in range(2):
        x, t = psi[0].numpy(), y[k].numpy() - offset[k].item()
        np.testing.assert_allclose(precision[k], x.T @ x / s2[k].item(), rtol=1e-10)
        np.testing.assert_allclose(shift[k], x.T @ t / s2[k].item(), rtol=1e-10)


@pytest.mark.parametrize("key", IN_BATCHES)
def test_a_part_of_the_data_needs_the_sums_over_the_rest(key):
    head, (psi, y) = make_head(key, H), data()
    with pytest.raises(ValueError, match=r"`rest` must hold the sums over the other 6 rows.*seen"):
        head.loss(psi, y, total=N + 6)
    assert head.loss(psi, y, total=N).isfinite()  # there are no others
    with pytest.raises(ValueError, match=r"`weight` must be None for method '.*', whose belief"):
        head.loss(psi, y, total=N, weight=torch.ones(N))
    with pytest.raises(ValueError, match="train on mini-batches, so that its prior term"):
        head.prior_loss(N)


def test_other_methods_take_no_sums():
    psi, y = data()
    rest = row_sums(psi[None], y[None])
    for method in ("scroll", "hybrid"):
        with pytest.raises(ValueError, match=rf"`rest` must be None for method '{method}', but"):
            RegressionHead(H, method=method).loss(psi, y, total=N, rest=rest)
        with pytest.raises(ValueError, match=r"`head` must have a method that reads sums.*'block-"):
            SeenRows(RegressionHead(H, method=method), psi, y)


def test_a_batch_of_all_rows_is_scored_by_the_prior_and_what_is_added():
    """Nothing else is left to condition on."""
    psi, y = data()
    head = shaken(make_head("block-hybrid-diag", H, bias=False))
    x = psi.numpy()
    cov = np.eye(H) / head.log_alpha.exp().item() + head.family().dense()[0].detach().numpy()
    var = np.einsum("nh,hk,nk->n", x, cov, x) + head.likelihood.factor().var.item()
    nll = -sum(normal_log_density(t, 0.0, v) for t, v in zip(y.tolist(), var, strict=True))
    assert head.loss(psi, y, total=N).item() == pytest.approx(nll / N, rel=1e-9)


def network(lead, method="block-hybrid"):
    head = RegressionHead(8, covariance="diag", method=method, replicates=lead)
    return Network(MLP(2, 8, architecture="tanh", replicates=lead), head)


def sines(r, n=96):
    x = 4 * torch.rand(r, n, 2) - 2
    return Rows(x, torch.sin(2 * x[..., 0]) + 0.1 * torch.randn(r, n))


@pytest.mark.parametrize("method", ["block-hybrid", "batch-hybrid"])
def test_the_ordinary_loop_trains_it(method):
    """A body of sines: far below the deviation of the targets, in batches of a sixth."""
    rows, held = sines(2), sines(2)
    start = stack(lambda lead: network(lead, method), (0, 1))
    done = train(start, rows, held, Settings(steps=600, batch=16, lr=0.01, patience=1000))
    with torch.no_grad():
        error = (done.network(held.x).mean - held.y).square().mean(-1).sqrt()
    assert (error < 0.25).all()
    assert (held.y.std(-1) > 0.6).all()


def test_the_rows_that_are_kept_count_as_memory():
    rows = sines(1, 4000)
    one, free = (
        stack(lambda lead, m=m: network(lead, m), (0,)) for m in ("block-hybrid", "scroll")
    )
    assert footprint(one, rows, 16) > footprint(free, rows, 16) + 4000 * 8 * 8
