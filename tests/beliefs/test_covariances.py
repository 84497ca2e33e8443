"""Conformance of every covariance, against torch.distributions and dense algebra."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import LowRankMultivariateNormal, MultivariateNormal, kl_divergence

import scroll
from parts import COVARIANCES, lower, orthogonal
from scroll._core.linalg import eye_like, inverse_root, log_det_and_quad, matvec
from scroll.beliefs import Belief
from scroll.beliefs.covariances import (
    Diag,
    Full,
    Isotropic,
    LowRank,
    Point,
    Scaled,
    Spectral,
    Sum,
    from_state,
    state,
)
from scroll.beliefs.covariances.serialisation import KINDS

pytestmark = pytest.mark.oldest

H, N = 4, 6
close = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
DENSE = [name for name in COVARIANCES if name != "isotropic"]
each = pytest.mark.parametrize("name", COVARIANCES)


def matrix(cov, h=H):
    """S, from `quad` alone: polarisation of the unit vectors."""
    eye = torch.eye(h)
    pairs = (eye[:, None] + eye[None, :]).reshape(-1, h)
    diagonal = cov.quad(eye)
    both = cov.quad(pairs).unflatten(-1, (h, h))
    return (both - diagonal[..., :, None] - diagonal[..., None, :]) / 2


@each
def test_quad_is_that_of_a_positive_definite_matrix(name):
    cov = COVARIANCES[name](H)
    s, psi = matrix(cov), torch.randn(N, H)
    close(cov.quad(psi), ((psi @ s) * psi).sum(-1))
    assert torch.linalg.eigvalsh(s).min() > 0


@pytest.mark.parametrize("name", DENSE)
def test_dense_and_trace(name):
    cov = COVARIANCES[name](H)
    close(cov.dense(), matrix(cov))
    close(cov.trace(), matrix(cov).trace())


@each
def test_plus(name):
    cov, c = COVARIANCES[name](H), torch.tensor(0.7)
    close(matrix(cov.plus(c)), matrix(cov) + 0.7 * torch.eye(H))


@each
def test_log_normal_against_torch(name):
    cov, x = COVARIANCES[name](H), torch.randn(H)
    close(cov.log_normal(x), MultivariateNormal(torch.zeros(H), matrix(cov)).log_prob(x))
    lifted = MultivariateNormal(torch.zeros(H), matrix(cov) + 0.7 * torch.eye(H))
    close(cov.plus(torch.tensor(0.7)).log_normal(x), lifted.log_prob(x))


def test_low_rank_log_normal_against_torch():
    var, factor, x = torch.rand(H) + 0.1, torch.randn(2, H), torch.randn(H)
    load = torch.rand(2) + 0.1
    theirs = LowRankMultivariateNormal(torch.zeros(H), factor.mT * load, var)
    close(LowRank(var, factor, load).log_normal(x), theirs.log_prob(x))


def test_shared_directions_are_the_expanded_ones():
    var, load, shared = torch.rand(2, 3, H) + 0.1, torch.rand(2, 3, 2), torch.randn(2, 1, 2, H)
    each = LowRank(var, shared.expand(2, 3, 2, H), load)
    ours, psi, x = LowRank(var, shared, load), torch.randn(2, 1, N, H), torch.randn(2, 3, H)
    close(ours.quad(psi), each.quad(psi))
    close(ours.log_normal(x), each.log_normal(x))
    close(ours.trace(), each.trace())
    close(ours.dense(), each.dense())
    assert ours.draw(torch.Size((5, 2, 3, H))).shape == (5, 2, 3, H)


@pytest.mark.parametrize("name", DENSE)
def test_kl_and_log_evidence_against_torch(name):
    belief, alpha = Belief(torch.randn(H), COVARIANCES[name](H)), torch.tensor(0.7)
    q = MultivariateNormal(belief.mean, matrix(belief.cov))
    prior = MultivariateNormal(torch.zeros(H), torch.eye(H) / alpha)
    close(belief.kl(alpha), kl_divergence(q, prior))
    overlap = MultivariateNormal(torch.zeros(H), matrix(belief.cov) + torch.eye(H) / alpha)
    close(belief.log_evidence(alpha), overlap.log_prob(belief.mean))


@each
def test_draws_have_the_covariance(name):
    cov = COVARIANCES[name](H)
    g = torch.Generator().manual_seed(1)
    draws = cov.draw(torch.Size((200_000, H)), g)
    # a sample covariance of n draws is off by about S/sqrt(n)
    torch.testing.assert_close(draws.T.cov(), matrix(cov), rtol=0.05, atol=0.02)


@each
def test_stacking_law(name):
    """Leading axes are independent replicates; several outputs share features of one more axis."""
    cov = COVARIANCES[name](2, 3, H)
    psi, x = torch.randn(2, 1, N, H), torch.randn(2, 3, H)
    quad, density = cov.quad(psi), cov.log_normal(x)
    assert quad.shape == (2, 3, N)
    assert density.shape == (2, 3)
    flat, spec = torch.utils._pytree.tree_flatten(cov)
    for i in range(2):
        for k in range(3):
            one = torch.utils._pytree.tree_unflatten([t[i, k] for t in flat], spec)
            close(quad[i, k], one.quad(psi[i, 0]))
            close(density[i, k], one.log_normal(x[i, k]))


@each
def test_vmap_sees_through(name):
    cov, psi = COVARIANCES[name](3, H), torch.randn(3, N, H)
    close(torch.vmap(lambda c, p: c.quad(p))(cov, psi), cov.quad(psi))
    x = torch.randn(3, H)
    close(torch.vmap(lambda c, x: c.log_normal(x))(cov, x), cov.log_normal(x))


@pytest.mark.parametrize("name", ["full", "diag", "spectral", "sum"])
def test_downdating_takes_a_site_out_again(name):
    """S_(-n) of each point by refactorising, in the family's own terms."""
    precision, psi = torch.tensor([0.05]), torch.randn(N, H)
    cov = COVARIANCES[name](H)
    base = cov.base if name == "sum" else cov
    want = []
    for row in psi:
        a = torch.linalg.inv(matrix(base)) - 0.05 * row[:, None] * row
        if name == "diag":
            a = a.diagonal().diag()
        want.append(row @ torch.linalg.inv(a) @ row)
    extra = cov.extra.quad(psi) if name == "sum" else 0.0
    close(cov.downdated_quad(psi, precision), torch.stack(want) + extra)


