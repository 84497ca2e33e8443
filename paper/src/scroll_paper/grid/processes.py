"""Worker processes on this machine.

They end with the process that started them, however it ends, and leave Ctrl-C to it.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Thread
from typing import TypeVar

from ..tables.records import WRITING
from .engines import cancelling

POLL = 0.5  # seconds between two checks of the parent
T = TypeVar("T")


def worked(
    work: Callable[..., T],
    each: Iterable[tuple[object, ...]],
    workers: int,
    *,
    ordered: bool = False,
) -> Iterator[T]:
    """Yield `work(*arguments)` of each tuple of arguments, from worker processes.

    Args:
        work: a function at the top level of a module.
        each: its arguments.
        workers: number of processes; with 1 this process does the work.
        ordered: yield the results in the order of `each` instead of as they come.
    """
    from joblib import Parallel, delayed

    tasks = (delayed(_done)(os.getpid(), work, some) for some in each)
    order = "generator" if ordered else "generator_unordered"
    with _interrupts_blocked():
        found = Parallel(workers, return_as=order, batch_size=1)(tasks)
    with cancelling(found):
        for one in found:  # noqa: UP028, as `yield from` would close it, with a warning
            yield one


def _done(parent: int, work: Callable[..., T], some: tuple[object, ...]) -> T:
    if os.getpid() != parent:
        _end_with(parent)
    return work(*some)


@cache
def _end_with(parent: int) -> None:
    """End this process soon after its parent, but not while it writes a record.

    On Windows, where a process keeps the number of a parent that has ended, this has no effect.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL)
        with WRITING:
            os._exit(1)

    Thread(target=watch, daemon=True).start()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes and threads that start here never receive SIGINT; this thread does afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
