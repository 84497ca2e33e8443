"""Progress of a sweep: a bar on a terminal, a line every half minute elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from scroll.cli.progress import clock, ticking

from .grid.plan import Plan, Tell

if TYPE_CHECKING:
    from rich.console import Console

ENOUGH = 0.1  # share of fits done from which on the time left is estimated


@contextmanager
def progress(console: "Console", work: Plan) -> Iterator[Tell]:
    """Show fits done, best objective so far and time left; yield what hears of them."""
    with (_bar if console.is_terminal else _lines)(console, work) as tell:
        yield tell


@contextmanager
def _bar(console: "Console", work: Plan) -> Iterator[Tell]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("fits"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("best {task.fields[best]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("fits", total=work.fits, best="--")
        least = torch.inf

        def tell(done: int, best: float) -> None:
            nonlocal least
            least = min(least, best)
            bar.update(task, completed=done)
            if least < torch.inf:
                bar.update(task, best=f"{least:.3f}")

        yield tell


@contextmanager
def _lines(console: "Console", work: Plan) -> Iterator[Tell]:
    finished = 0

    def tell(done: int, best: float) -> None:
        nonlocal finished
        finished = done

    def say(seconds: float) -> None:
        estimate = ""
        if finished >= ENOUGH * work.fits:
            estimate = f", about {clock(seconds * (work.fits / finished - 1))} left"
        text = f"{finished} of {work.fits} fits after {clock(seconds)}{estimate}"
        console.out(text, highlight=False)

    with ticking(say):
        yield tell
