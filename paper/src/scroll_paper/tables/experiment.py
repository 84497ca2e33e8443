"""What an experiment is: the one protocol that `scroll bench` and the report use."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import torch

from scroll._core.checks import one_of, require

from ..data.sources import Say
from . import records
from .records import Record
from .selection import Selection
from .table import Table

Tell = Callable[[int, float], None]  # takes the fits done and their best objective
Watch = Callable[[int], AbstractContextManager[Tell]]  # of the number of fits


def silent(*words: object) -> None:
    """Take any words and say nothing."""


def unwatched(fits: int) -> AbstractContextManager[Tell]:
    """Show no progress."""
    return nullcontext(silent)


@dataclass(frozen=True)
class Request:
    """What a user asks of an experiment; a default is an option that was not given.

    Args:
        sets: data sets, by name or as "file.csv:target"; None is the experiment's own choice.
        methods: rows to run and show; None is all.
        seeds: random seeds of the splits; None is the experiment's own choice.
        device: "cpu" or "cuda"; "" is the best there is.
        quick: run a small part, in minutes.
        compare: show the paper's numbers beside ours.
        tables: train nothing, show the tables of what is recorded.
        data: folder with the data sets, instead of $SCROLL_DATA.
        results: folder of the records.
        output: folder for the tables and pictures.
        workers: worker processes; 0 is one per core on a CPU.
        engine: "local", or a cluster such as "dask:tcp://HOST:8786".
        download: let the weights of an encoder be downloaded.
    """

    sets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    device: str = ""
    quick: bool = False
    compare: bool = False
    tables: bool = False
    data: Path | None = None
    results: Path = Path("results")
    output: Path = Path("tables")
    workers: int = 0
    engine: str = "local"
    download: bool = False

    def torch_device(self) -> torch.device:
        """Return the requested device, by default cuda if available."""
        where = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        one_of("device", where, ("cpu", "cuda"))
        require(
            where == "cpu" or torch.cuda.is_available(),
            "device",
            "be available",
            repr(where),
            "Use --device cpu.",
        )
        return torch.device(where)

    def allow(self, name: str, options: Collection[str]) -> None:
        """Raise ValueError if an option was given that the experiment `name` does not take."""
        for field in fields(self):
            given = getattr(self, field.name)
            require(
                field.name in options or given == field.default,
                f"--{field.name}",
                f"be left out for {name!r}, which has no such option",
                given,
            )


class Screen(NamedTuple):
    """Where an experiment says what it does.

    Args:
        say: takes a line of text.
        watch: takes a number of fits; returns a context that yields the callback for progress.
    """

    say: Say = silent
    watch: Watch = unwatched


class Results:
    """The records in a folder, read when they are first needed.

    Args:
        folder: of the records.
        say: takes a line for each record that cannot be read.
    """

    def __init__(self, folder: Path, say: Say = silent):
        self.folder, self.say = folder, say

    @cached_property
    def records(self) -> list[Record]:
        """All records that can be read."""
        loaded = records.load(self.folder)
        for line in records.skipped(loaded.problems):
            self.say(line)
        return loaded.records

    @cached_property
    def done(self) -> set[str]:
        """The keys of all records."""
        return records.done(self.records)

    @cached_property
    def selection(self) -> Selection:
        """The records by data set, method and setting."""
        return Selection(self.records)


class Section(NamedTuple):
    """An experiment's part of the report: one line about it, and its tables."""

    about: str
    tables: list[Table]


class Experiment(Protocol):
    """A question of the paper that `scroll bench NAME` answers."""

    @property
    def about(self) -> str:
        """The question, in one line."""

    @property
    def options(self) -> Collection[str]:
        """The fields of `Request` that it takes; others are refused."""

    def run(self, request: Request, screen: Screen) -> list[Table]:
        """Run what is missing from the records, and return the tables."""

    def report(self, results: Results) -> Section | None:
        """Return its part of the report, from records alone; None if it keeps no records."""
