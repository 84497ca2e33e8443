"""Calibrate an ensemble by rows that its members did not see.

Width and tails of a real target: networks are trained on the score of a normal distribution. Rows
out of fold tell how wide it should be, and whether errors have heavier tails: a Student-t
distribution, or a share of lapses, rows whose noise is many times larger.

Power of the probabilities: a mixture of labels is less confident than its members, each of which is
as confident as it is accurate. Raised to a power and normalised, the mixture is sharper.

Lapse rate of labels: the tail of a probit is that of a normal distribution, so a network that
extrapolates calls a label impossible that then occurs. A share of the rows is assumed to have a
label drawn at random, by the frequencies of the labels.
"""

from collections.abc import Callable
from functools import partial
from math import log, log10, pi
from typing import NamedTuple

import torch
from torch import Tensor

from ..factors.censored import log_known
from ..predictive import Normal, Tail

FEWEST = 20  # held-out rows that a calibration needs
MOST = 5000  # rows that widths and tails are fitted to
POWERS = torch.linspace(-0.7, 0.7, 57, dtype=torch.float64).exp()
WIDTHS = (-1.6, 1.6)  # logarithm of the factor on the standard deviations
DEGREES = (3, 4, 5, 6, 8, 10, 14, 20, 30)  # of freedom
SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
FACTORS = (2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 40.0, 100.0)
PARAMETERS = {"gaussian": 0, "student": 1, "lapse": 2}
SHARPEST, BISECTIONS = 1.5, 40  # largest factor on the power of a mixture; steps that find it
GOLDEN = (5**0.5 - 1) / 2


class Calibration(NamedTuple):
    """What rows out of fold say of an ensemble.

    Attributes:
        width: factor on the standard deviations of a real target, of a member by itself.
        shrinkage: further factor, of the members in the ensemble.
        tail: the shape of its noise.
        power: of the probabilities of labels, of the members of one fold.
        power_of_all: the same of the mixture of all folds.
        lapse: share of rows with a random label.
    """

    width: float = 1.0
    shrinkage: float = 1.0
    tail: Tail = Tail()
    power: float = 1.0
    power_of_all: float = 1.0
    lapse: float = 0.0


class Tails(NamedTuple):
    """The tails to try.

    Attributes:
        kinds: of the tails, such as ("gaussian", "student", "lapse").
        widest: largest standard deviation of lapses in units of training, or None. Under a
            logarithm the mean of y is finite for small ones only.
    """

    kinds: tuple[str, ...] = Tail.KINDS
    widest: float | None = None

    def few(self) -> list[Tail]:
        """Return some of each kind, to compare bodies and routes."""
        students = [Tail("student", df=df) for df in (3, 5, 10)]
        lapses = [Tail("lapse", share=s, factor=f) for s, f in ((0.02, 4.0), (0.1, 2.0))]
        return self._allowed([Tail(), *students, *([] if "student" in self.kinds else lapses)])

    def every(self) -> list[Tail]:
        """Return all of them."""
        students = [Tail("student", df=df) for df in DEGREES]
        lapses = [Tail("lapse", share=s, factor=f) for s in SHARES for f in FACTORS]
        return self._allowed([Tail(), *students, *lapses])

    def _allowed(self, tails: list[Tail]) -> list[Tail]:
        return [tail for tail in tails if tail.kind in self.kinds]

    def reach(self, tail: Tail, std: Tensor) -> float:
        """Return the largest factor on the standard deviations that the tail allows."""
        if self.widest is None or tail.kind != "lapse":
            return torch.inf
        return self.widest / (tail.factor * float(std.flatten().quantile(0.99)))


class Fit(NamedTuple):
    """The best width and tail, and the log density of each row with them, (J,)."""

    width: float
    tail: Tail
    log_p: Tensor


