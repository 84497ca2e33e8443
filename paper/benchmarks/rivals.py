"""The compared methods by name: functions from rows to a predictive distribution of new rows.

Every method gets the training and validation rows of a split together, and makes five folds of
them if it needs folds: the same ones for all methods.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin

from rival_boosting import (
    averaged_labels,
    boosted_mean,
    catboost,
    catboost_labels,
    forest,
    lightgbm_labels,
    lognormal,
    long_catboost,
    mixed,
    ngboost,
    quantile_boosting,
)
from rival_networks import label_network, mean_network
from rival_parts import Fitted, Rows, categorical, folds, normal
from scroll import ScrollClassifier, ScrollRegressor
from scroll.predictive import Normal

Fit = Callable[[Rows, int], Fitted | None]  # rows and seed; None: not for this table


def scroll(kind: type[ScrollRegressor | ScrollClassifier], **settings: Any) -> Fit:
    """Fit our estimator with its defaults, or with these settings."""

    def fit(rows: Rows, seed: int) -> Fitted | None:
        model = kind(random_state=seed, **settings)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return model.fit(*rows).predict_dist
        except ValueError as error:
            if not str(error).startswith("`recipe`"):
                raise
            print(f"skipped: this version of scroll has no recipe {settings['recipe']!r}")
            return None

    return fit


def process(rows: Rows, seed: int) -> Fitted | None:
    """Fit an exact Gaussian process with an ARD Matern-5/2 kernel, if there are few rows.

    It selects by its evidence and needs no held-out rows.
    """
    x, y = rows
    if len(y) > 2000:
        return None
    varies = x.std(0) > 0
    shift, scale = x[:, varies].mean(0), x[:, varies].std(0)
    mean, std = y.mean(), y.std()
    inputs = torch.from_numpy((x[:, varies] - shift) / scale)
    at = _matern(inputs, torch.from_numpy((y - mean) / std))

    def predict(new: np.ndarray) -> Normal:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = at(torch.from_numpy((new[:, varies] - shift) / scale))
            return normal(mean + std * found.mean.numpy(), std * found.stddev.numpy())

    return predict


def _matern(inputs: torch.Tensor, targets: torch.Tensor) -> Callable[[torch.Tensor], Any]:
    """Fit a Gaussian process by its evidence; return its predictive as a function of inputs."""
    import gpytorch

    class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(inputs, targets, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            matern = gpytorch.kernels.MaternKernel(2.5, ard_num_dims=inputs.shape[1])
            self.kernel = gpytorch.kernels.ScaleKernel(matern)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    constraint = gpytorch.constraints.GreaterThan(1e-6)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=constraint)
    model = Exact().double()
    likelihood.double()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    with warnings.catch_warnings(), gpytorch.settings.cholesky_jitter(double_value=1e-8):
        warnings.simplefilter("ignore")
        for _ in range(300):
            adam.zero_grad()
            (-evidence(model(inputs), targets)).backward()
            adam.step()
    model.eval(), likelihood.eval()
    return lambda x: likelihood(model(x))


def calibrated(make: Callable[[int], ClassifierMixin]) -> Fit:
    """Return a scikit-learn classifier in CalibratedClassifierCV over the five folds."""

    def fit(rows: Rows, seed: int) -> Fitted:
        from sklearn.calibration import CalibratedClassifierCV

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about classes with fewer rows than folds
            model = CalibratedClassifierCV(make(seed), cv=folds(rows.y, seed)).fit(*rows)
        return lambda x: categorical(model.predict_proba(x))

    return fit


def _boosting(seed: int) -> ClassifierMixin:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _logistic(seed: int) -> ClassifierMixin:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


def _ours(kind: type[ScrollRegressor | ScrollClassifier]) -> dict[str, tuple[str, Fit]]:
    name = kind.__name__
    return {
        "scroll": (name, scroll(kind)),
        "scroll-1": (f"{name}, 1 member", scroll(kind, n_members=1)),
        "scroll-5": (f"{name}, 5 members", scroll(kind, n_members=5)),
        "fast": (f'{name}, recipe="fast"', scroll(kind, recipe="fast")),
        "best": (f'{name}, recipe="best"', scroll(kind, recipe="best")),
    }


# pytabkit's advice for the log loss: no label smoothing, and epochs chosen by cross-entropy.
BY_LOG_LOSS = {"val_metric_name": "cross_entropy"}
REALMLP, TABM = "RealMLP_TD_Classifier", "TabM_D_Classifier"

REGRESSION: dict[str, tuple[str, Fit]] = _ours(ScrollRegressor) | {
    "realmlp": ("RealMLP-TD, 5 folds", mean_network("RealMLP_TD_Regressor")),
    "tabm": ("TabM, 5 folds", mean_network("TabM_D_Regressor")),
    "ngboost": ("NGBoost", mixed(ngboost, 1)),
    "ngboost-5": ("NGBoost, 5 members", mixed(ngboost, 5)),
    "ngboost-log": ("NGBoost, log-normal", mixed(lognormal, 1, logarithmic=True)),
    "ngboost-log-5": ("NGBoost, log-normal, 5 members", mixed(lognormal, 5, logarithmic=True)),
    "catboost": ("CatBoost, RMSEWithUncertainty", mixed(catboost, 1)),
    "catboost-5": ("CatBoost, 5 members", mixed(catboost, 5)),
    "catboost-5-long": ("CatBoost, 5 members, up to 10,000 trees", mixed(long_catboost, 5)),
    "lightgbm": ("LightGBM, 19 quantiles", quantile_boosting),
    "forest": ("quantile forest", forest),
    "boosting": ("HistGradientBoosting, one width", boosted_mean),
    "gp": ("exact GP, ARD Matern-5/2", process),
}
CLASSIFICATION: dict[str, tuple[str, Fit]] = _ours(ScrollClassifier) | {
    "realmlp": (
        "RealMLP-TD, 5 folds, by log loss",
        label_network(REALMLP, use_ls=False, **BY_LOG_LOSS),
    ),
    "realmlp-default": ("RealMLP-TD, 5 folds, defaults", label_network(REALMLP)),
    "tabm": ("TabM, 5 folds, by log loss", label_network(TABM, **BY_LOG_LOSS)),
    "lightgbm": ("LightGBM, 5 folds", averaged_labels(lightgbm_labels)),
    "catboost": ("CatBoost, 5 folds", averaged_labels(catboost_labels)),
    "boosting": ("HistGradientBoosting, calibrated", calibrated(_boosting)),
    "logistic": ("LogisticRegression, calibrated", calibrated(_logistic)),
}
