"""Scores of each training row by networks that did not see it: an evaluation without a test set."""

from typing import NamedTuple, cast

import torch
from torch import Tensor

from ..predictive import Distribution, Labels, Numeric, Survival, metrics
from ..predictive.mixture import output

LABELS = ("log_prob", "ood", "brier", "correct")
NUMBERS = ("log_prob", "ood", "crps", "error", "below", "upto")
CENSORED = ("log_prob", "ood")


class OutOfFold(NamedTuple):
    """One line per judged row.

    Attributes:
        names: of the columns: "log_prob"; "ood", the out-of-distribution score; of numbers and
            ordered labels also, for each target, "crps", "error" (y minus the mean) and the
            probabilities "below" (of less than y) and "upto" (of at most y); of classes "brier"
            and "correct".
        values: (J, columns).
    """

    names: tuple[str, ...]
    values: Tensor


def column_names(likelihood: str, outputs: int) -> tuple[str, ...]:
    """Return the columns of `OutOfFold`.

    Args:
        likelihood: its name.
        outputs: number of targets.
    """
    if likelihood in ("ova", "gaussreg"):
        return LABELS
    if likelihood == "censored":
        return CENSORED
    if outputs == 1:
        return NUMBERS
    each = [f"{name}_{k}" for k in range(outputs) for name in NUMBERS[2:]]
    return (*NUMBERS[:2], *each)


def row_scores(p: Distribution, y: Tensor, ood: Tensor) -> Tensor:
    """Return the columns of `OutOfFold` for some rows, (N, columns), in single precision.

    Args:
        p: predictives of the rows.
        y: targets in the same units, (N,) or (N, K), or pairs (low, high) of censored ones.
        ood: out-of-distribution score of each row.
    """
    if isinstance(p, Survival):
        return torch.stack([p.log_prob(y), ood.double()], -1).float()
    log_p = p.log_prob(y)
    first = [log_p if log_p.dim() == 1 else log_p.sum(-1), ood.to(log_p)]
    if not p.ordered:
        probs = cast(Labels, p).probs
        hit = torch.zeros_like(probs).scatter(-1, y[:, None], 1.0)
        each = [(probs - hit).square().sum(-1), (probs.argmax(-1) == y).to(probs)]
        return torch.stack([*first, *each], -1).float()
    number = cast(Numeric, p)
    outputs = [(number, y)]
    if y.dim() > 1:
        outputs = [(output(number, k), y[:, k]) for k in range(y.shape[1])]
    each = [column for one, target in outputs for column in _numbers(one, target)]
    return torch.stack([*first, *each], -1).float()


def _numbers(p: Numeric, y: Tensor) -> list[Tensor]:
    """Return CRPS, error, P(. < y) and P(. <= y) of each row."""
    below, upto = metrics.step(p, y)
    return [p.crps(y), y - p.mean, below, upto]


def summary(scores: OutOfFold, coverage: float) -> dict[str, float]:
    """Return means over the rows: NLL, and CRPS, RMSE and coverage, or Brier score and accuracy.

    Args:
        scores: of the rows.
        coverage: of the central interval whose empirical coverage is reported.
    """
    at = dict(zip(scores.names, scores.values.double().unbind(-1), strict=True))
    found = {"nll": -float(at["log_prob"].mean())}
    if len(at) == len(CENSORED):
        return found
    if "brier" in at:
        return found | {"brier": float(at["brier"].mean()), "accuracy": float(at["correct"].mean())}

    def each(name: str) -> Tensor:
        return torch.stack([column for key, column in at.items() if key.startswith(name)])

    tail = (1 - coverage) / 2
    inside = (each("upto") >= tail) & (each("below") <= 1 - tail)
    return found | {
        "crps": float(each("crps").mean()),
        "rmse": float(each("error").square().mean().sqrt()),
        "coverage": float(inside.double().mean()),
    }
