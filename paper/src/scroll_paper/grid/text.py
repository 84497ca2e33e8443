"""Numbers that the paper gives in its text only, computed from the records of the headline."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import fmean, median

from scroll.training.bodies import ARCHITECTURES

from ..tables.builders import Scope, row_values
from ..tables.experiment import Request, Results, Screen, Section
from ..tables.rows import Row, group
from ..tables.selection import Selection, Values
from ..tables.significance import marks
from ..tables.table import Cell, Label, Table, cell
from .experiments import GRID

VARIANTS = ("scroll-full", "scroll-diag", "scroll-none")
TUNED = ("map", "laplace-full", "vbll", "mvn")
ENSEMBLES = ("scroll-ens", "deep-ensemble", "mvn-ens", "mc-dropout")
METRICS = {"NLL": "nll", "calibration": "caliberr"}


@dataclass(frozen=True)
class InText:
    """Win counts, the regret of selection and the cost of a fixed body; it trains nothing.

    Args:
        about: the question, in one line.
    """

    about: str

    @property
    def options(self) -> Collection[str]:
        """Options of records and tables."""
        return ("tables", "results", "output")

    def run(self, request: Request, screen: Screen) -> list[Table]:
        """Return the tables, from the records alone."""
        return self.report(Results(request.results, screen.say)).tables

    def report(self, results: Results) -> Section:
        """Return its part of the report."""
        scope = GRID["headline"].complete(results.done)
        found = results.selection
        made = [wins(found, scope), regret(found, scope), fixed_body(found, scope)]
        return Section(self.about, made if scope.sets else [])


def wins(found: Selection, scope: Scope) -> Table:
    """Return on how many sets SCROLL is best, or tied with the best, of all single-pass methods.

    A variant is compared with the tuned methods alone; "any of the three" with all three there.
    """
    teams = {row.label: (row.method,) for row in group(*VARIANTS).rows}
    lines: dict[Label, dict[str, Cell]] = {}
    for label, team in {**teams, "any of the three": VARIANTS}.items():
        lines[label] = {}
        for title, metric in METRICS.items():
            each = [_ranks(found, scope, (*team, *TUNED), name, metric) for name in scope.sets]
            for words, wanted in (("best", {"best"}), ("best or tied", {"best", "tied"})):
                count = sum(any(ranks[m] in wanted for m in team) for ranks in each)
                lines[label][f"{title}: {words}"] = Cell(float(count), digits=0)
    columns = [f"{title}: {words}" for title in METRICS for words in ("best", "best or tied")]
    title = f"Sets, of {len(scope.sets)}, won against MAP, Laplace, VBLL and MVN"
    return Table("wins", title, columns, [lines], given=columns)


def _ranks(
    found: Selection, scope: Scope, methods: tuple[str, ...], name: str, metric: str
) -> Mapping[str, str]:
    rows = {row.method: row for row in group(*methods).rows}
    return marks({m: row_values(found, scope, row, name, metric) for m, row in rows.items()})


def regret(found: Selection, scope: Scope) -> Table:
    """Return by how much the chosen architecture is worse on test rows than the best of the four.

    Over all sets and seeds; a weight is chosen by validation within each architecture.
    """
    lines: dict[Label, dict[str, Cell]] = {}
    for row in group(*VARIANTS, *TUNED, "deep-ensemble", "mc-dropout").rows:
        each = [x for name in scope.sets for x in _regrets(found, scope, row, name)]
        right = [float(x == 0.0) for x in each]
        lines[row.label] = {
            "mean": cell(dict(enumerate(each))),
            "median": Cell(median(each) if each else None),
            "best one chosen": Cell(fmean(right) if right else None, digits=2),
        }
    title = "Test NLL of the architecture that validation chose, minus the best of the four"
    return Table("regret", title, ("mean", "median", "best one chosen"), [lines])


def _regrets(found: Selection, scope: Scope, row: Row, name: str) -> list[float]:
    chosen = row_values(found, scope, row, name)
    fixed = [
        row_values(found, scope, row._replace(where={"architecture": body}), name)
        for body in ARCHITECTURES
    ]
    return [x - min(values[seed] for values in fixed) for seed, x in chosen.items()]


def fixed_body(found: Selection, scope: Scope) -> Table:
    """Return what a relu body without selection costs in test NLL, by set and on average."""
    heads = scope.headings()
    lines: dict[Label, dict[str, Cell]] = {}
    for row in group(*VARIANTS[:2]).rows:
        relu = row._replace(where={"architecture": "relu"})
        each: dict[str, Values] = {}
        for name, head in heads.items():
            plain, chosen = (row_values(found, scope, r, name) for r in (relu, row))
            each[head] = {s: plain[s] - chosen[s] for s in plain.keys() & chosen.keys()}
        cells = {head: cell(values, signed=True) for head, values in each.items()}
        means = [c.mean for c in cells.values() if c.mean is not None]
        lines[row.label] = {**cells, "mean": Cell(fmean(means) if means else None, signed=True)}
    title = "A relu body instead of the chosen one: change in test NLL"
    return Table("fixed_body", title, (*heads.values(), "mean"), [lines])


IN_TEXT = {
    "in-text": InText("numbers that the paper gives in its text only: wins, regret, fixed body")
}
