"""The source distribution and the wheel: what is in them, and how large they are."""

import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.oldest

ROOT = Path(__file__).parents[2]
sdist = pytest.importorskip("hatchling.builders.sdist")
wheel = pytest.importorskip("hatchling.builders.wheel")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The source distribution, built from this folder."""
    folder = str(tmp_path_factory.mktemp("sdist"))
    return Path(next(iter(sdist.SdistBuilder(str(ROOT)).build(directory=folder))))


def files(folder):
    found = (ROOT / folder).rglob("*")
    paths = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix() for path in paths}


def test_the_source_distribution_holds_what_a_build_and_the_tests_need(source):
    with tarfile.open(source) as archive:
        found = {member.name.partition("/")[2] for member in archive}
    folders = ("src", "paper", "tests", "docs", "examples")  # the tests cover paper/, too
    wanted = set().union(*map(files, folders))
    assert {name for name in wanted if not name.endswith(".png")} <= found
    assert {"README.md", "LICENSE", "pyproject.toml", "Makefile", "constraints.txt"} <= found
    assert "constraints-oldest.txt" in found
    assert not [name for name in found if name.startswith("results/") or name.endswith(".png")]


def test_the_source_distribution_is_small(source):
    """The records of the benchmarks, 40 MB, stay in the repository."""
    assert source.stat().st_size < 1_000_000


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel, built from this folder."""
    folder = str(tmp_path_factory.mktemp("wheel"))
    return Path(next(iter(wheel.WheelBuilder(str(ROOT)).build(directory=folder))))


def test_the_wheel_holds_the_package_and_nothing_else(built):
    with ZipFile(built) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == {name.removeprefix("src/") for name in files("src")}
    assert {"scroll/py.typed", "scroll_command.py"} <= found
    assert not [name for name in found if "paper" in name or "bench" in name]


def test_the_wheel_is_small(built):
    assert built.stat().st_size < 450_000


def test_the_wheel_alone_reads_csv_and_runs_the_demo(built):
    """What these import is a base dependency; an empty environment has nothing else."""
    with ZipFile(built) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode().splitlines()
    needs = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist")]
    base = {Requirement(need).name for need in needs if Requirement(need).marker is None}
    bare = {"joblib", "numpy", "pandas", "rich", "safetensors", "scikit-learn", "scipy", "torch",
            "typer", "typing-extensions"}  # fmt: skip
    assert base == bare
