"""Table files through the command line: odd cells, separators, encodings, headers and options."""

import gzip
import io
import json

import pandas as pd
from typer.testing import CliRunner

from fuzzing import judge
from fuzzing.tables import pick
from scroll.cli.app import app

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".txt", ".CSV")
HEADERS = ["a", "b", "y", "y", "", " a ", "é", "x.1", '"q"', "n" * 300, "1", "mean"]
CELLS = {
    "numbers": lambda rng: f"{rng.normal():.6g}",
    "integers": lambda rng: str(rng.integers(-9, 9)),
    "counts": lambda rng: str(rng.poisson(3)),
    "labels": lambda rng: pick(rng, ["lo", "mid", "hi"]),
    "booleans": lambda rng: pick(rng, ["True", "False", "true", "FALSE", "0", "1"]),
    "gaps": lambda rng: pick(rng, ["", "NA", "nan", "NULL", "-", "?", "1.5", "2"]),
    "notation": lambda rng: pick(rng, ["1,234", "1e3", "1.5e-320", "0x1F", "1_000", "٣", "1e999",
                                       "1.234,5", "$5", "5%", "inf", "-0", "+7", "1d5", "01"]),
    "dates": lambda rng: f"2020-01-{rng.integers(1, 29):02d}",
    "odd": lambda rng: pick(rng, ["a", "é", "'", '"', "\\", "x" * 100_000, "=1+1", " ",
                                  "a\nb", "\u202e", "None", "🙂"]),
    "constant": lambda rng: "7",
    "huge": lambda rng: pick(rng, ["1e300", "-1e308", "9" * 400, "9223372036854775808"]),
}  # fmt: skip
OPTIONS = [
    ["--likelihood", "poisson"], ["--likelihood", "gaussreg"], ["--likelihood", "normal"],
    ["--task", "classification"], ["--task", "regression"], ["--ordered"],
    ["--levels", "lo,mid,hi"], ["--levels", "lo"], ["--class-weight", "balanced"],
    ["--weight", "c1"], ["--drop", "c0"], ["--drop", "nothing"], ["--routing", "closed"],
    ["--recipe", "paper"], ["--members", "2"], ["--members", "x"], ["--members", "-1"],
    ["--body", "smooth"], ["--body", "8,4"], ["--body", "0"], ["--covariance", "diag"],
    ["--seed", "-1"], ["--max-steps", "0"], ["--json"], ["--unknown"], ["--target"],
]  # fmt: skip


def run(rng, folder):
    """One case: a model from one file, and what it says of another; or refusals of one line."""
    train, model = folder / f"train{suffix(rng)}", folder / "model.scroll"
    other, out = folder / f"later{suffix(rng)}", folder / f"out{pick(rng, SUFFIXES)}"
    made = sheet(rng)
    train.write_bytes(encoded(rng, made, train.name))
    later = made if rng.random() < 0.5 else sheet(rng)
    other.write_bytes(encoded(rng, later, other.name))
    try:
        with judge.watched(folder, expected={model.name, out.name, "out.onnx"}):
            done = fit(rng, train, model)
            if done.exit_code == 0:
                commands(rng, model, other, out)
    finally:
        for path in folder.iterdir():
            path.unlink()
    return "refused" if done.exit_code else "fitted"


def fit(rng, train, model):
    """Fit with a few options, some of which do not exist."""
    words = ["--max-steps", "3", "--body", "linear", "--members", "1"]
    for _ in range(int(rng.choice([0, 0, 0, 1, 1, 2]))):
        words += pick(rng, OPTIONS)
    target = "c0" if rng.random() < 0.9 else pick(rng, ["c1", "c0,c1", "y", "a", "", "nothing"])
    return called("fit", str(train), "--target", target, "-o", str(model), *words)


def commands(rng, model, other, out):
    """What can be asked of a model."""
    json.loads(called("info", str(model), "--json", good=True).stdout)
    printed = called("predict", str(model), str(other))
    if printed.exit_code == 0:
        tabled(pd.read_csv(io.StringIO(printed.stdout)))
    words = pick(rng, [["--interval", "0.5"], ["--quantiles", "0.1,0.9"], ["--ood"], ["--keep"]])
    called("predict", str(model), str(other), "-o", str(out), *words)
    scored = called("evaluate", str(model), str(other), "--json")
    if scored.exit_code == 0:
        json.loads(scored.stdout)
    if rng.random() < 0.03:
        called("export", str(model), str(out.with_name("out.onnx")), good=True)


