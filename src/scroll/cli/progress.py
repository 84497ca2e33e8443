"""Signs of life of long commands whose output goes to a file or a pipe."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

EVERY = 30.0  # seconds


@contextmanager
def ticking(say: Callable[[float], object], every: float | None = None) -> Iterator[None]:
    """Call `say` with the seconds since the start every so many seconds until the block ends."""
    began, over = time.monotonic(), Event()

    def tick() -> None:
        while not over.wait(EVERY if every is None else every):
            say(time.monotonic() - began)

    thread = Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours if there are any: 4:05, 1:02:30."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
