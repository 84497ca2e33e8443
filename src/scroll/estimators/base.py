"""What the two estimators share: from a table to members, and from new rows to a predictive."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from .._core.checks import (
    LARGEST_COUNT,
    must,
    not_negative,
    one_of,
    positive,
    positive_int,
    unchecked,
)
from .._core.value import cast
from ..beliefs.families import by_size
from ..fitting.crossfit import cross
from ..fitting.plans import FEW, LABELS, Plan, check_body, default, paper
from ..fitting.search import Data, Members, fit, rates
from ..fitting.split import Split, _mean_one, split, weighed
from ..predictive.arguments import as_tensor
from ..tables.columns import Remarks, Table
from ..tables.encoder import Encoder
from ..tables.frames import frame_of, holds_text, typed
from ..training.loop import Watch
from .model import COUNTS, Model, Spec
from .sklearn_checks import (
    check_columns,
    check_held_out,
    check_seed,
    check_table,
    check_weights,
    one_line,
)
from .user_warnings import collapsed, doubts, unseen

Array = NDArray[Any]


class Scroll(BaseEstimator):  # type: ignore[misc]
    """Columns, members, files: all but the target, which the two estimators know."""

    model_: Model
    table_: Table

    def _fit(
        self, X: Any, y: Array, sample_weight: Any, held: Any, by_class: Array | None = None
    ) -> None:
        """Fit to targets y (N,) or (N, K): real ones, counts or labels 0..K-1, weighed by class.

        Rows that are held out, or those of a pair `held`, weigh as training rows do: what is
        chosen by them is then good by the same score.
        """
        self._check_parameters()
        codes = self._codes(X, reset=True)
        check_consistent_length(codes, y)
        must(len(codes) > 1, "X", "hold at least two rows", "n_samples = 1")
        seed = check_seed(self.random_state)
        fraction = 0.0 if held is not None else self.validation_fraction
        rows = self._split(codes, y, (sample_weight, by_class), fraction, seed)
        mine, target = codes[rows.train], y[rows.train]
        if held is None:
            held_codes, held_y, held_weight = codes[rows.held], y[rows.held], rows.held_weight
        else:
            held_codes, held_y = self._codes(held[0]), held[1]
            held_weight = None if by_class is None else _mean_one(by_class, held_y)
            check_consistent_length(held_codes, held_y)
            check_held_out(held_y, y)
        encoder = Encoder.of(self.table_, mine)
        want = "have a column of numbers, or of categories that come more than once"
        must(encoder.plain, "X", want, "none", "Add one: names of rows say nothing of other rows.")
        device = self._device()

        def encoded(part: Array) -> Tensor:
            return encoder(as_tensor("X", np.ascontiguousarray(part))).to(device)

        plan = self._plan(encoder, len(target))
        shift, scale = self._units(target, plan)
        spec = self._spec(encoder, plan, y)
        data = Data(
            encoded(mine),
            self._target(target, shift, scale, seed).to(device),
            _weights(rows.weight, device),
            encoded(held_codes),
            self._target(held_y, shift, scale, seed + 1).to(device),
            _weights(held_weight, device),
            own=held is not None or rows.held is rows.train,
            seen=held is None and rows.held is rows.train,
            fold=None if rows.fold is None else torch.from_numpy(rows.fold).to(device),
            ratio=rows.ratio,
        )
        with self._progress(plan) as watch, unchecked():
            trained = partial(fit, routing=self._routing()) if rows.fold is None else cross
            found, tried = trained(
                data,
                plan,
                spec.head,
                members=self.n_members,
                seed=seed,
                watch=watch,
                start=lambda head: self._start(head, data.y),
            )
        _require_finite_scores(found)
        for part in found:
            collapsed(part.network.head, part.bound, part.routes, self.routing)
        parts = [(part.body, part.routes) for part in found]
        power, lapse = found[0].power, found[0].lapse
        spec = replace(spec, parts=parts, tried=tried, power=power, lapse=lapse)
        often = rates(data, spec.outputs) if spec.lapse else 1.0
        self.model_ = self._assembled(spec, encoder, found, (shift, scale, often))
        self.scores_ = [score for part in found for score in part.scores]
        self.n_iter_ = max(step for part in found for step in part.steps)

    def _split(self, codes: Array, y: Array, weights: Any, fraction: float, seed: int) -> Split:
        (sample_weight, by_class), weight = weights, None
        if sample_weight is not None:
            weight = check_weights(sample_weight, codes)
            must(bool((weight > 0).sum() > 1), "sample_weight", "be positive for two rows", "fewer")
        folds = self._folds(len(codes)) if fraction else 0
        numeric = np.array([column.kind == "numeric" for column in self.table_.columns])
        labels = is_classifier(self)
        rows = split(codes, y, weight, fraction, seed, labels, folds, numeric)
        return rows if by_class is None else weighed(rows, by_class[y])

    def _routing(self) -> str:
        """The paper's recipe has one route."""
        return "free" if (self.routing, self.recipe) == ("auto", "paper") else self.routing

    def _assembled(
        self, spec: Spec, encoder: Encoder, found: list[Members], units: tuple[Any, ...]
    ) -> Model:
        """What was trained as a model of its own, on the CPU."""
        for part in found:
            part.network.cpu()
            part.bound = part.bound.to("cpu")
        model = Model(spec, self.body if isinstance(self.body, nn.Module) else None)
        model.encoder = encoder
        for buffer, value in zip((model.shift, model.scale, model.rates), units, strict=True):
            buffer.copy_(torch.as_tensor(value))
        return model.put(found)

    def _check_parameters(self) -> None:
        one_of("routing", self.routing, ("auto", "free", "closed", "hybrid"))
        one_of("recipe", self.recipe, ("default", "paper"))
        check_body(self.body)
        positive_int("n_members", self.n_members)
        for name in ("max_steps", "batch_size"):
            if getattr(self, name) is not None:
                positive_int(name, getattr(self, name))
        if self.learning_rate is not None:
            positive("learning_rate", self.learning_rate)
        not_negative("beta", self.beta)
        must(self.beta <= 1, "beta", "be at most 1", self.beta)
        share: Any = self.validation_fraction
        inside = isinstance(share, Real) and 0 < float(share) < 1
        must(inside, "validation_fraction", "lie strictly between 0 and 1", repr(share))
        must(
            self._likelihood() in ("gaussian", "gaussreg") or self.routing in ("auto", "free"),
            "routing",
            f"be 'auto' or 'free' for likelihood {self._likelihood()!r}",
            repr(self.routing),
            "Only a Gaussian factor has a posterior in closed form.",
        )

    def _codes(self, X: Any, reset: bool = False) -> Array:
        """X as numbers, checked as scikit-learn does; `reset` learns what the columns are."""
        frame, remarks = frame_of(X), Remarks()
        if frame is None:
            X = check_table(self, typed(X), text=holds_text(X))
        rows = X if frame is None else frame
        table = Table.of(rows, remarks) if reset else self.table_
        codes = table.codes(rows, type(self).__name__, remarks)
        if frame is None or not (frame.named and table.named):
            check_columns(self, X, reset)
        elif reset:  # later frames are matched by name
            self.feature_names_in_ = np.asarray(frame.names, dtype=object)
            self.n_features_in_ = len(frame.names)
        self.table_ = table
        doubts(remarks)
        return codes

    def _new(self, X: Any) -> Tensor:
        """Codes of new rows, as a tensor."""
        check_is_fitted(self, "model_")
        codes = self._codes(X)
        unseen(self.table_.new_gaps(codes))
        return as_tensor("X", np.ascontiguousarray(codes))

    def _device(self) -> torch.device:
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        must(
            not str(name).startswith("cuda") or torch.cuda.is_available(),
            "device",
            "be one that is there",
            repr(name),
            "Use device='cpu'.",
        )
        with one_line("device", "be 'cpu', 'cuda' or 'auto'"):
            return torch.device(name)

    def _plan(self, encoder: Encoder, rows: int) -> Plan:
        plan = paper(encoder.plain)
        if self.recipe == "default":
            labels = self._likelihood() in LABELS
            linear = self._likelihood() == "gaussian" and rows < FEW
            plan = default(self.body, encoder.plain, encoder.ranked, labels, linear)
        own: Any = {"steps": self.max_steps, "batch": self.batch_size, "lr": self.learning_rate}
        given = {name: value for name, value in own.items() if value is not None}
        return replace(plan, recipe=replace(plan.recipe, **given))

    def _spec(self, encoder: Encoder, plan: Plan, y: Array) -> Spec:
        body: Any = self.body
        named = "yours" if isinstance(body, nn.Module) else body
        spec = Spec(
            likelihood=self._likelihood(),
            covariance=self.covariance,
            beta=float(self.beta),
            outputs=self._outputs(y),
            recipe=self.recipe,
            body=named if isinstance(named, str) else list(named),
            layout=encoder.layout(),
            bias=plan.bias,
            floor=plan.floor,
            noise=plan.noise,
            largest=max(1.0, float(y.max())) if self._likelihood() in COUNTS else LARGEST_COUNT,
        )
        if self.covariance != "auto":
            return spec
        features = max(candidate.features for candidate in plan.candidates)
        return replace(spec, covariance=by_size(features, spec.latents))

    @contextmanager
    def _progress(self, plan: Plan) -> Iterator[Any]:
        """A bar for each body that is trained, where `verbose` asks for one."""
        if not self.verbose:
            yield lambda body, members: None
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        best = TextColumn("best {task.fields[best]}")
        columns = (TextColumn("{task.description}"), BarColumn(), best, TimeRemainingColumn())
        with Progress(*columns) as bar:

            def watch(body: str, members: int) -> Watch:
                total = -(-plan.recipe.steps // plan.recipe.every)
                named = f"{body}, {members} network{'s' if members > 1 else ''}"
                task = bar.add_task(named, total=total, best="--")

                def tell(done: int, best: float) -> None:
                    bar.advance(task)
                    bar.update(task, best=f"{best:.3f}")
                    if done == members:
                        bar.update(task, completed=total)

                return tell

            yield watch

    @property
    def bodies_(self) -> list[str]:
        """The body of each member."""
        return self.model_.spec.bodies

    @property
    def routes_(self) -> list[str]:
        """What each member predicts with: "free", "closed" or "hybrid"."""
        return self.model_.spec.routes

    @property
    def tried_(self) -> dict[str, float]:
        """Held-out negative log-likelihood of each body and route that was tried."""
        return dict(self.model_.spec.tried)

    def predict_dist(self, X: Any) -> Any:
        """The predictive of each row: its mean, stddev, log_prob, cdf, quantile, sample, ..."""
        codes = self._new(X)
        return cast(self.model_.predictive(codes), torch.float64)

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> Array:
        """n draws of y a row, (n, N)."""
        positive_int("n", n)
        seed = check_seed(random_state)
        generator = torch.Generator().manual_seed(seed)
        draws: Array = self.predict_dist(X).sample(n, generator).numpy()
        return draws

    def ood_score(self, X: Any) -> Array:
        """How strange a row is: the leverage of its features in the posterior, (N,).

        Near 0 where the data have said much, above 1 where they have said less than one row.
        """
        codes = self._new(X)
        return self.model_.over("ood_score", codes).numpy()

    def save(self, path: str | Path) -> None:
        """Write the model to one file; `scroll.load` reads it."""
        from .modelfile import save

        check_is_fitted(self, "model_")
        save(self, path)

    def export_onnx(self, path: str | Path, quantiles: Any = (0.05, 0.5, 0.95)) -> None:
        """Write the model as an ONNX graph; see `scroll.estimators.onnx`."""
        from .onnx import export_onnx

        check_is_fitted(self, "model_")
        export_onnx(self, path, quantiles)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = False
        return tags


def _require_finite_scores(found: list[Members]) -> None:
    """Refuse members that could not be judged: nothing says that they were trained at all."""
    scores = [score for part in found for score in part.scores]
    must(
        bool(np.isfinite(scores).all()),
        "y",
        "have a finite score on the held-out rows",
        scores,
        "Look for errors among the largest targets and inputs, or lower learning_rate.",
    )


def _weights(weight: Array | None, device: torch.device) -> Tensor | None:
    return None if weight is None else torch.from_numpy(weight).float().to(device)
