"""Other libraries: each is declared, and only its public names are used."""

import ast
import sys
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

pytestmark = pytest.mark.oldest

ROOT = Path(__file__).parents[2]
TREES = {"src": "pyproject.toml", "paper": "paper/pyproject.toml"}
MODULES = {  # by distribution, where the names differ
    "botorch": {"botorch", "gpytorch", "linear_operator"},
    "dask": {"dask", "distributed"},
    "pillow": {"PIL"},
    "scikit-learn": {"sklearn"},
    "transformers": {"transformers", "huggingface_hub"},
}
OURS = {"scroll", "scroll_command", "scroll_paper"}
IGNORED = OURS | sys.stdlib_module_names
# The public samplers of a gamma variable accept no generator. PyTorch documents the dispatch mode
# as a way to extend it, under this name alone.
ALLOWED = {
    "torch._standard_gamma",
    "torch.utils._python_dispatch.TorchDispatchMode",
}


def imports(tree):
    """Dotted names that a module imports from other libraries, and what it calls them."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {a.name: a.asname or a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {f"{node.module}.{a.name}": a.asname or a.name for a in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {a.value: None for a in node.args[:1] if isinstance(a, ast.Constant)}
    return found


def names_of_others(tree):
    """Dotted names of other libraries that a module uses."""
    imported = imports(tree)
    yield from imported
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name.partition(".")[0] in imported.values():
                yield name


def is_private(name):
    library, *parts = name.split(".")
    return library not in IGNORED and any(
        part.startswith("_") and not part.endswith("__") for part in parts
    )


def declared(tree):
    """Names of the distributions that the project of a folder declares, extras included."""
    project = tomllib.loads((ROOT / TREES[tree]).read_text())["project"]
    lines = chain(project["dependencies"], *project["optional-dependencies"].values())
    return {Requirement(line).name for line in lines}


@pytest.mark.parametrize("tree", TREES)
def test_only_public_names_of_other_libraries_are_used(tree):
    """Private names come and go between releases, whatever the declared ranges say."""
    found = {}
    for path in sorted((ROOT / tree).rglob("*.py")):
        names = {n for n in names_of_others(ast.parse(path.read_text())) if is_private(n)}
        if names - ALLOWED:
            found[path.relative_to(ROOT).as_posix()] = sorted(names - ALLOWED)
    assert not found


def test_private_names_are_found():
    code = "import torch as t\nfrom sklearn.utils import _x\nt._C.f\nimport_module('joblib._dask')"
    found = {name for name in names_of_others(ast.parse(code)) if is_private(name)}
    assert found == {"sklearn.utils._x", "t._C", "t._C.f", "joblib._dask"}


@pytest.mark.parametrize("tree", TREES)
def test_every_imported_library_is_declared(tree):
    """A floor that nobody declares is whatever another library happens to bring."""
    names = declared(tree)
    if tree == "paper":  # it depends on the library, and users bring torchvision
        names |= declared("src") | {"torchvision"}
    known = {m for name in names for m in MODULES.get(name, {name.replace("-", "_")})}
    local = {path.stem for path in (ROOT / tree).rglob("*.py")}  # scripts that import each other
    used = set()
    for path in (ROOT / tree).rglob("*.py"):
        used |= {name.partition(".")[0] for name in imports(ast.parse(path.read_text()))}
    assert used - known - IGNORED - (local if tree == "paper" else set()) == set()
    assert tree == "paper" or "scroll_paper" not in used
