"""A model file that was altered is refused in one line, before anything is built from it."""

import json
import struct
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import scroll
from altered import little_memory, opened, sealed
from scroll import ScrollClassifier, ScrollRegressor
from scroll._core.archive import UNSEALED, VERSION, pack, unpack
from scroll.estimators import modelfile
from scroll.estimators.modelfile import FORMAT
from scroll.estimators.spec import Spec, declared

pytestmark = pytest.mark.filterwarnings("ignore::scroll.estimators.CollapsedNoise")
QUICK = {"max_steps": 4, "random_state": 0, "n_members": 1}
REFUSED = r"^`\S+` must be a model that scroll has saved, but got [^\n]{1,400}\. Save it again\.$"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("models")
    x, two = rng.normal(size=(60, 3)), QUICK | {"n_members": 2}
    made = {
        "numbers": ScrollRegressor(body="smooth", **two).fit(x, x[:, 0]),
        "widths": ScrollRegressor(body=(8, 4), **QUICK).fit(x, x[:, 0]),
        "labels": ScrollClassifier(**two).fit(x, x[:, 0] > 0),
        "order": ScrollClassifier(ordered=True, body="linear", **QUICK).fit(
            x, np.repeat(["a", "b", "c"], 20)
        ),
    }
    for name, model in made.items():
        model.save(folder / name)
    return {name: folder / name for name in made}


def refused(content, folder):
    """Refuse bytes in one line and with little memory."""
    altered = folder / "altered.scroll"
    altered.write_bytes(content)
    with little_memory(2**28), pytest.raises(ValueError, match=REFUSED) as caught:
        scroll.load(altered)
    assert "memory" not in str(caught.value)
    return str(caught.value)


def into(content, place, value):
    """Put a value at a place such as "spec.layout.knots"; a missing value removes the field."""
    *parents, last = place.split(".")
    for name in parents:
        content = content[int(name) if name.isdigit() else name]
    if value is ...:
        del content[last]
    else:
        content[int(last) if last.isdigit() else last] = value


SIZES = [
    ("numbers", "spec.outputs", 20_000),
    ("numbers", "spec.layout.numbers", 2_000_000),
    ("numbers", "spec.layout.numbers", 10_000),
    ("numbers", "spec.layout.marks", 10_000),
    ("numbers", "spec.layout.knots", 50_000_000),
    ("numbers", "spec.layout.knots", 30_000),
    ("numbers", "spec.parts.0.1", ["free"] * 3_000),
    ("numbers", "spec.parts.0.0", "matern"),
    ("numbers", "spec.body", [20_000, 20_000]),
    ("widths", "spec.body", [20_000, 4]),
    ("widths", "spec.body", [8, 20_000]),
    ("widths", "spec.body", [8] * 2_000),
    ("labels", "spec.outputs", 20_000),
    ("order", "spec.outputs", 20_000),
    ("order", "spec.covariance", "lowrank"),
    ("labels", "classes.1", list(range(20_000))),
]


@pytest.mark.parametrize(("name", "place", "value"), SIZES, ids=[f"{n}-{p}" for n, p, _ in SIZES])
def test_declared_sizes_are_compared_with_the_tensors_first(name, place, value, files, tmp_path):
    content, tensors = opened(files[name])
    into(content, place, value)
    if place == "spec.parts.0.1":
        content["fitted"]["scores"] = [0.0] * len(value)
    if place == "spec.body":
        content["spec"]["parts"][0][0] = "x".join(map(str, value))
    refused(sealed(content, tensors), tmp_path)


def test_a_thousand_parts_are_refused(files, tmp_path):
    content, tensors = opened(files["numbers"])
    content["spec"]["parts"] *= 1000
    content["fitted"]["scores"] *= 1000
    refused(sealed(content, tensors), tmp_path)