def fit_tails(
    p: Normal, y: Tensor, weight: Tensor | None, allowed: Tails, few: bool = False
) -> Fit:
    """Return the factor on the standard deviations and the tail with the best score.

    A tail must be better than the normal distribution by as much as its parameters cost by the
    Bayesian information criterion, so that few rows do not decide for it by chance.

    Args:
        p: predictives of the judged rows, (C, J) or (C, J, K); C of them are mixed.
        y: targets, (J,) or (J, K).
        weight: of the rows.
        allowed: the tails to try.
        few: whether to try some of them only.
    """
    some = slice(None, None, -(-len(y) // MOST))
    residual, std = (y - p.mean).double(), p.stddev.double()
    part, wide = residual[:, some], std[:, some]
    weigh = None if weight is None else weight[some].double()
    n_rows = len(y)
    if n_rows < FEWEST:
        return Fit(1.0, Tail(), _log_p(residual, std, Tail()))
    found: list[tuple[float, float, Tail]] = []
    for tail in allowed.few() if few else allowed.every():
        low, high = WIDTHS[0], min(WIDTHS[1], log(allowed.reach(tail, wide)))
        if high > low:
            at, reached = maximise(partial(_score, part, wide, weigh, tail), low, high)
            cost = PARAMETERS[tail.kind] * log(n_rows) / 2
            found.append((reached - cost / n_rows, at, tail))
    if not found:  # no tail that is allowed may be this wide
        return fit_tails(p, y, weight, Tails(("gaussian",)))
    _, log_width, best = max(found, key=lambda each: each[0])
    width = float(torch.e**log_width)
    return Fit(width, best, _log_p(residual, width * std, best))


def _score(
    residual: Tensor, std: Tensor, weight: Tensor | None, tail: Tail, log_width: float
) -> float:
    """Return the mean log density of residuals with a tail and a factor on the deviations."""
    log_p = _log_p(residual, std * torch.e**log_width, tail)
    mean = float((log_p if weight is None else log_p * weight).mean())
    return mean if mean == mean else -torch.inf


def fit_width(p: Normal, pairs: Tensor, weight: Tensor | None) -> float:
    """Return the factor on the standard deviations of censored targets with the best score.

    Args:
        p: predictives of the judged rows, (C, J); C of them are mixed.
        pairs: least and largest value of each target, (J, 2).
        weight: of the rows.
    """
    if len(pairs) < FEWEST:
        return 1.0
    mean, var = p.mean.double(), p.variance.double()
    known = pairs.double().expand(len(mean), *pairs.shape)

    def score(log_width: float) -> float:
        log_p = log_known(known, mean, var * torch.e ** (2 * log_width)).logsumexp(0)
        return float((log_p if weight is None else log_p * weight).mean())

    return float(torch.e ** maximise(score, *WIDTHS)[0])


def _log_p(residual: Tensor, std: Tensor, tail: Tail) -> Tensor:
    """Return the log density of the mixture of C members, of (C, J) or (C, J, K), (J,)."""
    log_p = log_density(residual / std, tail) - std.log()
    mixed = log_p.logsumexp(0) - log(len(log_p))
    return mixed if mixed.dim() == 1 else mixed.sum(-1)


def log_density(z: Tensor, tail: Tail) -> Tensor:
    """Return the log density of the noise in units of its scale."""
    normal = -z.square() / 2 - log(2 * pi) / 2
    if tail.kind == "lapse":
        wide = -(z / tail.factor).square() / 2 - log(2 * pi) / 2 - log(tail.factor)
        return torch.logaddexp(normal + log(1 - tail.share), wide + log(tail.share))
    if tail.kind == "student":
        df = torch.tensor(float(tail.df), dtype=z.dtype)
        top = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - (pi * df).log() / 2
        return top - (df + 1) / 2 * torch.log1p(z.square() / df)
    return normal


def maximise(score: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return the argument and the value of the maximum, by golden sections."""
    inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    values = [score(x) for x in inner]
    for _ in range(14):  # 3.2 * 0.618^14 = 0.004
        if values[0] >= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - GOLDEN * (high - low)
            values[0] = score(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + GOLDEN * (high - low)
            values[1] = score(inner[1])
    return max(zip(inner, values, strict=True), key=lambda each: each[1])


def best_power(log_probs: Tensor, y: Tensor, weight: Tensor | None = None) -> float:
    """Return the power of the probabilities with the best held-out score.

    Args:
        log_probs: logarithms of the probabilities, (N, K).
        y: held-out labels, (N,).
        weight: of the held-out rows.
    """
    if len(y) < FEWEST:
        return 1.0
    each = [(float(b) * log_probs.double()).log_softmax(-1) for b in POWERS]
    scores = [log_p.gather(-1, y[:, None])[:, 0] for log_p in each]
    means = [(score if weight is None else score * weight).mean() for score in scores]
    return float(POWERS[torch.stack(means).argmax()])


def power_of_mixture(log_probs: Tensor, power: float, weight: Tensor | None = None) -> float:
    """Return the power at which the mean entropy of a mixture is that of its members.

    The members are raised to a power of their own. Mixing them adds the entropy of their
    disagreement; the mixture is also more accurate than they are.

    Args:
        log_probs: of the members, normalised, (M, N, K).
        power: of the members.
        weight: of the rows.
    """
    each = log_probs.double()
    mixed = each.logsumexp(0) - log(len(each))

    def entropy(log_p: Tensor) -> float:
        log_p = log_p.log_softmax(-1)
        rows = -(log_p.exp() * log_p).nan_to_num(0.0).sum(-1)
        return float((rows if weight is None else rows * weight).mean())

    wanted, low, high = entropy(power * each), power, SHARPEST * power
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if entropy(middle * mixed) > wanted else (low, middle)
    return low


def lapse_rate(
    log_probs: Tensor, y: Tensor, rates: Tensor, rows: int, weight: Tensor | None = None
) -> float:
    """Return the share of rows with a random label that has the best held-out score.

    Args:
        log_probs: of the members, (M, N, K).
        y: held-out labels, (N,).
        rates: frequency of each label, (K,).
        rows: number of training rows; the share is at least 1 / (rows + 1).
        weight: of the held-out rows.
    """
    least = 1 / (rows + 1)
    if len(y) < FEWEST:
        return least
    p = log_probs.double().exp().mean(0).gather(-1, y[:, None])[:, 0]
    shares = torch.logspace(log10(least), -1, 40, dtype=torch.float64).to(p.device)
    each = ((1 - shares) * p[:, None] + shares * rates[y][:, None]).log()
    scores = (each if weight is None else each * weight[:, None]).mean(0)
    return float(shares[scores.argmax()])
