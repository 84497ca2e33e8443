"""Frozen encoders: texts and images to features, computed once and kept in a file.

A file is found by the encoder, its version and the content that was encoded. Features are kept in
half precision: a relative error of at most 2**-11, below 2**-14 an error of at most 2**-25, and 0
below 2**-20. A row with a value above 65504 stays in single precision. An encoder that is not on
this machine is only downloaded with `download=True`.
"""

import hashlib
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from scroll._core.checks import invalid, one_of, require
from scroll._core.files import replacing
from scroll.training.progress import progress

from .encoders import ENCODERS, Encode, Encoder, Image, Items, pixels
from .npz import Array, arrays

BATCH = 16  # fits into the cache of a core; three times as fast as 64
# Smaller values become 0. MiniLM has coordinates below 1e-7: half precision would round a few of
# them up to its smallest step, which would be outliers in a column of zeros.
LEAST = 2.0**-20


Targets: TypeAlias = Sequence[float] | Array


class Features(NamedTuple):
    """The features of N items, and their targets.

    Args:
        x: (N, D), rounded to half precision.
        y: (N,).
    """

    x: NDArray[np.float32]
    y: NDArray[np.float64]


def embed(
    encoder: str,
    items: Items,
    y: Targets | None = None,
    folder: str | Path | None = None,
    *,
    name: str = "embedded",
    download: bool = False,
) -> Features:
    """Return the features of `items`, from a file in `folder`, or computed and kept there.

    The first call returns what later calls read from the file, in half precision. The other items
    of a call change the features of an item by rounding only.

    Args:
        encoder: one of `ENCODERS`.
        items: texts `(text,)`, or pairs `(first, second)`, in tuples; or images, as the bytes of a
            file, its path, or pixels.
        y: their targets, kept in the same file; None is zeros.
        folder: of the file; None is $SCROLL_CACHE, or else ~/.cache/scroll.
        name: beginning of the file's name.
        download: let weights be downloaded that are not on this machine.
    """
    one_of("encoder", encoder, ENCODERS)
    _checked(items, ENCODERS[encoder].kind)
    targets = np.zeros(len(items)) if y is None else _targets(y, len(items))
    folder = folder or os.environ.get("SCROLL_CACHE") or "~/.cache/scroll"
    path = Path(folder).expanduser() / file_of(encoder, digest(items, y), name)
    rows, width = len(items), _width(ENCODERS[encoder], items)
    if not path.is_file():
        _writable(path.parent)  # before work that it could not keep
        _save(path, Features(encoded(encoder, items, download), targets))
    return read(path, rows, width)


def _checked(items: Any, kind: str) -> None:
    """Refuse items that an encoder of this kind cannot take."""
    listed = hasattr(items, "__len__") and hasattr(items, "__getitem__")
    require(
        listed and not isinstance(items, str | bytes | dict) and len(items),
        "items",
        f"be a sequence of {kind}, one or more",
        type(items).__name__ if not listed or len(items) else "none",
    )
    texts = 0
    for i, item in enumerate(items):
        if kind == "texts":
            texts = _texts(item, f"items[{i}]", texts)
        elif not isinstance(item, bytes | Path | np.ndarray):
            want = "be an image: the bytes of a file, a pathlib.Path, or pixels"
            raise invalid(f"items[{i}]", want, _said(item), _pixels_of(item))


def _texts(item: Any, name: str, before: int) -> int:
    """Return how many texts an item has: one or two, and as many as the items before."""
    sound = isinstance(item, tuple) and all(isinstance(t, str) for t in item)
    remedy = "Make each row one: (text,), or (first, second)."
    require(
        sound and len(item) in (1, 2), name, "be a tuple of one or two texts", _said(item), remedy
    )
    want, remedy = f"hold {before}, as items[0] does", "Embed single texts and pairs apart."
    require(len(item) == (before or len(item)), name, want, len(item), remedy)
    return len(item)


def _pixels_of(item: object) -> str:
    """Return the advice for an item that is not an image."""
    if isinstance(item, torch.Tensor):
        how = "image.permute(1, 2, 0).numpy()"
        return f"Make pixels of a tensor (3, height, width) of 0..255 in uint8 with {how}."
    if hasattr(item, "convert"):
        return 'Make pixels of an image of PIL with np.asarray(image.convert("RGB")).'
    return "Make a path of a name with Path(name)."


def _width(spec: Encoder, items: Items) -> int:
    """Return the number of features of these items."""
    first = items[0]
    single = isinstance(first, tuple) and len(first) == 1
    return (single and spec.alone) or spec.features


def _said(item: object) -> str:
    inner = f" of {', '.join(type(t).__name__ for t in item)}" if isinstance(item, tuple) else ""
    return f"{type(item).__name__}{inner}"


def _targets(y: Targets, rows: int) -> NDArray[np.float64]:
    """Return the targets, one finite number per row."""
    try:
        found = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        remedy = "Encode labels as integers first."
        raise invalid("y", "hold numbers", type(y).__name__ + " of others", remedy) from None
    got = len(found) if found.ndim == 1 else found.shape
    require(found.shape == (rows,), "y", f"hold {rows} targets", got)
    require(np.isfinite(found).all(), "y", "be finite", "NaN or infinite values")
    return found