FIELDS = [
    ("versions", ...),
    ("versions", {"scroll": 1, "torch": "2"}),
    ("estimator", "os.system"),
    ("estimator", "ScrollClassifier"),
    ("spec.lapse", 0.5),
    ("spec.power", "1"),
    ("spec.beta", float("nan")),
    ("spec.noise", 0),
    ("spec.outputs", 2**70),
    ("spec.outputs", 1e400),
    ("spec.outputs", True),
    ("spec.outputs", -1),
    ("spec.outputs", "1"),
    ("spec.layout", ...),
    ("spec.layout.columns", 4),
    ("spec.unknown", 1),
    ("spec.parts", []),
    ("spec.parts.0.0", "deep"),
    ("spec.parts.0.1", ["os"]),
    ("spec.likelihood", "poisson"),
    ("parameters.likelihood", "poisson"),
    ("parameters.evil", 1),
    ("parameters.beta", ...),
    ("parameters.beta", {"pairs": 1}),
    ("table.columns", []),
    ("table.columns.0.kind", "categorical"),
    ("table.columns.0.missing", True),
    ("table.named", True),
    ("classes", ["int64", [0, 1]]),
    ("targets", ["a", "b"]),
    ("fitted.scores", [0.5]),
    ("fitted.n_iter", -1),
    ("table", json.loads("[" * 500 + "]" * 500)),
]


@pytest.mark.parametrize(("place", "value"), FIELDS, ids=[f"{p}-{v}"[:40] for p, v in FIELDS])
def test_a_field_that_does_not_fit_is_refused(place, value, files, tmp_path):
    content, tensors = opened(files["numbers"])
    into(content, place, value)
    refused(sealed(content, tensors), tmp_path)


CLASSES = [
    ["bool", [False]],
    ["bool", [False, 2]],
    ["int8", [0, 1000]],
    ["int64", [0, 2**70]],
    ["int64", [0, 0]],
    ["str99999999", ["a", "b"]],
    ["object", ["a", 1]],
]


@pytest.mark.parametrize("classes", CLASSES, ids=str)
def test_classes_that_do_not_fit_are_refused(classes, files, tmp_path):
    content, tensors = opened(files["labels"])
    content["classes"] = classes
    refused(sealed(content, tensors), tmp_path)


def renamed(tensors):
    tensors["other"] = tensors.pop("shift")


TENSORS = {
    "renamed": renamed,
    "missing": lambda tensors: tensors.pop("shift"),
    "too large": lambda tensors: tensors.update(shift=torch.zeros(3)),
    "of another type": lambda tensors: tensors.update(shift=tensors["shift"].float()),
    "not a number": lambda tensors: tensors["scale"].fill_(torch.nan),
    "beyond the columns": lambda tensors: tensors["encoder.numeric"].fill_(99),
}


@pytest.mark.parametrize("change", TENSORS.values(), ids=TENSORS)
def test_tensors_that_do_not_fit_are_refused(change, files, tmp_path):
    content, tensors = opened(files["numbers"])
    change(tensors)
    refused(sealed(content, tensors), tmp_path)


@pytest.mark.parametrize(
    "text", ["[" * 10**6, "[1, 2]", "{", "9" * 10**5, '{"version": 1}', "null"]
)
def test_metadata_that_are_not_ours_are_refused(text, tmp_path):
    save_file({"a": torch.zeros(1)}, tmp_path / "made", metadata={FORMAT: text})
    refused((tmp_path / "made").read_bytes(), tmp_path)


def test_files_of_the_format_before_are_refused_in_words(files, tmp_path):
    content, tensors = opened(files["numbers"])
    old = json.dumps({"format": FORMAT, "version": 1} | content)
    save_file(tensors, tmp_path / "made", metadata={FORMAT: old})
    message = refused((tmp_path / "made").read_bytes(), tmp_path)
    assert f"version 1 of the format instead of {VERSION}" in message


def test_every_changed_byte_is_noticed(files, tmp_path):
    whole = files["widths"].read_bytes()
    rng = np.random.default_rng(0)
    (header,) = struct.unpack("<Q", whole[:8])
    end = len(whole[: 8 + header].rstrip())  # spaces after the header hold nothing
    places = [*rng.integers(0, end, 30), *rng.integers(8 + header, len(whole), 70)]
    for place in places:
        altered = bytearray(whole)
        altered[place] ^= 1 << int(rng.integers(8))
        refused(bytes(altered), tmp_path)


