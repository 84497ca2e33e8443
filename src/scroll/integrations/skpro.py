"""`ScrollRegressor` as a probabilistic regressor of skpro. Only this file imports skpro."""

from typing import Any

import numpy as np
import pandas as pd
from skpro.distributions.normal import Normal
from skpro.distributions.normal_mixture import NormalMixture
from skpro.regression.base import BaseProbaRegressor

from ..estimators.regressor import ScrollRegressor
from ..fitting.plans import Body


class ScrollProba(BaseProbaRegressor):  # type: ignore[misc]
    """A regressor whose predictives are skpro's `Normal`, or `NormalMixture` of several members.

    Arguments are those of `ScrollRegressor`.

    Attributes:
        estimator_: the fitted `ScrollRegressor`.

    Examples:
        >>> from sklearn.datasets import load_diabetes
        >>> from scroll.integrations.skpro import ScrollProba
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> regressor = ScrollProba(max_steps=20, random_state=0).fit(X, y)
        >>> distribution = regressor.predict_proba(X[:3])
    """

    estimator_: ScrollRegressor

    _tags = {  # noqa: RUF012  skpro reads it from the class
        "authors": [],
        "python_dependencies": ["torch"],
        "capability:multioutput": True,
        "capability:missing": True,
        "capability:update": False,
        "X_inner_mtype": "pd_DataFrame_Table",
        "y_inner_mtype": "pd_DataFrame_Table",
    }

    def __init__(
        self,
        covariance: str = "auto",
        routing: str = "auto",
        n_members: int = 1,
        beta: float = 0.0,
        recipe: str = "default",
        body: Body = "auto",
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ):
        self.covariance = covariance
        self.routing = routing
        self.n_members = n_members
        self.beta = beta
        self.recipe = recipe
        self.body = body
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        super().__init__()

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame) -> "ScrollProba":
        self._targets = y.columns
        target = y.to_numpy()
        estimator = ScrollRegressor(**self.get_params(deep=False))
        self.estimator_ = estimator.fit(_named(X), target[:, 0] if target.shape[1] == 1 else target)
        return self

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        return self._frame(X, self.estimator_.predict(_named(X)))

    def _predict_var(self, X: pd.DataFrame) -> pd.DataFrame:
        return self._frame(X, self.estimator_.predict(_named(X), return_std=True)[1] ** 2)

    def _predict_quantiles(self, X: pd.DataFrame, alpha: list[float]) -> pd.DataFrame:
        """Return exact quantiles; skpro would search the distribution function row by row."""
        found = self.estimator_.predict_quantiles(_named(X), alpha).reshape(len(X), -1)
        columns = pd.MultiIndex.from_product([self._targets, alpha])
        return pd.DataFrame(found, X.index, columns)

    def _predict_proba(self, X: pd.DataFrame) -> Normal | NormalMixture:
        p = self.estimator_.predict_dist(_named(X))
        how = {"index": X.index, "columns": self._targets}
        rows = (len(X), len(self._targets))
        means = [m.mean.numpy().reshape(rows) for m in p.members]
        stds = [m.stddev.numpy().reshape(rows) for m in p.members]
        if len(means) == 1:
            return Normal(means[0], stds[0], **how)
        # skpro's general Mixture takes logarithms of densities that are zero in the tails
        weights = np.ones((len(X), len(means)))
        return NormalMixture(weights, np.stack(means, 1), np.stack(stds, 1), **how)

    def _frame(self, X: pd.DataFrame, values: Any) -> pd.DataFrame:
        return pd.DataFrame(np.reshape(values, (len(X), -1)), X.index, self._targets)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return settings of small fits, for skpro's own checks."""
        one = {"body": "smooth", "max_steps": 20, "random_state": 0}
        return [one, one | {"n_members": 2, "routing": "closed"}]


def _named(X: pd.DataFrame) -> pd.DataFrame:
    """Return X with text as column names: skpro allows numbers, scikit-learn does not."""
    return X.set_axis(X.columns.astype(str), axis=1)
