"""Data sets: where they are found, how they are read, and which files are refused."""

import gzip
import io
import os
import warnings
import zipfile
from http.client import IncompleteRead
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from scroll_paper.data import downloads
from scroll_paper.data.datasets import LABELLED, SETS, UCI, DataSet, checksum, load

DATA = os.environ.get("SCROLL_DATA")
ROWS = np.array([[1.0, 2.0, 0.1], [4.0, 5e-7, -6.0], [7.0, 1 / 3, 9.0], [1.0, 2.0, 0.1]])
AT = "https://publisher.example/toy.zip"


class Publisher:
    """Gives the toy table away, or fails, and counts how often it was asked."""

    def __init__(self):
        self.rows, self.error, self.asked = ROWS, None, 0

    def __call__(self):
        self.asked += 1
        if self.error:
            raise self.error
        return self.rows


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A folder, a $SCROLL_DATA, a cache, a home."""
    monkeypatch.setenv("SCROLL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SCROLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return SimpleNamespace(**{k: tmp_path / k for k in ("folder", "data", "cache", "home")})


@pytest.fixture
def publisher(monkeypatch, places):
    ask = Publisher()
    monkeypatch.setitem(
        SETS, "toy", DataSet("toy.csv.gz", 4, 2, checksum(ROWS), "y", "a,b", AT, ask)
    )
    return ask


def put(place, rows=ROWS, header="a,b,target", file="toy.csv.gz"):
    place.mkdir(exist_ok=True)
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    (place / file).write_bytes(gzip.compress("\n".join(lines).encode()))


def rows_of(table):
    return np.column_stack([table.x, table.y])


def test_the_order_of_places(places, publisher):
    """Each place holds the rows in an order of its own, which the checksum allows."""
    orders = {name: np.roll(ROWS, k, 0) for k, name in enumerate(("folder", "data", "cache"), 1)}
    for name in ("cache", "data", "folder"):
        put(getattr(places, name), orders[name])
    found = lambda *args: rows_of(load("toy", *args)).tolist()
    assert found(places.folder) == orders["folder"].tolist()
    assert found(str(places.folder)) == orders["folder"].tolist()
    assert found() == orders["data"].tolist()
    (places.folder / "toy.csv.gz").unlink()
    assert found(places.folder) == orders["cache"].tolist()  # the folder stands for $SCROLL_DATA
    (places.data / "toy.csv.gz").unlink()
    assert found() == orders["cache"].tolist()
    assert publisher.asked == 0
    (places.cache / "toy.csv.gz").unlink()
    assert found() == ROWS.tolist()
    assert publisher.asked == 1


def test_a_download_is_announced_and_kept_to_the_last_digit(places, publisher):
    said = []
    first = load("toy", say=said.append)
    assert said == [f"Downloading toy.csv.gz from {AT} into {places.cache}"]
    assert [path.name for path in places.cache.iterdir()] == ["toy.csv.gz"]
    again = load("toy", say=said.append)
    assert len(said) == publisher.asked == 1
    assert again.name == "toy"
    assert again.columns == ("a", "b")
    assert again.x.shape == (4, 2)
    assert again.x.dtype == again.y.dtype == np.float64
    for table in (first, again):
        assert rows_of(table).tolist() == ROWS.tolist()


def test_without_variables_the_cache_is_in_the_home(places, publisher, monkeypatch):
    monkeypatch.delenv("SCROLL_DATA")
    monkeypatch.delenv("SCROLL_CACHE")
    load("toy")
    assert (places.home / ".cache" / "scroll" / "toy.csv.gz").is_file()
    put(places.home, ROWS[::-1])
    assert rows_of(load("toy", "~")).tolist() == ROWS[::-1].tolist()
    assert publisher.asked == 1


@pytest.mark.parametrize("broken", ["savetxt", "replace"])
def test_a_failing_write_leaves_nothing(places, publisher, monkeypatch, broken):
    def full(file, *rest, **how):
        if broken == "savetxt":
            file.write("1.0,2.")
        raise OSError("No space left on device")

    monkeypatch.setattr(*((np, "savetxt") if broken == "savetxt" else (os, "replace")), full)
    with pytest.raises(OSError, match="No space left"):
        load("toy")
    assert list(places.cache.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        URLError("Name or service not known"),
        TimeoutError("timed out"),
        IncompleteRead(b"", 9),
        zipfile.BadZipFile("File is not a zip file"),
        KeyError("data.txt"),
        ValueError("could not convert string '<html>' to float64"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_offline_and_missing_is_one_clear_error(places, publisher, error):
    publisher.error = error
    with pytest.raises(FileNotFoundError) as caught:
        load("toy")
    assert str(caught.value) == (
        f"`toy.csv.gz` must lie in {places.data} or {places.cache}, or come from {AT}, but got "
        f"no such file, and from there {type(error).__name__}: {error}. "
        "Go online, or set SCROLL_DATA to a folder that holds it."
    )
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert not places.cache.exists()


def test_warnings_of_a_download_are_not_passed_on(places, publisher, monkeypatch):
    def warned():
        warnings.warn("A network error occurred. Retrying", stacklevel=1)
        return ROWS

    monkeypatch.setitem(SETS, "toy", SETS["toy"]._replace(read=warned))
    assert load("toy").y.tolist() == ROWS[:, -1].tolist()


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"^`name` must be one of 'yacht', .*but got 'wine_red'"):
        load("wine_red")


def changed(at, value):
    rows = ROWS.copy()
    rows[at] = value
    return rows


WRONG = {
    "a row less": (ROWS[:-1], r"have shape \(4, 3\), target last, but got \(3, 3\)"),
    "a column less": (ROWS[:, 1:], r"have shape \(4, 3\), target last, but got \(4, 2\)"),
    "nan": (changed((1, 2), np.nan), "be finite, but got 1 NaN or infinite values"),
    "inf": (changed((slice(2), 0), np.inf), "be finite, but got 2 NaN or infinite values"),
    "a cell": (changed((0, 0), 1.001), "have checksum [0-9a-f]{16}, but got [0-9a-f]{16}"),
    "columns": (ROWS[:, [1, 0, 2]], "have checksum [0-9a-f]{16}, but got [0-9a-f]{16}"),
    "another row twice": (ROWS[[0, 1, 2, 2]], "have checksum [0-9a-f]{16}, but got [0-9a-f]{16}"),
}


@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_table_is_refused_wherever_it_is(places, publisher, rows, message):
    publisher.rows = rows
    with pytest.raises(ValueError, match=rf"^`toy.csv.gz` must {message}\. {AT} has changed; set"):
        load("toy")
    assert not places.cache.exists()
    put(places.data, rows)
    remedy = f"Remove {places.data / 'toy.csv.gz'} to have it downloaded"
    with pytest.raises(ValueError, match=rf"^`toy.csv.gz` must {message}\. {remedy}\.$"):
        load("toy")


WHOLE = gzip.compress(("a,b,target\n" + "1,2,3\n" * 999).encode())
NOT_OURS = {
    "words": (gzip.compress(b"a,b,target\n1,two,3\n"), "a gzip CSV of numbers, but got .*'two'"),
    "ragged": (gzip.compress(b"a,b,target\n1,2,3\n1,2\n"), "a gzip CSV of numbers, but got .* 2"),
    "plain text": (b"a,b,target\n1,2,3\n", "a gzip CSV of numbers, but got .*Not a gzipped file"),
    "cut short": (WHOLE[:-9], "a gzip CSV of numbers, but got .*ended before"),
    "garbled": (WHOLE[:20] + b"\xff" * 9 + WHOLE[29:], "a gzip CSV of numbers, but got .*"),
    "binary": (gzip.compress(b"\xff\xfe\x00"), "a gzip CSV of numbers, but got .*decode"),
    "no header": (gzip.compress(b"1,2,3\n"), "the header a,b,target, but got 1,2,3"),
    "names": (gzip.compress(b"b,a,target\n1,2,3\n"), "the header a,b,target, but got b,a,target"),
    "one line": (gzip.compress(b"x" * 999), "the header a,b,target, but got x{99}"),
    "nothing": (gzip.compress(b""), "the header a,b,target, but got nothing"),
    "only a header": (
        gzip.compress(b"a,b,target\n"),
        r"shape \(4, 3\), target last, but got \(0, ",
    ),
}


@pytest.mark.parametrize(("content", "message"), NOT_OURS.values(), ids=NOT_OURS)
def test_a_file_that_is_not_such_a_table_is_refused(places, publisher, content, message):
    places.data.mkdir()
    (path := places.data / "toy.csv.gz").write_bytes(content)
    want = rf"^`toy.csv.gz` must (be|have) {message}.*(?<!\.)\. Remove {path} to have it downloaded"
    with pytest.raises(ValueError, match=want) as caught:
        load("toy")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ == ("gzip CSV" in message)


def test_the_checksum_is_of_the_values_alone():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 4)).round(1)
    assert checksum(rng.permutation(rows)) == checksum(rows)
    assert checksum(np.asfortranarray(rows)) == checksum(rows)
    assert checksum(rows * (1 + 1e-15)) == checksum(rows)
    assert checksum(np.zeros((2, 2))) == checksum(-np.zeros((2, 2)))
    others = [rows[:, ::-1], rows[1:], rows * (1 + 1e-6), rng.permuted(rows, axis=0)]
    assert len({checksum(r) for r in (rows, *others)}) == 5


def test_the_registry():
    assert UCI == ("yacht", "concrete", "energy", "kin8nm", "naval", "power", "wine", "boston")
    others = ("wine_white", "california", "protein", "year", "flights")
    tables = {name: spec for name, spec in SETS.items() if not spec.encoder}
    assert set(tables) == {*UCI, *others, *LABELLED, "wine_six"}
    files = {"wine": "wine_red", "wine_six": "wine_quality"}
    for name, spec in tables.items():
        end = "npz" if name == "flights" else "csv.gz"
        assert spec.file == f"{files.get(name, name)}.{end}"
        assert (spec.classes > 1) == (name in (*LABELLED, "wine_six"))
        assert spec.features == len(set(spec.columns.split(",")))
        assert (spec.checksum is None) == (name == "year")


def zipped(member, text):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("Readme.txt", "words")
        archive.writestr(f"UCI/{member}", text)
        archive.writestr(f"__MACOSX/UCI/._{member}", "\0")
    return file.getvalue()


def lines(rows, delimiter=",", header=(), form=str):
    body = [delimiter.join(map(form, row)) for row in rows]
    return "\r\n".join([*header, *body, ""])


def wine(rows):
    return lines(rows, ";", ['"fixed acidity";"volatile acidity";"quality"'])


def spaced(rows):
    return lines(rows, "   ", form="{:.7e}".format) + " \n"


def first(rows):
    return np.roll(rows, 1, 1)


def more(rows):
    return np.column_stack([rows, -rows[:, -1]])


PUBLISHED = {  # the end of the address, and the table as it lies there
    "yacht": ("/243/yacht+hydrodynamics.zip", "yacht_hydrodynamics.data", spaced),
    "concrete": ("/165/data.csv", None, lambda r: lines(r, header=["Cement,Age"])),
    "energy": ("/242/data.csv", None, lambda r: lines(more(r), header=["X1,Y1,Y2"])),
    "naval": (
        "/316/condition+based+maintenance+of+naval+propulsion+plants.zip",
        "data.txt",
        lambda r: spaced(more(r)),
    ),
    "power": ("/294/data.csv", None, lambda r: lines(r, header=["AT,V,AP,RH,PE"])),
    "wine": ("/186/wine+quality.zip", "winequality-red.csv", wine),
    "wine_white": ("/186/wine+quality.zip", "winequality-white.csv", wine),
    "protein": (
        "/265/physicochemical+properties+of+protein+tertiary+structure.zip",
        "CASP.csv",
        lambda r: lines(first(r), header=["RMSD,F1"]),
    ),
    "year": ("/203/yearpredictionmsd.zip", "YearPredictionMSD.txt", lambda r: lines(first(r))),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_tables_of_uci(name, places, monkeypatch):
    end, member, text = PUBLISHED[name]
    spec = SETS[name]
    rows = np.arange(3.0 * (spec.features + 1)).reshape(3, -1) / 8
    data = zipped(member, text(rows)) if member else text(rows).encode()
    asked = []
    monkeypatch.setattr(
        downloads, "urlopen", lambda url, timeout: asked.append(url) or io.BytesIO(data)
    )
    monkeypatch.setitem(SETS, name, spec._replace(rows=3, checksum=checksum(rows)))
    assert rows_of(load(name)).tolist() == rows.tolist()
    assert asked == [spec.at]
    assert spec.at == f"https://archive.ics.uci.edu/static/public{end}"


@pytest.mark.parametrize(("name", "number"), [("kin8nm", 189), ("boston", 531)])
def test_tables_of_openml_come_with_levels_for_codes(name, number, places, monkeypatch):
    spec = SETS[name]
    rows = np.arange(3.0 * (spec.features + 1)).reshape(3, -1)
    names = spec.columns.upper().split(",")
    rows[:, 3], rows[:, 4] = [24, 1, 5], [0, 1, 0]
    coded = rows[:, :-1].copy()
    coded[:, 3] = [2, 0, 1]

    def fetch_openml(*, data_id, as_frame, parser, cache):
        assert (data_id, as_frame, parser, cache) == (number, False, "liac-arff", False)
        levels = {names[3]: ["1", "5", "24"], names[4]: ["0", "1"]}
        return SimpleNamespace(
            data=coded, target=rows[:, -1], feature_names=names, categories=levels
        )

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    monkeypatch.setitem(SETS, name, spec._replace(rows=3, checksum=checksum(rows)))
    assert rows_of(load(name)).tolist() == rows.tolist()
    assert spec.at == f"https://www.openml.org/d/{number}"


def test_california_comes_from_scikit_learn(places, monkeypatch):
    rows = np.arange(27.0).reshape(3, 9)
    fetch = lambda return_X_y: (rows[:, :-1], rows[:, -1])
    monkeypatch.setattr("sklearn.datasets.fetch_california_housing", fetch)
    replaced = SETS["california"]._replace(rows=3, checksum=checksum(rows))
    monkeypatch.setitem(SETS, "california", replaced)
    assert rows_of(load("california")).tolist() == rows.tolist()


real = pytest.mark.skipif(DATA is None, reason="$SCROLL_DATA names no folder of real tables")


@real
@pytest.mark.parametrize("name", [n for n, s in SETS.items() if s.file != "year.csv.gz"
                                  and s.file.endswith(".csv.gz")])  # fmt: skip
def test_real_tables_are_themselves_and_a_changed_cell_shows(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SCROLL_CACHE", str(tmp_path / "cache"))
    spec, table = SETS[name], load(name)
    assert table.x.shape == (spec.rows, spec.features)
    assert table.y.shape == (spec.rows,)
    assert not (tmp_path / "cache").exists()
    table.x[spec.rows // 2, 0] += 1
    put(tmp_path, rows_of(table), spec.header, spec.file)
    with pytest.raises(ValueError, match=f"have checksum {spec.checksum}"):
        load(name, tmp_path)


NLL = {
    "yacht": 4.174,
    "concrete": 4.224,
    "energy": 3.731,
    "kin8nm": 0.084,
    "naval": -2.797,
    "power": 4.255,
    "wine": 1.197,
    "boston": 3.642,
}


@real
@pytest.mark.parametrize("name", UCI)
def test_the_mean_predictor_scores_as_published(name):
    """N(mean, var) of the training targets, on test rows of the benchmark's own splits."""
    y, scores = load(name).y, []
    for seed in range(5, 25):
        rest, test = train_test_split(range(len(y)), test_size=0.2, random_state=seed)
        fold, _ = train_test_split(rest, test_size=0.25, random_state=seed)
        mean, var = y[fold].mean(), y[fold].var()
        scores.append(0.5 * np.mean(np.log(2 * np.pi * var) + (y[test] - mean) ** 2 / var))
    assert round(float(np.mean(scores)), 3) == NLL[name]


