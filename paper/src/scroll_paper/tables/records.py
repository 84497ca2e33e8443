"""Append-only records of runs, one line of strict JSON each: results/*.jsonl.

A record is a dict: "fit", a flat dict that identifies the run; "metrics", numbers by name; and
other plain values. JSON has no NaN: outside "fit" the strings "nan", "inf" and "-inf" stand for
these numbers.
"""

import gzip
import json
import math
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import torch

from scroll._core.checks import invalid, require
from scroll._core.files import write

Record = dict[str, Any]

WRITING = Lock()  # held while this process writes: one that is to end ends before or afterwards

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_GZIP = b"\x1f\x8b"
_SPELLED = ("nan", "inf", "-inf")


class Loaded(NamedTuple):
    """Records, and the lines that could not be read as "file:line: why"."""

    records: list[Record]
    problems: list[str]


def key(record: Mapping[str, object]) -> str:
    """Return the canonical JSON of a record's "fit", or of a fit: equal runs have equal keys."""
    inner = record.get("fit")
    fit = inner if isinstance(inner, Mapping) else record
    return _canonical({name: _atom(name, value) for name, value in fit.items()})


def done(records: Iterable[Mapping[str, object]]) -> set[str]:
    """Return the keys of `records`."""
    return {key(record) for record in records}


def append(path: str | Path, records: Iterable[Mapping[str, object]]) -> None:
    """Append `records` to a file: all of them or, if that fails, none."""
    path = Path(path)
    require(path.suffix == ".jsonl", "path", "end in .jsonl, or it would not be found again", path)
    lines = "".join(map(_line, records)).encode()
    if not lines:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        file = os.open(path, flags, 0o666)
    except OSError as error:
        remedy = "Make it and its folder writable, or choose another folder."
        raise invalid(str(path), "be writable", error.strerror, remedy, type(error)) from error
    try:
        with WRITING, _alone(file):
            _write(file, lines)
    except OSError as error:
        want = f"take {len(lines)} more bytes"
        remedy = "Nothing was added and nothing was lost: free some space and run again."
        raise invalid(str(path), want, error.strerror or error, remedy, OSError) from error
    finally:
        os.close(file)


def made(began: float, device: torch.device, share: int = 1) -> Record:
    """Return what a record says about how it was made: seconds, device and versions.

    Args:
        began: time of the start, of which the seconds are counted.
        device: it ran on.
        share: number of fits that share the seconds.
    """
    from scroll import __version__

    versions = {"scroll": __version__, "torch": torch.__version__}
    return {
        "seconds": round((time.time() - began) / share, 4),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "versions": versions | {"python": platform.python_version()},
    }


def skipped(problems: Sequence[str], most: int = 5) -> list[str]:
    """Return messages about lines that were skipped: the first few, and how many more."""
    more = [f"skipped {len(problems) - most} more lines"] if len(problems) > most else []
    return [f"skipped {problem}" for problem in problems[:most]] + more


def load(path: str | Path) -> Loaded:
    """Read the records of a file, gzipped or not, or of all *.jsonl of a folder, if there are any.

    Lines that cannot be read are reported and skipped. Of records with equal keys the first counts.
    """
    path = Path(path)
    found: dict[str, Record] = {}
    problems: list[str] = []
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path] if path.exists() else []
    for file in files:
        content = file.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        *lines, rest = content.split(b"\n")
        for number, line in enumerate([*lines, rest], 1):
            if not line.strip():
                continue
            try:
                record = _parsed(line)
                found.setdefault(key(record), record)
            except (ValueError, RecursionError) as error:
                torn = "the file ends in mid-line; " if number > len(lines) else ""
                problems.append(f"{file}:{number}: {torn}{error}")
    return Loaded(list(found.values()), problems)


def merge(sources: Iterable[str | Path], folder: str | Path) -> int:
    """Append the records of `sources`, files or folders, that a folder does not have yet.

    Lines that cannot be read are left out; `load` says which. Returns how many were added.
    """
    have = done(load(folder).records)
    new: dict[Path, list[Record]] = {}
    for source in sources:
        require(Path(source).exists(), "sources", "exist", source, error=FileNotFoundError)
        for record in load(source).records:
            fit = record["fit"]
            require("set" in fit, "sources", 'name the "set" of each fit', f"{fit} in {source}")
            if (name := key(record)) not in have:
                have.add(name)
                new.setdefault(file_of(folder, fit["set"]), []).append(record)
    for file, fresh in new.items():
        append(file, fresh)
    return sum(map(len, new.values()))


