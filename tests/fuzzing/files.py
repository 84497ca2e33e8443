"""Model files that were altered: bytes, tensors and every field of their JSON."""

import json
import struct

import numpy as np
import torch

import scroll
from altered import opened, sealed
from fuzzing import judge
from fuzzing.tables import pick
from scroll import ScrollClassifier, ScrollRegressor

QUICK = {"max_steps": 3, "random_state": 0}
VALUES = [
    None, True, False, 0, 1, -1, 2, 2**31, 2**63, 2**70, 10**300, 0.5, -0.5, 1e308, float("inf"),
    float("nan"), "", "x", "yours", "free", "auto", "full", "object", [], [[]], {}, {"pairs": []},
    [1, 2, 3], ["a"], {"a": 1}, "x" * 10_000, [0] * 10_000, {"pairs": [[[], {}]]},
]  # fmt: skip


def models(folder):
    """Files of small models, one for each kind of head and body."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    y = x[:, 0]
    made = {
        "gaussian": ScrollRegressor(body="linear", routing="hybrid", **QUICK).fit(x, y),
        "several": ScrollRegressor(body=(4, 3), n_members=2, routing="closed", **QUICK).fit(x, x),
        "counts": ScrollRegressor(body=(3,), likelihood="negbinomial", **QUICK).fit(x, abs(y) // 1),
        "classes": ScrollClassifier(body=(3,), n_members=2, **QUICK).fit(x, y > 0),
        "levels": ScrollClassifier(body="linear", ordered=["a", "b", "c"], **QUICK).fit(
            x, np.repeat(["a", "b", "c"], 10)
        ),
    }
    for name, model in made.items():
        model.save(folder / name)
    return [folder / name for name in made]


def run(rng, folder):
    """One case: a file that was altered predicts as it did, or is refused in one line."""
    whole = pick(rng, [*(folder / "models").iterdir()])
    altered = folder / "altered.scroll"
    change = pick(rng, [flipped, cut, grown, header, swapped, fields, fields, fields, tensors])
    altered.write_bytes(change(rng, whole))
    try:
        with judge.watched(folder):
            try:
                model = scroll.load(altered)
            except Exception as error:
                judge.refused(error)
                return "refused"
        # A field that does not matter to predictions may differ, as may spaces in the header.
        same = np.array_equal(predictions(model), predictions(scroll.load(whole)))
        judge.require(same or change is fields, f"{change.__name__}: other predictions")
    finally:
        altered.unlink()
    return "loaded"


def predictions(model):
    """The predictions of two rows, finite."""
    x = np.zeros((2, 2))
    found = model.predict_proba(x) if hasattr(model, "classes_") else model.predict(x)
    return judge.finite("predictions", found)


def flipped(rng, path):
    """One to three bits, anywhere."""
    content = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 4))):
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    return bytes(content)


def cut(rng, path):
    """The end, or a piece in between, is missing."""
    content = path.read_bytes()
    first, last = sorted(int(i) for i in rng.integers(0, len(content), 2))
    return content[:first] if rng.random() < 0.5 else content[:first] + content[last + 1 :]


def grown(rng, path):
    """Bytes are added."""
    content, more = path.read_bytes(), rng.bytes(int(rng.integers(1, 100)))
    at = int(rng.integers(len(content) + 1)) if rng.random() < 0.5 else len(content)
    return content[:at] + more + content[at:]


def header(rng, path):
    """Another length of the header, or other text in it."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    if rng.random() < 0.5:
        lengths = [0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1, len(content)]
        return struct.pack("<Q", pick(rng, lengths)) + content[8:]
    text = content[8 : 8 + length]
    old = pick(rng, [b'"F32"', b'"F64"', b"data_offsets", b"shape", b"[", b"__metadata__", b'"sha'])
    new = pick(rng, [b'"I64"', b'"F16"', b"", b"[[[[", b"9" * 30, b"-1", b"\xff"])
    text = text.replace(old, new, 1)
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def swapped(rng, path):
    """Two tensors of one shape change places; the checksum stays."""
    content, held = opened(path)
    names = [a for a in held if sum(held[b].shape == held[a].shape for b in held) > 1]
    a = pick(rng, names)
    same = [
        b for b in names if held[b].shape == held[a].shape and not torch.equal(held[a], held[b])
    ]
    if not same:
        return flipped(rng, path)
    b = pick(rng, same)
    seal = _seal(path.read_bytes())
    made = sealed(content, held | {a: held[b], b: held[a]})
    return made.replace(_seal(made), seal)


def fields(rng, path):
    """A field of the JSON has another value, is missing, is new or is nested deeply."""
    content, held = opened(path)
    places = [*_places(content)]
    for _ in range(int(rng.integers(1, 3))):
        parent, key = pick(rng, places)
        value = pick(rng, VALUES)
        if rng.random() < 0.1:
            value = json.loads("[" * 400 + "]" * 400)
        if rng.random() < 0.15 and isinstance(parent, dict):
            parent.pop(key, None)
        elif rng.random() < 0.1 and isinstance(parent, dict):
            parent["more"] = value
        else:
            parent[key] = value
    return sealed(content, held)


def tensors(rng, path):
    """A tensor has another name, shape or type, is missing or is new; the checksum fits."""
    content, held = opened(path)
    name = pick(rng, [*held])
    tensor = held[name]
    ways = [
        lambda: held.pop(name),
        lambda: held.update({name + "x": held.pop(name)}),
        lambda: held.update({name: tensor.to(pick(rng, [torch.int8, torch.float16]))}),
        lambda: held.update({name: torch.cat([tensor.reshape(-1), tensor.reshape(-1)])}),
        lambda: held.update({name: tensor[None]}),
        lambda: held.update(more=torch.zeros(3)),
    ]
    pick(rng, ways)()
    return sealed(content, held)


def _seal(content):
    """The checksum that a file's bytes hold."""
    at = content.index(b"sha256") + len(b'sha256\\": \\"')
    return content[at : at + 64]


def _places(value):
    """Every field of a JSON value, as its parent and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in [*items]:
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)
