"""Show the progress of long work: bars on a terminal, a line every half minute elsewhere.

`rich` draws the bars; it is imported when the first one is drawn.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import ProgressColumn

EVERY = 30.0  # seconds between two lines
ENOUGH = 0.1  # the remaining time is estimated once this share of the work is done


class Update(Protocol):
    """Callback that moves a bar: units done so far, and the best score so far if there is one."""

    def __call__(self, done: int, best: float = inf, /) -> None: ...


@contextmanager
def progress(console: "Console", total: int, unit: str = "fits") -> Iterator[Update]:
    """Show how many of `total` units are done: a bar on a terminal, lines elsewhere.

    Args:
        console: where to show it. Short work shows nothing there unless it is a terminal.
        total: number of units of work.
        unit: what they are called, in the plural.

    Yields:
        The callback to call with the number of units done and the best score so far.
    """
    if console.is_terminal:
        with bars(console) as add:
            yield add(unit, total)
    else:
        with _lines(console, total, unit) as update:
            yield update


@contextmanager
def bars(
    console: "Console | None" = None, transient: bool = True
) -> Iterator[Callable[[str, int], Update]]:
    """Show any number of bars with units done, best score and time left.

    Args:
        console: where to draw them; standard output by default.
        transient: whether the bars disappear at the end.

    Yields:
        A function of a name and a total that adds a bar and returns its callback.
    """
    from rich.progress import Progress

    with Progress(*_columns(), console=console, transient=transient) as shown:

        def add(name: str, total: int) -> Update:
            task, least = shown.add_task(name, total=total, best=""), inf

            def update(done: int, best: float = inf, /) -> None:
                nonlocal least
                least = min(least, best)
                text = f"best {least:.3f}" if least < inf else ""
                shown.update(task, completed=done, best=text)

            return update

        yield add


def _columns() -> "Iterable[ProgressColumn]":
    """Return what a bar shows: name, bar, units done, best score, time left."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    name, best = TextColumn("{task.description}"), TextColumn("{task.fields[best]}")
    return name, BarColumn(), MofNCompleteColumn(), best, TimeRemainingColumn()


@contextmanager
def _lines(console: "Console", total: int, unit: str) -> Iterator[Update]:
    """Print units done and time left every `EVERY` seconds."""
    finished = 0

    def update(done: int, best: float = inf, /) -> None:
        nonlocal finished
        finished = done

    def say(seconds: float) -> None:
        left = ""
        if finished >= ENOUGH * total:
            left = f", about {clock(seconds * (total / finished - 1))} left"
        console.out(f"{finished} of {total} {unit} after {clock(seconds)}{left}", highlight=False)

    with ticking(say):
        yield update


@contextmanager
def ticking(say: Callable[[float], object]) -> Iterator[None]:
    """Call `say`, from another thread, with the seconds since the start every `EVERY` seconds."""
    began, over = time.monotonic(), Event()

    def tick() -> None:
        while not over.wait(EVERY):
            say(time.monotonic() - began)

    thread = Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def clock(seconds: float) -> str:
    """Return minutes and seconds, with hours if there are any: 4:05, 1:02:30."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
