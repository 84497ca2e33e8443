"""Heads under torch.func transforms and on the meta device."""

import pytest
import torch
from torch.func import functional_call, grad, vmap

from parts import HEADS

N, H, STACK = 6, 4, 3

# torch itself warns that it has no batching rule for log_ndtr and falls back to a loop
torch_falls_back = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
each = pytest.mark.parametrize("name", HEADS)


class Loss(torch.nn.Module):
    """The loss of a head as a module, for functional_call."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, psi, y):
        return self.head.loss(psi, y, total=N)


def example(name):
    make, labels = HEADS[name]
    module = Loss(make(H))
    values = {key: p.detach() for key, p in module.named_parameters()}
    stack = torch.randn(STACK, N, H), labels(STACK, N)
    return module, values, stack, lambda v, psi, y: functional_call(module, v, (psi, y))


def plain_gradients(module, psi, y):
    module.zero_grad()
    module(psi, y).backward()
    return {key: p.grad for key, p in module.named_parameters() if p.grad is not None}


@each
@torch_falls_back
def test_vmap_gives_the_losses_one_by_one(name):
    module, values, (psi, y), loss = example(name)
    together = vmap(loss, (None, 0, 0))(values, psi, y)
    alone = torch.stack([module(psi[i], y[i]) for i in range(STACK)])
    torch.testing.assert_close(together, alone)


@each
@torch_falls_back
def test_gradients_by_transforms_are_those_of_backward(name):
    """grad, vmap of grad, and grad of vmap."""
    module, values, (psi, y), loss = example(name)
    want = [plain_gradients(module, psi[i], y[i]) for i in range(STACK)]
    want = [{key: g.clone() for key, g in each.items()} for each in want]
    one = grad(loss)(values, psi[0], y[0])
    stacked = vmap(grad(loss), (None, 0, 0))(values, psi, y)
    summed = grad(lambda v: vmap(loss, (None, 0, 0))(v, psi, y).sum())(values)
    for key in want[0]:
        torch.testing.assert_close(one[key], want[0][key])
        torch.testing.assert_close(stacked[key], torch.stack([each[key] for each in want]))
        torch.testing.assert_close(summed[key], sum(each[key] for each in want))


@each
@torch_falls_back
def test_predictives_under_vmap(name):
    module, _, (psi, y), _ = example(name)
    together = vmap(lambda a, b: module.head(a).log_prob(b))(psi, y)
    alone = torch.stack([module.head(psi[i]).log_prob(y[i]) for i in range(STACK)])
    torch.testing.assert_close(together, alone)


def test_a_wide_logit_under_vmap():
    """Rows on either side of the variance at which its rule changes."""
    from scroll.factors import BernoulliLogit, Moments

    at = Moments(torch.tensor([[0.3], [-2.0]]), torch.tensor([[1.0], [400.0]]))
    sign = torch.ones(1)
    with pytest.warns(UserWarning, match="performance drop"):
        together = vmap(lambda m, v: BernoulliLogit().log_marginal(sign, Moments(m, v)))(*at)
    torch.testing.assert_close(together, BernoulliLogit().log_marginal(sign, at))


@each
@pytest.mark.parametrize("how", ["moved", "made"])
def test_heads_work_on_the_meta_device(name, how):
    """Loss, gradients and predictive have shapes, but no values."""
    make, labels = HEADS[name]
    y = labels(N).to("meta")
    if how == "moved":
        head = make(H).to("meta")
    else:
        with torch.device("meta"):
            head = make(H)
    psi = torch.randn(N, H, device="meta")
    head.loss(psi, y, total=N).backward()
    assert head.log_alpha.grad.device.type == "meta"
    p = head(psi)
    assert p.log_prob(y).shape == (y.shape if name == "regression-3" else (N,))
    assert "unknown" in repr(p)