def tabled(frame):
    """Predictions are finite and as many as there are rows."""
    for name in frame.columns:
        judge.finite(f"column {name}", frame[name].to_numpy())


def called(*words, good=False):
    """A command ends well, or with one line that says why."""
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        judge.refused(done.exception)
        raise judge.Finding(f"traceback: {done.exception!r}")
    shown = f"{words[0]} {words[3:]}: {done.exit_code} {done.stderr[-300:]!r}"
    judge.require(done.exit_code in ((0,) if good else (0, 2)), shown)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    judge.require(len(lines) == (done.exit_code == 2), f"more than one line: {shown}")
    for line in lines:
        judge.worded(line.removeprefix("scroll: "))
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    judge.require(all(len(note) < 2 * judge.LONGEST for note in notes), f"a long note: {shown}")
    return done


def suffix(rng):
    """Mostly one of text."""
    return ".csv" if rng.random() < 0.85 else pick(rng, SUFFIXES)


def sheet(rng):
    """Names and rows of text."""
    rows, count = (
        int(rng.choice([0, 1, 2, 5, *[10] * 4, *[20] * 6, *[40] * 6])),
        int(rng.integers(2, 6)),
    )
    kinds = [pick(rng, ["numbers", "labels", *CELLS]) for _ in range(count)]
    if rng.random() < 0.7:
        kinds[0] = pick(rng, ["numbers", "integers", "counts", "labels", "booleans"])
    names = [f"c{j}" for j in range(count)]
    if rng.random() < 0.1:
        names = [pick(rng, HEADERS) for _ in names]
    cells = [[CELLS[kind](rng) for kind in kinds] for _ in range(rows)]
    if rng.random() < 0.15 and rows:  # one cell of another kind
        cells[int(rng.integers(rows))][int(rng.integers(count))] = CELLS[pick(rng, [*CELLS])](rng)
    return names, cells


def encoded(rng, made, name):
    """The bytes of a file, some of them not as its name says."""
    names, cells = made
    if name.endswith(".parquet") and rng.random() < 0.8:
        into = io.BytesIO()
        frame = pd.DataFrame(cells, columns=names, dtype=object)
        typed = frame.apply(pd.to_numeric, errors="coerce") if rng.random() < 0.5 else frame
        try:
            typed.to_parquet(into)
        except ValueError:  # of names that repeat
            return b""
        return into.getvalue()
    sep = "\t" if "tsv" in name else ","
    sep = sep if rng.random() < 0.96 else pick(rng, [";", "|", "\t", " "])
    lines = [sep.join(quoted(rng, cell, sep) for cell in row) for row in (names, *cells)]
    if rng.random() < 0.1:
        lines = damaged(rng, lines, sep)
    end = pick(rng, ["\n", "\n", "\n", "\r\n", "\r"])
    text = end.join(lines) + (end if rng.random() < 0.8 else "")
    kind = "utf-8" if rng.random() < 0.93 else pick(rng, ["utf-8-sig", "latin-1", "utf-16"])
    content = text.encode(kind, "replace")
    if name.endswith(".gz") and rng.random() < 0.9:
        content = gzip.compress(content)
    if rng.random() < 0.05:
        content = content[: int(rng.integers(len(content) + 1))]
    return content


def quoted(rng, cell, sep):
    """A cell between quotes where it must be, and mostly else as it is."""
    needs = any(mark in cell for mark in (sep, '"', "\n"))
    needs = needs if rng.random() < 0.98 else not needs
    return '"' + cell.replace('"', '""') + '"' if needs else cell


def damaged(rng, lines, sep):
    """Rows that are too long, too short, empty or not closed."""
    at = int(rng.integers(len(lines)))
    ways = [
        lambda: [*lines[:at], lines[at] + sep + "more", *lines[at + 1 :]],
        lambda: [*lines[:at], lines[at].split(sep)[0], *lines[at + 1 :]],
        lambda: [*lines[:at], "", *lines[at:]],
        lambda: [*lines[:at], '"' + lines[at], *lines[at + 1 :]],
        lambda: lines[1:],
        lambda: ["# a remark", *lines],
        lambda: [line + sep for line in lines],
        lambda: [*lines, "\x1a"],
        lambda: [*lines[:at], lines[at] + "\x00", *lines[at + 1 :]],
    ]
    return pick(rng, ways)()
