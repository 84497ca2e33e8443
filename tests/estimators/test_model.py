"""A readout predicts the same as its head, or as its refit, for each member."""

from dataclasses import fields, replace

import pytest
import torch

from parts import HEADS
from scroll import refit
from scroll.beliefs.covariances import Spectral
from scroll.estimators.members import Readout

M, N, H = 3, 12, 4
FREE = [name for name in HEADS if name != "any"]
BOUND = ("regression", "regression-3", "gaussreg")
TOLERANCE = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-10},
    # numbers of order one, of which float32 has seven digits, summed over a few features
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
}


def made(name, dtype=torch.float64, **kwargs):
    """A head whose members differ, with rows and labels."""
    make, labels = HEADS[name]
    head, psi, y = make(H, replicates=(M,), **kwargs), torch.randn(M, 40, H), labels(M, 40)
    with torch.no_grad():
        for p in head.parameters():
            p += 0.3 * torch.randn_like(p)
    if name.startswith("regression"):
        y = y + (psi.sum(-1) if name == "regression" else psi.sum(-1, keepdim=True))
    return head.to(dtype), psi.to(dtype), y.to(dtype) if y.is_floating_point() else y


def empty(head):
    """A readout in the precision of the head; the mean keeps its own."""
    out = Readout(head.likelihood, M, H)
    assert out.mean.dtype == torch.float64
    out.scale, out.noise = (x.to(head.log_alpha.dtype) for x in (out.scale, out.noise))
    return out


def readout(head, bound, routes):
    out = empty(head)
    out.put(head, bound, routes)
    return out


def tensors(p, m=slice(None)):
    """The numbers of a predictive, of some members."""
    p = getattr(p, "base", p)
    found = {f.name: getattr(p, f.name) for f in fields(p)}
    if "factor" in found:
        found = {"mean": p.mean, "variance": p.variance} | found
        del found["factor"]
    return {name: x.detach()[m] for name, x in found.items()}


def assert_same(mine, theirs, dtype=torch.float64, m=slice(None)):
    assert type(mine) is type(theirs)
    mine, theirs = tensors(mine, m), tensors(theirs, m)
    assert mine.keys() == theirs.keys()
    for name, x in mine.items():
        torch.testing.assert_close(x, theirs[name], **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("covariance", ["full", "diag", "lowrank", "none"])
@pytest.mark.parametrize("name", FREE)
def test_a_free_belief_is_the_heads(name, covariance, dtype):
    head, psi, y = made(name, dtype, covariance=covariance)
    new = torch.randn(M, N, H, dtype=dtype)
    out = readout(head, None, [])
    assert_same(out(new), head(new), dtype)
    at, want = out.message(new), head.message(new)
    torch.testing.assert_close(at.mean, want.mean, **TOLERANCE[dtype])
    torch.testing.assert_close(at.var, want.var.expand_as(at.var), **TOLERANCE[dtype])
    bound = refit(head, psi, y)  # which no member asks for
    assert_same(readout(head, bound, ["free"] * M)(new), head(new), dtype)


@pytest.mark.parametrize("name", ["regression", "ova"])
def test_a_diagonal_covariance_has_a_diagonal_root(name):
    """So that a row costs H products instead of H^2."""
    head, _, _ = made(name, covariance="diag")
    root = readout(head, None, []).scale
    assert torch.equal(root, root.diagonal(dim1=-2, dim2=-1).diag_embed())


def test_a_singular_covariance_has_a_root():
    head, psi, y = made("regression")
    bound = refit(head, psi, y)
    belief, var = bound.weights, bound.weights.cov.var.clone()
    var[..., :2] = 0
    flat = replace(bound, weights=replace(belief, cov=Spectral(belief.cov.basis, var)))
    new = torch.randn(M, N, H)
    assert_same(readout(head, flat, ["closed"] * M)(new), flat(new))


def routed(name, dtype=torch.float64, bias=True):
    """A head, its posterior, that with something added, and new rows."""
    head, psi, y = made(name, dtype, bias=bias)
    closed = refit(head, psi, y)
    hybrid = refit(head, psi, y, hybrid=True, steps=20)
    return head, closed, hybrid, torch.randn(M, N, H, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", BOUND)
def test_a_bound_belief_is_the_refits(name, bias, dtype):
    head, closed, hybrid, new = routed(name, dtype, bias)
    out = readout(head, closed, ["closed"] * M)
    assert_same(out(new), closed(new), dtype)
    # what a hybrid adds is left out where a member's route is the posterior alone
    assert_same(readout(head, hybrid, ["closed"] * M)(new), closed(new), dtype)
    out.put(head, hybrid, ["hybrid"] * M)
    assert_same(out(new), hybrid(new), dtype)
    differs = tensors(hybrid(new)), tensors(closed(new)), tensors(head(new))
    last = list(differs[0])[-1]
    assert not torch.allclose(differs[0][last], differs[1][last], atol=1e-3)
    assert not torch.allclose(differs[1][last], differs[2][last], atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", BOUND)
def test_each_member_has_its_route(name, bias):
    head, closed, hybrid, new = routed(name, bias=bias)
    routes = {"free": head(new), "closed": closed(new), "hybrid": hybrid(new)}
    order = ["hybrid", "free", "closed"]
    out = readout(head, hybrid, order)
    for m, route in enumerate(order):
        assert_same(out(new), routes[route], m=m)
    out.put(head, hybrid, order[::-1])  # again, with nothing left of before
    for m, route in enumerate(order[::-1]):
        assert_same(out(new), routes[route], m=m)
    out.put(head, None, order)
    assert_same(out(new), routes["free"])


def test_weights_of_a_posterior_keep_their_digits():
    """Large and of opposite signs on features that hardly differ: float32 sums would be noise."""
    torch.set_default_dtype(torch.float32)
    head, psi, y = made("regression", torch.float32)
    psi[..., 1] = psi[..., 0] + 1e-4 * psi[..., 1]
    y = (psi[..., 1] - psi[..., 0]).double().mul(1e4).float() + 0.01 * torch.randn(M, 40)
    bound = refit(head, psi, y)
    assert bound.weights.mean.abs().max() > 1e3
    out = readout(head, bound, ["closed"] * M)
    torch.testing.assert_close(out(psi).mean, bound(psi).mean, rtol=1e-5, atol=1e-5)


def test_it_is_saved_with_its_numbers():
    head, closed, _, new = routed("regression")
    out = readout(head, closed, ["closed"] * M)
    again = empty(head)
    again.load_state_dict(out.state_dict())
    assert_same(again(new), out(new))
