"""Fits as work: what is missing from the records is trained in stacks and recorded as it ends."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import chance
from ..bodies import ARCHITECTURES
from ..feeding import Rows
from ..memory import available, footprint, stack_size
from ..training import Recipe, Trained, finishing, take
from . import datasets, records
from .evaluation import Fitted, Line, Lines
from .methods import METHODS, Method, Setting, network, prepared
from .protocol import Folds, folds


class Group(NamedTuple):
    """The fits that are recorded together: the members of one ensemble, or a single network."""

    seed: int
    knob: float | None
    order: int


@dataclass(frozen=True)
class Work:
    """Fits that an experiment needs: one setting, many seeds and architectures."""

    setting: Setting
    seeds: tuple[int, ...]
    architectures: tuple[str, ...] = ARCHITECTURES
    grid: tuple[float | None, ...] | None = None  # None is the method's own
    members: int = 1

    @property
    def method(self) -> Method:
        """How it is trained."""
        return METHODS[self.setting.method]

    def groups(self) -> list[Group]:
        """All of one architecture's."""
        knobs = self.method.grid if self.grid is None else self.grid
        orders = range(self.method.orders)
        return [Group(s, k, o) for s in self.seeds for k in knobs for o in orders]

    def bodies(self) -> tuple[str, ...]:
        """The architectures, of which a method on raw inputs has none."""
        return ("none",) if self.method.raw else self.architectures

    def identity(self, architecture: str, group: Group) -> dict[str, Any]:
        """What a fit is, without what is as usual."""
        usual = Setting._field_defaults
        odd = {k: v for k, v in self.setting._asdict().items() if v != usual.get(k)}
        more = {k: v for k, v in group._asdict().items() if v not in (None, 0) or k == "seed"}
        return odd | {"architecture": architecture} | more

    def last(self, architecture: str, group: Group) -> str:
        """The key of the line that is written last for a group."""
        identity = self.identity(architecture, group)
        if self.members > 1:
            return records.key(identity | {"member": self.members - 1})
        return records.key(identity)


Tell = Callable[[int, float], None]


class Unit(NamedTuple):
    """A stack to be trained."""

    work: Work
    architecture: str
    groups: list[Group]


def missing(works: Sequence[Work], done: set[str]) -> list[Unit]:
    """What the records lack, a unit an architecture of a work."""
    units = []
    for work in works:
        for architecture in work.bodies():
            left = [g for g in work.groups() if work.last(architecture, g) not in done]
            if left:
                units.append(Unit(work, architecture, left))
    return units


class Plan(NamedTuple):
    """Units cut to what the device can hold."""

    units: list[Unit]
    fits: int
    bytes: int  # of the largest stack
    free: int


