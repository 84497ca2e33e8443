"""Train one stack of networks, and make the records of those that have stopped."""

import time
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from scroll._core import counter_rng
from scroll.training.batches import Rows
from scroll.training.loop import train_in_parts
from scroll.training.memory import available
from scroll.training.network import Network, fill, take
from scroll.training.settings import Settings
from scroll.training.state import Trained

from ..data.protocol import Folds
from ..models.evaluation import Fitted, Line, Lines, joined
from ..models.method import prepared
from ..tables.experiment import Tell
from ..tables.records import Record, made
from .lbfgs import quasi_newton
from .plan import Group, Unit, Work, gathered, shortened

RATE = 0.03  # of Adam, as the paper has it


def train_stack(unit: Unit, data: Folds, watch: Tell | None = None) -> Iterator[list[Record]]:
    """Train a stack; yield the records of groups as their last network stops.

    Args:
        unit: what to train.
        data: the rows of its seeds, in increasing order of the seeds.
        watch: called with the number of networks that have stopped and the best objective.
    """
    work, groups = unit
    members, data = work.members, gathered(work.training, data)
    each = [g for g in groups for _ in range(members)]
    device = data.train.y.device
    own = torch.tensor([unit.seeds.index(g.seed) for g in each], device=device)
    train = _ordered(shortened(work.training, data.train.take(own)), each)
    rows = data._replace(train=train, val=data.val.take(own))  # the rest when it is measured
    began, start = time.time(), untrained(unit, rows).to(rows.train.x)
    trained = take(start, torch.ones(len(each), dtype=torch.bool, device=device))
    steps = torch.zeros(len(each), dtype=torch.long, device=device)
    left = torch.full((len(groups),), members, device=device)
    for part in finished_parts(unit, start, rows, watch):
        fill(trained, part.which, part.network)
        steps[part.which] = part.steps
        left.index_add_(0, part.which // members, -torch.ones_like(part.which))
        ready = (left == 0).nonzero()[:, 0]
        if len(ready) and (not work.training.late or bool((left <= 0).all())):
            left[ready] = -1
            chosen = (ready[:, None] * members + torch.arange(members, device=device)).flatten()
            lines = _measured(work, trained, chosen, rows, own)
            spent = made(began, device, len(each))  # its share of the stack's
            those = [groups[i] for i in ready.tolist()]
            yield list(group_records(unit, those, lines, steps[chosen].tolist(), spent))


def untrained(unit: Unit, rows: Folds) -> Network:
    """Return the stack of a unit before its first step, given the rows of each network."""
    work, groups = unit
    bodies, seeds, knobs = zip(
        *((g.architecture, g.seed + 1000 * m, g.knob) for g in groups for m in range(work.members)),
        strict=True,
    )
    return prepared(work.training, work.setting, bodies, seeds, knobs, rows.train)


def finished_parts(
    unit: Unit, start: Network, rows: Folds, watch: Tell | None
) -> Iterator[Trained]:
    """Train a stack; yield its networks as they stop, each with the best checkpoint."""
    work, setting, n = unit.work, unit.work.setting, rows.train.y.shape[1]
    if setting.depth == 0:
        return quasi_newton(start, rows.train, rows.val, watch)
    settings = Settings(
        steps=setting.steps,
        lr=RATE / (rows.train.x.shape[-1] ** 0.5 if setting.short_steps else 1),
        decay=0.01 * (n if work.training.mean_form else 1),
        every=setting.every,
        patience=setting.patience,
        batch=setting.batch or None,
    )
    seeds = [g.seed + 1000 * m for g in unit.groups for m in range(work.members)]
    return train_in_parts(
        start, rows.train, rows.val, settings, seeds=seeds, score=work.training.score, watch=watch
    )


def _measured(
    work: Work, trained: Network, chosen: Tensor, data: Folds, own: Tensor
) -> tuple[Lines, Lines]:
    """Return the lines of each network, and those of each ensemble.

    As many at once as memory allows: all rows of a set are more than the batches of training.
    """
    some = work.members * max(1, networks_at_once(work, data) // work.members)
    found = [_given(work, trained, part, data, own[part]) for part in chosen.split(some)]
    each, together = (joined(lines) for lines in zip(*found, strict=True))
    return each, together


def networks_at_once(work: Work, data: Folds) -> int:
    """Return how many networks' rows and activations take a tenth of the free memory."""
    numbers = sum(r.x[0].numel() + 10 * work.setting.width * r.y.shape[1] for r in data if r)
    each, device = numbers * data.train.x.element_size(), data.train.x.device
    free = available(device)
    if device.type == "cuda":  # what training has left stays with torch
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(0.1 * free) // each


def _given(
    work: Work, trained: Network, chosen: Tensor, data: Folds, own: Tensor
) -> tuple[Lines, Lines]:
    mask = torch.zeros(len(data.train.y), dtype=torch.bool, device=chosen.device)
    mask[chosen] = True
    network, rows = take(trained, mask), data.take(own)
    rows = rows._replace(train=data.train.take(chosen), val=data.val.take(chosen))
    network.eval()
    with torch.no_grad():
        network.condition(rows.train)
        fitted = Fitted(network, rows)
        each, pool = work.training.report(fitted), work.training.pool
        return each, pool(fitted, work.members) if pool and work.members > 1 else {}


def group_records(
    unit: Unit,
    groups: Sequence[Group],
    lines: tuple[Lines, Lines],
    steps: Sequence[int],
    spent: Mapping[str, object],
) -> Iterator[Record]:
    """Yield the records of each group; the last one marks the group as complete.

    Args:
        unit: that was trained.
        groups: of the unit, whose records to make.
        lines: of each network of these groups, and of each ensemble.
        steps: that each network has taken.
        spent: what every record says of how it was made.
    """
    (each, together), members = lines, unit.work.members
    for i, group in enumerate(groups):
        identity = unit.work.identity(group)
        for name, line in together.items():
            yield {**_record(identity | {"method": name, "members": members}, line, i), **spent}
        for m in range(members):
            r = i * members + m
            taken = {"steps": steps[r], **spent}
            if m == 0:
                for name in filter(None, each):
                    yield _record(identity | {"method": name}, each[name], r) | taken
            yield _record(identity | ({"member": m} if m else {}), each[""], r) | taken


def _record(identity: Mapping[str, object], line: Line, at: int) -> Record:
    found = {k: _rounded(v[at]) for k, v in line.metrics.items()}
    return {"fit": identity, "metrics": found, "val": _rounded(line.val[at])}


def _rounded(x: Tensor) -> float:
    """Round to the digits of single precision."""
    return float(f"{float(x):.7g}")


def _ordered(rows: Rows, each: Sequence[Group]) -> Rows:
    """Return the rows in the order of each group; order 0 is the split's own."""
    if not any(g.order for g in each):
        return rows
    n, device = rows.y.shape[1], rows.y.device
    seeds = torch.tensor([g.seed + 1000 * g.order for g in each], device=device)
    own = torch.tensor([g.order == 0 for g in each], device=device)[:, None]
    index = torch.where(own, torch.arange(n, device=device), counter_rng.permutation(seeds, 0, n))
    rank = torch.arange(len(each), device=device)[:, None]
    return Rows(rows.x[rank, index], rows.y[rank, index])
