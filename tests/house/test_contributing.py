"""The examples of CONTRIBUTING.md, as they are written there, with training cut short."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from scroll.cli.app import app
from scroll.training.settings import Settings
from scroll_paper.data.datasets import SETS, at_hand
from scroll_paper.grid import stacks
from scroll_paper.models.methods import TABLE_METHODS
from scroll_paper.tables.records import load

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")


def example(heading, language):
    """Return the first block of code in a language below a heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture(autouse=True)
def _short(tmp_path, monkeypatch):
    """Train for few steps, in a folder with the user's table; forget it afterwards."""
    known = dict(SETS)
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stacks, "Settings", lambda **how: Settings(**how | {"steps": 20}))
    g = np.random.default_rng(0)
    x, colour = g.normal(size=60), g.choice(["red", "blue"], 60)
    price = 2 * x + (colour == "red") + 0.3 * g.normal(size=60)
    rows = [f"{a},{b},{c}" for a, b, c in zip(x, colour, price, strict=True)]
    Path("mine.csv").write_text("\n".join(["x,colour,price", *rows]) + "\n")
    yield
    SETS.clear()
    SETS.update(known)


def test_a_table_of_your_own_from_the_command_line():
    command, *words = shlex.split(example("Add a data set", "console"))
    assert command == "scroll"
    if not at_hand("yacht"):  # it would be downloaded
        words[words.index("--sets") + 1] = "mine.csv:price"
    done = CliRunner().invoke(app, [*words, "--workers", "1", "--device", "cpu"])
    assert done.exit_code == 0, done.stderr
    assert "mine:price" in done.stdout
    (file,) = Path("results").glob("mine-price-*.jsonl")
    assert {r["fit"]["method"] for r in load(file).records} == {"scroll-full", "mvn"}
    assert "| mine:price |" in Path("tables", "headline_nll.md").read_text()


def test_a_method_of_your_own_from_python(capsys):
    try:
        exec(compile(example("Add a method", "python"), "CONTRIBUTING.md", "exec"), {})
    finally:
        TABLE_METHODS.pop("scroll-beta", None)
    shown = capsys.readouterr().out
    assert "SCROLL-Full, beta 0.5" in shown
    assert "mine:price" in shown
    found = [r["fit"]["method"] for r in load("results").records]
    assert found.count("scroll-beta") == found.count("scroll-full") == 4


def test_a_claim_of_your_own():
    from scroll_paper.claims.claim import Claim, Evidence, decide
    from scroll_paper.tables.table import Cell, Table

    *before, last = example("Add a claim", "python").split("\n\n")
    known = {}
    exec("\n\n".join(before), known)
    claim = eval(last, known)
    assert isinstance(claim, Claim)
    means = {"MAP": Cell(1.0), "VBLL": Cell(2.0)}
    sets = ("yacht", "concrete", "energy", "kin8nm", "naval", "power", "wine", "boston")
    rows = {row: dict.fromkeys(sets, cell) for row, cell in means.items()}
    evidence = Evidence([Table("headline_nll", "", sets, [rows])])
    assert decide(claim, evidence).verdict == "holds"
    assert decide(claim, Evidence([])).verdict == "open"
