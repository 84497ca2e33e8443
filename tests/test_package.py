"""What the package promises of itself."""

import json
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PURELIB = sysconfig.get_paths()["purelib"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOADED = """
import json, sys, torch
before = set(sys.modules)
import scroll
new = set(sys.modules) - before
print(json.dumps(sorted({m.partition(".")[0] for m in new} | (new & {"torch._dynamo"}))))
"""


def test_importing_loads_torch_and_little_else():
    """Heavy libraries wait until they are used: that keeps the import under 0.3 s."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout))
    heavy = {"sklearn", "scipy", "matplotlib", "rich", "typer", "pandas", "gpytorch", "vbll"}
    assert not loaded & (heavy | {"torch._dynamo", "sympy"})


def test_base_dependencies_are_few():
    names = {re.split(r"[<>=\[]", line)[0] for line in PROJECT["dependencies"]}
    with_them = {"joblib", "scipy", "typing-extensions"}  # installed by the others in any case
    assert names - with_them == {"torch", "numpy", "scikit-learn", "safetensors", "typer", "rich"}


def test_every_installed_version_is_pinned():
    """Whatever the two commands put into the environment stands in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    pinned = {
        (_plain(pin.name), str(pin.specifier)[2:])
        for pin in pins
        if pin.marker is None or pin.marker.evaluate()
    }
    installed = {
        (_plain(d.name), d.version.partition("+")[0]) for d in distributions(path=[PURELIB])
    }
    loose = {
        item for item in installed - pinned if item[0] not in {"scroll-torch", "pip", "setuptools"}
    }
    assert not loose


def _plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_package_is_typed_and_licensed():
    assert (ROOT / "src/scroll/py.typed").exists()
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_modules_are_there_when_they_are_asked_for():
    code = "import scroll; print(scroll.distributed.total(3), scroll.checkpoint.save.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "save"]


def test_the_estimators_are_listed_without_importing_them():
    code = """
import sys, scroll
names = dir(scroll)
assert names == sorted(set(names))
assert set(scroll.__all__) <= set(names), set(scroll.__all__) - set(names)
assert {"ScrollRegressor", "ScrollClassifier", "load", "plots", "distributed"} <= set(names)
assert "sklearn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_refit_is_a_module_and_can_be_called():
    code = """
import inspect, types, torch
import scroll, scroll.refit
import scroll.refit as module
from scroll import refit
from scroll.refit import Refit, refit as function
assert isinstance(module, types.ModuleType) and module is scroll.refit is refit
assert module.Refit is Refit is scroll.Refit and module.refit is function
assert inspect.signature(scroll.refit) == inspect.signature(function)
head, psi, y = scroll.RegressionHead(3), torch.randn(9, 3), torch.randn(9)
bound = scroll.refit(head, psi, y)
assert isinstance(bound, Refit)
assert torch.equal(bound(psi).mean, function(head, psi, y)(psi).mean)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
