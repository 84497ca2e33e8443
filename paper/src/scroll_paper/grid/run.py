"""An experiment from the question to the tables: train what the records lack, then read them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from scroll._core.checks import must, one_of

from ..data import datasets
from ..data.protocol import Folds, folds
from ..tables import records
from ..tables.builders import Scope
from ..tables.selection import Index
from ..tables.table import Table
from .engines import Engine, Failure, recall, spread
from .experiments import EXPERIMENTS, QUICK
from .plan import Plan, Read, Tell, Unit, missing, plan
from .processes import worked
from .stacks import fit

Say = Callable[[str], object]
LOCAL = Engine("local", "")


class Source(NamedTuple):
    """Where rows come from: a folder, or $SCROLL_DATA; what they go to; what may be fetched."""

    folder: str | None
    device: torch.device
    download: bool = False


def scope(
    experiment: str,
    sets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    quick: bool = False,
    folder: str | None = None,
) -> Scope:
    """What is asked for, checked; None is what the experiment usually takes.

    What is too large to be fetched unasked is part of it where `folder`, or $SCROLL_DATA, has it.
    """
    one_of("experiment", experiment, EXPERIMENTS)
    usual = EXPERIMENTS[experiment]
    for name in sets or ():
        one_of("sets", name, usual.only or datasets.SETS)
    for name in methods or ():
        one_of("methods", name, usual.methods())
    for what, given in (("sets", sets), ("methods", methods), ("seeds", seeds)):
        must(given is None or len(given) > 0, what, "name at least one", "none")
    few = tuple(m for m in QUICK.methods or () if m in usual.methods()) or None
    return Scope(
        tuple(sets or (_few(usual.sets) if quick else _usual(usual.sets, folder))),
        tuple(dict.fromkeys(seeds or (QUICK.seeds if quick else usual.seeds))),
        tuple(methods) if methods else (few if quick else None),
    )


def _few(sets: tuple[str, ...]) -> tuple[str, ...]:
    """Two, of those that need no encoder."""
    plain = tuple(s for s in sets if not datasets.SETS[s].encoder)
    return QUICK.sets if sets == datasets.UCI else plain[:2]


def _usual(sets: tuple[str, ...], folder: str | None) -> tuple[str, ...]:
    """Without what is too large to be fetched unasked."""
    return tuple(s for s in sets if s not in datasets.LARGE or datasets.at_hand(s, folder))


def train(
    experiment: str,
    asked: Scope,
    results: Path,
    device: torch.device,
    folder: str | None = None,
    workers: int = 1,
    say: Say = print,
    watch: Callable[[Plan], Any] | None = None,
    engine: Engine = LOCAL,
    download: bool = False,
) -> None:
    """Train what the records in the folder `results` lack, and append it there.

    Args:
        experiment: its name.
        asked: what of it.
        results: the folder of the records, a file a data set.
        device: to train on.
        folder: with the data, instead of $SCROLL_DATA.
        workers: processes to share the stacks; each records what it has finished.
        say: told the plan, in a line.
        watch: makes, for a plan, a context that gives what hears of progress.
        engine: where to train; on a cluster its own workers do, and this process records.
        download: whether the weights of an encoder may be fetched.
    """
    done = records.done(_loaded(results, say))
    units = missing(EXPERIMENTS[experiment].works(asked), done)
    if not units:
        return
    source = Source(folder, device, download)
    read = reader(source, say)
    work = plan(units, read, device)
    records.writable(results)  # sooner than after the first stack
    say(
        f"{work.fits} fits in {len(work.units)} stacks; the largest takes about "
        f"{_size(work.bytes)} of {_size(work.free)} free on {device}"
    )
    with (watch or _silent)(work) as tell:
        before = 0
        if engine.local:
            fits = _each(work.units, results, done, read, source, workers, tell)
        else:
            fits = _afar(work.units, results, done, source, engine)
        for count, best in fits:
            before += count
            tell(before, best)


def _each(
    units: Sequence[Unit],
    results: Path,
    done: set[str],
    read: Read,
    source: Source,
    workers: int,
    tell: Tell,
) -> Iterator[tuple[int, float]]:
    """Fit every unit, here or in other processes; give its number of fits and best objective."""
    if min(workers, len(units)) == 1:
        before = 0
        for unit in units:
            yield unit.fits, _recorded(unit, results, done, read, _after(before, tell))
            before += unit.fits
        return
    largest_first = sorted(units, key=lambda u: -u.fits)  # so that the last ones are short
    tasks = ((u, results, _related(u, done), source) for u in largest_first)
    yield from worked(_elsewhere, tasks, workers)


def _afar(
    units: Sequence[Unit],
    results: Path,
    done: set[str],
    source: Source,
    engine: Engine,
) -> Iterator[tuple[int, float]]:
    """`_each` on a cluster, whose workers give back what is recorded here."""
    largest_first = sorted(units, key=lambda u: -u.fits)
    left = {k: (u, source) for k, u in enumerate(largest_first)}
    for k, lines in spread(engine, _given_back, left):
        if isinstance(lines, Failure):
            what = largest_first[k].work.setting
            raise RuntimeError(f"No worker could train {what.method} on {what.set}: {lines.text}")
        best = _kept(lines, results, done)
        left.pop(k, None)
        yield largest_first[k].fits, best


def _given_back(unit: Unit, source: Source) -> list[records.Record]:
    """All records of a unit, trained on a worker."""
    torch.set_num_threads(1)
    return [line for lines in _fitted(unit, _reader(source), recall()) for line in lines]


def _recorded(unit: Unit, results: Path, done: set[str], read: Read, tell: Tell | None) -> float:
    """Fit a unit and append its records as they come; its best objective."""
    return min(_kept(lines, results, done) for lines in _fitted(unit, read, tell))


def _kept(lines: list[records.Record], results: Path, done: set[str]) -> float:
    """Append those that are new; the best objective among all."""
    fresh = {records.key(line): line for line in lines if records.key(line) not in done}
    if fresh:
        name = lines[0]["fit"]["set"]
        records.append(records.file_of(results, name), fresh.values())
        done |= fresh.keys()
    return min([torch.inf, *(line["val"] for line in lines)])


def _fitted(unit: Unit, read: Read, tell: Tell | None) -> Iterator[list[records.Record]]:
    """The records of a unit as they come; in halves if it is too large."""
    try:
        setting = unit.work.setting
        yield from fit(unit, read(setting.set, unit.seeds, *setting.rows()), tell)
        return
    except torch.OutOfMemoryError:  # others may use the device, whatever the plan said
        if len(unit.groups) == 1:
            raise
    half = len(unit.groups) // 2
    torch.cuda.empty_cache()
    for some in (unit.groups[:half], unit.groups[half:]):
        yield from _fitted(unit._replace(groups=some), read, None)


def _elsewhere(unit: Unit, results: Path, done: set[str], source: Source) -> tuple[int, float]:
    """`_recorded` in a process of its own, which shares the cores with others."""
    torch.set_num_threads(1)
    return unit.fits, _recorded(unit, results, done, _reader(source), None)


@cache
def _reader(source: Source) -> Read:
    """One a process."""
    return reader(source)


def _related(unit: Unit, done: set[str]) -> set[str]:
    """What of `done` a unit could repeat."""
    mark = f'"set":"{unit.work.setting.set}"'
    return {key for key in done if mark in key}


def tables(experiment: str, asked: Scope, results: Path, say: Say | None = None) -> list[Table]:
    """The experiment's tables, from the records in a folder alone."""
    return EXPERIMENTS[experiment].tables(Index(_loaded(results, say)), asked)


