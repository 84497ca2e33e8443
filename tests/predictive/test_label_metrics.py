"""Metrics of class labels, against other libraries."""

import numpy as np
import pytest
import scoringrules
import torch
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss
from torchmetrics.functional.classification import (
    binary_calibration_error,
    multiclass_accuracy,
    multiclass_calibration_error,
)

from scroll import ClassificationHead
from scroll.predictive import Categorical, Ordered, metrics

OF_LABELS = {
    "accuracy": metrics.accuracy,
    "brier": metrics.brier,
    "ece": metrics.ece,
    "adaptive_ece": metrics.adaptive_ece,
    "ranked_probability_score": metrics.ranked_probability_score,
}
each = pytest.mark.parametrize("metric", OF_LABELS.values(), ids=OF_LABELS)


def example(n=600, k=5, sharp=2.0):
    """Labels that the predictive gets right more often than not, but not as often as it says."""
    p = Categorical((sharp * torch.randn(n, k)).log_softmax(-1))
    return p, torch.where(torch.rand(n) < 0.5, p.mode, torch.randint(k, (n,)))


def certain(top, right):
    """Two labels, the first of probability `top` >= 1/2, and whether it was right."""
    top = torch.tensor(top)
    return Categorical(torch.stack([top, 1 - top], -1).log()), torch.tensor(right).logical_not() * 1


def same(ours, theirs, rel=1e-12):
    assert ours.item() == pytest.approx(float(theirs), rel=rel, abs=1e-15)


# Accuracy, Brier, ranked probabilities


def test_accuracy_is_theirs():
    p, y = example()
    assert 0.4 < metrics.accuracy(p, y) < 0.8
    same(metrics.accuracy(p, y), accuracy_score(y, p.probs.argmax(-1)))
    theirs = multiclass_accuracy(p.probs, y, num_classes=5, average="micro")
    same(metrics.accuracy(p, y), theirs, 1e-6)  # they count in float32


def test_accuracy_takes_the_first_of_equals():
    p = Categorical(torch.tensor([[0.25, 0.375, 0.375]]).log().expand(3, 3))
    same(metrics.accuracy(p, torch.tensor([1, 1, 2])), 2 / 3)


@pytest.mark.parametrize("k", [2, 5])
def test_brier_is_sklearns(k):
    p, y = example(k=k)
    theirs = brier_score_loss(y, p.probs.numpy(), labels=range(k), scale_by_half=False)
    same(metrics.brier(p, y), theirs)


@pytest.mark.parametrize("kind", [Categorical, Ordered])
@pytest.mark.parametrize("k", [2, 5])
def test_ranked_probability_score_is_theirs(k, kind):
    p, y = example(k=k)
    theirs = scoringrules.rps_score(y.numpy() + 1, p.probs.numpy())  # their labels start at 1
    same(metrics.ranked_probability_score(kind(p.log_probs), y), theirs.mean())


def test_ranked_probability_score_is_the_crps_of_its_levels():
    """And of two levels, half the Brier score."""
    p, y = example(40)
    k, q = np.arange(5), p.probs.numpy()
    near = (q * np.abs(k - y.numpy()[:, None])).sum(-1)
    apart = np.einsum("nj,nk,jk->n", q, q, np.abs(k[:, None] - k))
    same(metrics.ranked_probability_score(p, y), (near - apart / 2).mean())
    same(metrics.crps(Ordered(p.log_probs), y), (near - apart / 2).mean())
    two, y = example(k=2)
    same(metrics.ranked_probability_score(two, y), metrics.brier(two, y) / 2)


def test_ranked_probability_score_knows_the_order():
    near = Ordered(torch.tensor([[0.1, 0.8, 0.1, 0.0]]).log())
    one, two = (metrics.ranked_probability_score(near, torch.tensor([k])) for k in (2, 3))
    assert two > one + 0.9
    same(metrics.brier(near, torch.tensor([0])), metrics.brier(near, torch.tensor([2])))


# Calibration errors


@pytest.mark.parametrize("bins", [1, 7, 10, 15])
@pytest.mark.parametrize("k", [2, 5])
def test_ece_is_torchmetrics(bins, k):
    p, y = example(k=k)
    top, guess = p.probs.max(-1)
    # their error of two classes is that of any probability, and keeps float64
    theirs = binary_calibration_error(top, (guess == y) * 1, n_bins=bins, norm="l1")
    same(metrics.ece(p, y, bins), theirs)
    rounded = multiclass_calibration_error(p.probs, y, num_classes=k, n_bins=bins, norm="l1")
    same(metrics.ece(p, y, bins), rounded, 1e-5)
    assert metrics.ece(p, y, bins) > 0.01


def test_ece_has_ten_bins_unless_told():
    p, y = example()
    same(metrics.ece(p, y), metrics.ece(p, y, 10))
    assert metrics.ece(p, y, 10) != metrics.ece(p, y, 9)


