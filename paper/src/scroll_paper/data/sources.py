"""Data sets of texts and images, as the features of a frozen encoder.

A run only needs the file with the features (see `embeddings`). If there is none, the features are
computed from the texts or images themselves:

- sick.tsv: a header and then pair_id, sentence_a, sentence_b, entailment, split, relatedness;
- ag_news_test.csv: title, description, label. A news item is a pair of title and text;
- utkface64.npz: `jpeg`, all files in one array; `offset`, where each begins; `age`;
- cifar10.npz: `x_test` (10000, 32, 32, 3) of 0..255, `y_test`.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from scroll._core.checks import invalid, require

from .embeddings import Features, digest, embed, file_of, read
from .encoders import ENCODERS, Items
from .npz import Array

Say = Callable[[str], object]
Raw = tuple[Items, NDArray[np.float64]]


class Source(NamedTuple):
    """Texts or images, and where they come from.

    Args:
        file: that holds them.
        rows: number of them.
        content: digest of them and their targets.
        target: what is predicted.
        at: who publishes them.
        open: reads the file.
    """

    file: str
    rows: int
    content: str
    target: str
    at: str
    open: Callable[[Path], Raw]


def load(
    name: str,
    encoder: str,
    places: Sequence[Path],
    say: Say | None = None,
    download: bool = False,
) -> Features:
    """Return the features of a source: from one of `places`, or computed and kept in the last one.

    Args:
        name: of `SOURCES`.
        encoder: of `ENCODERS`.
        places: folders to look in; the last one is the cache.
        say: takes a line before texts or images are encoded.
        download: let the weights of the encoder be downloaded.
    """
    source, spec = SOURCES[name], ENCODERS[encoder]
    kept = file_of(encoder, source.content, name)
    for path in (place / kept for place in places):
        if path.is_file():
            return read(path, source.rows, spec.features)
    items, y = raw(name, places, f", or its features {kept}")
    if say:
        say(f"Encoding {len(items)} {spec.kind} of {source.file} by {encoder}")
    return embed(encoder, items, y, places[-1], name=name, download=download)


def raw(name: str, places: Sequence[Path], instead: str = "") -> Raw:
    """Return the texts or images themselves with their targets, verified.

    Args:
        name: of `SOURCES`.
        places: folders to look in.
        instead: what else could be there, for the error message.
    """
    source = SOURCES[name]
    return opened(located(source, places, instead), source)


def located(source: Source, places: Sequence[Path], instead: str = "") -> Path:
    """Return the path of the file of a source, which must be in one of `places`."""
    found = [place / source.file for place in places if (place / source.file).is_file()]
    if not found:
        want = f"lie in {' or '.join(map(str, places))}{instead}"
        remedy = f"{source.at} has it; set SCROLL_DATA to the folders that hold such files."
        raise invalid(source.file, want, "no such file", remedy, FileNotFoundError)
    return found[0]


def opened(path: Path, source: Source) -> Raw:
    """Return the texts or images in the file of a source with their targets, verified."""
    remedy = f"Take the copy that {source.at} has."
    try:
        items, y = source.open(path)
    except (OSError, ValueError, LookupError, EOFError, BadZipFile) as error:
        got = f"{path}: {type(error).__name__}: {error}".rstrip(".")
        raise invalid(source.file, "be complete", got, remedy) from None
    require(len(items) == source.rows, source.file, f"hold {source.rows} rows", len(items), remedy)
    got = digest(items, y)
    require(got == source.content, source.file, f"have checksum {source.content}", got, remedy)
    return items, y


def _sick(path: Path) -> Raw:
    lines = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    return [(line[1], line[2]) for line in lines], _numbers([line[5] for line in lines])


def _news(path: Path) -> Raw:
    with path.open(newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    return [(r["title"], r["description"]) for r in rows], _numbers([r["label"] for r in rows])


def _faces(path: Path) -> Raw:
    with path.open("rb") as whole, np.load(whole, allow_pickle=False) as file:
        jpeg, offset, age = file["jpeg"].tobytes(), file["offset"], file["age"]
    ends = zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True)
    return [jpeg[start:end] for start, end in ends], _numbers(age)


def _objects(path: Path) -> Raw:
    with path.open("rb") as whole, np.load(whole, allow_pickle=False) as file:
        return list(file["x_test"]), _numbers(file["y_test"])


def _numbers(values: Sequence[str] | Array) -> NDArray[np.float64]:
    return np.asarray(values, np.float64)


SOURCES = {
    "sick": Source(
        "sick.tsv", 9840, "0e5446b304a947d9", "relatedness of two sentences, 1..5",
        "SICK (Marelli et al. 2014)", _sick,
    ),
    "ag_news": Source(
        "ag_news_test.csv", 7600, "44274f8f4ab12779", "topic of a news item",
        "the test part of AG News (Zhang, Zhao and LeCun 2015)", _news,
    ),
    "utkface": Source(
        "utkface64.npz", 23704, "e38ed4b6cba8ca41", "age of a face, years",
        "UTKFace (Zhang, Song and Qi 2017)", _faces,
    ),
    "cifar10": Source(
        "cifar10.npz", 10000, "f02278d276088cc6", "class of an image",
        "the test part of CIFAR-10 (Krizhevsky 2009)", _objects,
    ),
}  # fmt: skip
