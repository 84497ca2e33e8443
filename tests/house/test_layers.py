"""Imports flow one way: from a level to those above it in a table, never in a cycle."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = [  # a folder imports from its own files and from the folders of earlier lines
    {"_core"},
    {"factors"},
    {"beliefs", "predictive"},
    {"objectives"},
    {"heads"},
    {"posterior", "training"},
    {"distributed", "tables"},
    {"fitting"},
    {"estimators"},
    {"integrations"},
    {"cli"},
]
PAPER = [{"data"}, {"models"}, {"tables"}, {"claims", "deep", "grid"}, {"studies"}]
TREES = {"src": ("scroll", LIBRARY), "paper/src": ("scroll_paper", PAPER)}


def modules(folder):
    """{dotted name: source} of the modules below a folder."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(p for p in parts if p != "__init__")] = path.read_text()
    return found


def imported(name, source, known):
    """Modules among `known` that a module imports, wherever in its code it does."""
    package = name if any(k.startswith(f"{name}.") for k in known) else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module
            for a in node.names:
                within = f"{base}.{a.name}"
                if within in known or base in known:
                    yield within if within in known else base


def level(name, levels):
    """The line of a module's folder; a module outside of the folders is above them all."""
    folder = [*name.split("."), ""][1]
    return next((i for i, line in enumerate(levels) if folder in line), len(levels))


def upward(sources, levels):
    """Imports (from, of) that go to a later line, or to another folder of the same line."""
    for name, source in sources.items():
        for other in imported(name, source, sources):
            same = name.split(".")[1:2] == other.split(".")[1:2]
            here, there = level(name, levels), level(other, levels)
            if there > here or (there == here < len(levels) and not same):
                yield name, other


def cycle(sources):
    """Modules that import each other in a circle, or None."""
    graph = {
        name: {o for o in imported(name, source, sources) if o != name}
        for name, source in sources.items()
    }
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return error.args[1]
    return None


@pytest.mark.parametrize("tree", TREES)
def test_imports_go_from_a_level_to_the_levels_above_it(tree):
    package, levels = TREES[tree]
    sources = {k: v for k, v in modules(ROOT / tree).items() if k.startswith(package)}
    assert list(upward(sources, levels)) == []
    folders = {name.split(".")[1] for name in sources if name.count(".") > 1}
    assert folders == set().union(*levels)  # no folder without a level, no level without a folder


@pytest.mark.parametrize("tree", TREES)
def test_no_modules_import_each_other(tree):
    assert cycle(modules(ROOT / tree)) is None


def test_the_library_does_not_know_the_reproduction():
    found = {n for n, s in modules(ROOT / "src").items() if "scroll_paper" in s}
    assert found == set()


SMALL = {
    "scroll": "from .heads import head",
    "scroll._core": "",
    "scroll._core.value": "",
    "scroll.heads": "from .head import Head",
    "scroll.heads.head": "from .._core import value\nfrom .._core.value import cast",
}


@pytest.mark.parametrize(
    ("name", "line", "broken"),
    [
        ("scroll._core.value", "from ..heads import Head", "scroll.heads"),
        ("scroll._core.value", "def f():\n    from ..heads.head import Head", "scroll.heads.head"),
        ("scroll._core.value", "import scroll.heads.head", "scroll.heads.head"),
        ("scroll.heads.head", "from .. import Head", "scroll"),
    ],
)
def test_an_import_of_a_later_level_is_found(name, line, broken):
    assert not list(upward(SMALL, LIBRARY))
    assert list(upward(SMALL | {name: f"{SMALL[name]}\n{line}"}, LIBRARY)) == [(name, broken)]


def test_an_import_of_a_neighbour_is_found():
    sources = {"scroll.beliefs.a": "from ..predictive import b", "scroll.predictive.b": ""}
    assert list(upward(sources, LIBRARY)) == [("scroll.beliefs.a", "scroll.predictive.b")]


def test_a_cycle_is_found_even_where_one_import_is_late():
    sources = {
        "scroll.heads.a": "from . import b",
        "scroll.heads.b": "def f():\n    from .a import x",
    }
    assert cycle(SMALL) is None
    assert set(cycle(sources)) == {"scroll.heads.a", "scroll.heads.b"}
