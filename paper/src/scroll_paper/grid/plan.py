"""Fits as work: what an experiment needs, what the records lack, and stacks that fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import torch

from scroll.training.batches import Rows
from scroll.training.bodies import ARCHITECTURES
from scroll.training.memory import available, footprint, stack_size

from ..data.protocol import Folds
from ..models.methods import METHODS, Method, Setting, network
from ..tables import records

Tell = Callable[[int, float], None]
Read = Callable[..., Folds]  # of a set's name, seeds and `Setting.rows`


MIXED_ROWS = 100_000  # beyond them a step is bound by memory, and a mixed stack reads more


class Group(NamedTuple):
    """The fits that are recorded together: the members of one ensemble, or a single network."""

    architecture: str
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
        """All of them, an architecture after the other; on raw inputs there is none."""
        knobs = self.method.knobs(self.setting.set) if self.grid is None else self.grid
        orders = range(self.method.orders)
        raw = self.method.raw or self.setting.depth == 0
        bodies = ("none",) if raw else self.architectures
        return [
            Group(a, s, k, o) for a in bodies for s in self.seeds for k in knobs for o in orders
        ]

    def identity(self, group: Group) -> dict[str, Any]:
        """What a fit is, without what is as usual."""
        what = {"set": self.setting.set, "method": self.setting.method, **self.setting.odd()}
        more = {k: v for k, v in group._asdict().items() if v not in (None, 0) or k == "seed"}
        return what | more

    def last(self, group: Group) -> str:
        """The key of the line that is written last for a group."""
        member = {"member": self.members - 1} if self.members > 1 else {}
        return records.key(self.identity(group) | member)


class Unit(NamedTuple):
    """Fits to be trained as a stack."""

    work: Work
    groups: list[Group]

    @property
    def fits(self) -> int:
        """How many networks it trains."""
        return len(self.groups) * self.work.members

    @property
    def seeds(self) -> tuple[int, ...]:
        """Whose rows it needs."""
        return tuple(sorted({g.seed for g in self.groups}))


def missing(works: Sequence[Work], done: set[str]) -> list[Unit]:
    """What the records lack."""
    units = []
    for work in works:
        left = [g for g in work.groups() if work.last(g) not in done]
        if left:
            units.append(Unit(work, left))
    return units


class Plan(NamedTuple):
    """Units cut to what the device can hold."""

    units: list[Unit]
    fits: int
    bytes: int  # of the largest stack
    free: int


def plan(units: Sequence[Unit], read: Read, device: torch.device) -> Plan:
    """Cut units into stacks that fit, of one architecture unless all of them make a small one."""
    cut: list[Unit] = []
    most = 0
    for work, groups in units:
        data = read(work.setting.set, (groups[0].seed,), *work.setting.rows())
        rows = shortened(work.method, data.train)
        made = network(work.method, work.setting, rows.x.shape[-1], groups[0].architecture, (1,))
        each = footprint(made.to(rows.x), rows, work.setting.batch or None)
        if work.setting.batch:  # then a look at all held-out rows may take more than a step
            each += 16 * work.setting.width * data.val.y.shape[1]
        at_once = work.setting.batch or rows.y.shape[1]
        size = max(1, stack_size(each, at_once, device) // work.members)
        alike = [list(some) for _, some in groupby(groups, lambda g: g.architecture)]
        small = at_once * len(groups) * work.members <= MIXED_ROWS and len(groups) <= size
        for some in [groups] if small else alike:
            for i in range(0, len(some), size):
                cut.append(Unit(work, some[i : i + size]))
                most = max(most, each * cut[-1].fits)
    return Plan(cut, sum(u.fits for u in cut), most, available(device))


def shortened(method: Method, rows: Rows) -> Rows:
    """All rows, or as many as the method reads; a split has shuffled them."""
    return Rows(rows.x[:, : method.rows], rows.y[:, : method.rows])
