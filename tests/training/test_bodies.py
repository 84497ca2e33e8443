"""Bodies: a replicate equals the module alone; each body equals its formula."""

import copy

import gpytorch
import numpy as np
import pytest
import torch
from scipy.special import expit
from torch import nn

from scroll import RegressionHead
from scroll.training.bodies import ARCHITECTURES, MLP, Matern, Stacked, Tabular
from scroll.training.network import Network, set_replicate, stack

N, PLAIN, RANKED, H = 7, 4, 3, 6  # of the four plain columns, three are numbers
SEEDS = (3, 5, 8)


def layers():
    return nn.Sequential(nn.Linear(PLAIN + RANKED, 5), nn.Tanh(), nn.Linear(5, H))


def tabular(lead=(), **more):
    return Tabular(PLAIN, RANKED, H, waves=3, size=2, replicates=lead, **more)


BODIES = {
    "mlp": lambda lead: MLP(PLAIN + RANKED, H, 2, "tanh+LN", lead),
    "smooth": tabular,
    "wavy": lambda lead: tabular(lead, wavy=True),
    "dropout": lambda lead: tabular(lead, wavy=True, dropout=0.3),
    "matern": lambda lead: Matern(PLAIN, H, lead),
    "stacked": lambda lead: Stacked(layers(), H, lead),
}


def close(ours, theirs, rtol=1e-9, atol=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=rtol, atol=atol)


def gradients(body, psi, by):
    learned = [p for p in body.parameters() if p.requires_grad]
    return torch.autograd.grad((psi * by).sum(), learned)


@pytest.mark.parametrize("name", BODIES)
def test_a_replicate_is_the_body_alone(name):
    """Features and gradients, by the stack of some seeds and by putting one in a place."""
    make = lambda lead: Network(BODIES[name](lead), RegressionHead(H, replicates=lead))
    together = stack(make, SEEDS).eval()
    x, by = torch.randn(3, N, PLAIN + RANKED), torch.randn(3, N, H)
    psi = together.body(x)
    assert psi.shape == (3, N, H)
    assert together.body.features == H
    grads = gradients(together.body, psi, by)
    for r, seed in enumerate(SEEDS):
        torch.manual_seed(seed)
        alone = make(()).eval()
        close(psi[r], alone.body(x[r]))
        for g, h in zip(grads, gradients(alone.body, alone.body(x[r]), by[r]), strict=True):
            close(g[r], h)
    other = make(())
    set_replicate(together, 1, other)
    close(together.body(x)[1], other.eval().body(x[1]))
    close(together.body(x)[[0, 2]], psi[[0, 2]], 0, 0)


# Tables


def test_a_smooth_body_ignores_the_ranks_and_a_wavy_one_does_not():
    x = torch.randn(N, PLAIN + RANKED)
    smooth, wavy = tabular(), tabular(wavy=True)
    for j in range(PLAIN + RANKED):
        moved = x.clone()
        moved[:, j] += 0.5
        assert torch.equal(smooth(moved), smooth(x)) == (j >= PLAIN)
        assert not torch.allclose(wavy(moved), wavy(x))


def test_a_smooth_body_is_layers_of_silu():
    body, x = tabular(depth=3), torch.randn(N, PLAIN + RANKED)
    theirs = []
    for weight, bias in zip(body.weights, body.biases, strict=True):
        linear = nn.Linear(*weight.shape)
        linear.weight.data, linear.bias.data = weight.detach().mT, bias.detach()[0]
        theirs += [linear, nn.SiLU()]
    close(body(x), nn.Sequential(*theirs)(x[:, :PLAIN]))