@settings(max_examples=30, deadline=None)
@given(
    h=st.integers(1, 12),
    log_scale=st.floats(-6, 6),
    seed=st.integers(0, 2**31),
)
def test_siblings_agree_where_they_coincide(h, log_scale, seed):
    torch.manual_seed(seed)
    var = (torch.rand(h) + 0.1) * 10.0**log_scale
    psi, x = torch.randn(5, h), torch.randn(h) * var.sqrt()
    diag = Diag(var)
    for cov in (
        Full(var.sqrt().diag()),
        LowRank(var, torch.randn(2, h), torch.zeros(2)),
        Spectral(torch.eye(h), var),
        Scaled(Diag(var / 4), torch.tensor(2.0)),
        Sum(Diag(var / 2), Diag(var / 2)),
    ):
        close(cov.quad(psi), diag.quad(psi))
        close(cov.log_normal(x), diag.log_normal(x))
        c = var.mean()
        close(cov.plus(c).log_normal(x), diag.plus(c).log_normal(x))
    flat = Isotropic(var[0])
    close(flat.quad(psi), Diag(var[0].expand(h)).quad(psi))
    close(flat.log_normal(x), Diag(var[0].expand(h)).log_normal(x))


def test_point_is_the_limit_of_no_width():
    psi, x, c = torch.randn(N, H), torch.randn(H), torch.tensor(0.3)
    close(Point().quad(psi), torch.zeros(N))
    close(Point().plus(c).log_normal(x), Diag(torch.zeros(H)).plus(c).log_normal(x))
    close(Belief(x, Point()).sample(3), x.expand(3, H))
    with pytest.raises(ValueError, match=r"`cov` must have a density, but got `Point`.*`ridge`"):
        Belief(x, Point()).kl(c)


@pytest.mark.parametrize("h", [3, 140])
def test_log_det_and_quad(h):
    """Both sizes of the inverse; values by torch, gradients by gradcheck, also under vmap."""
    root = torch.randn(h, 2 * h)
    a, b = root @ root.mT / h, torch.randn(h)
    log_det, quad = log_det_and_quad(a, b)
    close(log_det, torch.logdet(a))
    close(quad, b @ torch.linalg.solve(a, b))
    if h == 3:
        f = lambda s, b: log_det_and_quad(s @ s.mT + torch.eye(3), b)
        s = torch.randn(2, 3, 3, requires_grad=True)
        b = torch.randn(2, 3, requires_grad=True)
        assert torch.autograd.gradcheck(f, (s, b))
        close(torch.vmap(f)(s, b)[0], f(s, b)[0])