def test_a_confidence_on_an_edge_opens_the_bin_above():
    """As torchmetrics has it: 0.75 of four bins is in [0.75, 1), not in (0.5, 0.75]."""
    p, y = certain([0.5, 0.625, 0.75, 0.75, 0.875], [True, False, True, True, False])
    theirs = binary_calibration_error(p.probs.amax(-1), 1 - y, n_bins=4, norm="l1")
    want = (abs(1 - 0.5 - 0.625) + abs(2 - 0.75 - 0.75 - 0.875)) / 5
    same(theirs, want)
    same(metrics.ece(p, y, 4), want)


def test_certainty_belongs_to_the_last_bin():
    """Ten bins are ten: torchmetrics keeps an eleventh for a probability of one."""
    p, y = certain([1.0, 0.95], [False, True])
    same(metrics.ece(p, y), abs(1 - 1.95) / 2)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_adaptive_ece_is_that_of_sklearns_quantile_bins(bins):
    p, y = example(600)
    top, guess = p.probs.max(-1)
    right, said = calibration_curve(guess == y, top, n_bins=bins, strategy="quantile")
    assert len(right) == bins
    same(metrics.adaptive_ece(p, y, bins), np.abs(right - said).mean())  # 600/bins rows in each
    assert metrics.adaptive_ece(p, y) == metrics.adaptive_ece(p, y, 10)


def test_one_bin_is_one_bin_of_either_kind():
    p, y = example()
    want = abs((p.probs.argmax(-1) == y).double().mean() - p.probs.amax(-1).mean())
    same(metrics.adaptive_ece(p, y, 1), want)
    same(metrics.ece(p, y, 1), want)


@pytest.mark.parametrize(("n", "bins"), [(13, 5), (101, 10), (19, 10)])
def test_adaptive_bins_of_any_number_of_rows_differ_by_one_at_most(n, bins):
    p, y = example(n)
    top, guess = (t.numpy() for t in p.probs.max(-1))
    order = np.argsort(top)
    cuts = np.ceil(np.arange(1, bins) * n / bins).astype(int)
    parts = np.split(order, cuts)
    assert max(map(len, parts)) - min(map(len, parts)) == 1
    gaps = [abs(((guess == y.numpy()) - top)[rows].sum()) for rows in parts]
    same(metrics.adaptive_ece(p, y, bins), sum(gaps) / n)


def test_fewer_rows_than_bins_are_a_bin_each():
    p, y = example(7)
    top, guess = p.probs.max(-1)
    same(metrics.adaptive_ece(p, y, 10), ((guess == y) * 1 - top).abs().mean())


def test_equal_confidences_share_a_bin_in_any_order():
    top, right = [0.6, 0.9, 0.75, 0.75, 0.75, 0.75], [True, True, False, True, True, False]
    p, y = certain(top, right)
    # of three bins of two rows, the first takes in all four equals, and the second stays empty
    want = (abs(3 - 0.6 - 4 * 0.75) + abs(1 - 0.9)) / 6
    same(metrics.adaptive_ece(p, y, 3), want)
    for _ in range(10):
        order = torch.randperm(6)
        same(metrics.adaptive_ece(Categorical(p.log_probs[order]), y[order], 3), want)
    all_equal, y = certain([0.75] * 4, [True, False, False, False])
    same(metrics.adaptive_ece(all_equal, y), 0.5)


# Every metric of labels


@each
def test_over_leading_axes(metric):
    p, y = example(240)
    stacked = Categorical(p.log_probs.unflatten(0, (2, 3, 40)))
    y = y.unflatten(0, (2, 3, 40))
    together = metric(stacked, y)
    assert together.shape == (2, 3)
    for i in np.ndindex(2, 3):
        same(together[i], metric(Categorical(stacked.log_probs[i]), y[i]))


@each
def test_of_a_head_with_replicates(metric):
    """Whose probabilities lie in memory as they come, not as rows."""
    p = ClassificationHead(4, 3, replicates=(2,))(torch.randn(2, 30, 4))
    y = torch.randint(3, (2, 30))
    plain = Categorical(p.log_probs.detach().contiguous())
    torch.testing.assert_close(metric(p, y).detach(), metric(plain, y), rtol=1e-12, atol=0)


@each
def test_in_float32(metric):
    p, y = example()
    ours = metric(Categorical(p.log_probs.float()), y)
    assert ours.dtype == torch.float32
    assert ours.item() == pytest.approx(metric(p, y).item(), abs=1e-5)


@each
def test_perfect_labels(metric):
    y = torch.randint(4, (50,))
    p = Categorical(torch.nn.functional.one_hot(y, 4).double().log())
    assert metric(p, y) == (metric is metrics.accuracy)


@each
def test_labels_that_do_not_fit_are_refused(metric):
    p, y = example(50)
    with pytest.raises(ValueError, match=r"`y` must hold labels 0\.\.4 for 5 classes"):
        metric(p, y + 1)
    with pytest.raises(ValueError, match=r"`y` must have shape \(50,\)"):
        metric(p, y[:, None])
    with pytest.raises(TypeError, match="`y` must hold integer labels"):
        metric(p, y.double())


@pytest.mark.parametrize("metric", [metrics.ece, metrics.adaptive_ece])
def test_no_bins_are_refused(metric):
    with pytest.raises(ValueError, match="`bins` must be a positive integer, but got 0"):
        metric(*example(), 0)
