"""The demo and the command line as a user runs them."""

import io
import os
import subprocess
import sys

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from scroll import __version__
from scroll.cli import demo
from scroll.cli.app import app
from scroll.training.settings import Settings

runner = CliRunner()


@pytest.fixture(autouse=True)
def _float32_without_a_screen(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    torch.set_default_dtype(torch.float32)


def test_the_demo_prints_a_table_and_draws_the_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "SEEDS", range(1))
    console = Console(width=100, record=True, file=io.StringIO())
    output = tmp_path / "demo.png"
    demo.run(output, console)
    text = console.export_text()
    for word in ("toy", "diabetes", "free (score)", "closed (posterior)", "mean predictor", "NLL"):
        assert word in text
    assert output.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["demo.png"]
    rows = [line.split("│") for line in text.splitlines() if "toy" in line and "│" in line]
    nll = {row[2].strip(): float(row[3]) for row in rows}
    assert nll["free (score)"] < nll["closed (posterior)"] - 0.2 < nll["mean predictor"]


def test_the_demo_without_matplotlib_prints_the_table_and_how_to_get_the_picture(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(demo, "SEEDS", range(1))
    monkeypatch.setattr(demo, "SETTINGS", Settings(steps=20, lr=0.01, every=10))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["demo"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "free (score)" in done.stdout
    assert "pip install 'scroll-torch[plots]'" in done.stdout.splitlines()[-1]
    assert not list(tmp_path.iterdir())
    done = runner.invoke(app, ["demo", "-o", "asked.png"])  # a picture that was asked for
    assert (done.exit_code, done.stdout) == (2, "")
    assert "pip install 'scroll-torch[plots]'" in done.stderr


def test_the_free_band_tracks_the_noise_and_the_closed_band_does_not(monkeypatch):
    monkeypatch.setattr(demo, "SEEDS", range(1))
    split = demo.toy()
    x = torch.linspace(-3, 3, 200)
    truth = demo.toy_std(x)
    for method, tracks in (("scroll", True), ("closed", False)):
        network = demo.fit("toy", method, split)
        std = network(x[None, :, None]).stddev[0].detach()
        correlation = torch.corrcoef(torch.stack([std, truth]))[0, 1]
        assert (correlation > 0.9) == tracks
        assert (std.max() / std.min() < 1.5) == (not tracks)


def test_a_folder_that_is_not_there_is_one_line_and_exit_code_2(tmp_path):
    done = runner.invoke(app, ["demo", "--output", str(tmp_path / "no" / "demo.png")])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "`--output` must lie in a folder that exists" in done.stderr


def test_a_format_that_cannot_be_drawn_is_refused_before_the_work(tmp_path):
    done = runner.invoke(app, ["demo", "--output", str(tmp_path / "demo.txt")])
    assert done.exit_code == 2
    assert "`--output` must end in" in done.stderr


def test_version_and_help():
    assert f"scroll {__version__}" in runner.invoke(app, ["--version"]).stdout
    assert "demo" in runner.invoke(app, ["--help"]).stdout
    assert runner.invoke(app, ["no-such"]).exit_code == 2


def test_the_command_is_installed():
    script = os.path.join(os.path.dirname(sys.executable), "scroll")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"scroll {__version__}"