def test_inverse_root():
    scale = lower(2, H)
    a = scale @ scale.mT
    root = inverse_root(a)
    close(root, root.tril())
    close(root @ root.mT, torch.linalg.inv(a))


def test_a_matrix_without_a_root_spoils_only_itself():
    a = torch.stack([eye_like(torch.zeros(3)), -eye_like(torch.zeros(3))])
    root = inverse_root(a)
    close(root[0], torch.eye(3))
    assert root[1].isnan().all()


def test_matvec_shared_features_are_the_expanded_ones():
    psi, w = torch.randn(2, 1, N, H), torch.randn(2, 3, H)
    close(matvec(psi, w), matvec(psi.expand(2, 3, N, H), w))


def test_a_rotated_belief_is_the_rotated_covariance():
    u, var = orthogonal(H), torch.rand(H) + 0.1
    close(Spectral(u, var).dense(), u @ var.diag() @ u.mT)


# What a file stores


def _values():
    torch.manual_seed(3)
    lower = torch.randn(2, 3, 5, 5).tril()
    low_rank = LowRank(torch.rand(2, 3, 5), torch.randn(2, 1, 4, 5), torch.rand(2, 3, 4))
    basis = torch.linalg.qr(torch.randn(2, 1, 5, 5)).Q
    spectral = Spectral(basis, torch.rand(2, 3, 5))
    units = torch.rand(2, 3) + 0.5
    return {
        "diag": Diag(torch.rand(2, 3, 5)),
        "full": Full(lower),
        "full-plus": Full(lower).plus(torch.rand(2, 3)),
        "isotropic": Isotropic(units),
        "lowrank": low_rank,
        "none": Point(),
        "scaled": Scaled(low_rank, units),
        "spectral": spectral,
        "sum": Sum(spectral, Scaled(Full(lower).plus(torch.rand(2, 3)), units)),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_covariance_is_its_state(kind):
    """Through JSON and tensors: bitwise the same, to the last factor."""
    cov = _values()[kind]
    kinds, tensors = state(cov)
    assert kinds[""] == kind
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    again = from_state(json.loads(json.dumps(kinds)), copies)
    assert type(again) is type(cov)
    psi = torch.randn(2, 1, 7, 5)
    assert torch.equal(again.quad(psi), cov.quad(psi))
    moved = again.plus(torch.full((2, 3), 0.1)).quad(psi)
    assert torch.equal(moved, cov.plus(torch.full((2, 3), 0.1)).quad(psi))


def test_a_state_names_what_is_inside():
    kinds, tensors = state(_values()["sum"])
    assert kinds == {
        "": "sum", "base": "spectral", "extra": "scaled", "extra.base": "full-plus"
    }  # fmt: skip
    assert sorted(tensors) == ["base.basis", "base.var", "extra.base.c", "extra.base.scale",
                               "extra.by"]  # fmt: skip


def test_a_kind_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"`kind` must be one of 'diag', .*, but got 'wide'"):
        from_state({"": "wide"}, {})
    with pytest.raises(ValueError, match=r"`cov` must be one of 'Diag', .*, but got 'Own'"):
        state(type("Own", (), {})())


@pytest.mark.parametrize("added", ["diag", "lowrank", "full"])
def test_what_a_hybrid_adds_comes_back_from_its_state(added):
    """A refit with S+ of any family predicts bitwise the same with S+ from its state."""
    torch.manual_seed(4)
    head = scroll.RegressionHead(6, 2, bias=False)
    psi, y = torch.randn(40, 6), torch.randn(40, 2)
    bound = scroll.refit(head, psi, y, hybrid=True, added=added, steps=20)
    kinds, tensors = state(bound.added.cov)
    assert kinds == {"": "scaled", "base": added}
    cov = from_state(kinds, {name: tensor.clone() for name, tensor in tensors.items()})
    new = torch.randn(9, 6)
    now, then = (Belief(bound.weights.mean, Sum(bound.weights.cov, c)) for c in
                 (cov, bound.added.cov))  # fmt: skip
    ours, theirs = now.project(new[None]), then.project(new[None])
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(ours.var, theirs.var)
    assert (ours.var > bound.weights.project(new[None]).var).all()
