"""Print usage errors of the command line in one line, in the form of all other errors."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from .._core.checks import invalid, short_repr

# The class of click, or of the copy of click that newer versions of typer bring.
UsageError: type[Any] = typer.BadParameter.__bases__[0]


class Commands(TyperGroup):
    """A group of commands whose usage errors are one line on stderr, with exit code 2."""

    words: Sequence[str] = ()

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **named: Any) -> Any:
        """Parse the arguments, and keep them for the messages."""
        self.words = list(args)
        with self._one_line():
            return super().make_context(info_name, args, *rest, **named)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        with self._one_line():
            return super().invoke(ctx)

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # not an error: its message is the help
                raise
            typer.echo(f"scroll: {' '.join(str(_message(error, self.words)).split())}", err=True)
            raise typer.Exit(2) from error


def _message(error: Any, words: Sequence[str]) -> Exception:
    """Return a usage error in the house form; `words` are the arguments of the command."""
    context, parameter = error.ctx, getattr(error, "param", None)
    command = f"scroll {context.info_name}" if context and context.parent else "scroll"
    help_ = f"See {command} --help."
    option = str(getattr(error, "option_name", command))
    if type(error).__name__ == "NoSuchOption":
        known = error.possibilities or ()
        meant = f"Did you mean {' or '.join(sorted(known))}? " if known else ""
        return invalid(option, f"be an option of {command}", "none of that name", meant + help_)
    if parameter is None:
        reason, _, meant = error.format_message().removeprefix("Got ").partition(" Did you mean")
        got = f"{reason[:1].lower()}{reason[1:].rstrip('.')}"
        remedy = f"Did you mean{meant} {help_}" if meant else help_
        return invalid(option, "be used as the help shows", got, remedy)
    name = next((o for o in parameter.opts if o.startswith("--")), parameter.name)
    if type(error).__name__ == "MissingParameter":
        return invalid(name, f"be given to {command}", "none", help_)
    return invalid(name, _wanted(error.message), _value(parameter.opts, words), help_)


def _wanted(message: str) -> str:
    """Return what a parameter must be, from the message of the type that refused its value."""
    kinds = {"integer": "be an integer", "float": "be a number", "number": "be a number"}
    return next((want for kind, want in kinds.items() if kind in message), f"be valid ({message})")


def _value(options: Sequence[str], words: Sequence[str]) -> str:
    """Return the last value of an option among the words of a command line."""
    given = [
        following if word in options else word.partition("=")[2]
        for word, following in zip(words, [*words[1:], ""], strict=True)
        if word.partition("=")[0] in options
    ]
    return short_repr(given[-1] if given else "another value")


def refuse(message: str) -> NoReturn:
    """Print one line to standard error and exit with code 2."""
    typer.echo(f"scroll: {message}", err=True)
    raise typer.Exit(2)
