"""From a table's codes and targets to a fitted model: split, encode, train, assemble."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from .._core.checks import LARGEST_COUNT, require, unchecked
from ..beliefs.families import by_size
from ..fitting.crossfit import cross_fit
from ..fitting.plans import FEW, LABELS, Plan, default, paper
from ..fitting.search import rates, search
from ..fitting.split import Split, mean_one, split, weighed
from ..fitting.stacks import Data, Ensemble, Job, Members, head_of
from ..predictive.arguments import as_tensor
from ..tables.columns import TableSchema
from ..tables.encoder import Encoder
from ..tables.frames import Array
from ..training.loop import Watch
from ..training.progress import bars
from .arguments import Parameters, check_device, check_held_out, check_seed, check_weights
from .model import Model
from .spec import COUNTS, Spec
from .task import Task
from .user_warnings import warn_if_collapsed


class Sample(NamedTuple):
    """Rows of a table: codes (N, D) and targets as `Task.read` returns them."""

    codes: Array
    y: Array


class Fitted(NamedTuple):
    """A fitted model, the held-out score of each member, and the most steps that one took."""

    model: Model
    scores: list[float]
    n_steps: int


def fit_model(
    given: Parameters,
    task: Task,
    schema: TableSchema,
    rows: Sample,
    weight: ArrayLike | None,
    held: Sample | None,
) -> Fitted:
    """Fit a model.

    Args:
        given: the parameters of the estimator, checked.
        task: the kind of target.
        schema: the columns.
        rows: to train on; some of them are held out if `held` is None.
        weight: of each row, (N,).
        held: the user's own held-out rows.
    """
    seed = check_seed(given.random_state)
    parts = _split(given, task, schema, rows, weight, seed, own=held is not None)
    encoder = _encoder(schema, rows.codes[parts.train])
    plan = _plan(given, task.likelihood, encoder, len(parts.train))
    units = task.units(rows.y[parts.train], plan.scaled)
    spec = _spec(given, task, encoder, plan, rows.y)
    device = check_device(given.device)

    def encoded(some: Sample, seed: int) -> tuple[Tensor, Tensor]:
        x = encoder(as_tensor("X", np.ascontiguousarray(some.codes))).to(device)
        return x, task.encode(some.y, units, seed).to(device)

    data = _data(rows, held, parts, task.class_weight, seed, encoded)
    job = Job(data, plan, spec.head, start=lambda head: task.start(head, data.y))
    found, tried = _trained(given, job, seed)
    spec = replace(spec, parts=[(part.body, part.routes) for part in found], tried=tried)
    spec = replace(spec, power=found[0].power, lapse=found[0].lapse)
    frequencies = rates(data, spec.outputs) if spec.lapse else 1.0
    model = _assembled(given, spec, encoder, found, (units.shift, units.scale, frequencies))
    scores = [score for part in found for score in part.scores]
    return Fitted(model, scores, max(step for part in found for step in part.steps))


def _split(
    given: Parameters,
    task: Task,
    schema: TableSchema,
    rows: Sample,
    weight: ArrayLike | None,
    seed: int,
    own: bool,
) -> Split:
    """Hold out rows, or none if the user has held-out rows of their own; weigh the classes."""
    codes, y = rows
    checked = None if weight is None else check_weights(weight, len(codes))
    two = checked is None or bool((checked > 0).sum() > 1)
    require(two, "sample_weight", "be positive for two rows", "fewer")
    fraction = 0.0 if own else given.validation_fraction
    folds = 0 if own else task.n_folds(len(codes), given.n_members)
    numeric = np.array([column.kind == "numeric" for column in schema.columns])
    labels = task.levels is not None
    parts = split(codes, y, checked, fraction, seed, labels, folds, numeric)
    return parts if task.class_weight is None else weighed(parts, task.class_weight[y])


def _encoder(schema: TableSchema, codes: Array) -> Encoder:
    encoder = Encoder.of(schema, codes)
    want = "have a column of numbers, or of categories that come more than once"
    remedy = "Add one: a column of row names cannot predict new rows."
    require(encoder.plain, "X", want, "none", remedy)
    return encoder


def _plan(given: Parameters, likelihood: str, encoder: Encoder, n_rows: int) -> Plan:
    """Return the candidate bodies and how to train them, with the user's own settings."""
    plan = paper(encoder.plain)
    if given.recipe == "default":
        linear = likelihood == "gaussian" and n_rows < FEW
        plan = default(given.body, encoder.plain, encoder.ranked, likelihood in LABELS, linear)
    steps = plan.settings.steps if given.max_steps is None else given.max_steps
    batch = plan.settings.batch if given.batch_size is None else given.batch_size
    lr = plan.settings.lr if given.learning_rate is None else given.learning_rate
    return replace(plan, settings=replace(plan.settings, steps=steps, batch=batch, lr=lr))


