"""What the two estimators share: scikit-learn's interface around a fitted model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from .._core.checks import positive_int, require
from .._core.value import cast
from ..fitting.out_of_fold import OutOfFold, summary
from ..posterior.posterior import Posterior
from ..predictive.arguments import Levels, as_tensor
from ..tables.columns import Remarks, TableSchema
from ..tables.frames import Array, TableLike, frame_of, holds_text, typed
from . import modelfile
from .arguments import RandomState, check_columns, check_parameters, check_seed, check_table
from .model import Model
from .pipeline import fit_model
from .rows import Sample
from .tasks import Task
from .user_warnings import warn_of_columns, warn_of_gaps


class Scroll(BaseEstimator):  # type: ignore[misc]
    """Base of both estimators: columns, members and files. `task_` handles the target."""

    # Many methods, because scikit-learn's users find every prediction on the estimator.

    model_: Model
    schema_: TableSchema
    task_: Task
    scores_: list[float]
    n_iter_: int

    def _fit(
        self,
        tasks: Sequence[Task],
        X: TableLike,
        y: Array,
        sample_weight: ArrayLike | None,
        held: tuple[TableLike, Array] | None,
    ) -> None:
        """Fit to targets that a task has read, (N,) or (N, K); `held` is the user's eval_set."""
        check_parameters(self, tasks[0].likelihood)
        rows = Sample(self._codes(X, reset=True), y)
        check_consistent_length(*rows)
        require(len(y) > 1, "X", "hold at least two rows", "n_samples = 1")
        later = None if held is None else Sample(self._codes(held[0]), held[1])
        check_consistent_length(*(later or rows))
        fitted = fit_model(self, tasks, self.schema_, rows, sample_weight, later)
        self.task_, self.model_ = fitted.task, fitted.model
        self.scores_, self.n_iter_ = fitted.scores, fitted.n_steps

    def _codes(self, X: TableLike, reset: bool = False) -> Array:
        """Return X as numbers, checked as scikit-learn does; `reset` learns the columns."""
        frame, remarks = frame_of(X), Remarks()
        if frame is None:
            X = check_table(self, typed(X), text=holds_text(X))
        rows = X if frame is None else frame
        schema = TableSchema.of(rows, remarks) if reset else self.schema_
        codes = schema.codes(rows, type(self).__name__, remarks)
        if frame is None or not (frame.named and schema.named):
            check_columns(self, X, reset)
        elif reset:  # later frames are matched by name
            self.feature_names_in_ = np.asarray(frame.names, dtype=object)
            self.n_features_in_ = len(frame.names)
        self.schema_ = schema
        warn_of_columns(remarks)
        return codes

    def _new(self, X: TableLike) -> Tensor:
        """Return the codes of new rows, as a tensor."""
        check_is_fitted(self, "model_")
        codes = self._codes(X)
        warn_of_gaps(self.schema_.new_gaps(codes))
        return as_tensor("X", np.ascontiguousarray(codes))

    @property
    def bodies_(self) -> list[str]:
        """The body of each member."""
        return self.model_.spec.bodies

    @property
    def routes_(self) -> list[str]:
        """The route that each member predicts with: "free", "closed" or "hybrid"."""
        return self.model_.spec.routes

    @property
    def tried_(self) -> dict[str, float]:
        """Held-out negative log-likelihood of each body and route that was tried."""
        return dict(self.model_.spec.tried)

    @property
    def oof_(self) -> dict[str, Array]:
        """Scores of training rows by networks that did not see them, and their row numbers.

        "row" is the number of the row in the training table. The other columns are "log_prob";
        "ood", its out-of-distribution score; and for numbers "crps", "error" (y minus the
        predictive mean), and the probabilities "below" and "upto" of less than and of at most y;
        for classes "brier" and "correct".
        """
        columns = self.model_.oof.numpy().T
        return {"row": self.model_.oof_rows.numpy()} | dict(
            zip(self.model_.spec.oof_names, columns, strict=True)
        )

    def oof_scores(self, coverage: float = 0.9) -> dict[str, float]:
        """Return scores of the training rows by networks that did not see them.

        They are an honest evaluation without a test set: NLL, CRPS, RMSE and the share of rows
        inside their interval; for classes NLL, Brier score and accuracy. Each row is judged by one
        member of the ensemble, so that the whole ensemble is usually a little better.

        Args:
            coverage: of the interval whose empirical coverage is returned.
        """
        check_is_fitted(self, "model_")
        inside = 0 < coverage < 1
        require(inside, "coverage", "lie strictly between 0 and 1", coverage, "90 % is 0.9.")
        require(self.model_.spec.judged, "estimator", "have out-of-fold rows", "none")
        return summary(OutOfFold(self.model_.spec.oof_names, self.model_.oof), coverage)

    def predict_dist(self, X: TableLike) -> Any:  # which class follows from the likelihood
        """Return the predictive distribution of each row.

        It has `mean`, `stddev`, `log_prob`, `cdf`, `quantile`, `interval` and `sample`; of classes
        `probs` and `log_probs`.

        Args:
            X: a table with the columns of training.
        """
        codes = self._new(X)
        return cast(self.model_.predictive(codes), torch.float64)

    def predict_interval(self, X: TableLike, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return the lower and the upper end of the central interval of each row.

        Both ends belong to the interval: of counts and of ordered classes it covers at least
        `coverage`. Classes without an order have no intervals.

        Args:
            X: a table with the columns of training.
            coverage: probability that the interval should contain y.
        """
        low, high = self.predict_dist(X).interval(coverage)
        return self.task_.decode(low), self.task_.decode(high)

    def predict_quantiles(self, X: TableLike, q: Levels) -> Array:
        """Return quantiles, (N, Q) or (N, K, Q); (N,) or (N, K) for a single level.

        Of counts and of ordered classes it is the lowest value whose probability of y being at
        most that reaches the level. Classes without an order have no quantiles.

        Args:
            X: a table with the columns of training.
            q: one level or several.
        """
        return self.task_.decode(self.predict_dist(X).quantile(q))

    def sample(self, X: TableLike, n: int = 1, random_state: RandomState = None) -> Array:
        """Return n draws of y per row, (n, N) or (n, N, K).

        Args:
            X: a table with the columns of training.
            n: number of draws.
            random_state: a seed or generator.
        """
        positive_int("n", n)
        generator = torch.Generator().manual_seed(check_seed(random_state))
        return self.task_.decode(self.predict_dist(X).sample(n, generator))

    def ood_score(self, X: TableLike) -> Array:
        """Return how far out of distribution each row is: the leverage of its features, (N,).

        Near 0 where the training rows determine the prediction, above 1 where one new row would
        be more informative than all training rows.

        Args:
            X: a table with the columns of training.
        """
        codes = self._new(X)
        return self.model_.average(Posterior.ood_score, codes).numpy()

    def ood_pvalue(self, X: TableLike) -> Array:
        """Return the share of training rows, out of fold, that were as unusual as each row, (N,).

        It is (1 + number of scores at least as large) / (1 + number of scores): small for rows that
        are far from all training rows. It is conservative: all members judge a new row, and one
        member judged a training row, so that p-values of rows like these are larger than uniform.

        Args:
            X: a table with the columns of training.
        """
        score = self.ood_score(X)
        known = np.sort(self.oof_["ood"].astype(np.float64))
        above = len(known) - np.searchsorted(known, score, side="left")
        found: Array = (1 + above) / (1 + len(known))
        return found

    def save(self, path: str | Path) -> None:
        """Write the model to one file, completely or not at all; `scroll.load` reads it."""
        check_is_fitted(self, "model_")
        modelfile.save(self, path)

    def export_onnx(self, path: str | Path, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> None:
        """Write the model as an ONNX graph; see `scroll.estimators.onnx`.

        Args:
            path: of the file.
            quantiles: levels of the quantiles that the graph also computes; () for none.
        """
        from .onnx import export_onnx

        check_is_fitted(self, "model_")
        export_onnx(self, path, quantiles)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = False
        return tags
