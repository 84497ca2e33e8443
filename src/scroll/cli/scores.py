"""What predictives are worth on a table, as `scroll evaluate` says it."""

from typing import Any

import torch

from ..predictive import metrics


def of_labels(p: Any, y: torch.Tensor) -> dict[str, float]:
    """Of labels 0..K-1."""
    found = {"nll": -p.log_prob(y).mean()}
    asked = ["accuracy", "brier", "ece"]
    if p.ordered:
        asked.append("ranked_probability_score")
    found |= {name: getattr(metrics, name)(p, y) for name in asked}
    return {name: float(score) for name, score in found.items()}


def of_numbers(p: Any, y: torch.Tensor) -> dict[str, float]:
    """Of measurements or counts."""
    low, high = p.interval(0.9)
    found = {"nll": metrics.nll(p, y), "crps": metrics.crps(p, y), "rmse": metrics.rmse(p, y)}
    found["calibration_error"] = calibration_error(p, y)
    found["coverage_90"] = ((low <= y) & (y <= high)).double().mean()
    return {name: float(score) for name, score in found.items()}


def calibration_error(p: Any, y: torch.Tensor) -> torch.Tensor:
    """Of counts by draws between F(y - 1) and F(y): at F(y) even the truth is off the diagonal."""
    if not p.discrete:
        return metrics.calibration_error(p, y)
    off = (2 * metrics.pit(p, y, torch.Generator().manual_seed(0)) - 1).abs()
    levels = torch.tensor(metrics.LEVELS, dtype=off.dtype)
    return ((off[:, None] <= levels).to(off).mean(0) - levels).abs().mean()
