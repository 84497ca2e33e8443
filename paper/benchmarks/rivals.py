"""The compared libraries: functions from rows to a predictive distribution of new rows."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin

from scroll import ScrollClassifier, ScrollRegressor
from scroll.predictive import Categorical, Distribution, Normal
from scroll_paper.data import datasets, protocol

Data = list[tuple[np.ndarray, np.ndarray]]  # training, validation and test rows
Fitted = Callable[[np.ndarray], Distribution]  # new rows -> a predictive distribution


def split(name: str, seed: int) -> Data:
    """Return a 60/20/20 split as in the paper's tables."""
    table = datasets.load(name)
    x, y = np.asarray(table.x, np.float64), np.asarray(table.y, np.float64)
    return [(x[part], y[part]) for part in protocol.split(range(len(y)), seed)]


def normal(mean: np.ndarray, std: np.ndarray) -> Normal:
    """Return N(mean, std^2) for arrays."""
    centre, spread = (torch.from_numpy(np.asarray(a, np.float64)) for a in (mean, std))
    return Normal(centre, spread.square(), torch.zeros_like(centre))


def scroll(members: int) -> Callable[[Data, int], Fitted]:
    """Fit ScrollRegressor with its defaults."""

    def fit(data: Data, seed: int) -> Fitted:
        model = ScrollRegressor(n_members=members, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(*data[0], eval_set=data[1]).predict_dist

    return fit


def ngboost(data: Data, seed: int) -> Fitted:
    """Fit NGBoost with its defaults and early stopping."""
    from ngboost import NGBRegressor

    model = NGBRegressor(verbose=False, random_state=seed)
    model.fit(*data[0], X_val=data[1][0], Y_val=data[1][1], early_stopping_rounds=50)

    def predict(x: np.ndarray) -> Normal:
        found = model.pred_dist(x)
        return normal(found.loc, found.scale)

    return predict


def catboost(data: Data, seed: int) -> Fitted:
    """Fit CatBoost with its defaults and RMSEWithUncertainty; keep the best iteration."""
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
        thread_count=torch.get_num_threads(),
    )
    model.fit(*data[0], eval_set=data[1])

    def predict(x: np.ndarray) -> Normal:
        mean, var = model.predict(x).T
        return normal(mean, np.sqrt(var))

    return predict


def process(data: Data, seed: int) -> Fitted | None:
    """Fit an exact Gaussian process with an ARD Matern-5/2 kernel, if there are few rows.

    It has its evidence to choose by, so the validation rows are further training rows.
    """
    x, y = (np.concatenate([data[0][i], data[1][i]]) for i in range(2))
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


def classes(data: Data, seed: int) -> Fitted:
    """Fit ScrollClassifier with its defaults; it holds out rows itself."""
    return ScrollClassifier(random_state=seed).fit(*_joined(data)).predict_dist


def calibrated(make: Callable[[int], ClassifierMixin]) -> Callable[[Data, int], Fitted]:
    """Return a scikit-learn classifier in CalibratedClassifierCV, both with their defaults."""

    def fit(data: Data, seed: int) -> Fitted:
        from sklearn.calibration import CalibratedClassifierCV

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about classes with fewer rows than folds
            model = CalibratedClassifierCV(make(seed)).fit(*_joined(data))

        def predict(x: np.ndarray) -> Categorical:
            found = torch.from_numpy(model.predict_proba(x)).clamp(min=1e-15)
            return Categorical(found.log().log_softmax(-1))

        return predict

    return fit


def _joined(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return the training and validation rows together; methods hold out rows themselves."""
    return tuple(np.concatenate([data[0][i], data[1][i]]) for i in range(2))


def _boosting(seed: int) -> ClassifierMixin:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _logistic(seed: int) -> ClassifierMixin:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


Rows = dict[str, tuple[str, Callable[[Data, int], Fitted | None]]]
REGRESSION: Rows = {
    "scroll": ("ScrollRegressor, 1 member", scroll(1)),
    "scroll-5": ("ScrollRegressor, 5 members", scroll(5)),
    "ngboost": ("NGBoost", ngboost),
    "catboost": ("CatBoost, RMSEWithUncertainty", catboost),
    "gp": ("exact GP, ARD Matern-5/2", process),
}
CLASSIFICATION: Rows = {
    "scroll": ("ScrollClassifier", classes),
    "boosting": ("HistGradientBoosting, calibrated", calibrated(_boosting)),
    "logistic": ("LogisticRegression, calibrated", calibrated(_logistic)),
}
