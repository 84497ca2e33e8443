"""The package: imports, dependencies, declared versions, types, licence."""

import json
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from scroll._core import versions

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

pytestmark = pytest.mark.oldest

ROOT = Path(__file__).parents[2]
PURELIB = sysconfig.get_paths()["purelib"]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = DECLARED["project"], DECLARED["build-system"]["requires"]
OLDEST = "constraints-oldest.txt"
LOADED = """
import json, sys, torch
before = set(sys.modules)
import scroll
names = dir(scroll)
assert names == sorted(set(names))
assert set(scroll.__all__) <= set(names), set(scroll.__all__) - set(names)
assert {"ScrollRegressor", "ScrollClassifier", "load", "plots", "distributed"} <= set(names)
new = set(sys.modules) - before
said = [scroll.distributed.total(3), scroll.distributed.save.__name__]
assert said == [3, "save"]  # modules are there when they are asked for
print(json.dumps(sorted({m.partition(".")[0] for m in new} | (new & {"torch._dynamo"}))))
"""


def test_importing_loads_torch_and_little_else():
    """Heavy libraries wait until they are used, though names are listed: import under 0.3 s."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(done.stdout))
    heavy = {"sklearn", "scipy", "matplotlib", "rich", "typer", "pandas", "gpytorch", "vbll"}
    assert not loaded & (heavy | {"torch._dynamo", "sympy"})


def test_base_dependencies_are_few():
    names = {re.split(r"[<>=\[]", line)[0] for line in PROJECT["dependencies"]}
    with_them = {"joblib", "scipy", "typing-extensions"}  # installed by the others in any case
    wanted = {"torch", "numpy", "pandas", "scikit-learn", "safetensors", "typer", "rich"}
    assert names - with_them == wanted


def test_every_installed_version_is_pinned():
    """What `make test` installs stands in constraints.txt; `make test-oldest` has its own file."""
    installed = {_plain(d.name): d.version.partition("+")[0] for d in distributions(path=[PURELIB])}
    for name in ("scroll-torch", "scroll-paper", "pip", "setuptools"):
        installed.pop(name, None)
    loose = [installed.items() - _pins(file).items() for file in ("constraints.txt", OLDEST)]
    assert set() in loose, min(loose, key=len)


def test_the_oldest_environment_has_the_declared_floors():
    """Each floor of the package and of the extras that the fast tests need is what they run on."""
    pins, named = _pins(OLDEST), PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *BUILD]
    for extra in ("arrow", "export", "plots", "test"):
        lines += [line for line in named[extra] if "scroll-torch" not in line]
    for need in map(Requirement, lines):
        if need.marker is None or need.marker.evaluate():
            (floor,) = need.specifier
            assert floor.operator == ">=", need
            assert Version(pins[_plain(need.name)]) == Version(floor.version), need


def test_the_code_knows_the_declared_floors():
    """Those that it names in its error messages."""
    extras = PROJECT["optional-dependencies"]
    lines = [Requirement(line) for line in PROJECT["dependencies"] + extras["export"]]
    floors = {need.name: str(need.specifier)[2:] for need in lines}
    assert floors["torch"] == versions.TORCH
    assert floors["scikit-learn"] == versions.SKLEARN
    assert {name: floors[name] for name in versions.EXPORT} == versions.EXPORT


@pytest.mark.parametrize("got", ["2.10.0+cu128", "1.13.1", "2.9"])
def test_an_old_library_is_named_in_one_line(got):
    want = f"`torch` must be version 2.11 or newer for scroll, but got version {got}. Update it"
    with pytest.raises(ImportError, match=re.escape(want)):
        versions.require_version("torch", got, "2.11", "scroll")
    for enough in ("2.11.0", "2.13.0+cpu", "3.0.dev1"):
        versions.require_version("torch", enough, "2.11", "scroll")


def test_an_old_torch_is_refused_at_import():
    code = "import torch; torch.__version__ = '2.10.0'; import scroll"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: `torch` must be version 2.11 or newer for scroll, but got")


def _pins(file):
    """{name: version} for this Python."""
    lines = (ROOT / file).read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    here = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]
    return {_plain(pin.name): str(pin.specifier)[2:] for pin in here}


def _plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_package_is_typed_and_licensed():
    assert (ROOT / "src/scroll/py.typed").exists()
    assert "Apache License" in (ROOT / "LICENSE").read_text()