def differing(sources: Iterable[str | Path], folder: str | Path) -> list[Record]:
    """Return the records of `sources` whose fit a folder has with other metrics."""
    have = {key(record): record.get("metrics") for record in load(folder).records}
    new = (record for source in sources for record in load(source).records)
    return [r for r in new if key(r) in have and have[key(r)] != r.get("metrics")]


def supersede(records: Iterable[Record], folder: str | Path) -> int:
    """Put records in place of those with the same fits, which go to the folder `readings`.

    The older ones are written there first, so that a run that is stopped loses none. Nothing else
    may write to the folder meanwhile. Returns how many were put there.
    """
    fresh = {key(record): record for record in records}
    for file in sorted(Path(folder).glob("*.jsonl")):
        lines = file.read_bytes().splitlines()
        old = {line for line in lines if _key_of(line) in fresh}
        if old:
            append(Path(folder) / "readings" / file.name, [_parsed(x) for x in lines if x in old])
            write(file, b"".join(line + b"\n" for line in lines if line not in old))
    for record in fresh.values():
        append(file_of(folder, record["fit"]["set"]), [record])
    return len(fresh)


def writable(folder: str | Path) -> None:
    """Make a folder unless it is there; raise an error if nothing can be written to it."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise invalid(str(folder), "be a folder to write to", why, error=type(error)) from None
    require(
        os.access(folder, os.W_OK),
        str(folder),
        "be writable",
        "a folder that is not",
        "Choose another with --results.",
        PermissionError,
    )


def file_of(folder: str | Path, name: str) -> Path:
    """Return the file with the records of a data set."""
    return Path(folder) / f"{name}.jsonl"


def _atom(name: str, value: object) -> object:
    """Return a value of a fit; equal numbers have one spelling."""
    if isinstance(value, float):
        require(math.isfinite(value), f"fit[{name!r}]", "be finite", value)
        return int(value) if value.is_integer() else float(value)
    if value is None or isinstance(value, str | int):
        return value
    raise invalid(f"fit[{name!r}]", "be text, a number, a bool or None", type(value).__name__)


def _line(record: Mapping[str, object]) -> str:
    """Return a record as one line."""
    require(isinstance(record.get("fit"), Mapping), "records", 'each hold a dict "fit"', record)
    key(record)  # refuses here what load would refuse
    try:
        return json.dumps(_spelled(record), allow_nan=False) + "\n"
    except TypeError as error:
        remedy = "Convert tensors with .item() or .tolist()."
        raise invalid("records", "hold plain values", error, remedy, TypeError) from error


def _spelled(value: object) -> object:
    """Return `value` with its non-finite numbers as strings."""
    if isinstance(value, Mapping):
        return {name: _spelled(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _read(value: object) -> object:
    """Return `value` with such strings as numbers again."""
    if isinstance(value, dict):
        return {name: _read(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_read(item) for item in value]
    return float(value) if isinstance(value, str) and value in _SPELLED else value


def _parsed(line: bytes) -> Record:
    """Return the record on a line, or raise a ValueError that says why there is none."""
    record = json.loads(line.decode(), parse_constant=_constant)
    if not isinstance(record, dict):
        raise ValueError(f"a record is a dict, not a {type(record).__name__}")
    if not isinstance(record.get("fit"), dict):
        raise ValueError('a record holds a dict "fit"')
    if b'nan"' in line or b'inf"' in line:
        record |= {name: _read(item) for name, item in record.items() if name != "fit"}
    return record


def _key_of(line: bytes) -> str | None:
    """Return the key of the record on a line; None if there is none."""
    try:
        return key(_parsed(line))
    except (ValueError, RecursionError):
        return None


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


@contextmanager
def _alone(file: int) -> Iterator[None]:
    """Lock a file, where the platform has advisory locks; closing it ends the lock."""
    try:
        import fcntl
    except ImportError:
        pass
    else:
        fcntl.flock(file, fcntl.LOCK_EX)
    yield


def _write(file: int, lines: bytes) -> None:
    """Write all lines at the end of the file at once, or raise OSError and leave it as it was."""
    size = os.lseek(file, 0, os.SEEK_END)
    if size:
        os.lseek(file, size - 1, os.SEEK_SET)
        if os.read(file, 1) != b"\n":  # a writer was killed here: its torn line stays its own
            lines = b"\n" + lines
    try:
        written = os.write(file, lines)
        if written < len(lines):
            raise OSError(f"room for {written} of {len(lines)}")
        os.fsync(file)
    except OSError:
        with suppress(OSError):  # failing here leaves a torn line, which the next append ends
            os.ftruncate(file, size)
        raise
