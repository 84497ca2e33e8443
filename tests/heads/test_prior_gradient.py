"""The prior term of a loss, and its gradient reused between steps."""

import numpy as np
import pytest
import torch

from scroll import ClassificationHead, CountHead, PriorGradient, RegressionHead
from scroll.distributed import checkpoint

HEADS = {
    "full": lambda: ClassificationHead(4, 3, covariance="full"),
    "diag": lambda: ClassificationHead(4, 3, covariance="diag"),
    "none": lambda: ClassificationHead(4, 3, covariance="none"),
    "lowrank": lambda: CountHead(4, covariance="lowrank"),
    "weighed": lambda: RegressionHead(4, prior_weight=0.3),
    "kl": lambda: RegressionHead(4, method="kl"),
    "vbll": lambda: RegressionHead(4, method="vbll"),
    "stacked": lambda: RegressionHead(4, replicates=(2,)),
}


def given(name):
    torch.manual_seed(0)
    head = HEADS[name]().double()
    with torch.no_grad():
        for p in head.parameters():
            p.add_(0.1 * torch.randn_like(p))
    lead = (2,) if name == "stacked" else ()
    psi = torch.randn(*lead, 9, 4, dtype=torch.float64)
    y = torch.randint(3, (*lead, 9))
    return head, psi, y if isinstance(head, ClassificationHead | CountHead) else y.double()


@pytest.mark.parametrize("name", HEADS)
def test_the_loss_is_the_sum_of_its_data_and_prior_parts(name):
    head, psi, y = given(name)
    whole, rows = head.loss(psi, y, total=90), head.loss(psi, y, total=90, prior=False)
    torch.testing.assert_close(rows + head.prior_loss(90), whole, rtol=1e-12, atol=1e-12)
    assert (whole - rows).abs().min() > 1e-6


@pytest.mark.parametrize("name", HEADS)
def test_computed_at_every_step_it_gives_the_gradient_of_the_loss(name):
    head, psi, y = given(name)
    head.loss(psi, y, total=90).sum().backward()
    want = [None if p.grad is None else p.grad.clone() for p in head.parameters()]
    head.zero_grad()
    prior = PriorGradient(head, 90)
    head.loss(psi, y, total=90, prior=False).sum().backward()
    prior.find()
    prior.add()
    for p, grad in zip(head.parameters(), want, strict=True):
        if grad is None:
            assert not p.requires_grad
        else:
            torch.testing.assert_close(p.grad, grad, rtol=1e-9, atol=1e-12)


def test_between_computations_it_stays_the_same():
    head, _, _ = given("full")
    prior = PriorGradient(head, 90)
    prior.find()
    want = [kept.clone() for kept in prior.kept]
    with torch.no_grad():
        for p in head.parameters():
            p.add_(0.1)
    for _ in range(2):
        head.zero_grad()
        prior.add()
        for p, grad in zip(head.parameters(), want, strict=True):
            torch.testing.assert_close(p.grad, grad, rtol=0, atol=0)
    prior.find()
    assert any(not torch.equal(new, old) for new, old in zip(prior.kept, want, strict=True))


def test_reuse_for_ten_steps_reaches_the_same_optimum():
    """With Adam, whose running averages a prior added only every tenth step would distort."""
    ends = {}
    for every in (1, 16):
        torch.manual_seed(0)
        head = RegressionHead(4, covariance="full").double()
        psi, y = torch.randn(64, 4, dtype=torch.float64), torch.randn(64, dtype=torch.float64)
        adam, prior = torch.optim.Adam(head.parameters(), 1e-2), PriorGradient(head, 64)
        for i in range(320):
            adam.zero_grad()
            head.loss(psi, y, total=64, prior=False).backward()
            if i % every == 0:
                prior.find()
            prior.add()
            adam.step()
        ends[every] = float(head.loss(psi, y, total=64).detach())
    assert abs(ends[1] - ends[16]) < 2e-3


