"""An experiment of the grid: many small networks, trained in stacks and recorded."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields

from scroll._core.checks import one_of, require
from scroll.training.bodies import ARCHITECTURES

from ..data import datasets, own
from ..data.datasets import SETS, UCI
from ..models.methods import BUILT_IN, TABLE_METHODS
from ..tables.builders import Build, Scope, setting
from ..tables.experiment import Request, Results, Screen, Section
from ..tables.rows import Row, Ways, no_more
from ..tables.selection import Where
from ..tables.table import Table
from . import run
from .engines import engine
from .plan import Work, missing

SEEDS = tuple(range(5, 25))
QUICK_SETS, QUICK_SEEDS = ("yacht", "boston"), SEEDS[:5]
QUICK_METHODS = (
    *("scroll-full", "scroll-diag", "scroll-none", "map", "mvn"),
    *("closed-full", "free-refit", "free-refit-inputs", "two-beliefs-full"),  # where they are rows
)
ENOUGH = 10  # seeds of a data set in the report


@dataclass(frozen=True)
class GridExperiment:
    """A question of the paper, answered by small networks on many data sets and seeds.

    Args:
        about: the question, in one line.
        rows: all rows of its tables; they determine what is trained.
        build: makes its tables from records.
        sets: data sets that it is usually run on.
        seeds: that it is usually run with.
        only: the data sets that it can be run on; () is all.
        name: by which methods ask to be shown in it (`Method.experiments`).
        where: setting of such methods; None shows none.
        ways: further settings of such methods by data set.
    """

    about: str
    rows: tuple[Row, ...]
    build: Build
    sets: tuple[str, ...] = UCI
    seeds: tuple[int, ...] = SEEDS
    only: tuple[str, ...] = ()
    name: str = ""
    where: Where | None = None
    ways: Ways = no_more

    @property
    def options(self) -> Collection[str]:
        """All options."""
        return [field.name for field in fields(Request)]

    @property
    def labels(self) -> bool:
        """True if its targets are labels."""
        return SETS[self.sets[0]].classes > 0

    def added(self) -> tuple[Row, ...]:
        """Return the rows of methods that ask to be shown in this experiment."""
        if self.where is None:
            return ()
        asking = {n: m for n, m in TABLE_METHODS.items() if self.name in m.experiments}
        return tuple(Row(m.label, n, self.where, ways=self.ways) for n, m in asking.items())

    def methods(self) -> list[str]:
        """Return the methods of its rows."""
        return list(dict.fromkeys(row.method for row in (*self.rows, *self.added())))

    def works(self, scope: Scope) -> list[Work]:
        """Return the fits that its rows need, one data set after the other."""
        found: dict[tuple[object, ...], Work] = {}
        for row in filter(scope.wants, (*self.rows, *scope.added)):
            method = TABLE_METHODS[row.method]
            seeds = tuple(s for s in scope.seeds if s in (method.seeds or scope.seeds))
            sets = [name for name in scope.sets if name in (method.sets or scope.sets) and seeds]
            stem = method.trained_as or row.method
            for name, where in ((s, way) for s in sets for way in row.at(s)):
                made = setting(name, stem, where)
                bodies = (where["architecture"],) if "architecture" in where else ARCHITECTURES
                grid = (where["knob"],) if "knob" in where else None
                at = (made, bodies, grid)
                if at not in found or found[at].members < method.members:
                    found[at] = Work(made, seeds, bodies, grid, method.members)
        return sorted(found.values(), key=lambda work: scope.sets.index(work.setting.set))

    def scope(self, request: Request | None = None) -> Scope:
        """Return the part of it that is asked for, checked.

        A data set that is too large to be downloaded unasked is part of it where its file is.
        """
        request = request or Request()
        for name, given in (
            ("sets", request.sets), ("methods", request.methods), ("seeds", request.seeds),
        ):  # fmt: skip
            require(given is None or len(given) > 0, name, "name at least one", "none")
        for method in request.methods or ():
            one_of("methods", method, self.methods())
        few = tuple(m for m in QUICK_METHODS if m in self.methods()) or None
        return Scope(
            self._sets(request),
            tuple(dict.fromkeys(request.seeds or (QUICK_SEEDS if request.quick else self.seeds))),
            request.methods or (few if request.quick else None),
            self.added(),
        )

    def _sets(self, request: Request) -> tuple[str, ...]:
        if request.sets:
            return tuple(dict.fromkeys([self._known(word) for word in request.sets]))
        if request.quick:  # two, of those that need no encoder
            plain = tuple(s for s in self.sets if not SETS[s].encoder)
            return QUICK_SETS if self.sets == UCI else plain[:2]
        return tuple(s for s in self.sets if not SETS[s].large or datasets.at_hand(s, request.data))

    def _known(self, word: str) -> str:
        """Return the name of a data set; a user's file gets one."""
        if own.is_own(word) and not self.only:
            return own.add(word, self.labels)
        remedy = "" if self.only else "A file of your own reads mine.csv:target."
        one_of("sets", word, self.only or SETS, remedy)
        kinds = ("numbers", "labels")
        require(
            bool(SETS[word].classes) == self.labels,
            "sets",
            f"have {kinds[self.labels]} to predict",
            f"{word!r}, which has {kinds[not self.labels]}",
        )
        return word

    def run(self, request: Request, screen: Screen) -> list[Table]:
        """Train what is missing from the records, and return the tables."""
        scope = self.scope(request)
        if not request.tables:
            self._train(request, scope, screen)
        say = screen.say if request.tables else Screen().say  # training has said it
        return self.build(Results(request.results, say).selection, scope)

    def _train(self, request: Request, scope: Scope, screen: Screen) -> None:
        cluster, where = engine(request.engine), request.torch_device()
        data, workers = request.data, request.workers
        require(data is None or data.is_dir(), "data", "be a folder", data, error=FileNotFoundError)
        require(workers >= 0, "workers", "be zero or more", workers)
        require(
            cluster.local or not workers,
            "workers",
            f"be left out with --engine {request.engine}",
            workers,
            "A cluster has its own number of workers.",
        )
        source = run.RowSource(
            None if data is None else str(data),
            where,
            request.download,
            tuple((name, SETS[name]) for name in scope.sets if SETS[name].own),
            tuple((m, TABLE_METHODS[m]) for m in self.methods() if m not in BUILT_IN),
        )
        run.train(
            self.works(scope),
            request.results,
            source,
            workers=workers or ((os.cpu_count() or 1) if where.type == "cpu" else 1),
            say=screen.say,
            watch=screen.watch,
            engine=cluster,
        )

    def report(self, results: Results) -> Section:
        """Return the tables of the data sets on which every row is complete."""
        scope = self.complete(results.done)
        tables = self.build(results.selection, scope) if scope.sets else []
        much = f"{len(scope.seeds)} seeds" if scope.sets else "no data set is complete yet"
        return Section(f"{self.about}; {much}", tables)

    def complete(self, done: set[str]) -> Scope:
        """Return the data sets on which every row has enough seeds, and the seeds they share."""
        full = self.scope(Request(sets=self.sets))
        seeds = {name: self._recorded(full, name, done) for name in self.sets}
        enough = min(ENOUGH, len(self.seeds))
        sets = tuple(name for name, found in seeds.items() if len(found) >= enough)
        shared = set(self.seeds).intersection(*(seeds[s] for s in sets))
        return Scope(sets, tuple(sorted(shared)), None, full.added)

    def _recorded(self, full: Scope, name: str, done: set[str]) -> Sequence[int]:
        """Return the seeds with which every row is recorded on a data set."""
        return [
            seed
            for seed in self.seeds
            if not missing(self.works(Scope((name,), (seed,), None, full.added)), done)
        ]