def test_swapped_tensors_are_noticed(files, tmp_path):
    content, tensors = opened(files["numbers"])
    whole, seal = files["numbers"].read_bytes(), unpack(files["numbers"], FORMAT).checksum
    same = {}
    for name, tensor in tensors.items():
        same.setdefault((tensor.dtype, tensor.shape), []).append(name)
    pairs = [pair for names in same.values() for pair in pairwise(names)]
    pairs = [(a, b) for a, b in pairs if not torch.equal(tensors[a], tensors[b])]
    assert len(pairs) > 5
    for a, b in pairs:
        swapped = sealed(content, tensors | {a: tensors[b], b: tensors[a]})
        assert len(swapped) == len(whole)
        fresh = unpacked_seal(swapped, tmp_path)
        message = refused(swapped.replace(fresh.encode(), seal.encode()), tmp_path)
        assert "its checksum does not match" in message


def unpacked_seal(content, folder):
    (folder / "seal").write_bytes(content)
    return unpack(folder / "seal", FORMAT).checksum


@pytest.mark.parametrize("name", ["numbers", "widths", "labels", "order"])
def test_the_same_model_gives_the_same_bytes(name, files, tmp_path):
    loaded = scroll.load(files[name])
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == files[name].read_bytes()
    content, tensors = opened(files[name])
    assert sealed(content, tensors) == files[name].read_bytes()


def test_declared_sizes_are_those_of_the_model(files):
    for path in files.values():
        model, tensors = scroll.load(path), opened(path)[1]
        shapes, bodies = declared(model.model_.spec)
        assert {name: tuple(tensors[name].shape) for name in shapes} == shapes
        for start, numbers in bodies.items():
            assert numbers == sum(t.numel() for n, t in tensors.items() if n.startswith(start))


def test_the_description_names_every_field_of_a_spec(files):
    names = {field.name for field in fields(Spec)}
    content, _ = opened(files["numbers"])
    assert {*content["spec"]} == names
    assert modelfile.spec(10**9)(content["spec"]) is None


def test_a_users_large_body_is_not_copied_for_members_that_are_not_there(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 3))
    body = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
    ScrollRegressor(body=body, **QUICK).fit(x, x[:, 0]).save(tmp_path / "model")
    content, tensors = opened(tmp_path / "model")
    content["spec"]["parts"][0][1] *= 3000
    content["fitted"]["scores"] *= 3000
    (tmp_path / "model").write_bytes(sealed(content, tensors))
    large = nn.Sequential(nn.Linear(3, 10**5), nn.Linear(10**5, 8))
    with little_memory(2**28), pytest.raises(ValueError, match="does not fit together"):
        scroll.load(tmp_path / "model", body=large)


def test_a_body_is_not_taken_for_a_model_that_has_one(files):
    with pytest.raises(ValueError, match="`body` must be left out"):
        scroll.load(files["numbers"], body=nn.Linear(3, 8))


def test_what_a_file_cannot_hold_is_refused_before_it_is_written(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 2))
    model = ScrollRegressor(body="linear", **QUICK).fit(x, x[:, 0]).set_params(verbose=b"1")
    with pytest.raises(ValueError, match=r"`estimator` must have plain .*\['verbose'\]"):
        model.save(tmp_path / "model")
    assert not [*tmp_path.iterdir()]


def test_the_checksum_covers_names_types_shapes_and_bytes():
    base = {"a": torch.zeros(2, 3), "b": torch.ones(2, 3)}
    others = [
        {"a": torch.zeros(2, 3), "c": torch.ones(2, 3)},
        {"a": torch.zeros(3, 2), "b": torch.ones(2, 3)},
        {"a": torch.zeros(2, 3, dtype=torch.int32), "b": torch.ones(2, 3)},
        {"a": torch.ones(2, 3), "b": torch.zeros(2, 3)},
    ]
    made = [pack("kind", {"k": 1}, tensors) for tensors in (base, *others)]
    made.append(pack("kind", {"k": 2}, base))
    seals = {content[content.index(b"sha256") :][:90] for content in made}
    assert len(seals) == len(made)
    assert not any(UNSEALED.encode() in content for content in made)
