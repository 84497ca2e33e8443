"""The examples run unchanged and without a warning, and print the results they claim."""

import re
import runpy
from pathlib import Path

import pytest
import torch

from sweeps import exhaustive

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def shown(monkeypatch, tmp_path, capsys):
    """Runs an example and gives the numbers on each line it prints, by the line's first word."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)  # what an example might leave behind

    def run(name):
        monkeypatch.setattr("sys.argv", [name])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        lines = capsys.readouterr().out.splitlines()
        assert not list(tmp_path.iterdir())
        return {line.split()[0]: numbers(line) for line in lines}

    return run


def numbers(line):
    """`NLL 0.5  90 % intervals cover 0.91` gives 0.5, 90 and 0.91."""
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", line)]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_examples_are_short_and_described(path):
    text = path.read_text()
    assert len(text.splitlines()) < 80
    command = f"python examples/{path.name}"
    assert command in text or "torchrun" in text


def test_vision(shown):
    found = shown("vision.py")
    (right, nll), (other_right, other_nll) = found["scroll"], found["cross-entropy"]
    assert right > 0.97
    assert right > other_right - 0.01
    assert nll < other_nll + 0.03  # parity is the claim: either is ahead on some seeds


@exhaustive
def test_text(shown):
    pytest.importorskip("transformers")
    found = shown("text.py")
    nll, _, calm, wild = found["scroll"]
    other_nll, _, _, other_wild = found["squared"]
    assert nll < other_nll - 0.15
    assert 0.85 < calm < 0.95
    assert 0.85 < wild < 0.96
    assert other_wild < 0.85  # one spread for all leaves out many of those that scatter


def test_lightning(shown):
    pytest.importorskip("lightning")
    found = shown("lightning_module.py")
    nll, _, covered = found["scroll"]
    other_nll, _, other_covered = found["Poisson"]
    assert nll < other_nll - 1
    assert 0.88 < covered < 0.98  # of whole numbers: rather more than 90 %
    assert other_covered < 0.75


def test_bayesian_optimisation(shown):
    pytest.importorskip("botorch")
    found = shown("bayesian_optimisation.py")
    best, regret = found["scroll"]
    assert best + regret == pytest.approx(3.8628, abs=2e-4)
    assert regret < 0.05
    assert found["50"] == [50, best]
    assert regret < 0.2 * found["random"][1]  # with as many values
    assert found["ahead"][0] > 95
