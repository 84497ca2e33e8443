"""Conformance of every objective: batching, gradients, mini-batches, compile; what is refused."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from parts import CONJUGATE, FACTORS, FREE, HEADS, NEWTON, SEARCHES_A_MODE, make_head
from scroll import METHODS, Head, Objective, Problem, RegressionHead
from scroll.beliefs import Belief
from scroll.beliefs.covariances import Diag, Full, LowRank
from scroll.factors import Bounded, Gaussian, Moments, Probit
from scroll.heads.likelihoods import AnyLikelihood
from scroll.objectives.cavities import leave_batch_out, leave_one_out, sequential, shared
from scroll.objectives.routes import (
    batch_hybrid,
    block_hybrid,
    conjugate,
    conjugate_diag,
    filtered_diag,
    free,
    hybrid,
)
from scroll.objectives.terms import expected_log, lapsing, log_evidence, minus_kl, none, ridge
from sweeps import cases

N, H = 10, 4
LEADS = [(), (3,), (2, 3)]
# torch's compiler, seeing an autograd.Function
compiling = pytest.mark.filterwarnings("ignore:.*should not be instantiated")


def randomise(module):
    for p in module.parameters():
        torch.nn.init.normal_(p, std=0.3)


def solo(heads, one, i):
    """Replicate `i` of a stack, as a head of its own."""
    state = {
        k: v[i] if v.dim() >= len(i) and k in _stacked(heads) else v
        for k, v in heads.state_dict().items()
    }
    one.load_state_dict(state)
    return one


def _stacked(heads):
    lead = heads.replicates
    return {k for k, v in heads.state_dict().items() if v.shape[: len(lead)] == lead and v.dim()}


@pytest.mark.parametrize("lead", LEADS, ids=str)
@pytest.mark.parametrize("key", METHODS)
def test_batching_law_of_every_method(key, lead):
    """Replicate r of a stacked run is the solo run r (identity 17, one step of it)."""
    psi, y = torch.randn(*lead, N, H), torch.randn(*lead, N)
    heads = make_head(key, replicates=lead)
    randomise(heads)
    loss = heads.loss(psi, y, total=N)
    assert loss.shape == lead
    loss.sum().backward()
    for i in np.ndindex(*lead):
        one = solo(heads, make_head(key), i)
        alone = one.loss(psi[i], y[i], total=N)
        torch.testing.assert_close(alone, loss[i], rtol=1e-10, atol=1e-12)
        alone.backward()
        for (name, p), (_, q) in zip(heads.named_parameters(), one.named_parameters(), strict=True):
            if p.grad is not None:
                torch.testing.assert_close(q.grad, p.grad[i], rtol=1e-8, atol=1e-10, msg=name)


ANY_FACTOR = [key for key in FREE if not METHODS[key].needs_gaussian]
ROBUST = [key for key in FREE if key.startswith("robust")]
GAUSSIAN = ("regression", "regression-3", "gaussreg")


@pytest.mark.parametrize("lead", LEADS[1:], ids=str)
@pytest.mark.parametrize(("name", "key"), [*product(HEADS, ANY_FACTOR), *product(GAUSSIAN, ROBUST)])
def test_batching_law_of_every_head(name, key, lead):
    """Every covariance, factor and objective, with the labels of each head."""
    make, labels = HEADS[name]
    method, _, covariance = key.rpartition("-")
    kwargs = {"covariance": covariance, "method": method, "rank": 2}
    psi, y = torch.randn(*lead, N, H), labels(*lead, N)
    heads = make(H, replicates=lead, **kwargs)
    randomise(heads)
    loss = heads.loss(psi, y, total=30)
    assert loss.shape == lead
    for i in np.ndindex(*lead):
        one = solo(heads, make(H, **kwargs), i)
        torch.testing.assert_close(one.loss(psi[i], y[i], total=30), loss[i], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("key", METHODS)
def test_gradients_by_finite_differences(key):
    psi, y = torch.randn(N, H), torch.randn(N)
    head = make_head(key, rank=2)
    randomise(head)
    names = [n for n, p in head.named_parameters() if p.requires_grad]
    values = [p.detach().clone().requires_grad_() for n, p in head.named_parameters() if n in names]

    def loss(*values):
        parameters = dict(zip(names, values, strict=True))
        return torch.func.functional_call(
            _Loss(head), {f"head.{k}": v for k, v in parameters.items()}, (psi, y)
        )

    assert torch.autograd.gradcheck(loss, values)


class _Loss(torch.nn.Module):
    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, psi, y):
        return self.head.loss(psi, y, total=len(y))


@pytest.mark.parametrize("key", FREE)
def test_mini_batches_average_to_the_full_loss(key):
    """The mean over a partition into equal batches is the full loss over N, exactly."""
    psi, y = torch.randn(12, H), torch.randn(12)
    head = make_head(key)
    randomise(head)
    whole = head.loss(psi, y, total=12)
    parts = [head.loss(psi[i : i + 3], y[i : i + 3], total=12) for i in range(0, 12, 3)]
    torch.testing.assert_close(torch.stack(parts).mean(), whole, rtol=1e-12, atol=0)
    torch.testing.assert_close(
        head.objective.loss(head.problem(psi, y)).sum(), 12 * whole, rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("key", CONJUGATE)
def test_a_bound_belief_refuses_a_part_of_the_data(key):
    with pytest.raises(
        ValueError, match=r"`psi` must hold all 20 training rows.*got 10 rows\. Train"
    ):
        make_head(key).loss(torch.randn(N, H), torch.randn(N), total=20)


@pytest.mark.parametrize(
    "key",
    cases([k for k in METHODS if k not in NEWTON], "scroll-full", "scroll-lowrank", "closed-full"),
)
@compiling
def test_every_method_compiles_in_one_graph(key):
    psi, y = torch.randn(N, H), torch.randn(N)
    head = make_head(key, rank=2)
    randomise(head)
    compiled = torch.compile(head.loss, fullgraph=True, backend="aot_eager")
    loss, ours = head.loss(psi, y, total=N), compiled(psi, y, total=N)
    torch.testing.assert_close(ours, loss, rtol=1e-10, atol=1e-12)
    ours.backward()
    grads = [p.grad.clone() for p in head.parameters() if p.grad is not None]
    head.zero_grad()
    loss.backward()
    for a, b in zip(grads, [p.grad for p in head.parameters() if p.grad is not None], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", cases([n for n in HEADS if n not in SEARCHES_A_MODE], "ova"))
@compiling
def test_every_head_compiles_in_one_graph(name):
    make, labels = HEADS[name]
    psi, y = torch.randn(N, H), labels(N)
    for method in ("scroll", "elbo"):
        head = make(H, method=method)
        compiled = torch.compile(head.loss, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(psi, y, total=N), head.loss(psi, y, total=N))
        torch.compiler.reset()


@compiling
def test_a_users_factor_compiles_in_one_graph():
    factor = Bounded(lambda y, f: torch.nn.functional.logsigmoid(y * f), "belief", 16)
    head, psi, y = Head(H, AnyLikelihood(factor)), torch.randn(N, H), torch.ones(N)
    compiled = torch.compile(head.loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(psi, y, total=N), head.loss(psi, y, total=N))


@pytest.mark.parametrize(
    "key", cases(["scroll-full", "scroll-lowrank", "closed-full"], "scroll-full")
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler, of torch itself
def test_inductor_agrees(key):
    """One of each kind of linear algebra through the real code generator, in float32."""
    torch.set_default_dtype(torch.float32)
    psi, y = torch.randn(64, 8), torch.randn(64)
    head = make_head(key, 8, rank=2)
    compiled = torch.compile(head.loss, fullgraph=True)
    torch.testing.assert_close(compiled(psi, y, total=64), head.loss(psi, y, total=64))


def problem(factor=None, **kwargs):
    factor = factor or Gaussian(torch.tensor(0.3))
    psi, y = torch.randn(N, H), torch.randn(N)
    return Problem(psi, y, factor, torch.tensor(0.7), **kwargs)


REFUSED = {
    "a free belief has no leave-one-out": (
        lambda: Objective(free, leave_one_out, prior=none),
        r"`route` must give a belief that each point can be taken out of for the `leave_one_out` "
        r"cavity, but got `free`: .* diverges. Use route `conjugate` or .*"
        r"`conjugate_diag` or `hybrid` or `batch_hybrid`, or cavity `shared`\.",
    ),
    "a free belief has no sequence": (
        lambda: Objective(free, sequential, prior=none),
        r"`route` must give the beliefs before each point for the `sequential` cavity, but got `fr",
    ),
    "the prior is not counted twice": (
        lambda: Objective(conjugate, leave_one_out, prior=log_evidence),
        r"`prior` must not count the prior, which the `leave_one_out` cavity already contains, "
        r"but got `log_evidence`, which would count it twice. Use `none`",
    ),
    "a hybrid needs held-out residuals": (
        lambda: Objective(hybrid, shared, prior=none),
        r"`route` must give one belief.* for the `shared` cavity, but got `hybrid`: only held-out "
        r"residuals .* cavity `leave_one_out`",
    ),
    "a sequence of a hybrid": (
        lambda: Objective(hybrid, sequential, prior=none),
        r"`route` must give the beliefs before each point .* but got `hybrid`",
    ),
    "a batch that was not seen has no points to take out": (
        lambda: Objective(block_hybrid, leave_one_out, prior=none),
        r"`route` must give a belief that each point .* but got `block_hybrid`: it has seen the "
        r"rows outside the batch alone. .* or cavity `leave_batch_out`",
    ),
    "a belief that has seen the batch": (
        lambda: Objective(batch_hybrid, leave_batch_out, prior=none),
        r"`route` must give a belief that has not seen the batch for the `leave_batch_out` cavity, "
        r"but got `batch_hybrid`.* Use route `block_hybrid`, or cavity `leave_one_out`",
    ),
    "a filter is sequential": (
        lambda: Objective(filtered_diag, shared, prior=none),
        r"`route` must give one belief.*, but got `filtered_diag`.*, or cavity `sequential`",
    ),
    "no point can be taken out of a filter": (
        lambda: Objective(filtered_diag, leave_one_out, prior=none),
        r"`route` must give a belief that each point can be taken out of .* got `filtered_diag`",
    ),
    "a diagonal posterior has no sequence": (
        lambda: Objective(conjugate_diag, sequential, prior=none),
        r"`route` must give the beliefs before each point for the `sequential` cavity, but got "
        r"`conjugate_diag`.* Use route `conjugate` or `prequential` or "
        r"`filtered_diag`, or cavity",
    ),
    "a bare function": (
        lambda: Objective(lambda p: p.free),
        r"`route` must be a `Route`, but got <function.*Wrap it: scroll.objectives.Route\(",
    ),
    "a part of another kind": (
        lambda: Objective(conjugate, log_evidence),
        r"`cavity` must be a `Cavity`, but got PriorTerm\(log_evidence\)",
    ),
    "conjugacy is Gaussian": (
        lambda: METHODS["closed-full"].loss(problem(Probit(torch.tensor(1.0)))),
        r"`factor` must be `Gaussian` for `conjugate`, but got `Probit`. Use the `free` route",
    ),
    "leave-one-out is for bound beliefs": (
        lambda: leave_one_out(
            Belief(torch.zeros(H), LowRank(torch.ones(H), torch.ones(1, H), torch.ones(1))),
            problem(),
        ),
        r"`belief` must be one that a point can be taken out of.*`LowRank`. Use route `conjugate`",
    ),
    "a free route needs a belief": (
        lambda: METHODS["scroll-full"].loss(problem()),
        r"`free` must be a belief on this route, but got None",
    ),
    "a hybrid needs something to add": (
        lambda: METHODS["hybrid-diag"].loss(problem()),
        r"`added` must be a covariance on the hybrid route",
    ),
    "no such method": (
        lambda: make_head("best-full"),
        r"`method` must be one of 'scroll', .*, but got 'best'",
    ),
    "no such covariance": (
        lambda: make_head("scroll-block"),
        r"`covariance` must be one of 'full', 'diag', 'lowrank', 'none', 'auto', but got 'block'",
    ),
    "a row that does not exist": (
        lambda: make_head("loo-lowrank"),
        r"`covariance` must be one of 'full', 'diag', but got 'lowrank'. These exist for .*'loo'",
    ),
    "no KL of a point mass": (
        lambda: make_head("elbo-none"),
        r"`covariance` must be one of 'full', 'diag', 'lowrank', but got 'none'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_combination_names_the_remedy(case):
    attempt, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=message):
        attempt()


def test_methods_hold_every_row_of_the_design_space():
    rows = {"scroll", "fixed-alpha", "no-prior", "kl", "elbo", "closed", "loo", "seq", "map"}
    assert rows | {"vbll", "hybrid"} <= {key.rpartition("-")[0] for key in METHODS}
    for key in (
        "scroll-full",
        "scroll-diag",
        "scroll-none",
        "elbo-full",
        "seq-diag",
        "hybrid-full",
    ):
        assert key in METHODS


def test_blocks_do_not_change_the_sequence(monkeypatch):
    import scroll.objectives.cavities

    p = problem()
    whole = sequential(conjugate(p), p)
    monkeypatch.setattr(scroll.objectives.cavities, "BLOCK", 3)
    parts = sequential(conjugate(p), p)
    torch.testing.assert_close(parts.mean, whole.mean, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(parts.var, whole.var, rtol=1e-10, atol=1e-12)


def test_the_filter_is_exact_where_the_diagonal_is():
    """With one feature, the diagonal of a covariance is all of it."""
    psi, y = torch.randn(N, 1), torch.randn(N)
    p = Problem(psi, y, Gaussian(torch.tensor(0.3)), torch.tensor(0.7))
    exact, cut = sequential(conjugate(p), p), sequential(filtered_diag(p), p)
    torch.testing.assert_close(cut.mean, exact.mean, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(cut.var, exact.var, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(filtered_diag(p).mean, conjugate(p).mean, rtol=1e-10, atol=1e-12)


def test_full_and_diagonal_siblings_coincide_in_one_dimension():
    psi, y = torch.randn(N, 1), torch.randn(N)
    p = Problem(psi, y, Gaussian(torch.tensor(0.3)), torch.tensor(0.7))
    for full, diag in (
        ("closed-full", "closed-diag"),
        ("loo-full", "loo-diag"),
        ("seq-full", "seq-diag"),
    ):
        torch.testing.assert_close(METHODS[full].loss(p), METHODS[diag].loss(p), rtol=1e-10, atol=0)


def test_an_offset_is_a_shift_of_the_targets():
    """For each route, a bias b with targets y equals no bias with targets y - b."""
    added, free_belief = Diag(torch.rand(H)), Belief(torch.randn(H), Full(torch.eye(H)))
    for key in (
        "scroll-full",
        "closed-full",
        "closed-diag",
        "loo-full",
        "loo-diag",
        "seq-full",
        "seq-diag",
        "hybrid-diag",
    ):
        p = problem(free=free_belief, added=added, offset=torch.tensor([0.8]))
        q = p._replace(y=p.y - 0.8, offset=0.0)
        torch.testing.assert_close(METHODS[key].loss(p), METHODS[key].loss(q), rtol=1e-10, atol=0)


def test_a_hybrid_that_adds_nothing_is_leave_one_out():
    p = problem(added=Diag(torch.zeros(H)))
    torch.testing.assert_close(METHODS["hybrid-diag"].loss(p), METHODS["loo-full"].loss(p))


def test_prior_terms_by_their_formulas():
    belief, alpha = Belief(torch.randn(H), Diag(torch.rand(H))), torch.tensor(0.7)
    p = problem()._replace(alpha=alpha)
    assert ridge(belief, p).item() == pytest.approx(
        -0.7 * belief.mean.square().sum().item(), rel=1e-12
    )
    assert none(belief, p).item() == 0
    assert minus_kl(belief, p).item() == pytest.approx(-belief.kl(alpha).item(), rel=1e-12)


def test_scores_take_any_factor():
    for name, (make, _, ys) in FACTORS.items():
        y = torch.tensor(ys)
        at = Moments(torch.zeros(len(ys)), torch.ones(len(ys)))
        p = Problem(torch.zeros(len(ys), 1), y, make(()), torch.tensor(1.0))
        torch.testing.assert_close(expected_log(p, at), make(()).expected_log(y, at), msg=name)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_robust_score_lets_a_hundredth_of_the_rows_lapse(outputs):
    """log(0.99 N(y; m, V) + 0.01 N(y; m, 100 V)): far rows have little influence."""
    head = RegressionHead(H, outputs, covariance="diag", method="robust")
    randomise(head)
    head.objective = Objective(score=lapsing, prior=none)
    psi, y = torch.randn(N, H), 5 * torch.randn(N, outputs)
    p = head(psi)
    mean, std = (t.detach().reshape(N, outputs).numpy() for t in (p.mean, p.stddev))
    each = [w * stats.norm.pdf(y.numpy(), mean, s * std) for w, s in ((0.99, 1), (0.01, 10))]
    want = -np.log(sum(each)).sum() / N
    y = y[:, 0] if outputs == 1 else y
    assert head.loss(psi, y, total=N).item() == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("far", [20.0, 200.0])
def test_far_rows_pull_little_on_a_robust_head(far):
    """By 1 / 100 of the pull on a normal distribution, from about four deviations on."""
    pulls = []
    for method in ("robust", "scroll"):
        head = RegressionHead(H, covariance="none", method=method, noise=1.0)
        head.loss(torch.zeros(1, H), torch.tensor([far]), total=1).backward()
        pulls.append(float(head.bias.grad))
    assert pulls[0] == pytest.approx(pulls[1] / 100, rel=1e-6)


@pytest.mark.parametrize("name", [name for name in HEADS if name not in GAUSSIAN])
def test_a_robust_score_needs_a_gaussian_factor(name):
    with pytest.raises(TypeError, match=r"`likelihood` must be Gaussian for method 'robust'"):
        HEADS[name][0](H, method="robust")