def plan(units: Sequence[Unit], data: Callable[[str, tuple[int, ...]], Folds]) -> Plan:
    """Cut units into stacks that fit."""
    cut, most, free = [], 0, 0
    for work, architecture, groups in units:
        rows = data(work.setting.set, (groups[0].seed,))
        device = rows.train.y.device
        made = network(work.method, work.setting, rows.train.x.shape[-1], architecture, (1,))
        train = _shortened(work.method, rows.train)
        each = footprint(made.to(device), train, work.setting.batch or None)
        at_once = work.setting.batch or train.y.shape[1]
        size = max(1, stack_size(each, at_once, device) // work.members)
        cut += [
            Unit(work, architecture, groups[i : i + size]) for i in range(0, len(groups), size)
        ]
        most = max(most, each * work.members * min(size, len(groups)))
        free = available(device)
    return Plan(cut, sum(len(u.groups) * u.work.members for u in cut), most, free)


def fit(unit: Unit, data: Folds, watch: Tell | None = None) -> Iterator[list[dict[str, Any]]]:
    """Train a stack; yield the records of groups as their last network stops."""
    work, architecture, groups = unit
    method, setting, members = work.method, work.setting, work.members
    each = [(g, m) for g in groups for m in range(members)]
    seeds = [g.seed + 1000 * m for g, m in each]
    device = data.train.y.device
    whose = sorted({g.seed for g in groups})
    mine = data.take(torch.tensor([whose.index(g.seed) for g, _ in each], device=device))
    mine = mine._replace(train=_ordered(_shortened(method, mine.train), each))
    n = mine.train.y.shape[1]
    start = prepared(
        method, setting, mine.train.x.shape[-1], architecture, seeds, [g.knob for g, _ in each], n
    ).to(device)
    recipe = Recipe(
        steps=setting.steps,
        decay=0.01 * (n if method.mean_form else 1),
        every=setting.every,
        patience=setting.patience,
        batch=setting.batch or None,
    )
    whole, began = take(start, torch.ones(len(each), dtype=torch.bool, device=device)), time.time()
    steps = torch.zeros(len(each), dtype=torch.long, device=device)
    left, ready = torch.full((len(groups),), members, device=device), []
    parts = finishing(start, mine.train, mine.val, recipe, seeds=seeds, score=method.score, watch=watch)
    for part in parts:
        _fill(whole, part)
        steps[part.which] = part.steps
        left.index_add_(0, part.which // members, -torch.ones_like(part.which))
        ready = (left == 0).nonzero()[:, 0]
        if len(ready) and (not method.late or bool((left <= 0).all())):
            left[ready] = -1
            chosen = (ready[:, None] * members + torch.arange(members, device=device)).flatten()
            lines = _lines(work, whole, chosen, mine)
            about = {
                "steps": steps[chosen].tolist(),
                "seconds": (time.time() - began) / len(each),
                "device": _device(device),
            }
            yield list(_records(work, architecture, [groups[i] for i in ready.tolist()], lines, about))


def _lines(work: Work, whole: Any, chosen: Tensor, data: Folds) -> tuple[Lines, Lines]:
    """What the networks give each, and what the members of each ensemble give together."""
    mask = torch.zeros(len(data.train.y), dtype=torch.bool, device=chosen.device)
    mask[chosen] = True
    network, mine = take(whole, mask), data.take(mask)
    network.eval()
    with torch.no_grad():
        network.condition(mine.train)
        fitted = Fitted(network, mine)
        each = work.method.report(fitted)
        together = work.method.pool(fitted, work.members) if work.members > 1 and work.method.pool else {}
    return each, together


def _records(
    work: Work, architecture: str, groups: Sequence[Group], lines: tuple[Lines, Lines], about: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    each, together = lines
    versions = _versions()
    for i, group in enumerate(groups):
        identity = work.identity(architecture, group)

        def record(name: str, line: Line, at: int, extra: dict[str, Any]) -> dict[str, Any]:
            fit = identity | ({"method": name} if name else {}) | extra
            found = {k: float(v[at]) for k, v in line.metrics.items()}
            return {"fit": fit, "metrics": found, "val": float(line.val[at])}

        spent = {"seconds": round(about["seconds"], 4), "device": about["device"], "versions": versions}
        for name, line in together.items():
            yield record(name, line, i, {"members": work.members}) | spent
        for m in range(work.members):
            r = i * work.members + m
            extra = {"member": m} if m else {}
            for name in sorted(each, reverse=True):  # the network's own line, "", is the last
                line = each[name]
                if name == "" or m == 0:
                    yield record(name, line, r, extra) | {"steps": about["steps"][r]} | spent


def _fill(whole: Any, part: Trained) -> None:
    with torch.no_grad():
        for to, source in zip(whole.parameters(), part.network.parameters(), strict=True):
            to[part.which] = source


def _shortened(method: Method, rows: Rows) -> Rows:
    """A Gaussian process reads a thousand rows at most; the split has shuffled them."""
    return Rows(rows.x[:, :1000], rows.y[:, :1000]) if method.raw else rows


def _ordered(rows: Rows, each: Sequence[tuple[Group, int]]) -> Rows:
    """Rows in the order that a group asks for; order 0 is the split's own."""
    if not any(g.order for g, _ in each):
        return rows
    device = rows.y.device
    seeds = torch.tensor([g.seed + 1000 * g.order for g, _ in each], device=device)
    index = chance.permutation(seeds, 0, rows.y.shape[1])
    own = torch.tensor([g.order == 0 for g, _ in each], device=device)[:, None]
    index = torch.where(own, torch.arange(rows.y.shape[1], device=device), index)
    rank = torch.arange(len(each), device=device)[:, None]
    return Rows(rows.x[rank, index], rows.y[rank, index])


def _device(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def _versions() -> dict[str, str]:
    import platform

    from .. import __version__

    return {"scroll": __version__, "torch": torch.__version__, "python": platform.python_version()}


def run(
    units: Sequence[Unit], results: Path, data: Callable[[str, tuple[int, ...]], Folds], watch: Tell
) -> None:
    """Train every unit and append its records; `watch` hears of fits done and the best so far."""
    done = records.done(records.load(results.parent).records) if results.parent.is_dir() else set()
    finished = 0
    for unit in units:
        rows = data(unit.work.setting.set, tuple(sorted({g.seed for g in unit.groups})))
        before = finished
        for lines in fit(unit, rows, lambda stopped, best, b=before: watch(b + stopped, best)):
            fresh = [line for line in lines if records.key(line) not in done]
            records.append(results, fresh)
            done |= {records.key(line) for line in fresh}
        finished += len(unit.groups) * unit.work.members


def reader(folder: str | None, device: torch.device) -> Callable[[str, tuple[int, ...]], Folds]:
    """Folds of a set by name, the last ones kept."""
    tables: dict[str, datasets.Table] = {}
    kept: dict[tuple[str, tuple[int, ...]], Folds] = {}

    def read(name: str, seeds: tuple[int, ...]) -> Folds:
        if (name, seeds) not in kept:
            if name not in tables:
                tables[name] = datasets.load(name, folder)
            kept.clear()
            kept[name, seeds] = folds(tables[name], seeds, device)
        return kept[name, seeds]

    return read
