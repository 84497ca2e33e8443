"""Commands that other packages add through the entry-point group `scroll.commands`."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

import typer

from .._core.checks import invalid
from .usage import refuse

GROUP = "scroll.commands"
REPRODUCTION = {
    "bench": "Reproduce a table or figure of the paper. Needs the package scroll-paper.",
    "records": "Merge record files of benchmark runs. Needs the package scroll-paper.",
}
ANY_ARGUMENTS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def add_commands(app: typer.Typer) -> None:
    """Add every installed command to `app`, in the order of their names.

    The commands of the paper's reproduction are always listed: without the package scroll-paper
    they say how to install it. A plugin cannot replace a command that `app` already has, and one
    that cannot be imported says why when it is called.
    """
    taken = {command.name or _name(command.callback) for command in app.registered_commands}
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    for name in sorted((found.keys() | REPRODUCTION.keys()) - taken):
        if name in found:
            _add(app, found[name])
        else:
            _explain(app, name, REPRODUCTION[name], _not_installed(name))


def _add(app: typer.Typer, entry: EntryPoint) -> None:
    try:
        command = entry.load()
    except Exception as error:  # a package that is broken in any way must not break `scroll fit`
        package = entry.dist.name if entry.dist else entry.value
        what = f"come from a package that can be imported, {package}"
        message = str(invalid(f"scroll {entry.name}", what, str(error), "Install it again."))
        _explain(app, entry.name, f"Cannot be loaded from {package}.", message)
    else:
        app.command(entry.name)(command)


def _explain(app: typer.Typer, name: str, about: str, message: str) -> None:
    """Add a command that takes any arguments and prints `message`, with exit code 2."""

    def explain() -> None:
        refuse(message)

    app.command(name, help=about, context_settings=ANY_ARGUMENTS)(explain)


def _not_installed(name: str) -> str:
    remedy = (
        "It needs the repository, which holds the records: clone it and run `pip install . ./paper`"
        " there."
    )
    what = "be provided by the package scroll-paper"
    return str(invalid(f"scroll {name}", what, "an environment without it", remedy))


def _name(callback: Callable[..., object] | None) -> str:
    return getattr(callback, "__name__", "")
