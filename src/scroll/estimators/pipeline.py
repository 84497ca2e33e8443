"""From a table's codes and targets to a fitted model: split, encode, train, assemble."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from .._core.checks import LARGEST_COUNT, require, unchecked
from ..fitting.calibration import Tails
from ..fitting.ensemble import Ensemble, fit_ensemble, pilot, rates
from ..fitting.folds import folds_of
from ..fitting.plans import LABELS, MEMBERS, PLANS, Plan, paper
from ..fitting.split import Split
from ..fitting.stacks import LOOKED, Job, Members, head_of
from ..predictive import Numeric, Tail
from ..predictive.arguments import as_tensor
from ..tables.columns import TableSchema
from ..tables.encoder import Encoder
from ..tables.frames import Array
from ..training.loop import Run, Watch
from ..training.progress import bars
from .arguments import Parameters, check_device, check_seed
from .model import WIDEST, Model
from .rows import Sample, encoded_data, encoder_of, split_rows
from .spec import COUNTS, Spec
from .tasks import Task, Units, unit_costs
from .user_warnings import warn_if_collapsed, warn_of_negative


class Fitted(NamedTuple):
    """A fitted model, its task, the held-out score of each member, and the most steps taken."""

    model: Model
    task: Task
    scores: list[float]
    n_steps: int


def fit_model(
    given: Parameters,
    tasks: Sequence[Task],
    schema: TableSchema,
    rows: Sample,
    weight: ArrayLike | None,
    held: Sample | None,
) -> Fitted:
    """Fit a model.

    Args:
        given: the parameters of the estimator, checked.
        tasks: the kind of target; of several, held-out rows choose one.
        schema: the columns.
        rows: to train on; some of them are held out if `held` is None.
        weight: of each row, (N,).
        held: the user's own held-out rows.
    """
    seed = check_seed(given.random_state)
    members = MEMBERS[given.recipe] if given.n_members is None else given.n_members
    own = held is not None
    parts = split_rows(given, tasks[0], schema, rows, weight, members, seed, own)
    encoder = encoder_of(schema, rows.codes[parts.train])
    plan = _plan(given, tasks[0].likelihood, encoder, len(parts.train))
    spec = _spec(given, tasks[0], encoder, plan, rows.y)
    table = Table(rows, held, parts, encoder, check_device(given.device))
    jobs = [(task, *_job(task, table, plan, spec, seed)) for task in tasks]
    judged = _judged(table)
    best, begun = _best_map(jobs, judged, members, seed)
    task, chosen, units = jobs[best]
    found = _trained(given, chosen, _tails(given, task, units), members, seed, begun)
    folds, costs = found.judged.folds, unit_costs(task, units, judged)
    spec = _completed(spec, task, found, float(folds.cpu().score(costs)))
    frequencies = rates(chosen.data, spec.outputs) if spec.lapse else 1.0
    model = _assembled(given, spec, encoder, found.parts, (units.shift, units.scale, frequencies))
    _put_scores(model, found, rows if held is None else held, None if own else parts)
    _warn_of_negative(given, task, model, table)
    each = folds.cpu().by_member(costs).tolist()
    scores = [s + c for part in found.parts for s, c in zip(part.scores, each, strict=True)]
    return Fitted(model, task, scores, max(step for part in found.parts for step in part.steps))


class Table(NamedTuple):
    """The rows of a fit: all of them, the user's held-out ones, the split, and how to encode."""

    rows: Sample
    held: Sample | None
    parts: Split
    encoder: Encoder
    device: torch.device


def _judged(table: Table) -> Array:
    """Return the targets of the rows that judge the members, in the order of `Folds.y`."""
    rows, held, parts, _, _ = table
    if held is not None:
        return held.y[:LOOKED]
    return rows.y[parts.held[:LOOKED] if parts.fold is None else parts.train]


def _job(task: Task, table: Table, plan: Plan, spec: Spec, seed: int) -> tuple[Job, Units]:
    """Return what to train for a task, and the units of its target."""
    rows, held, parts, encoder, device = table
    units = task.units(rows.y[parts.train], plan.scaled)

    def encoded(some: Sample, seed: int) -> tuple[Tensor, Tensor]:
        x = encoder(as_tensor("X", np.ascontiguousarray(some.codes))).to(device)
        return x, task.encode(some.y, units, seed).to(device)

    data = encoded_data(rows, held, parts, task.class_weight, seed, encoded)
    start = lambda head: task.start(head, data.y)
    return Job(data, plan, spec.head, start, numbers=task.numbers), units


def _best_map(
    jobs: list[tuple[Task, Job, Units]], y: Array, members: int, seed: int
) -> tuple[int, Run | None]:
    """Return the index of the task whose map has the best density of held-out rows.

    Each first body is trained for a while; the training of the best one can be continued.

    Args:
        jobs: tasks that differ in the map of the target, how to train them, and their units.
        y: the user's targets of the judged rows.
        members: number of members.
        seed: of the first member.
    """
    if len(jobs) == 1:
        return 0, None
    with unchecked():
        pilots = [pilot(job, members=members, seed=seed) for _, job, _ in jobs]
    folds = folds_of(jobs[0][1].data, members).cpu()
    costs = [float(folds.score(unit_costs(task, units, y))) for task, _, units in jobs]
    best = int(np.argmax([p.score - cost for p, cost in zip(pilots, costs, strict=True)]))
    return best, pilots[best].run


