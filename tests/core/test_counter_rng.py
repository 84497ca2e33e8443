"""Counter-based random numbers: bits, row orders, dropout, mini-batches."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats

from scroll._core.counter_rng import bits, kept, permutation
from scroll.training.batches import Feed, Rows
from scroll.training.bodies import MLP
from scroll.training.dropout import Dropout

COUNT = torch.arange(4096)


def p_value(bins, n):
    """Of a chi-square test that integers below n are uniform."""
    return stats.chisquare(np.bincount(bins.flatten().numpy(), minlength=n)).pvalue


@pytest.mark.parametrize("shift", [0, 13, 27])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_bits_of_consecutive_counters_are_uniform(where, shift):
    """32 bins of five bits, by 300 other words: their p-values are uniform themselves, so the
    counts are neither too uneven nor too even."""
    found = []
    for other in range(300):
        words = [other, 7]
        words.insert(where, COUNT)
        found.append(p_value((bits(*words) >> shift) & 31, 32))
    assert stats.kstest(found, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    "other",
    [(3, COUNT + 1), (4, COUNT), (COUNT, 3), (3, COUNT, 0)],
    ids=["next", "next seed", "swapped", "one word more"],
)
def test_bits_of_neighbours_are_independent(other):
    one, two = bits(3, COUNT), bits(*other)
    for shift in (0, 28):
        pair = ((one >> shift) & 15) * 16 + ((two >> shift) & 15)
        assert p_value(pair, 256) > 1e-3


def test_bits_are_a_function_of_their_words_alone():
    """32 of them, the same one by one as together, and in the order of the words."""
    seeds, rows = torch.tensor([0, 5, 2**31])[:, None], torch.arange(6)
    together = bits(seeds, 9, rows)
    assert together.shape == (3, 6)
    assert together.dtype == torch.int64
    for i, seed in enumerate((0, 5, 2**31)):
        assert [bits(seed, 9, n).item() for n in range(6)] == together[i].tolist()
    assert bits(1, 2) != bits(2, 1)
    many = bits(COUNT)
    assert many.min() >= 0
    assert many.max() < 2**32
    assert many.max() > 2**32 * 0.99
    assert len(many.unique()) == len(many)


def test_permutations_are_permutations_that_differ():
    seeds = torch.tensor([3, 4, 1003])
    orders = torch.stack([permutation(seeds, epoch, 50) for epoch in range(4)])
    assert (orders.sort(-1).values == torch.arange(50)).all()
    assert len(orders.flatten(0, 1).unique(dim=0)) == 12
    for r in range(3):
        assert (permutation(seeds[[r]], 2, 50)[0] == orders[2, r]).all()


def test_every_order_is_as_likely():
    orders = permutation(torch.arange(12_000), 1, 4)
    key = (orders * torch.tensor([64, 16, 4, 1])).sum(-1)
    found = [(key == np.dot(p, (64, 16, 4, 1))).sum().item() for p in permutations(range(4))]
    assert sum(found) == 12_000
    assert stats.chisquare(found).pvalue > 1e-3


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_the_share_that_dropout_drops(p):
    left = kept(p, 7, torch.arange(400)[:, None], torch.arange(100))
    assert stats.binomtest((~left).sum().item(), left.numel(), p).pvalue > 1e-3
    for by in (0, 1):  # in rows and in units, spread as binomial counts are
        n, counts = left.shape[by], (~left).sum(by).numpy()
        dispersion = ((counts - n * p) ** 2).sum() / (n * p * (1 - p))
        assert 1e-3 < stats.chi2(len(counts)).cdf(dispersion) < 1 - 1e-3


def dropout(p, seeds, lead=None):
    layer = Dropout(p, (len(seeds),) if lead is None else lead)
    layer.seeds.copy_(torch.tensor(seeds).view(layer.seeds.shape))
    return layer


def test_dropout_scales_what_it_keeps_and_draws_anew_each_call():
    layer, x = dropout(0.2, [4, 5]), torch.randn(2, 300, 40)
    first, second = layer(x), layer(x)
    for out in (first, second):
        left = out != 0
        torch.testing.assert_close(out[left], x[left] / 0.8, rtol=1e-12, atol=0)
        assert stats.binomtest((~left).sum().item(), left.numel(), 0.2).pvalue > 1e-3
    agree = ((first != 0) == (second != 0)).double().mean().item()
    # independent masks agree on 0.8^2 + 0.2^2 of 24,000, known to 0.003
    assert agree == pytest.approx(0.68, abs=0.012)
    replicates = ((first[0] != 0) == (first[1] != 0)).double().mean().item()
    assert replicates == pytest.approx(0.68, abs=0.017)


def test_dropout_has_the_expectation_of_its_input():
    layer, x = dropout(0.3, [1]), torch.ones(1, 200, 50)
    mean = torch.stack([layer(x) for _ in range(20)]).mean().item()
    # 200,000 numbers of variance 0.3/0.7
    assert mean == pytest.approx(1, abs=4 * (0.3 / 0.7 / 200_000) ** 0.5)


def test_dropout_is_the_identity_in_eval_and_for_p_zero():
    x = torch.randn(2, 10, 4)
    layer = dropout(0.5, [1, 2]).eval()
    assert layer(x) is x
    assert (layer.calls == 0).all()
    assert dropout(0.0, [1, 2])(x) is x
    with pytest.raises(ValueError, match=r"`p` must lie in \[0, 1\)"):
        Dropout(1.0)


@pytest.mark.parametrize("depth", [1, 2])
def test_dropout_of_a_replicate_is_its_own(depth):
    """Alone, in a stack, and as another replicate of another stack; a mask a layer and call."""
    seeds, x = [8, 3, 5], torch.randn(3, 20, 2)

    def body(seeds):
        lead = (len(seeds),)
        return MLP(2, 16, depth, "tanh", lead, dropout(0.4, seeds))

    together, swapped, ones = body(seeds), body(seeds[::-1]), [body([s]) for s in seeds]
    with torch.no_grad():
        for k, w in enumerate(together.weights):
            swapped.weights[k].copy_(w.flip(0))
            for r in range(3):
                ones[r].weights[k].copy_(w[[r]])
    for _ in range(3):
        out, turned = together(x), swapped(x.flip(0)).flip(0)
        torch.testing.assert_close(out, turned, rtol=1e-12, atol=1e-15)
        for r in range(3):
            torch.testing.assert_close(out[r], ones[r](x[[r]])[0], rtol=1e-12, atol=1e-15)
    assert (together.between.calls == 3 * depth).all()


# Mini-batches

R, N, B = 3, 23, 5


def rows():
    """A row tells its replicate and its place, in x and in y."""
    y = torch.arange(R)[:, None] * 100.0 + torch.arange(N)
    return Rows(y[..., None] * torch.tensor([1.0, -1.0]), y)


def batches(feed, cycles):
    """(cycles * steps, R, B) row numbers, after a check that x and y belong together."""
    found = []
    for _ in range(cycles):
        feed.refill()
        for step in range(feed.steps):
            x, y, _ = feed.part(step)
            torch.testing.assert_close(x, y[..., None] * torch.tensor([1.0, -1.0]), rtol=0, atol=0)
            found.append(y)
    return torch.stack(found)


def test_an_epoch_is_an_order_of_the_rows_cut_into_batches():
    """Cycles of three steps over epochs of four batches: nothing is lost between them."""
    seeds = torch.tensor([2, 9, 4])
    found = batches(Feed(rows(), B, seeds, steps=3), cycles=4)
    assert found.shape == (12, R, B)
    for epoch in range(3):
        part = found[4 * epoch : 4 * epoch + 4].movedim(0, 1).flatten(1)
        want = permutation(seeds, epoch, N)[:, :20] + torch.arange(R)[:, None] * 100
        torch.testing.assert_close(part, want.double(), rtol=0, atol=0)


def test_a_feed_of_some_is_theirs_at_once_and_later():
    """What is in the queue, what waits of an epoch and what is drawn afterwards."""
    seeds, keep = torch.tensor([2, 9, 4]), torch.tensor([True, False, True])
    feed = Feed(rows(), B, seeds, steps=3)
    batches(feed, 1)
    less = feed.take(keep)
    torch.testing.assert_close(less.part(1).y, feed.part(1).y[keep], rtol=0, atol=0)
    some, every = batches(less, 3), batches(feed, 3)
    assert some.shape == (9, 2, B)
    torch.testing.assert_close(some, every[:, keep], rtol=0, atol=0)
    alone = Feed(rows().take(torch.tensor([2])), B, seeds[[2]], steps=3)
    torch.testing.assert_close(batches(alone, 4)[3:, 0], every[:, 2], rtol=0, atol=0)


@pytest.mark.parametrize("batch", [None, N, N + 1])
def test_a_batch_of_all_rows_is_the_rows(batch):
    feed = Feed(rows(), batch, torch.arange(R), steps=2)
    feed.refill()
    assert feed.part(1) is feed.rows
    less = feed.take(torch.tensor([False, True, False]))
    torch.testing.assert_close(less.part(0).y, rows().y[[1]], rtol=0, atol=0)
