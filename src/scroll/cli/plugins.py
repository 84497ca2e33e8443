"""Commands that other packages add, by the entry-point group `scroll.commands`."""

from collections.abc import Callable
from importlib.metadata import entry_points

import typer

from .usage import refuse

GROUP = "scroll.commands"
REPRODUCTION = {
    "bench": "Reproduce a table or figure of the paper (needs the package scroll-paper).",
    "records": "Merge record files of benchmark runs (needs the package scroll-paper).",
}
ANY_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def add_commands(app: typer.Typer) -> None:
    """Add every installed command to `app`; those of the paper explain how to install them."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    for name, entry in found.items():
        app.command(name)(entry.load())
    for name in REPRODUCTION.keys() - found.keys():
        app.command(name, help=REPRODUCTION[name], context_settings=ANY_ARGUMENTS)(_missing(name))


def _missing(name: str) -> Callable[[], None]:
    def explain() -> None:
        refuse(
            f"`scroll {name}` must find the package scroll-paper, but it is not installed. "
            "It needs the source tree, which holds the records: clone the repository and run "
            "`pip install ./paper` there."
        )

    return explain