def test_parameters_may_be_frozen_or_cast_during_training():
    """Unfrozen, frozen or cast after the `PriorGradient` was made."""
    head, _, _ = given("full")
    head.requires_grad_(False)
    head.mean.requires_grad_(True)
    prior = PriorGradient(head, 90)
    prior.find()
    head.requires_grad_(True)
    prior.find()
    prior.add()
    found = {k: p.grad.clone() for k, p in head.named_parameters()}
    head.zero_grad()
    head.prior_loss(90).backward()
    want = {
        k: torch.zeros_like(p) if p.grad is None else p.grad for k, p in head.named_parameters()
    }
    torch.testing.assert_close(found, want, rtol=1e-12, atol=0)
    head.float().zero_grad()
    head.mean.requires_grad_(False)
    prior.add()
    assert head.mean.grad is None
    torch.testing.assert_close(head.log_alpha.grad, found["log_alpha"].float())
    prior.find()


def test_add_before_find_is_refused():
    with pytest.raises(ValueError, match="`find` must be called before `add`"):
        PriorGradient(RegressionHead(4), 90).add()


def test_a_bound_belief_has_no_separate_prior():
    for method in ("closed", "loo", "hybrid"):
        head = RegressionHead(4, method=method)
        with pytest.raises(ValueError, match="`method` must train on mini-batches") as told:
            PriorGradient(head, 90)
        with pytest.raises(ValueError, match="`method` must train") as same:
            head.prior_loss(90)
        assert str(told.value) == str(same.value)


def test_a_total_of_zero_is_refused():
    with pytest.raises(ValueError, match="`total` must be the number of training rows, but got 0"):
        PriorGradient(RegressionHead(4), 0).find()


def test_a_checkpoint_keeps_the_last_gradient(tmp_path):
    """Also between two computations."""
    (head, psi, y), path = given("full"), tmp_path / "run.safetensors"

    def go(head, prior, steps):
        for i in steps:
            head.zero_grad()
            head.loss(psi, y, total=90, prior=False).backward()
            if i % 16 == 0:
                prior.find()
            prior.add()
            with torch.no_grad():
                for p in head.parameters():
                    p.sub_(0.1 * p.grad)
        return head.state_dict()

    prior = PriorGradient(head, 90)
    go(head, prior, range(20))
    checkpoint.save(path, 20, head=head, prior=prior)
    whole = {k: v.clone() for k, v in go(head, prior, range(20, 30)).items()}
    other, *_ = given("full")
    again = PriorGradient(other, 90)
    assert checkpoint.resume(path, head=other, prior=again) == 20
    torch.testing.assert_close(go(other, again, range(20, 30)), whole, rtol=0, atol=0)
    narrow = PriorGradient(RegressionHead(4), 90)
    with pytest.raises(ValueError, match="must fit this prior, but got `state` must hold tensors"):
        checkpoint.resume(path, head=other, prior=narrow)
    with pytest.raises(ValueError, match=r"`state` must hold tensors of shapes .* but got None"):
        narrow.load_state_dict({})


@pytest.mark.parametrize("total", [None, 9.5, float("inf"), "90", True, torch.ones(3), -1])
def test_a_bad_total_is_refused(total):
    head, psi, y = given("full")
    for use in (
        lambda: head.prior_loss(total),
        lambda: head.loss(psi, y, total=total),
        lambda: PriorGradient(head, total),
    ):
        with pytest.raises(ValueError, match="`total` must be the number of training rows"):
            use()


def test_a_total_of_another_integer_type():
    head, psi, y = given("full")
    assert head.loss(psi, y, total=np.int64(90)) == head.loss(psi, y, total=90)
    assert head.prior_loss(torch.tensor(90)).equal(head.prior_loss(90))


def test_heads_without_a_prior_gradient_are_refused():
    with pytest.raises(ValueError, match="`head` must be a scroll head, but got Linear"):
        PriorGradient(torch.nn.Linear(2, 1), 5)
    frozen = RegressionHead(4).requires_grad_(False)
    with pytest.raises(ValueError, match="`head` must have parameters that learn, but got none"):
        PriorGradient(frozen, 5)
