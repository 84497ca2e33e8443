"""Entry point of the command `scroll`.

Importing torch takes seconds. This module is outside the package, which imports torch, so that
an interrupt prints one line even while the package is being imported.
"""

import os

MESSAGES = {2: b"scroll: interrupted\n", 15: b"scroll: terminated\n"}  # SIGINT, SIGTERM


def _exit_now(number: int, frame: object = None) -> None:
    """Print which signal came and end the process at once."""
    os.write(2, MESSAGES[number])
    os._exit(128 + number)


try:
    import signal  # takes some milliseconds
except KeyboardInterrupt:
    _exit_now(2)


def main() -> None:
    """Run the command line.

    SIGINT and SIGTERM end it with one line and exit code 128 + the number of the signal.
    """
    for number in MESSAGES:  # nothing to clean up yet, and imports may swallow exceptions
        signal.signal(number, _exit_now)
    from scroll.cli.app import app

    for number in MESSAGES:
        signal.signal(number, _exit_soon)
    app(prog_name="scroll")


def _exit_soon(number: int, frame: object) -> None:
    """Print which signal came and unwind; a second signal ends the process at once."""
    for each in MESSAGES:
        signal.signal(each, lambda again, frame: os._exit(128 + again))
    os.write(2, MESSAGES[number])
    raise SystemExit(128 + number)
