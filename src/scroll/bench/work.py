"""Fits as work: what an experiment needs, what the records lack, and stacks that fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..bodies import ARCHITECTURES
from ..feeding import Rows
from ..memory import available, footprint, stack_size
from . import records
from .methods import METHODS, Method, Setting, network
from .protocol import Folds

Tell = Callable[[int, float], None]
Read = Callable[[str, tuple[int, ...]], Folds]


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
        """The architectures, of which there are none on raw inputs."""
        raw = self.method.raw or self.setting.depth == 0
        return ("none",) if raw else self.architectures

    def identity(self, architecture: str, group: Group) -> dict[str, Any]:
        """What a fit is, without what is as usual."""
        what = {"set": self.setting.set, "method": self.setting.method, **self.setting.odd()}
        more = {k: v for k, v in group._asdict().items() if v not in (None, 0) or k == "seed"}
        return what | {"architecture": architecture} | more

    def last(self, architecture: str, group: Group) -> str:
        """The key of the line that is written last for a group."""
        member = {"member": self.members - 1} if self.members > 1 else {}
        return records.key(self.identity(architecture, group) | member)


class Unit(NamedTuple):
    """Fits of one architecture, to be trained as a stack."""

    work: Work
    architecture: str
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


def plan(units: Sequence[Unit], read: Read, device: torch.device) -> Plan:
    """Cut units into stacks that fit."""
    cut: list[Unit] = []
    most = 0
    for work, architecture, groups in units:
        rows = read(work.setting.set, (groups[0].seed,)).train
        rows = shortened(work.method, rows)
        made = network(work.method, work.setting, rows.x.shape[-1], architecture, (1,))
        each = footprint(made.to(device), rows, work.setting.batch or None)
        at_once = work.setting.batch or rows.y.shape[1]
        size = max(1, stack_size(each, at_once, device) // work.members)
        for i in range(0, len(groups), size):
            cut.append(Unit(work, architecture, groups[i : i + size]))
            most = max(most, each * cut[-1].fits)
    return Plan(cut, sum(u.fits for u in cut), most, available(device))


def shortened(method: Method, rows: Rows) -> Rows:
    """All rows, or as many as the method reads; a split has shuffled them."""
    return Rows(rows.x[:, : method.rows], rows.y[:, : method.rows])
