"""What `scroll bench` does: run one experiment, list them all, or write the report."""

from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scroll._core.checks import invalid, require
from scroll._core.files import write
from scroll.training.progress import progress

from .registry import EXPERIMENTS, check_methods
from .report import report
from .tables import published
from .tables.experiment import Request, Screen
from .tables.table import Table, to_csv, to_markdown, to_rich, to_text

if TYPE_CHECKING:
    from rich.console import Console

REPORT = Path("docs/results.md")


def bench(name: str, request: Request, console: "Console", errors: "Console") -> None:
    """Run an experiment and show its tables; or `list` all, or write the `report`.

    Args:
        name: of the experiment, or "list" or "report".
        request: what is asked of it.
        console: for the tables.
        errors: for progress.
    """
    known = [*EXPERIMENTS, "list", "report"]
    near = ", ".join(map(repr, get_close_matches(name, known)))
    require(
        name in known,
        "experiment",
        "be a name that `scroll bench list` shows",
        repr(name),
        f"Near it: {near}." if near else "",
    )
    check_methods()
    if name == "list":
        request.allow(name, ())
        for each, experiment in EXPERIMENTS.items():
            console.print(f"[bold]{each:22}[/bold] {experiment.about}", soft_wrap=True)
    elif name == "report":
        request.allow(name, ("results", "output"))
        page = REPORT if request.output == Request().output else request.output
        _write(page, report(request.results))
        console.print(f"Written to {page}", highlight=False)
    else:
        experiment = EXPERIMENTS[name]
        request.allow(name, experiment.options)
        screen = Screen(partial(errors.out, highlight=False), partial(progress, errors))
        _show(experiment.run(request, screen), request, console)


def _show(tables: list[Table], request: Request, console: "Console") -> None:
    """Print tables, and write each as CSV and Markdown."""
    output = request.output
    for table in tables:
        beside = published.beside(table) if request.compare else table
        if console.is_terminal:
            console.print(to_rich(beside))
        else:  # as wide as it is
            console.out(to_text(beside, styled=False), highlight=False)
        _write(output / f"{table.name}.csv", to_csv(table))
        _write(output / f"{table.name}.md", to_markdown(beside))
    console.out(f"Written to {output}/ as CSV and Markdown.", highlight=False)


def _write(path: Path, text: str) -> None:
    """Write a text file and its folder, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, text.encode())


def words(text: str) -> tuple[str, ...] | None:
    """Return the words between commas; None if there is no text."""
    return tuple(word.strip() for word in text.split(",") if word.strip()) if text else None


def numbers(text: str) -> tuple[int, ...] | None:
    """Return the seeds of 5-24 or of 5,6,9; None if there is no text."""
    if not text:
        return None
    found: list[int] = []
    try:
        for part in filter(None, text.split(",")):
            low, _, high = part.partition("-")
            found += range(int(low), int(high or low) + 1)
    except ValueError:
        raise invalid("seeds", "read like 5-24 or 5,6,9", repr(text)) from None
    return tuple(found)