def file_of(encoder: str, content: str, name: str = "embedded") -> str:
    """Return the name of a file of features, from all that they depend on."""
    # "half", because older files hold steps between the least and the greatest value.
    return f"{name}.{encoder}-{ENCODERS[encoder].version}.{content}.half.npz"


def digest(items: Items, y: Targets | None = None) -> str:
    """Return a digest of items and targets, in this order."""
    found = hashlib.sha256()
    for i, item in enumerate(items):
        parts = item if isinstance(item, tuple) else (item,)
        found.update(len(parts).to_bytes(8, "little"))
        for part in parts:
            content = _content(part, f"items[{i}]")
            found.update(len(content).to_bytes(8, "little") + content)
    if y is not None:
        found.update(np.asarray(y, "<f8").tobytes())
    return found.hexdigest()[:16]


def _content(part: Any, name: str) -> bytes:
    try:
        if isinstance(part, str):
            return part.encode()
        if isinstance(part, Path):
            return part.read_bytes()
    except UnicodeEncodeError as error:
        got = f"{part[error.start]!a} at {error.start}"  # in ASCII, or it could not be printed
        remedy = 'Replace such with text.encode(errors="replace").decode().'
        raise invalid(name, "be texts that UTF-8 can hold", got, remedy) from None
    except OSError as error:
        got = f"{part}: {error.strerror or error}"
        remedy = "Correct its path, or leave it out."
        raise invalid(name, "be a file that can be read", got, remedy, type(error)) from None
    if isinstance(part, bytes):
        return part
    return f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()


def encoded(encoder: str, items: Items, download: bool = False) -> NDArray[np.float32]:
    """Compute the features of `items`.

    Args:
        encoder: of `ENCODERS`.
        items: texts or images.
        download: let weights be downloaded.
    """
    spec = ENCODERS[encoder]
    run, found = _loaded(encoder, download), []
    with torch.no_grad(), progress(Console(stderr=True), len(items), "items") as update:
        for i in range(0, len(items), BATCH):
            some = items[i : i + BATCH]
            ready = some if spec.kind == "texts" else pixels(cast(Sequence[Image], some), i)
            found.append(run(ready).float())
            update(i + len(some))
    x = torch.cat(found).numpy()
    bad = int((~np.isfinite(x)).any(1).sum())
    require(not bad, "items", "have features that are finite", f"{bad} rows that have not")
    return x


def _loaded(encoder: str, download: bool) -> Encode:
    """Load an encoder, or say how to get it."""
    spec = ENCODERS[encoder]
    near = [n for n, e in ENCODERS.items() if e.kind == spec.kind and n != encoder and e.shipped]
    other = "".join(f" {n!r} comes with `{ENCODERS[n].install}`, weights included." for n in near)
    want = f"be on this machine with {' and '.join(spec.packages)}"
    try:
        for package in spec.packages:
            import_module(package)
    except ImportError as error:
        got = f"{encoder!r} and {type(error).__name__}: {error}"
        raise invalid("encoder", want, got, f"{spec.install}.{other}", ImportError) from None
    try:
        return spec.load(download)
    except Exception as error:  # each library has its own for a file that is cut short
        why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        state = "are not there" if isinstance(error, FileNotFoundError) else "cannot be read"
        got = f"{encoder!r}, whose weights {state}: {why}"
        asked = "Go online, or remove what is damaged."
        if spec.shipped:
            asked = f"Install it again: {spec.install} --force-reinstall."
        elif not download:
            asked = "Pass download=True (--download on the command line) to have them fetched."
        raise invalid("encoder", want, got, f"{asked}{other}", FileNotFoundError) from None


def read(path: Path, rows: int, width: int) -> Features:
    """Return the features in a file, verified.

    Args:
        path: of the file.
        rows: that it must hold.
        width: features per row.
    """
    remedy = f"Remove {path} to have it computed again."
    x, y = arrays(path, ("x", "y"), "be a whole file of features", remedy)
    found = Features(x.astype(np.float32), y.astype(np.float64))
    shapes, want = (found.x.shape, found.y.shape), (rows, width)
    require(shapes == (want, want[:1]), str(path), f"hold {want} features", shapes, remedy)
    require(np.isfinite(found.x).all(), str(path), "be finite", "NaN or infinite values", remedy)
    return found


def _writable(folder: Path) -> None:
    """Make a folder unless it is there; raise an error if nothing can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        got = f"{folder}: {error.strerror or error}"
        remedy = "Pass another as `folder`, or set SCROLL_CACHE to one."
        raise invalid("folder", "be one to write to", got, remedy, type(error)) from None


def _save(path: Path, found: Features) -> None:
    """Write the features completely or not at all, also if two processes do so at once."""
    with replacing(path) as file:
        np.savez_compressed(file, x=_rounded(found.x), y=found.y)


def _rounded(x: NDArray[np.float32]) -> Array:
    """Return rows in half precision; if a row does not fit, it stays and all are in single."""
    with np.errstate(over="ignore"):
        half = np.where(np.abs(x) < LEAST, 0, x).astype(np.float16)
    fits = np.isfinite(half).all(1, keepdims=True)
    return half if fits.all() else np.where(fits, half, x)
