"""Entry point of the command `scroll`.

Importing torch takes seconds. This module stands outside the package, which imports torch, so
that an interrupt is answered with one line from the first moment on.
"""

import os

WORDS = {2: b"scroll: interrupted\n", 15: b"scroll: terminated\n"}  # SIGINT, SIGTERM


def leave(number: int, frame: object = None) -> None:
    """Say which signal came, and end at once."""
    os.write(2, WORDS[number])
    os._exit(128 + number)


try:
    import signal  # itself some milliseconds
except KeyboardInterrupt:
    leave(2)


def main() -> None:
    """Run the command line; SIGINT or SIGTERM ends it with one line and code 128 + its number."""
    for number in WORDS:  # there is nothing to clean up, and an import may swallow exceptions
        signal.signal(number, leave)
    from scroll.cli.app import app

    for number in WORDS:
        signal.signal(number, _stop)
    app(prog_name="scroll")


def _stop(number: int, frame: object) -> None:
    """Say which signal came, and end the work; a second signal does not wait for that."""
    for each in WORDS:
        signal.signal(each, lambda again, frame: os._exit(128 + again))
    os.write(2, WORDS[number])
    raise SystemExit(128 + number)
