"""Scores of predictives on held-out data; lower is better but for accuracy, coverage, concordance.

Rows are the last axis, (..., N), and every score is a mean over them, (...). Of several outputs
(N, K), give one at a time. Labels are 0..K-1.
"""

import torch
from torch import Generator, Tensor

from .._core.checks import labels, positive_int, require
from .arguments import as_tensor
from .censored import harrell, interval_log_prob
from .labels import Ordered
from .protocol import Distribution, Labels, Numeric, Predictive

LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))  # of central intervals


def nll(predictive: Distribution, y: Tensor) -> Tensor:
    """Return the negative log likelihood, the mean of -log p(y_n), with its 1/2 log 2 pi."""
    return -predictive.log_prob(_rows(predictive, y)).mean(-1)


def censored_nll(predictive: Numeric, low: Tensor, high: Tensor) -> Tensor:
    """Return the mean of -log p(y_n) of exact rows and -log P(low_n <= y_n <= high_n) of others.

    Args:
        predictive: of a number.
        low: least value that y may have, (..., N); -inf if left-censored.
        high: largest value, equal to `low` for exact rows; inf if right-censored.
    """
    _require(predictive, "cdf", "have a distribution function")
    low, high = _rows(predictive, low), _rows(predictive, high)
    require((low <= high).all(), "low", "be at most `high`, and not NaN", "others")
    return -interval_log_prob(predictive, low, high).mean(-1)


def concordance(predicted: Tensor, y: Tensor, censored: Tensor | None = None) -> Tensor:
    """Return Harrell's C, the share of comparable pairs that `predicted` puts in the right order.

    Rows i, j are comparable if y_i is exact and y_i < y_j, or y_i = y_j and only j is censored.
    Equal predictions count one half. It takes O(N log^2 N) steps.

    Args:
        predicted: (..., N), such as the mean or median; larger for larger y.
        y: exact or right-censored targets, (..., N).
        censored: True or 1 where y is right-censored, False or 0 where it is exact; all are exact
            by default.
    """
    predicted, y = (as_tensor(*pair) for pair in (("predicted", predicted), ("y", y)))
    given = torch.zeros_like(y) if censored is None else as_tensor("censored", censored)
    for name, x in (("predicted", predicted), ("censored", given)):
        require(x.shape == y.shape, name, f"have the shape {tuple(y.shape)} of y", tuple(x.shape))
    known = ((given == 0) | (given == 1)).all()
    require(known, "censored", "hold 0 (exact) and 1 (right-censored)", "other values")
    sound = not bool((predicted.isnan() | y.isnan()).any())
    require(sound, "predicted and y", "hold numbers", "NaN")
    flat = (x.reshape(-1, x.shape[-1]) for x in (predicted, y, given == 1))
    each = [harrell(*rows) for rows in zip(*flat, strict=True)]
    return torch.stack(each).reshape(y.shape[:-1])


def rmse(predictive: Distribution, y: Tensor) -> Tensor:
    """Return the root mean square of y_n - E y_n."""
    return (_rows(predictive, y) - predictive.mean).square().mean(-1).sqrt()


def coverage(predictive: Numeric, y: Tensor, level: float) -> Tensor:
    """Return the share of y_n inside their central interval of the given level."""
    inside = (2 * predictive.cdf(_rows(predictive, y)) - 1).abs() <= level
    return inside.to(predictive.mean.dtype).mean(-1)


def calibration_error(predictive: Numeric, y: Tensor) -> Tensor:
    """Return the mean over 19 levels of |nominal - empirical| coverage of central intervals."""
    gaps = [(coverage(predictive, y, level) - level).abs() for level in LEVELS]
    return torch.stack(gaps).mean(0)


def crps(predictive: Numeric, y: Tensor) -> Tensor:
    """Return the continuous ranked probability score, the mean of int (F(t) - 1[t >= y_n])^2 dt.

    It is exact for real numbers and ordered labels. For counts see `CountMixture.crps`.
    """
    _require(predictive, "crps", "have a CRPS")
    return predictive.crps(_rows(predictive, y)).mean(-1)


def brier(predictive: Labels, y: Tensor) -> Tensor:
    """Return the mean of sum_k (p_nk - 1[y_n = k])^2, between 0 and 2."""
    probs, y = _labelled(predictive, y)
    hit = torch.zeros_like(probs).scatter(-1, y[..., None], 1.0)
    return (probs - hit).square().sum(-1).mean(-1)


