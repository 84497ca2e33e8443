"""The source distribution and the wheel: what is in them, and how large they are."""

import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
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
    assert files("src") | files("tests") | files("docs") | files("examples") <= found
    assert {"README.md", "LICENSE", "pyproject.toml", "Makefile", "constraints.txt"} <= found
    assert "constraints-oldest.txt" in found
    assert not [name for name in found if name.startswith("results/")]


def test_the_source_distribution_is_small(source):
    """The records of the benchmarks, 40 MB, stay in the repository."""
    assert source.stat().st_size < 1_000_000


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    (made,) = wheel.WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    with ZipFile(made) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == {name.removeprefix("src/") for name in files("src")}
    assert {"scroll/py.typed", "scroll_command.py"} <= found