def test_a_wavy_body_by_hand():
    body, x = tabular(wavy=True), torch.randn(N, PLAIN + RANKED)
    state, rows = {k: v.numpy() for k, v in body.state_dict().items()}, x.numpy()
    read = np.concatenate([rows[:, :RANKED], rows[:, PLAIN:]], 1)  # numbers, then their ranks
    inputs = [rows]
    for j in range(2 * RANKED):
        angle = 2 * np.pi * np.outer(read[:, j], state["frequencies"][j]) + state["phases"][j]
        inputs.append(np.maximum(np.cos(angle) @ state["mixing"][j] + state["offsets"][j], 0))
    h = np.hstack(inputs)
    assert h.shape == (N, PLAIN + RANKED + 2 * RANKED * 2)
    for i in range(2):
        h = h @ state[f"weights.{i}"] + state[f"biases.{i}"]
        h = h * expit(h)
    np.testing.assert_allclose(body(x).detach(), h, rtol=1e-9, atol=1e-12)


def test_without_numbers_there_are_no_waves():
    body = Tabular(PLAIN, 0, H, wavy=True)
    assert not body.wavy
    assert {name.split(".")[0] for name, _ in body.named_parameters()} == {"weights", "biases"}
    assert body(torch.randn(N, PLAIN)).shape == (N, H)


@pytest.mark.parametrize("wavy", [False, True])
def test_extreme_rows_have_finite_features_and_gradients(wavy):
    body = Tabular(PLAIN, RANKED, H, wavy=wavy, frequency=10.0)
    for value in (-5.0, 0.0, 5.0):
        x = torch.full((N, PLAIN + RANKED), value, requires_grad=True)
        psi = body(x)
        assert psi.isfinite().all()
        for g in torch.autograd.grad(psi.square().sum(), [x, *body.parameters()]):
            assert g.isfinite().all()


def test_dropout_is_of_training_only():
    body = Tabular(PLAIN, RANKED, 400, 1, dropout=0.3)
    x = torch.randn(50, PLAIN + RANKED)
    full = body.eval()(x)
    some = body.train()(x)
    dropped = some == 0
    assert dropped.double().mean().item() == pytest.approx(0.3, abs=0.015)  # 5 / sqrt(20000 / 0.21)
    close(some[~dropped], full[~dropped] / 0.7)


