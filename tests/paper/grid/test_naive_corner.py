"""The naive corner (leave-one-out, free): refused by `METHODS`, and without a lower bound."""

import pytest
import torch

from scroll import Objective, Problem
from scroll.beliefs import Belief
from scroll.beliefs.covariances import Full
from scroll.factors import Gaussian
from scroll.objectives.cavities import leave_one_out
from scroll.objectives.routes import conjugate, free
from scroll.objectives.terms import none
from scroll_paper.studies.naive import (
    OBJECTIVES,
    downdated_mean,
    drawn,
    head_of,
    naive_corner,
    trained,
)

N, H, NOISE = 20, 3, 0.5


def problem(**more):
    psi = torch.randn(N, H)
    y = psi.sum(-1) + 0.5 * torch.randn(N)
    return Problem(psi, y, Gaussian(torch.tensor(NOISE)), torch.tensor(0.7), **more)


def test_the_library_refuses_the_combination():
    with pytest.raises(ValueError, match=r"`route` must give a belief that each point.*diverges"):
        Objective(free, leave_one_out, prior=none)


def test_for_a_posterior_the_downdate_is_leave_one_out():
    p = problem()
    exact = conjugate(p)
    ours, want = downdated_mean(exact, p), leave_one_out(exact, p)
    torch.testing.assert_close(ours.mean, want.mean, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(ours.var, want.var, rtol=1e-9, atol=1e-11)
    loss = OBJECTIVES["naive, both moments"].loss(p._replace(free=exact))
    known = Objective(conjugate, leave_one_out, prior=none).loss(p)
    torch.testing.assert_close(loss, known, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("what", OBJECTIVES)
def test_the_loss_has_no_lower_bound(what):
    """One row, r = 1: h comes down to 1 from above, or grows."""
    one = torch.ones(1, 1)
    losses = []
    for h in (1 + 1e-2, 1 + 1e-4, 1 + 1e-6) if "both" in what else (1e1, 1e3, 1e5):
        belief = Belief(torch.zeros(1), Full(NOISE * torch.tensor([[h]]).sqrt()))
        p = Problem(one, one[0], Gaussian(torch.tensor(NOISE)), torch.tensor(1.0), free=belief)
        losses.append(OBJECTIVES[what].loss(p).item())
    assert losses[0] > 50 * losses[0] > losses[1] > 50 * losses[1] > losses[2]


def test_below_the_limit_it_is_a_barrier():
    one = torch.ones(1, 1)
    for what, objective in OBJECTIVES.items():
        losses = []
        for gap in (1e-2, 1e-4, 1e-8):
            belief = Belief(torch.zeros(1), Full(NOISE * torch.tensor([[1 - gap]]).sqrt()))
            p = Problem(one, one[0], Gaussian(torch.tensor(NOISE)), torch.tensor(1.0), free=belief)
            losses.append(objective.loss(p).item())
        assert losses[0] < losses[1] < losses[2], what


def test_training_diverges_from_scrolls_belief():
    rows = drawn(range(1), 0)
    first = head_of("scroll", 1)
    path = trained(first, rows, 1500)
    assert path[-1] < path[0]
    head = head_of(OBJECTIVES["naive, variance alone"], 1)
    head.load_state_dict(first.state_dict())
    naive = trained(head, rows, 100)
    assert naive[0] < -10  # of a loss per row that cannot be below about zero
    assert naive[-1] < 10 * naive[0]


def test_the_study_prints_the_losses_and_draws_them(tmp_path):
    said = []
    (table,) = naive_corner(tmp_path, True, said.append)
    (block,) = table.blocks
    assert len(block) == 5 == len(said)
    assert (tmp_path / "naive-corner.png").stat().st_size > 10_000
