"""The warnings of the estimators, and when they are raised."""

import inspect
import warnings
from collections.abc import Sequence

from .._core.checks import comma_list
from ..heads.diagnosis import diagnose
from ..heads.head import Head
from ..posterior.posterior import Posterior
from ..tables.columns import Remarks
from ..tables.outliers import OutlyingTarget

INTERPOLATES = 1e-5  # of the target's spread
NEGATIVE = 0.01  # share of intervals below zero from which a positive target draws a warning


class CollapsedNoise(UserWarning):
    """A free belief has taken over nearly all of the predictive variance (Cor. pathologies)."""


class UnseenGap(UserWarning):
    """A value is missing in a column that had none missing in training."""


class UnseenCategory(UserWarning):
    """More than 1 % of the rows, and at least five, hold categories that training did not see."""


class AmbiguousColumn(UserWarning):
    """A column was read in one way and may be meant in another; the message names the cells."""


class NegativeInterval(UserWarning):
    """Intervals of a positive target that start below zero: set `target`."""


def warn_if_collapsed(head: Head, bound: Posterior, routes: list[str], routing: str) -> None:
    """Warn if a member predicts with a noise that has collapsed.

    Args:
        head: of the members.
        bound: their posterior.
        routes: the route of each member.
        routing: the parameter of the estimator.
    """
    words = ""
    if "free" in routes and (found := diagnose(head)).noise_collapsed:
        words = f"{found.text.splitlines()[0]} Here: routing='closed' or 'hybrid', or beta=0.5."
    bare = [r == "closed" for r in routes]
    if any(bare) and float(bound.noise[bare].min()) < INTERPOLATES:
        words = (
            "Noise collapse: the posterior interpolates the training rows. Either the columns "
            "determine the target exactly, or there are too few rows for the features and the "
            "intervals are too narrow. Use more rows or an eval_set"
        )
        words += (
            "." if routing == "auto" else ", or routing='auto', which chooses on held-out rows."
        )
    if words:
        _warn(words, CollapsedNoise)


def warn_of_columns(remarks: Remarks) -> None:
    """Warn of columns and cells that may be misread, and of unseen categories."""
    for text in remarks.cells:
        _warn(text, AmbiguousColumn)
    for text in remarks.unseen:
        _warn(text, UnseenCategory)


def warn_of_gaps(columns: Sequence[str | int]) -> None:
    """Warn of columns that lack a value for the first time."""
    if columns:
        words = (
            f"No value in column {comma_list(columns)}, which training never saw: the column's "
            "mean, or no category, is used instead, and the intervals do not widen for it. Fill it "
            "first, or fit on rows with such gaps."
        )
        _warn(words, UnseenGap)


def warn_of_outliers(messages: Sequence[str]) -> None:
    """Warn of outlying targets, with the messages of `scroll.tables.outliers.describe_all`."""
    for text in messages:
        _warn(text, OutlyingTarget)


def warn_of_negative(share: float, zero: bool, student: bool) -> None:
    """Warn if a target that is never negative often has an interval that starts below zero.

    Args:
        share: of the rows with such an interval.
        zero: whether the target is ever zero.
        student: whether Student-t tails were asked for, which these maps do not allow.
    """
    if share > NEGATIVE:
        name, least = ("log1p", -1) if zero else ("log", 0)
        tails = " and tails='auto'" if student else ""
        words = (
            f"The target is never negative, but {share:.0%} of the 90 % intervals start below "
            f"zero. Set target={name!r}{tails} to keep "
            f"predictions above {least}, or target='identity' to accept this."
        )
        _warn(words, NegativeInterval)


def _warn(text: str, category: type[UserWarning]) -> None:
    """Warn at the line outside of this package that called it."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("scroll."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