def _spec(given: Parameters, task: Task, encoder: Encoder, plan: Plan, y: Array) -> Spec:
    """Describe the model to be trained."""
    body = given.body
    named = "yours" if isinstance(body, nn.Module) else body
    spec = Spec(
        likelihood=task.likelihood,
        covariance=given.covariance,
        beta=float(given.beta),
        outputs=task.n_outputs(y),
        recipe=given.recipe,
        body=named if isinstance(named, str) else list(named),
        layout=encoder.layout(),
        bias=plan.bias,
        floor=plan.floor,
        noise=plan.noise,
        largest=max(1.0, float(y.max())) if task.likelihood in COUNTS else LARGEST_COUNT,
    )
    if given.covariance != "auto":
        return spec
    features = max(candidate.features for candidate in plan.candidates)
    return replace(spec, covariance=by_size(features, spec.latents))


def _data(
    rows: Sample,
    held: Sample | None,
    parts: Split,
    class_weight: Array | None,
    seed: int,
    encoded: Callable[[Sample, int], tuple[Tensor, Tensor]],
) -> Data:
    """Encode the rows to train on and the rows held out."""
    x, y = encoded(Sample(rows.codes[parts.train], rows.y[parts.train]), seed)
    later, held_weight = Sample(rows.codes[parts.held], rows.y[parts.held]), parts.held_weight
    if held is not None:
        later, held_weight = held, _own_weight(held, rows, class_weight)
    held_x, held_y = encoded(later, seed + 1)
    same = parts.held is parts.train
    return Data(
        x,
        y,
        _on(x, parts.weight),
        held_x,
        held_y,
        _on(x, held_weight),
        own=held is not None or same,
        seen=held is None and same,
        fold=None if parts.fold is None else torch.from_numpy(parts.fold).to(x.device),
        ratio=parts.ratio,
    )


def _own_weight(held: Sample, rows: Sample, class_weight: Array | None) -> Array | None:
    """Check the user's own held-out rows; return their weights.

    They are weighted by class as the training rows are, so that both have the same score.
    """
    check_held_out(held.y, rows.y)
    if class_weight is None:
        return None
    weighs = bool(class_weight[held.y].any())
    require(weighs, "eval_set", "hold a class of positive weight", "none")
    return mean_one(class_weight, held.y)


def _on(like: Tensor, weight: Array | None) -> Tensor | None:
    """Return weights in single precision, on the device of `like`."""
    return None if weight is None else torch.from_numpy(weight).float().to(like.device)


def _trained(given: Parameters, job: Job, seed: int) -> Ensemble:
    """Train the members; warn of a collapsed noise, and refuse members without a score."""
    only_free = (given.routing, given.recipe) == ("auto", "paper")  # the paper's recipe
    routing = "free" if only_free else given.routing
    with _progress(given.verbose, job.plan) as watch, unchecked():
        job = replace(job, watch=watch)
        if job.data.fold is None:
            found = search(job, members=given.n_members, routing=routing, seed=seed)
        else:
            found = cross_fit(job, members=given.n_members, seed=seed)
    scores = [score for part in found.parts for score in part.scores]
    remedy = "Look for errors among the largest targets and inputs, or lower learning_rate."
    finite = bool(np.isfinite(scores).all())
    require(finite, "y", "have a finite score on the held-out rows", scores, remedy)
    for part in found.parts:
        warn_if_collapsed(head_of(part.network), part.bound, part.routes, given.routing)
    return found


def _assembled(
    given: Parameters,
    spec: Spec,
    encoder: Encoder,
    found: list[Members],
    units: tuple[Array | Tensor | float, ...],
) -> Model:
    """Put what was trained into a model of its own, on the CPU."""
    parts = [
        part._replace(network=part.network.cpu(), bound=part.bound.to("cpu")) for part in found
    ]
    model = Model(spec, given.body if isinstance(given.body, nn.Module) else None)
    model.encoder = encoder
    for buffer, value in zip((model.shift, model.scale, model.rates), units, strict=True):
        buffer.copy_(torch.as_tensor(value))
    return model.put(parts)


@contextmanager
def _progress(verbose: int, plan: Plan) -> Iterator[Callable[[str, int], Watch | None]]:
    """Show one progress bar per body that is trained, if `verbose` is not 0."""
    if not verbose:
        yield lambda body, members: None
        return
    with bars(transient=False) as add:

        def watch(body: str, members: int) -> Watch:
            total = -(-plan.settings.steps // plan.settings.every)
            update = add(f"{body}, {members} network{'s' if members > 1 else ''}", total)
            checks = count(1)

            def tell(stopped: int, best: float) -> None:
                update(total if stopped == members else next(checks), best)

            return tell

        yield watch
