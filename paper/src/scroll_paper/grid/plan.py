"""The plan of a sweep: the fits that are missing from the records, cut into stacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol

import torch

from scroll.training.batches import Rows
from scroll.training.bodies import ARCHITECTURES
from scroll.training.memory import available, footprint, stack_size

from ..data.protocol import Folds
from ..models.method import Setting, Training, network
from ..models.methods import TABLE_METHODS
from ..tables import records

MIXED_ROWS = 100_000  # beyond them a step is bound by memory, and a mixed stack reads more


class Read(Protocol):
    """A function that returns the folds of a data set."""

    def __call__(
        self,
        name: str,
        seeds: tuple[int, ...],
        unit: bool = False,
        even: bool = False,
        foreign: str = "",
    ) -> Folds:
        """Return the folds of the data set `name`; the rest is `Setting.rows`."""  # fmt: skip


class Group(NamedTuple):
    """The fits that are recorded together: the members of one ensemble, or a single network.

    Args:
        architecture: of the body; "none" is no body.
        seed: of the split and of the first member's parameters.
        knob: value of the hyper-parameter.
        order: which random order of the rows; 0 is the split's own.
    """

    architecture: str
    seed: int
    knob: float | None
    order: int


@dataclass(frozen=True)
class Work:
    """Fits that an experiment needs: one setting, many seeds and architectures.

    Args:
        setting: what they have in common.
        seeds: of the splits.
        architectures: of the bodies.
        grid: values of the hyper-parameter; None is the method's own.
        members: networks per ensemble.
    """

    setting: Setting
    seeds: tuple[int, ...]
    architectures: tuple[str, ...] = ARCHITECTURES
    grid: tuple[float | None, ...] | None = None
    members: int = 1

    @property
    def training(self) -> Training:
        """How the networks are trained."""
        return TABLE_METHODS[self.setting.method].training

    def groups(self) -> list[Group]:
        """Return all groups, one architecture after the other; raw inputs have none."""
        knobs = self.training.knobs(self.setting.set) if self.grid is None else self.grid
        orders = range(self.training.orders)
        raw = self.training.raw or self.setting.depth == 0
        bodies = ("none",) if raw else self.architectures
        return [
            Group(a, s, k, o) for a in bodies for s in self.seeds for k in knobs for o in orders
        ]

    def identity(self, group: Group) -> dict[str, object]:
        """Return what names a fit in the records, without the settings that are defaults."""
        what = {"set": self.setting.set, "method": self.setting.method, **self.setting.odd()}
        more = {k: v for k, v in group._asdict().items() if v not in (None, 0) or k == "seed"}
        return what | more

    def last(self, group: Group) -> str:
        """Return the key of the record that is written last for a group."""
        member = {"member": self.members - 1} if self.members > 1 else {}
        return records.key(self.identity(group) | member)


class Unit(NamedTuple):
    """Fits that are trained together as one stack."""

    work: Work
    groups: list[Group]

    @property
    def fits(self) -> int:
        """Number of networks that it trains."""
        return len(self.groups) * self.work.members

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds whose rows it needs, in increasing order."""
        return tuple(sorted({g.seed for g in self.groups}))


def missing(works: Sequence[Work], done: set[str]) -> list[Unit]:
    """Return the fits whose keys are not in `done`."""
    units = []
    for work in works:
        left = [g for g in work.groups() if work.last(g) not in done]
        if left:
            units.append(Unit(work, left))
    return units


class Plan(NamedTuple):
    """Units cut to what the device can hold.

    Args:
        units: in the order in which they are trained.
        fits: number of networks in all.
        bytes: of the largest stack.
        free: bytes free on the device.
    """

    units: list[Unit]
    fits: int
    bytes: int
    free: int


def plan(units: Sequence[Unit], read: Read, device: torch.device) -> Plan:
    """Cut units into stacks that fit into memory.

    A stack has one architecture, unless all of them together make a small one.
    """
    cut: list[Unit] = []
    most = 0
    for work, groups in units:
        data = read(work.setting.set, (groups[0].seed,), *work.setting.rows())
        data = gathered(work.training, data)
        rows = shortened(work.training, data.train)
        made = network(work.training, work.setting, rows.x.shape[-1], groups[0].architecture, (1,))
        each = footprint(made.to(rows.x), rows, work.setting.batch or None)
        if work.setting.batch:  # then a check on all validation rows may take more than a step
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


def gathered(training: Training, data: Folds) -> Folds:
    """Return the folds as a method uses them: with nothing held out if its rows are joined."""
    if not training.joined:
        return data
    x, y = (torch.cat([getattr(part, k) for part in data[:2]], 1) for k in ("x", "y"))
    return data._replace(train=Rows(x, y), val=Rows(x, y))


def shortened(training: Training, rows: Rows) -> Rows:
    """Return the training rows, or as many as the method uses; a split has shuffled them."""
    return Rows(rows.x[:, : training.rows], rows.y[:, : training.rows])
