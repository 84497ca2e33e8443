"""`ScrollRegressor` as a probabilistic regressor of skpro (extra `skpro`)."""

from typing import Any

import pandas as pd
from skpro.regression.base import BaseProbaRegressor

from ..estimators.regressor import ScrollRegressor
from ..fitting.candidates import Body
from .skpro_distribution import ScrollDistribution


class ScrollProba(BaseProbaRegressor):  # type: ignore[misc]
    """A regressor whose predictives are distributions of skpro, `ScrollDistribution`.

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
        target: str = "auto",
        tails: str = "auto",
        n_members: int | None = None,
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
        self.target = target
        self.tails = tails
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

    def _predict_proba(self, X: pd.DataFrame) -> ScrollDistribution:
        predictive = self.estimator_.predict_dist(_named(X))
        return ScrollDistribution(predictive, X.index, self._targets)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return settings of small fits, for skpro's own checks."""
        one = {"body": "smooth", "max_steps": 20, "random_state": 0}
        heavy = {"n_members": 2, "routing": "closed", "target": "identity", "tails": "student"}
        return [one, one | heavy]


def _named(X: pd.DataFrame) -> pd.DataFrame:
    """Return X with text as column names: skpro allows numbers, scikit-learn does not."""
    return X.set_axis(X.columns.astype(str), axis=1)