REFUSED = {
    "width": (lambda: Tabular(3, width=0), "`width` must be a positive integer, but got 0"),
    "depth": (lambda: Tabular(3, depth=0), "`depth` must be a positive integer, but got 0"),
    "nothing": (lambda: Tabular(0), "`plain` must be a positive integer, but got 0"),
    "only ranks": (lambda: Tabular(0, 3), "`plain` must"),
    "ranks of nothing": (lambda: Tabular(1, 3, wavy=True), "`ranked` must"),
    "no columns": (lambda: Matern(0), "`inputs` must be a positive integer, but got 0"),
    "no cosines": (lambda: Matern(3, 0), "`width` must be a positive integer, but got 0"),
    "replicates": (lambda: Stacked(layers(), H, 3), "`replicates` must be a tuple of positive"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bodies_that_make_no_sense(case):
    attempt, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        attempt()


# Matern


def test_matern_features_are_gpytorchs_kernel():
    width, lengths = 200_000, (0.5, 1.0, 3.0)
    body, x = Matern(3, width), torch.randn(6, 5)  # two columns more than it reads
    theirs = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=3)
    theirs.lengthscale = torch.tensor([lengths])
    with torch.no_grad():
        body.log_lengths.copy_((torch.tensor(lengths) / 3**0.5).log()[:, None])
        psi = body(x)
        want = theirs(x[:, :3]).to_dense()
    assert psi.abs().max() <= 2**0.5
    assert want[0, 1:].max() - want[0, 1:].min() > 0.05  # kernels that differ
    # 2 cos cos' has a variance of at most 3/2: five times its spread over the root of the width
    close(psi @ psi.mT / width, want, 0, 5 * (1.5 / width) ** 0.5)


def test_matern_length_scales_start_at_the_root_of_the_columns():
    body, x = Matern(9, H, (2,)), torch.randn(2, N, 9)
    close(body(x), 2**0.5 * (x @ body.directions / 3 + body.phases).cos())
    assert [name for name, _ in body.named_parameters()] == ["log_lengths"]
    assert not torch.allclose(*body.directions)  # replicates draw each their own


# Any module


@pytest.mark.parametrize("lead", [(3,), (2, 3)])
def test_a_stacked_module_is_the_module_of_each_replicate(lead):
    module = layers()
    body = Stacked(module, H, lead)
    x, by = torch.randn(*lead, N, PLAIN + RANKED), torch.randn(*lead, N, H)
    close(body(x), torch.stack([module(row) for row in x.flatten(0, -3)]).view(*lead, N, H))
    with torch.no_grad():  # they start as the module, then go apart
        for p in body.parameters():
            p += 0.3 * torch.randn_like(p)
    psi = body(x)
    grads = gradients(body, psi, by)
    for r in np.ndindex(*lead):
        alone = copy.deepcopy(module)
        with torch.no_grad():
            for p, q in zip(alone.parameters(), body.values, strict=True):
                p.copy_(q[r])
        close(psi[r], alone(x[r]))
        for g, h in zip(grads, gradients(alone, alone(x[r]), by[r]), strict=True):
            close(g[r], h)


def test_the_given_module_is_left_alone_and_frozen_parts_stay_frozen():
    module = layers()
    module[0].weight.requires_grad_(False)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    body = Stacked(module, H, (2,))
    assert [p.requires_grad for p in body.values] == [False, True, True, True]
    with torch.no_grad():
        for p in body.parameters():
            p.zero_()
    body.train(False)
    assert not body(torch.ones(2, N, PLAIN + RANKED)).any()
    assert module.training
    for k, v in module.state_dict().items():
        close(v, before[k], 0, 0)


def test_chance_within_a_module_is_each_replicates_own_and_of_training_only():
    body = Stacked(nn.Sequential(nn.Linear(2, 500), nn.Dropout(0.5)), 500, (2,))
    x = torch.randn(4, 2).expand(2, 4, 2)
    one, two = body(x) == 0
    assert 0.4 < one.double().mean() < 0.6
    assert not torch.equal(one, two)
    body.eval()
    close(body(x)[0], body(x)[1])
    assert (body(x) != 0).all()


class Centred(nn.Module):
    """A module with a buffer, which a forward pass reads."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, H)
        self.register_buffer("centre", torch.ones(2))

    def forward(self, x):
        return self.linear(x - self.centre)


def test_buffers_of_a_module_follow_the_stack():
    module = Centred()
    body, x = Stacked(module, H, (2,)).float(), torch.randn(2, N, 2)
    psi = body(x.float())
    assert psi.dtype == torch.float32
    torch.testing.assert_close(psi, module(x).float())


# The paper's


@pytest.mark.parametrize("depth", [1, 2])
def test_four_architectures_as_one_stack_are_four_bodies(depth):
    together = MLP(PLAIN, H, depth, ARCHITECTURES, (4,))
    x, by = torch.randn(4, N, PLAIN), torch.randn(4, N, H)
    psi = together(x)
    grads = gradients(together, psi, by)
    for r, architecture in enumerate(ARCHITECTURES):
        alone = MLP(PLAIN, H, depth, architecture)
        with torch.no_grad():
            for p, q in zip(alone.weights, together.weights, strict=True):
                p.copy_(q[r])
        close(psi[r], alone(x[r]))
        for g, h in zip(grads, gradients(alone, alone(x[r]), by[r]), strict=True):
            close(g[r], h)


def test_architectures_run_along_the_last_replicate_axis():
    names = ("relu", "tanh+LN")
    together, x = MLP(PLAIN, H, 1, names, (3, 2)), torch.randn(3, 2, N, PLAIN)
    for r, name in np.ndenumerate(np.tile(names, (3, 1))):
        alone = MLP(PLAIN, H, 1, str(name))
        alone.weights[0].data = together.weights[0].detach()[r]
        close(together(x)[r], alone(x[r]))