def test_labels_of_openml_are_coded_in_the_order_of_the_set(places, monkeypatch):
    spec = SETS["vehicle"]
    rows = np.arange(4.0 * (spec.features + 1)).reshape(4, -1)
    rows[:, -1] = [2, 0, 3, 1]

    def fetch_openml(*, data_id, as_frame, parser, cache):
        assert data_id == 54
        target = np.array(["bus", "opel", "van", "saab"], object)
        return SimpleNamespace(
            data=rows[:, :-1], target=target, feature_names=spec.columns.split(","), categories={}
        )

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    monkeypatch.setitem(SETS, "vehicle", spec._replace(rows=4, checksum=checksum(rows)))
    for _ in range(2):  # from there, and then from the cache
        table = load("vehicle")
        assert table.classes == 4
        assert table.y.tolist() == [0, 1, 3, 2]  # by name: bus, opel, saab, van


@real
def test_the_levels_of_wine():
    six, three = load("wine_six"), load("wine_quality")
    assert np.bincount(six.y.astype(int)).tolist() == [10, 53, 681, 638, 199, 18]
    assert np.bincount(three.y.astype(int)).tolist() == [744, 638, 217]
    assert (three.classes, six.classes) == (3, 6)
    assert three.x.tolist() == six.x.tolist()


@real
@pytest.mark.parametrize("name", [*LABELLED, "wine_six"])
def test_labels_are_those_of_the_classes(name):
    table = load(name)
    assert set(table.y.tolist()) == set(range(SETS[name].classes))
