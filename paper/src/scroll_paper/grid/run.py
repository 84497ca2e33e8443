"""Train what is missing from the records: here, in worker processes or on a cluster."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from ..data import datasets
from ..data.datasets import SETS, Data, DataSet
from ..data.protocol import Folds, folds
from ..data.sources import Say
from ..models.method import Method
from ..models.methods import TABLE_METHODS
from ..tables import records
from ..tables.experiment import Results, Tell, Watch, unwatched
from ..tables.records import Record
from .engines import Engine, Failure, recall, spread
from .plan import Read, Unit, Work, missing, plan
from .processes import worked
from .stacks import train_stack

LOCAL = Engine("local", "")


class RowSource(NamedTuple):
    """Where the rows come from, and where they go to.

    Args:
        folder: with the data sets; None is $SCROLL_DATA.
        device: to train on.
        download: let the weights of an encoder be downloaded.
        sets: a user's own data sets by name, which other processes do not know.
        methods: a user's own methods by name, which other processes do not know.
    """

    folder: str | None
    device: torch.device
    download: bool = False
    sets: tuple[tuple[str, DataSet], ...] = ()
    methods: tuple[tuple[str, Method], ...] = ()

    def install(self) -> Read:
        """Make the user's own sets and methods known in this process; return its reader."""
        SETS.update(self.sets)
        TABLE_METHODS.update(self.methods)
        return _reader(self.folder, self.device, self.download)


def train(
    works: Sequence[Work],
    results: Path,
    source: RowSource,
    *,
    workers: int = 1,
    say: Say = print,
    watch: Watch = unwatched,
    engine: Engine = LOCAL,
) -> None:
    """Train what the records in the folder `results` lack, and append it there.

    Args:
        works: the fits that are needed.
        results: the folder of the records, one file per data set.
        source: of the rows.
        workers: processes that share the stacks; each records what it has finished.
        say: takes the plan, in one line.
        watch: takes the number of fits; its context yields the callback for progress.
        engine: where to train; workers of a cluster train, and this process records.
    """
    done = Results(results, say).done
    if not (units := missing(works, done)):
        return
    read = reader(source, say)
    work = plan(units, read, source.device)
    records.writable(results)  # sooner than after the first stack
    say(
        f"{work.fits} fits in {len(work.units)} stacks; the largest takes about "
        f"{_size(work.bytes)} of {_size(work.free)} free on {source.device}"
    )
    with watch(work.fits) as tell:
        before = 0
        if engine.local:
            fits = _each(work.units, results, done, read, source, workers, tell)
        else:
            fits = _on_cluster(work.units, results, done, source, engine)
        for count, best in fits:
            before += count
            tell(before, best)


def _each(
    units: Sequence[Unit],
    results: Path,
    done: set[str],
    read: Read,
    source: RowSource,
    workers: int,
    tell: Tell,
) -> Iterator[tuple[int, float]]:
    """Train every unit, here or in other processes; yield its number of fits and best objective."""
    if min(workers, len(units)) == 1:
        before = 0
        for unit in units:
            yield unit.fits, record_unit(unit, results, done, read, _after(before, tell))
            before += unit.fits
        return
    largest_first = sorted(units, key=lambda u: -u.fits)  # so that the last ones are short
    tasks = ((u, results, _related(u, done), source) for u in largest_first)
    yield from worked(record_in_worker, tasks, workers)


def _on_cluster(
    units: Sequence[Unit],
    results: Path,
    done: set[str],
    source: RowSource,
    engine: Engine,
) -> Iterator[tuple[int, float]]:
    """`_each` on a cluster, whose workers return records that are written here."""
    largest_first = sorted(units, key=lambda u: -u.fits)
    left = {k: (u, source) for k, u in enumerate(largest_first)}
    for k, lines in spread(engine, records_of, left):
        if isinstance(lines, Failure):
            what = largest_first[k].work.setting
            raise RuntimeError(f"No worker could train {what.method} on {what.set}: {lines.text}")
        best = _append(lines, results, done)
        left.pop(k, None)
        yield largest_first[k].fits, best


def records_of(unit: Unit, source: RowSource) -> list[Record]:
    """Train a unit on a worker of a cluster, and return all its records."""
    torch.set_num_threads(1)
    return [line for lines in _trained(unit, source.install(), recall()) for line in lines]


def record_unit(unit: Unit, results: Path, done: set[str], read: Read, tell: Tell | None) -> float:
    """Train a unit, append its records as they come, and return its best objective.

    Args:
        unit: to train.
        results: folder of the records.
        done: keys of the records that are there; what is appended is added to it.
        read: returns the rows.
        tell: called with the fits done and the best objective.
    """
    return min(_append(lines, results, done) for lines in _trained(unit, read, tell))


def _append(lines: list[Record], results: Path, done: set[str]) -> float:
    """Append the records that are new; return the best objective of all."""
    fresh = {records.key(line): line for line in lines if records.key(line) not in done}
    if fresh:
        name = lines[0]["fit"]["set"]
        records.append(records.file_of(results, name), fresh.values())
        done |= fresh.keys()
    return min([torch.inf, *(line["val"] for line in lines)])


def _trained(unit: Unit, read: Read, tell: Tell | None) -> Iterator[list[Record]]:
    """Yield the records of a unit as they come; in halves if it is too large for memory."""
    try:
        setting = unit.work.setting
        yield from train_stack(unit, read(setting.set, unit.seeds, *setting.rows()), tell)
        return
    except torch.OutOfMemoryError:  # others may use the device, whatever the plan said
        if len(unit.groups) == 1:
            raise
    half = len(unit.groups) // 2
    torch.cuda.empty_cache()
    for some in (unit.groups[:half], unit.groups[half:]):
        yield from _trained(unit._replace(groups=some), read, None)


def record_in_worker(
    unit: Unit, results: Path, done: set[str], source: RowSource
) -> tuple[int, float]:
    """`record_unit` in a process of its own, which shares the cores with others."""
    torch.set_num_threads(1)
    return unit.fits, record_unit(unit, results, done, source.install(), None)


@cache
def _reader(folder: str | None, device: torch.device, download: bool) -> Read:
    """One reader per process."""
    return reader(RowSource(folder, device, download))


def _related(unit: Unit, done: set[str]) -> set[str]:
    """Return the keys of the records that a unit could repeat."""
    mark = f'"set":"{unit.work.setting.set}"'
    return {key for key in done if mark in key}


def reader(source: RowSource, say: Say = print) -> Read:
    """Return a function that reads the folds of a data set; it keeps the data and the last folds.

    Args:
        source: of the rows.
        say: takes a line before a download.
    """
    known: dict[str, Data] = {}
    last: dict[tuple[object, ...], Folds] = {}

    def load(name: str) -> Data:
        if name not in known:
            known[name] = datasets.load(name, source.folder, say, source.download)
        return known[name]

    def read(
        name: str, seeds: tuple[int, ...], unit: bool = False, even: bool = False, foreign: str = ""
    ) -> Folds:
        key = (name, seeds, unit, even, foreign)
        if key not in last:
            last.clear()
            other = load(foreign) if foreign else None
            last[key] = folds(load(name), seeds, source.device, unit, even, other)
        return last[key]

    return read


def _after(before: int, tell: Tell) -> Tell:
    return lambda stopped, best: tell(before + stopped, best)


def _size(count: float) -> str:
    return f"{count / 2**20:.0f} MiB" if count < 2**30 else f"{count / 2**30:.1f} GiB"