def _warn_of_negative(given: Parameters, task: Task, model: Model, table: Table) -> None:
    """Warn if a target that is never negative has intervals below zero, and no map was asked."""
    known = [table.rows.y] if table.held is None else [table.rows.y, table.held.y]
    low, high = min(y.min() for y in known), max(y.max() for y in known)
    automatic = getattr(given, "target", "") == "auto" and given.recipe != "paper"
    if automatic and task.map is None and 0 <= low < high:
        student = getattr(given, "tails", "") == "student"
        warn_of_negative(_share_below_zero(model, table.rows), bool(low == 0), student)


def _share_below_zero(model: Model, rows: Sample) -> float:
    """Return the share of rows whose 90 % interval starts below zero, of at most 2,000 rows."""
    codes = rows.codes[:: -(-len(rows.codes) // 2000)]
    p = cast(Numeric, model.predictive(as_tensor("X", np.ascontiguousarray(codes))))
    below = torch.zeros((), dtype=torch.bool) if p.discrete else p.cdf(torch.tensor(0.0)) > 0.05
    return float(below.double().mean())


def _completed(spec: Spec, task: Task, found: Ensemble, cost: float) -> Spec:
    """Return the description of the model with all that was chosen, and scores in units of y."""
    calibration = found.calibration
    return replace(
        spec,
        parts=[(part.body, part.routes) for part in found.parts],
        weights=found.weights,
        tried={name: score + cost for name, score in found.tried.items()},
        power=calibration.power_of_all,
        lapse=calibration.lapse,
        width=calibration.width * calibration.shrinkage,
        tail=asdict(calibration.tail),
        target=None if task.map is None else asdict(task.map),
        judged=len(found.judged.folds.y),
    )


def _put_scores(model: Model, found: Ensemble, rows: Sample, parts: Split | None) -> None:
    """Give the model the scores of its rows out of fold, in the units of the user.

    Args:
        model: assembled, with its calibration.
        found: predictives of the held-out rows, and the calibration of a member by itself.
        rows: the table that the judged rows come from.
        parts: the split of the table; None if it is the user's own and all of it is judged.
    """
    folds = found.judged.folds
    number = np.arange(len(rows.y))
    if parts is not None:
        number = parts.train if folds.crossed else parts.held
    number = number[: len(folds.y)]
    y = as_tensor("y", rows.y[number])
    calibration = found.calibration
    finish = partial(model.finish, power=calibration.power)
    model.oof.copy_(found.judged.scores(finish, y, calibration.width))
    model.oof_rows.copy_(torch.from_numpy(number))


def _plan(given: Parameters, likelihood: str, encoder: Encoder, n_rows: int) -> Plan:
    """Return the candidate bodies and how to train them, with the user's own settings."""
    plan = paper(encoder.plain)
    if given.recipe != "paper":
        kind = "labels" if likelihood in LABELS else "counts" if likelihood in COUNTS else "real"
        plan = PLANS[given.recipe](given.body, encoder.plain, encoder.ranked, kind, n_rows)
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
    return spec if given.covariance != "auto" else replace(spec, covariance=plan.covariance)


def _trained(
    given: Parameters, job: Job, tails: Tails, members: int, seed: int, begun: Run | None
) -> Ensemble:
    """Train the members; warn of a collapsed noise, and refuse members without a score."""
    only_free = (given.routing, given.recipe) == ("auto", "paper")  # the paper's recipe
    routing = "free" if only_free else given.routing
    with _progress(given.verbose, job.plan) as watch, unchecked():
        job = replace(job, watch=watch)
        how = {"members": members, "seed": seed}
        found = fit_ensemble(job, routing=routing, tails=tails, begun=begun, **how)
    scores = [score for part in found.parts for score in part.scores]
    remedy = "Look for errors among the largest targets and inputs, or lower learning_rate."
    finite = bool(np.isfinite(scores).all())
    require(finite, "y", "have a finite score on the held-out rows", scores, remedy)
    for part in found.parts:
        warn_if_collapsed(head_of(part.network), part.bound, part.routes, given.routing)
    return found


def _tails(given: Parameters, task: Task, units: Units) -> Tails:
    """Return the tails to try: the mean in the units of y must exist."""
    asked = getattr(given, "tails", "auto")
    kinds = Tail.KINDS if asked == "auto" else (asked,)
    if task.map is None or task.map.name == "logit":
        return Tails(kinds)
    want = f"be 'auto', 'gaussian' or 'lapse' for target={task.map.name!r}"
    remedy = "Under this map the mean of a Student-t distribution is infinite."
    require(asked != "student", "tails", want, repr(asked), remedy)
    kinds = tuple(kind for kind in kinds if kind != "student")
    return Tails(kinds, WIDEST / float(np.max(units.scale)))


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
