"""Neural networks for tables by pytabkit: RealMLP-TD and TabM, five folds each.

They use a CUDA device if there is one. Each member keeps the epoch with the best validation score;
TabM also stops 16 epochs after it. pytabkit wants folds of equal size: up to four rows that are
left over are training rows of every member.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from rival_parts import Fitted, Rows, categorical, folds, one_width, threads


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the messages of Lightning, one per fit."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _fitted(name: str, rows: Rows, seed: int, **settings: object) -> tuple[object, np.ndarray]:
    """Return a fitted estimator of pytabkit, and the held-out rows of each member, (5, n)."""
    import pytabkit

    held = [h for _, h in folds(rows.y, seed)]
    equal = np.stack([h[: min(map(len, held))] for h in held])
    kind = getattr(pytabkit, name)
    model = kind(n_cv=5, n_refit=0, random_state=seed, n_threads=threads(), **settings)
    with _quiet():
        return model.fit(*rows, val_idxs=equal), equal


def mean_network(name: str) -> Callable[[Rows, int], Fitted]:
    """Return a method: the mean of five members with defaults; one width from held-out
    residuals."""

    def fit(rows: Rows, seed: int) -> Fitted:
        model, held = _fitted(name, rows, seed)

        def members(x: np.ndarray) -> np.ndarray:
            with _quiet():
                return np.asarray(model.predict_ensemble(x), np.float64)

        return one_width(members, rows, list(held))

    return fit


def label_network(name: str, **settings: object) -> Callable[[Rows, int], Fitted]:
    """Return a method: the mean of the probabilities of five members.

    Args:
        name: of a classifier of pytabkit.
        settings: that differ from its defaults.
    """

    def fit(rows: Rows, seed: int) -> Fitted:
        model, _ = _fitted(name, rows, seed, **settings)

        def predict(x: np.ndarray) -> object:
            with _quiet():
                return categorical(model.predict_proba(x))

        return predict

    return fit
