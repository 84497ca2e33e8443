"""Files are written completely or not at all, and links are followed."""

import errno
import os
import stat

import pytest

from scroll._core.files import write


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "model", tmp_path / "link"
    link.symlink_to("real/model")
    write(link, b"new")  # of a file that is not there yet
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    chain = tmp_path / "chain"
    chain.symlink_to(link)
    write(chain, b"newer")
    assert chain.is_symlink()
    assert target.read_bytes() == b"newer"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["chain", "link", "model", "real"]


def test_permissions_are_those_of_the_old_file_or_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "new", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o600)
    write(tmp_path / "new", b"2")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_alone(tmp_path, monkeypatch, step, error):
    def fail(*_):
        raise error

    path = tmp_path / "table.csv"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, step, fail)
    interrupted = isinstance(error, KeyboardInterrupt)
    words = None if interrupted else r"table\.csv` must be writable, but got No space left"
    with pytest.raises(type(error), match=words):
        write(path, b"half")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


def test_names_may_be_as_long_as_the_system_allows(tmp_path):
    write(tmp_path / ("a" * 255), b"1")
    assert (tmp_path / ("a" * 255)).read_bytes() == b"1"


@pytest.mark.parametrize("kind", ["folder", "fifo", "loop"])
def test_only_regular_files_are_replaced(tmp_path, kind):
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    with pytest.raises(OSError, match="must be a regular file"):
        write(path, b"1")
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"lie in a folder that exists.*Create .*no first"):
        write(tmp_path / "no" / "a", b"1")
    (tmp_path / "link").symlink_to("gone/a")
    with pytest.raises(FileNotFoundError, match=r"Create .*gone first"):
        write(tmp_path / "link", b"1")
