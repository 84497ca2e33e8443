"""What an estimator warns of, and when."""

import warnings
from collections.abc import Sequence
from typing import Any

from .._core.checks import listed
from ..heads.diagnosis import diagnose
from ..posterior.posterior import Posterior
from ..tables.columns import Remarks

INTERPOLATES = 1e-5  # of the target's spread


class CollapsedNoise(UserWarning):
    """A free belief has taken over nearly all of the predictive variance (Cor. pathologies)."""


class UnseenGap(UserWarning):
    """A value is missing where none was in training, so that nothing tells what that means."""


class UnseenCategory(UserWarning):
    """More than 1 % of the rows, and at least five, hold categories that training did not see."""


class AmbiguousColumn(UserWarning):
    """A column was read in one way and may be meant in another; the message names the cells."""


def collapsed(head: Any, bound: Posterior, routes: list[str], routing: str) -> None:
    """Warn where a member predicts with a noise that has collapsed."""
    words = ""
    if "free" in routes and (found := diagnose(head)).noise_collapsed:
        words = f"{found.text.splitlines()[0]} Here: routing='closed' or 'hybrid', or beta=0.5."
    bare = [r == "closed" for r in routes]
    if any(bare) and float(bound.noise[bare].min()) < INTERPOLATES:
        words = (
            "Noise collapse: the posterior interpolates the training rows. Either the columns tell "
            "the target exactly, or the rows are too few for its features and its intervals too "
            "narrow: more rows help, or an eval_set"
        )
        words += "." if routing == "auto" else ", or routing='auto', which asks held-out rows."
    if words:
        warnings.warn(words, CollapsedNoise, stacklevel=5)


def doubts(remarks: Remarks) -> None:
    """Warn of columns and cells that may be misread, and of categories that are new."""
    for text in remarks.cells:
        warnings.warn(text, AmbiguousColumn, stacklevel=6)
    for text in remarks.unseen:
        warnings.warn(text, UnseenCategory, stacklevel=6)


def unseen(columns: Sequence[str | int]) -> None:
    """Warn of columns that lack a value for the first time."""
    if columns:
        words = (
            f"No value in column {listed(columns)}, which training never saw: the column's mean, "
            "or no category, stands in for it, and the predictive does not know. Fill it first, "
            "or fit on rows with such gaps."
        )
        warnings.warn(words, UnseenGap, stacklevel=5)
