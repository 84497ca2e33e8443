"""Every Python example of the README and the docs runs, in order, in one namespace a page."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        exec(compile(block, str(page), "exec"), namespace)


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