def accuracy(predictive: Labels, y: Tensor) -> Tensor:
    """Return the share of rows whose most probable label, the first of equals, is y_n."""
    probs, y = _labelled(predictive, y)
    return (probs.argmax(-1) == y).to(probs).mean(-1)


def ece(predictive: Labels, y: Tensor, bins: int = 10) -> Tensor:
    """Return the expected calibration error, sum_b N_b/N |accuracy_b - confidence_b|.

    Args:
        predictive: of labels.
        y: labels, (..., N).
        bins: number of equal bins of the largest probability. A bin contains its lower edge, as
            in torchmetrics, and the last one contains 1.
    """
    positive_int("bins", bins)
    top, gap = _confidence(predictive, y)
    edges = torch.linspace(0, 1, bins + 1, dtype=top.dtype, device=top.device)[1:-1]
    return _binned(gap, torch.bucketize(top, edges, right=True), bins)


def adaptive_ece(predictive: Labels, y: Tensor, bins: int = 10) -> Tensor:
    """Return `ece` over bins with the same number of rows, by rank of the largest probability.

    Rows of equal probability share the bin of the first of them, so the order of rows does not
    matter.
    """
    positive_int("bins", bins)
    top, gap = _confidence(predictive, y)
    below = torch.searchsorted(top.sort(-1).values, top)
    return _binned(gap, below * bins // top.shape[-1], bins)


def ranked_probability_score(predictive: Labels, y: Tensor) -> Tensor:
    """Return the mean of sum_k (P(. <= k) - 1[y_n <= k])^2, between 0 and K - 1.

    The labels are taken as ordered; for an `Ordered` predictive it is the `crps`.
    """
    _, y = _labelled(predictive, y)
    return Ordered(predictive.log_probs).crps(y).mean(-1)


def pit(predictive: Numeric, y: Tensor, generator: Generator | None = None) -> Tensor:
    """Return the probability integral transform u_n = F(y_n), uniform if calibrated, (..., N).

    For counts and ordered labels, u_n is drawn uniformly between F(y_n - 1) and F(y_n).

    Args:
        predictive: of a number or an ordered label.
        y: (..., N).
        generator: of the random draws; torch's global one if None.
    """
    if isinstance(predictive, Ordered):
        _labelled(predictive, y)
    low, high = step(predictive, y)
    if not predictive.discrete:
        return high
    u = torch.rand(high.shape, dtype=high.dtype, device=high.device, generator=generator)
    return low + u * (high - low)


def step(predictive: Numeric, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return P(. < y_n) and P(. <= y_n), (..., N) each; they are equal where y is real."""
    _require(predictive, "cdf", "have a distribution function")
    # a sum of probabilities may pass 1 by rounding
    high = predictive.cdf(_rows(predictive, y)).clamp(0, 1)
    return (predictive.cdf(y - 1).clamp(0, 1) if predictive.discrete else high), high


def _require(predictive: Predictive, operation: str, want: str) -> None:
    """Refuse a predictive without an operation."""
    got, remedy = type(predictive).__name__, "Use real numbers, counts or ordered labels."
    require(hasattr(predictive, operation), "predictive", want, got, remedy, TypeError)


def _confidence(predictive: Labels, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest probability, and 1[it was right] minus it."""
    probs, y = _labelled(predictive, y)
    top, guess = probs.max(-1)
    return top.contiguous(), (guess == y).to(top) - top


def _binned(gap: Tensor, index: Tensor, bins: int) -> Tensor:
    """Return sum_b |sum of the gaps in bin b| / N."""
    each = [(gap * (index == b)).mean(-1).abs() for b in range(bins)]
    return torch.stack(each).sum(0)


def _labelled(predictive: Labels, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the probabilities, and the labels as checked integers."""
    probs = predictive.probs
    return probs, labels(y, probs.shape[:-1], probs.shape[-1])


def _rows(predictive: Distribution, y: Tensor) -> Tensor:
    """Return y, which has the shape of the predictive."""
    shape = predictive.mean.shape
    require(
        y.shape == shape, "y", f"have the shape {tuple(shape)} of the predictive", tuple(y.shape)
    )
    return y
