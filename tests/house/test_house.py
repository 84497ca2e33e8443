"""Rules of the source: public names in tests, no identities of parts, small files and folders."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = sorted(p for tree in ("src", "paper/src") for p in (ROOT / tree).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PACKAGES = ("scroll", "scroll_paper", "scroll_command")
SAME = ast.Is | ast.IsNot | ast.Eq | ast.NotEq | ast.In | ast.NotIn
PARTS = {"route", "cavity", "score", "prior"}  # of an objective
NAMEDTUPLE = {"_replace", "_asdict", "_fields", "_field_defaults", "_make"}


def private(name):
    return name.startswith("_") and not name.endswith("__") and name not in NAMEDTUPLE


def reached(source):
    """Private names of ours that a test uses: imported, as an attribute, or patched by a string."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            module = node.module.replace("scroll._core", "scroll")  # internals that have tests
            names = [f"{module}.{a.name}" for a in node.names]
            yield from (name for name in names if any(map(private, name.split("."))))
        elif isinstance(node, ast.Attribute) and private(node.attr) and node.attr != "_core":
            root = node
            while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
                root = root.func if isinstance(root, ast.Call) else root.value
            if not (isinstance(root, ast.Name) and root.id in ("torch", "self")):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "setattr":
            names = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
            last = [n.rpartition(".")[2] for n in names if isinstance(n, str)]
            yield from (n for n in last if private(n))


def test_tests_use_public_names_only():
    found = {path.name: list(reached(path.read_text())) for path in TESTS}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from scroll.heads.head import _checked",
        "from scroll.heads._head import checked",
        "from scroll.heads import head\nhead._checked(1)",
        "import scroll\nscroll.heads.head._checked(1)",
        "from scroll import Head\nHead(3)._state",
        "def f(fitted):\n    return fitted.model_._parts",
        "from scroll.heads import head\ndef f(monkeypatch):\n"
        "    monkeypatch.setattr(head, '_checked', print)",
        "def f(monkeypatch):\n    monkeypatch.setattr('scroll.heads.head._checked', print)",
    ],
)
def test_a_private_name_in_a_test_is_found(line):
    assert len(list(reached(line))) == 1


def test_public_names_and_those_of_others_are_not_held_against_a_test():
    line = (
        "import torch\nfrom scroll._core.checks import x\ntorch._dynamo\nx._replace(a=1)\nx.__doc__"
    )
    assert list(reached(line)) == []


def identities(source):
    """Comparisons that ask which function a part of an objective is, or what it is called."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], SAME):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Constant) for side in sides):
                continue
            if any(isinstance(side, ast.Attribute) and side.attr in PARTS for side in sides):
                yield ast.unparse(node)


def test_no_part_is_known_by_its_identity():
    found = {str(p.relative_to(ROOT)): list(identities(p.read_text())) for p in SOURCE}
    assert {path: where for path, where in found.items() if where} == {}


@pytest.mark.parametrize(
    "line", ["o.route is free", "o.cavity in (a, b)", "free is not self.route"]
)
def test_a_comparison_of_parts_is_found(line):
    assert list(identities(line)) == [line]
    assert list(identities("o.route is None\no.alpha is x")) == []


def test_folders_have_at_most_12_files():
    """The estimators 15: one file per task and per part of a model file."""
    counts = Counter(str(p.parent.relative_to(ROOT)) for p in SOURCE)
    allowed = {"src/scroll/estimators": 15}
    assert {k: n for k, n in counts.items() if n > allowed.get(k, 12)} == {}


def test_files_have_at_most_300_lines():
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in SOURCE}
    assert {path: n for path, n in lengths.items() if n > 300} == {}


def test_any_stands_only_for_what_has_no_type():
    assert sum(len(re.findall(r"\bAny\b", p.read_text())) for p in SOURCE) <= 150


def test_functions_have_at_most_40_lines():
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name} has {size} lines"
        for path in SOURCE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := node.end_lineno - node.lineno + 1) > 40
    ]
    assert long == []
