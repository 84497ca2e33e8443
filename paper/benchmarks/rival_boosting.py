"""Boosted trees and forests as distributions: NGBoost, CatBoost, LightGBM, scikit-learn.

A member trains on four folds of the rows and stops early on the fifth. An ensemble has five
members, one per fold. A single model is the first of them. Boosting makes at most 1,000 trees
unless its row says otherwise (NGBoost: 500, its default) and stops after 50 without improvement.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from rival_distributions import LEVELS, LogNormals, Quantiles, best_conversion
from rival_parts import Fitted, Rows, categorical, folds, normal, one_width, threads
from scroll.predictive import Categorical, Distribution

PATIENCE, TREES = 50, 1000
Member = Callable[[Rows, Rows, int], Callable[[np.ndarray], np.ndarray]]


def trained(member: Member, rows: Rows, seed: int, number: int = 5) -> list[Callable]:
    """Return members fitted on four folds each, with the fifth for early stopping."""
    parts = folds(rows.y, seed)[:number]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names of columns
        return [
            member(Rows(rows.x[train], rows.y[train]), Rows(rows.x[held], rows.y[held]), seed + k)
            for k, (train, held) in enumerate(parts)
        ]


def mixed(member: Member, number: int, logarithmic: bool = False) -> Callable:
    """Return a method: the equal mixture of members that predict mean and standard deviation.

    Args:
        member: fits one model; its predictions are (2, N).
        number: of members, 1 or 5.
        logarithmic: mean and standard deviation are those of log y; such a method leaves out
            tables with targets that are not positive.
    """

    def fit(rows: Rows, seed: int) -> Fitted | None:
        if logarithmic and rows.y.min() <= 0:
            return None
        members = trained(member, rows, seed, number)

        def predict(x: np.ndarray) -> Distribution:
            mean, std = np.stack([m(x) for m in members], 1)
            parts = normal(mean, std)
            return LogNormals(parts) if logarithmic else parts.mixture()

        return predict

    return fit


def ngboost(train: Rows, held: Rows, seed: int, family: str = "Normal") -> Callable:
    """Fit NGBoost with its defaults; predict with the trees up to the best iteration."""
    import ngboost.distns
    from ngboost import NGBRegressor

    model = NGBRegressor(Dist=getattr(ngboost.distns, family), verbose=False, random_state=seed)
    model.fit(*train, X_val=held.x, Y_val=held.y, early_stopping_rounds=PATIENCE)
    best = model.best_val_loss_itr
    trees = None if best is None else best + 1

    def predict(x: np.ndarray) -> np.ndarray:
        found = model.pred_dist(x, max_iter=trees)
        return np.stack([found.loc, found.scale])

    return predict


def _catboost(kind: str, seed: int, **settings: object) -> object:
    import catboost

    return getattr(catboost, kind)(
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
        thread_count=threads(),
        early_stopping_rounds=PATIENCE,
        **settings,
    )


def catboost(train: Rows, held: Rows, seed: int, trees: int = TREES) -> Callable:
    """Fit CatBoost with its defaults and RMSEWithUncertainty; keep the best iteration."""
    loss = "RMSEWithUncertainty"
    model = _catboost("CatBoostRegressor", seed, loss_function=loss, iterations=trees)
    model.fit(*train, eval_set=tuple(held))

    def predict(x: np.ndarray) -> np.ndarray:
        mean, var = model.predict(x).T
        return np.stack([mean, np.sqrt(var)])

    return predict


def catboost_labels(train: Rows, held: Rows, seed: int) -> Callable:
    """Fit CatBoost with its defaults; keep the best iteration by log loss."""
    loss = "Logloss" if train.y.max() == 1 else "MultiClass"
    model = _catboost("CatBoostClassifier", seed, loss_function=loss)
    return model.fit(*train, eval_set=tuple(held)).predict_proba


def _lightgbm(kind: str, train: Rows, held: Rows, seed: int, **settings: object) -> object:
    import lightgbm

    model = getattr(lightgbm, kind)(
        n_estimators=TREES, random_state=seed, n_jobs=threads(), verbose=-1, **settings
    )
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    return model.fit(*train, eval_set=[tuple(held)], callbacks=[stop])


def lightgbm_labels(train: Rows, held: Rows, seed: int) -> Callable:
    """Fit LightGBM with its defaults, but for the number of trees."""
    return _lightgbm("LGBMClassifier", train, held, seed).predict_proba


def lightgbm_quantiles(train: Rows, held: Rows, seed: int) -> Callable:
    """Fit LightGBM by pinball loss, one model per level; predictions are (N, 19)."""
    models = [
        _lightgbm("LGBMRegressor", train, held, seed, objective="quantile", alpha=level)
        for level in LEVELS
    ]
    return lambda x: np.stack([m.predict(x) for m in models], -1)


def histogram(train: Rows, held: Rows, seed: int) -> Callable:
    """Fit HistGradientBoostingRegressor by squared loss."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=TREES, early_stopping=True, n_iter_no_change=PATIENCE, random_state=seed
    )
    return model.fit(*train, X_val=held.x, y_val=held.y).predict


def averaged_labels(member: Member) -> Callable:
    """Return a method: the mean of the probabilities of five members."""

    def fit(rows: Rows, seed: int) -> Fitted:
        members = trained(member, rows, seed)

        def predict(x: np.ndarray) -> Categorical:
            return categorical(np.mean([m(x) for m in members], 0))

        return predict

    return fit


def boosted_mean(rows: Rows, seed: int) -> Fitted:
    """Fit five members by squared loss; one width from held-out residuals."""
    members = trained(histogram, rows, seed)
    held_out = [held for _, held in folds(rows.y, seed)]
    return one_width(lambda x: np.stack([m(x) for m in members]), rows, held_out)


def quantile_boosting(rows: Rows, seed: int) -> Fitted:
    """Fit LightGBM at 19 levels; average the quantiles of five members at each level.

    `Quantiles` says how they become a distribution; its two settings come from the quantiles that
    each member predicts for the fold that it did not train on.
    """
    members = trained(lightgbm_quantiles, rows, seed)
    found = np.empty((len(rows.y), len(LEVELS)))
    for member, (_, held) in zip(members, folds(rows.y, seed), strict=True):
        found[held] = member(rows.x[held])
    chosen = best_conversion(found, rows.y)
    return lambda x: Quantiles(np.mean([m(x) for m in members], 0), *chosen)


def forest(rows: Rows, seed: int) -> Fitted:
    """Fit one quantile forest with its defaults on all rows.

    `Quantiles` says how quantiles become a distribution; its two settings come from out-of-bag
    quantiles.
    """
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(random_state=seed, n_jobs=threads()).fit(*rows)
    levels: Sequence[float] = list(LEVELS)
    found = model.predict(rows.x, quantiles=levels, oob_score=True)
    known = np.isfinite(found).all(-1)
    chosen = best_conversion(found[known], rows.y[known])
    return lambda x: Quantiles(model.predict(x, quantiles=levels), *chosen)


lognormal = partial(ngboost, family="LogNormal")
long_catboost = partial(catboost, trees=10 * TREES)
