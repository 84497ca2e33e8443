"""Numbers of the paper's text: wins, the regret of selection, the cost of a fixed body."""

import pytest
from typer.testing import CliRunner

from scroll.cli.app import app
from scroll_paper.grid.text import IN_TEXT, fixed_body, regret, wins
from scroll_paper.tables.builders import Scope
from scroll_paper.tables.experiment import Results
from scroll_paper.tables.selection import Selection

SETS, SEEDS = ("yacht", "wine"), (5, 6, 7, 8)
BODIES = ("relu", "relu+LN", "tanh", "tanh+LN")
METHODS = (
    *("scroll-full", "scroll-diag", "scroll-none", "map", "laplace-full", "vbll", "mvn"),
    *("deep-ensemble", "mc-dropout"),
)


def records(nll, knob=0.1):
    """One fit per set, method, body and seed; `nll` gives test and validation NLL."""
    for name in SETS:
        for method in METHODS:
            for body in BODIES:
                for seed in SEEDS:
                    test, val = nll(name, method, body, seed)
                    fit = {"set": name, "method": method, "architecture": body, "seed": seed}
                    if not method.startswith("scroll"):
                        fit["knob"] = knob
                    metrics = {"nll": test, "caliberr": test / 10}
                    yield {"fit": fit, "metrics": metrics, "val": val}


def found(nll):
    return Selection(records(nll)), Scope(SETS, SEEDS)


def test_wins_are_counted_against_the_tuned_methods_alone():
    best = {"yacht": "scroll-diag", "wine": "map"}

    def nll(name, method, body, seed):
        level = {"scroll-full": 1.0, "scroll-none": 3.0}.get(method, 2.0)
        return (0.0 if method == best[name] else level) + 0.001 * seed, BODIES.index(body)

    (rows,) = wins(*found(nll)).blocks
    numbers = {row: [int(c.mean) for c in cells.values()] for row, cells in rows.items()}
    assert numbers == {  # NLL best, best or tied, the same for calibration
        "SCROLL-Full": [1, 1, 1, 1],  # on yacht Diag is not among those it is compared with
        "SCROLL-Diag": [1, 1, 1, 1],
        "SCROLL-None": [0, 0, 0, 0],
        "any of the three": [1, 1, 1, 1],
    }


def test_ties_are_wins_of_the_second_kind():
    def nll(name, method, body, seed):
        if method in ("scroll-full", "vbll"):
            return 1.0 + (0.1 if (seed + (method == "vbll")) % 2 else 0.0), BODIES.index(body)
        return 2.0 + 0.001 * seed, BODIES.index(body)

    (rows,) = wins(*found(nll)).blocks
    assert rows["SCROLL-Full"]["NLL: best or tied"].mean == 2


def test_regret_is_the_chosen_minus_the_best():
    def nll(name, method, body, seed):
        wrong = method == "mvn" and seed == 5  # validation prefers tanh, which is 0.4 worse
        test = 1.0 + 0.4 * (body == "tanh") + 0.1 * (body == "relu")
        return test, (0.0 if body == ("tanh" if wrong else "tanh+LN") else 1.0)

    (rows,) = regret(*found(nll)).blocks
    assert len(rows) == len(METHODS)
    assert rows["MVN"]["mean"].mean == pytest.approx(0.4 / len(SEEDS))
    assert rows["MVN"]["median"].mean == 0
    assert rows["MVN"]["best one chosen"].mean == pytest.approx(1 - 1 / len(SEEDS))
    assert rows["MAP"]["mean"].mean == 0


def test_the_cost_of_a_fixed_body_is_paired_by_seed():
    def nll(name, method, body, seed):
        test = seed + (0.3 if body == "relu" else 0.0) + (0.2 if name == "wine" else 0.0)
        return test, (0.0 if body == ("relu" if name == "wine" else "tanh") else 1.0)

    (rows,) = fixed_body(*found(nll)).blocks
    assert rows["SCROLL-Full"]["yacht"].mean == pytest.approx(0.3)
    assert rows["SCROLL-Full"]["yacht"].se == pytest.approx(0)
    assert rows["SCROLL-Full"]["wine"].mean == 0
    assert rows["SCROLL-Diag"]["mean"].mean == pytest.approx(0.15)


def test_without_records_there_is_nothing(tmp_path):
    assert IN_TEXT["in-text"].report(Results(tmp_path)).tables == []
    words = ["bench", "in-text", "--results", str(tmp_path), "-o", str(tmp_path / "out")]
    assert CliRunner().invoke(app, words).exit_code == 0
    refused = CliRunner().invoke(app, [*words, "--seeds", "5"])
    assert refused.exit_code == 2
