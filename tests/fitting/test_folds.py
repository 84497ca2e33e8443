"""Folds: which rows each member learns from, and which rows judge it."""

import numpy as np
import pytest
import torch

from scroll.fitting.folds import folds_of
from scroll.fitting.stacks import LOOKED, Data
from scroll.predictive import Normal

N, D, M = 23, 2, 4


def data(weight=None, fold=True, held=5, n=N):
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(n + held, D, generator=g), torch.randn(n + held, generator=g)
    some = torch.arange(n) * 7 % M if fold else None
    later = None if weight is None else torch.rand(held, generator=g) + 0.5
    return Data(x[:n], y[:n], weight, x[n:], y[n:], later, own=False, seen=False, fold=some)


def numbers(part, x):
    """The numbers in x of a member's rows that have a weight."""
    there = torch.ones(len(part[0])) if part[1] is None else part[1]
    rows = part[0][there > 0]
    return sorted(int((x == row).all(1).nonzero()) for row in rows)


@pytest.mark.parametrize("weighed", [False, True])
def test_every_row_is_held_out_by_one_member_and_learned_from_by_all_others(weighed):
    weight = torch.rand(N) + 0.1 if weighed else None
    weight = weight if weight is None else weight / weight.mean()
    some = data(weight)
    folds = folds_of(some, M)
    assert folds.crossed
    for m in range(M):
        mine, kept = (
            numbers((part.x[m], None if part.weight is None else part.weight[m]), some.x)
            for part in (folds.rows, folds.held)
        )
        assert sorted(mine + kept) == list(range(N))
        assert kept == (some.fold == m).nonzero()[:, 0].tolist()
        for part, those in ((folds.rows, mine), (folds.held, kept)):
            assert float(part.weight[m].mean()) == pytest.approx(1, rel=1e-9)
            if weighed:  # of one member, as the user has them
                there = part.weight[m][part.weight[m] > 0]
                torch.testing.assert_close(there / there.sum(), weight[those] / weight[those].sum())
    assert folds.y is some.y
    assert folds.weight is some.weight


def test_folds_of_equal_size_need_no_weights():
    some = data(n=20)
    folds = folds_of(some, M)
    assert folds.rows.weight is None
    assert folds.held.weight is None
    assert folds.rows.x.shape == (M, 15, D)
    assert folds.held.x.shape == (M, 5, D)


def test_judged_rows_are_in_the_order_of_the_table():
    some = data()
    folds = folds_of(some, M)
    torch.testing.assert_close(folds.judged(folds.held.x), some.x[None], rtol=0, atol=0)
    torch.testing.assert_close(folds.judged(folds.held.y), some.y[None], rtol=0, atol=0)
    p = folds.predictive(Normal(folds.held.y, folds.held.y.square(), folds.held.y.abs()))
    assert p.mean.shape == (1, N)
    torch.testing.assert_close(p.noise_var[0], some.y.square(), rtol=0, atol=0)


def test_a_score_is_the_mean_by_weight():
    weight = torch.rand(N) + 0.1
    log_p = torch.randn(2, N)
    plain = folds_of(data(), M)
    torch.testing.assert_close(plain.score(log_p), log_p.mean(-1))
    weighed = folds_of(data(weight / weight.mean()), M)
    want = np.average(log_p.numpy(), axis=1, weights=weight.numpy())
    np.testing.assert_allclose(weighed.score(log_p), want, rtol=1e-12)


@pytest.mark.parametrize("weighed", [False, True])
def test_without_folds_all_members_hold_out_the_same_rows(weighed):
    some = data(torch.ones(N) if weighed else None, fold=False)
    folds = folds_of(some, 3)
    assert not folds.crossed
    for m in range(3):
        torch.testing.assert_close(folds.rows.x[m], some.x, rtol=0, atol=0)
        torch.testing.assert_close(folds.held.x[m], some.held_x, rtol=0, atol=0)
    assert folds.number.tolist() == [list(range(5))] * 3
    assert (folds.weight is None) == (not weighed)
    log_p = torch.randn(3, 5)
    assert folds.judged(log_p) is log_p  # every member judges every row


def test_of_many_held_out_rows_some_are_looked_at():
    some = data(fold=False, held=LOOKED + 7)
    folds = folds_of(some, 2)
    assert folds.held.x.shape == (2, LOOKED, D)
    assert folds.y.shape == (LOOKED,)