def _loaded(results: Path, say: Say | None) -> list[records.Record]:
    """The records in a folder; the lines that are none are said."""
    loaded = records.load(results)
    if say is not None:
        for line in records.skipped(loaded.problems):
            say(line)
    return loaded.records


def reader(source: Source, say: Say = print) -> Read:
    """Folds of a set by name; the table and the last folds are kept."""
    folder, device, download = source
    known: dict[str, datasets.Table] = {}
    kept: dict[Any, Folds] = {}

    def table(name: str) -> datasets.Table:
        if name not in known:
            known[name] = datasets.load(name, folder, say, download)
        return known[name]

    def read(
        name: str, seeds: tuple[int, ...], unit: bool = False, even: bool = False, foreign: str = ""
    ) -> Folds:
        key = (name, seeds, unit, even, foreign)
        if key not in kept:
            kept.clear()
            other = table(foreign) if foreign else None
            kept[key] = folds(table(name), seeds, device, unit, even, other)
        return kept[key]

    return read


@contextmanager
def _silent(work: Plan) -> Iterator[Tell]:
    yield lambda done, best: None


def _after(before: int, tell: Tell) -> Tell:
    return lambda stopped, best: tell(before + stopped, best)


def _size(count: float) -> str:
    return f"{count / 2**20:.0f} MiB" if count < 2**30 else f"{count / 2**30:.1f} GiB"
