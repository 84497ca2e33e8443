"""Write files completely or not at all.

A file is written beside its destination under a temporary name and then renamed, so that readers
see the old content or the new one. If anything fails, the temporary file is removed.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from .checks import invalid, require

BINARY = getattr(os, "O_BINARY", 0)  # without it, Windows changes line ends


def write(path: Path, content: bytes) -> None:
    """Write `content` to `path`, completely or not at all."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a binary file that replaces `path` when the block ends without an error.

    A symbolic link is followed: the file it points to is replaced and the link stays. An existing
    file keeps its permissions.
    """
    target = destination(path)
    beside = target.with_name(f".scroll-{token_hex(6)}.partial")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                os.chmod(beside, stat.S_IMODE(target.stat().st_mode))
            os.replace(beside, target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or error
        raise invalid(str(path), "be writable", reason, "Choose another place.", OSError) from error


def destination(path: Path, name: str = "path") -> Path:
    """Return the regular file, existing or new, that `path` names or links to."""
    target = Path(os.path.realpath(path))
    remedy = f"Create {target.parent if path.is_symlink() else path.parent} first."
    in_folder = target.parent.is_dir()
    require(in_folder, name, "lie in a folder that exists", path, remedy, FileNotFoundError)
    regular = target.is_file() or not os.path.lexists(target)
    require(regular, name, "be a regular file", f"the folder, device or link {path}", error=OSError)
    return target
