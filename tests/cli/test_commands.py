"""`scroll fit`, `predict`, `evaluate`, `export` and `info`: correct use and user errors."""

import gzip
import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import integrate, stats
from typer.testing import CliRunner

from scroll.cli import table_files
from scroll.cli.app import app
from scroll.estimators import CollapsedNoise, ScrollClassifier, ScrollRegressor
from scroll.estimators.loading import load
from scroll.factors import Poisson
from scroll.predictive import Categorical, Count, CountMixture, Mixture, Normal, metrics

pytestmark = pytest.mark.oldest

runner = CliRunner()
FAST = ("--max-steps", "20", "--body", "16")
INPUTS = ["a", "b", "kind", "flag"]


def made(n=60, seed=0):
    """Numbers, text, booleans and gaps; targets of every sort."""
    r = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": r.normal(size=n), "b": r.normal(size=n)})
    frame["kind"], frame["flag"] = r.choice(["x", "y", "1"], n), r.random(n) < 0.5
    frame["price"] = 50 + 10 * frame["b"] + r.normal(size=n)
    frame["size"], frame["visits"] = frame["b"] ** 2, r.poisson(np.exp(frame["b"]))
    frame["name"] = np.where(frame["b"] > 0, "up", "down")
    frame["sold"], frame["stars"] = frame["b"] > 0, (frame["b"] > 0) + 2 * (frame["b"] > 1)
    frame.loc[3, "a"] = np.nan
    frame.loc[4, "kind"] = None
    return frame


def scroll(*words):
    return runner.invoke(app, list(map(str, words)))


def fit(train, target, output, *words):
    return scroll("fit", train, "--target", target, "-o", output, *FAST, *words)


def good(done):
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(done, *words):
    """Exit code 2, one line that says why, and nothing else."""
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    assert done.stdout == ""
    last = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert len(last) == 1
    assert last[0].startswith("scroll: `")
    assert "` must " in last[0]
    assert ", but got " in last[0]
    for word in words:
        assert word in last[0]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of each sort."""
    torch.set_default_dtype(torch.float32)
    folder, frame = tmp_path_factory.mktemp("models"), made()
    cases = {
        "price": (), "price,size": ("--members", "2"), "name": (), "sold": (),
        "visits": ("--likelihood", "poisson", "--members", "2"),
        "stars": ("--task", "classification", "--ordered"),
    }  # fmt: skip
    for target, words in cases.items():
        frame[[*INPUTS, *target.split(",")]].to_csv(folder / "train.csv", index=False)
        good(fit(folder / "train.csv", target, folder / f"{target}.scroll", *words))
    return folder


@pytest.fixture(autouse=True)
def _a_place_of_its_own(tmp_path, monkeypatch):
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    made().to_csv("all.csv", index=False)
    made()[[*INPUTS, "price"]].to_csv("train.csv", index=False)
    made(25, 1)[INPUTS].to_csv("new.csv", index=False)


def test_fit_says_what_was_made_and_json_says_the_same():
    shown = good(fit("train.csv", "price", "model.scroll"))
    told = json.loads(good(fit("train.csv", "price", "again.scroll", "--json")))
    assert told["task"] == "regression"
    assert told["because"] == "the target holds numbers"
    assert (told["rows"], told["columns"], told["targets"]) == (60, 4, ["price"])
    for word in (
        "regression",
        "60",
        *told["bodies"],
        *told["routes"],
        f"{told['held_out_nll']:.4g}",
    ):
        assert word in shown
    model, same = load("model.scroll"), load("again.scroll")
    assert model.target_names_ == ["price"]
    assert list(model.feature_names_in_) == INPUTS
    new = pd.read_csv("new.csv")
    np.testing.assert_array_equal(model.predict(new), same.predict(new))
    assert good(fit("train.csv", "price", "model.scroll", "--quiet")) == ""


def test_a_held_out_score_is_in_the_targets_own_units():
    """Prices in pounds and in pence differ by log 100."""
    frame = pd.read_csv("train.csv")
    frame.assign(price=100 * frame["price"]).to_csv("pence.csv", index=False)
    words = ("price", "m.scroll", "--json", "--routing", "closed", "--eval")
    told = [json.loads(good(fit(file, *words, file))) for file in ("train.csv", "pence.csv")]
    first, second = (each["held_out_nll"] for each in told)
    assert second - first == pytest.approx(np.log(100), abs=1e-3)  # rows come in another order


@pytest.mark.parametrize(
    ("target", "words", "task"),
    [
        ("name", (), "classification"), ("sold", (), "classification"), ("stars", (), "regression"),
        ("stars", ("--task", "classification"), "classification"), ("visits", (), "regression"),
        ("stars", ("--likelihood", "ordinal"), "classification"),
        ("stars", ("--ordered",), "classification"),
        ("visits", ("--likelihood", "negbinomial"), "regression"),
    ],
)  # fmt: skip
def test_text_and_booleans_are_classified_and_numbers_regressed(target, words, task):
    made()[[*INPUTS, target]].to_csv("train.csv", index=False)
    told = json.loads(good(fit("train.csv", target, "m.scroll", "--json", *words)))
    assert told["task"] == task
    assert ("classes" in told) == (task == "classification")
    kind = ScrollClassifier if task == "classification" else ScrollRegressor
    assert isinstance(load("m.scroll"), kind)


def test_options_reach_the_estimator(monkeypatch):
    made().assign(w=2.0).to_csv("all.csv", index=False)
    made(20, 2).to_csv("valid.csv", index=False)
    seen = {}

    def spy(self, X, y, sample_weight=None, eval_set=None):
        seen.update(params=self.get_params(), X=X, y=y, weight=sample_weight, held=eval_set)
        return real(self, X, y, sample_weight, eval_set)

    real = ScrollRegressor.fit
    monkeypatch.setattr(ScrollRegressor, "fit", spy)
    good(
        fit("all.csv", "price,size", "m.scroll", "--drop", "visits, name,sold", "--weight", "w",
            "--eval", "valid.csv", "--members", "2", "--covariance", "diag", "--routing", "free",
            "--body", "8,4", "--seed", "7", "--quiet")
    )  # fmt: skip
    wanted = {"n_members": 2, "covariance": "diag", "routing": "free", "body": (8, 4),
              "random_state": 7, "max_steps": 20, "recipe": "default", "verbose": 0}  # fmt: skip
    assert seen["params"].items() >= wanted.items()
    assert list(seen["X"]) == [*INPUTS, "stars"]
    assert seen["y"].shape == (60, 2)
    assert set(seen["weight"]) == {2.0}
    assert list(seen["held"][0]) == [*INPUTS, "stars"]
    assert seen["held"][1].shape == (20, 2)


def test_a_collapse_is_a_note_and_no_python_warning(monkeypatch):
    real = ScrollRegressor.fit

    def collapsing(self, *rest, **named):
        warnings.warn("The noise\nhas collapsed.", CollapsedNoise, stacklevel=1)
        return real(self, *rest, **named)

    monkeypatch.setattr(ScrollRegressor, "fit", collapsing)
    done = fit("train.csv", "price", "m.scroll")
    good(done)
    assert done.stderr == "note: The noise has collapsed.\n"


def test_an_order_of_words_is_told():
    made()[[*INPUTS, "name"]].to_csv("train.csv", index=False)
    done = fit("train.csv", "name", "m.scroll", "--ordered")
    assert "ordinal" in good(done)
    assert done.stderr == "note: the classes are ordered alphabetically: down < up\n"


def test_predictions_of_a_number(models):
    words = ("--interval", "0.5", "--quantiles", "0.25,0.9", "--ood", "-o", "out.csv")
    done = scroll("predict", models / "price.scroll", "new.csv", *words)
    assert good(done) == done.stderr == ""
    out, x, model = pd.read_csv("out.csv"), pd.read_csv("new.csv"), load(models / "price.scroll")
    assert list(out) == ["mean", "std", "lower", "upper", "q0.25", "q0.9", "ood_score"]
    mean, std = model.predict(x, return_std=True)
    np.testing.assert_allclose(out[["mean", "std"]], np.stack([mean, std], 1))
    np.testing.assert_allclose(out[["lower", "upper"]].T, model.predict_interval(x, 0.5))
    np.testing.assert_allclose(out[["q0.25", "q0.9"]], model.predict_quantiles(x, [0.25, 0.9]))
    np.testing.assert_allclose(out["ood_score"], model.ood_score(x))


def test_predictions_go_to_standard_output(models):
    done = scroll("predict", models / "price.scroll", "new.csv")
    assert done.stderr == ""
    out = pd.read_csv(io.StringIO(good(done)))
    mean = load(models / "price.scroll").predict(pd.read_csv("new.csv"))
    np.testing.assert_allclose(out["mean"], mean)


def test_predictions_of_several_numbers_and_of_counts(models):
    out = pd.read_csv(io.StringIO(good(scroll("predict", models / "price,size.scroll", "new.csv"))))
    each = ("mean", "std", "lower", "upper")
    assert list(out) == [f"{name}_{of}" for name in ("price", "size") for of in each]
    assert (out["price_lower"] < out["price_mean"]).all()
    out = pd.read_csv(io.StringIO(good(scroll("predict", models / "visits.scroll", "new.csv"))))
    assert (out[["lower", "upper"]].dtypes == np.int64).all()  # no decimal point


@pytest.mark.parametrize(
    ("target", "labels"), [("name", ["down", "up"]), ("sold", [False, True]), ("stars", [0, 1, 3])]
)
def test_predictions_of_a_class(models, target, labels):
    done = scroll("predict", models / f"{target}.scroll", "new.csv")
    out = pd.read_csv(io.StringIO(good(done)))
    ends = ["lower", "upper"] if target == "stars" else []
    names = [f"p_{label}" for label in labels]
    assert list(out) == ["prediction", *ends, *names]
    probs = out[names].to_numpy()
    np.testing.assert_allclose(probs.sum(1), 1)
    assert out["prediction"].tolist() == [labels[k] for k in probs.argmax(1)]


def test_columns_are_picked_by_name_and_others_are_named(models):
    new = pd.read_csv("new.csv")
    new.assign(price="?", size=1.0, ID=2)[["ID", "flag", "size", "b", "price", "kind", "a"]].to_csv(
        "mixed.csv", index=False
    )
    done = scroll("predict", models / "price.scroll", "mixed.csv", "--keep")
    expected = "note: mixed.csv has columns that the model does not know, ignored: 'ID', 'size'\n"
    assert done.stderr == expected
    out = pd.read_csv(io.StringIO(good(done)))
    assert list(out)[:8] == ["ID", "flag", "size", "b", "price", "kind", "a", "mean"]
    plain = scroll("predict", models / "price.scroll", "new.csv").stdout
    np.testing.assert_array_equal(out["mean"], pd.read_csv(io.StringIO(plain))["mean"])


def test_what_looks_like_a_number_or_is_new_stays_a_category(models):
    """The text '1' is read as text, '1' or not beside words; other words are unseen, not errors."""
    new = pd.read_csv("new.csv", dtype={"kind": str})
    new["kind"] = ["1"] * 24 + ["x"]
    new.to_csv("words.csv", index=False)
    new.iloc[:24].to_csv("numbers.csv", index=False)
    new.assign(kind="never seen", flag="perhaps").to_csv("unseen.csv", index=False)
    outs = [
        pd.read_csv(io.StringIO(good(scroll("predict", models / "price.scroll", f"{name}.csv"))))
        for name in ("words", "numbers", "unseen")
    ]
    np.testing.assert_array_equal(outs[0]["mean"][:24], outs[1]["mean"])
    assert not np.allclose(outs[0]["mean"], outs[2]["mean"])
    mean = load(models / "price.scroll").predict(new)
    np.testing.assert_allclose(outs[0]["mean"], mean)


def test_a_boolean_beside_other_words_stays_one(models):
    new = pd.read_csv("new.csv")
    flags = ["perhaps", *map(str, new["flag"][1:])]
    new.assign(flag=flags).to_csv("odd.csv", index=False)
    plain, odd = (
        pd.read_csv(io.StringIO(good(scroll("predict", models / "price.scroll", f"{name}.csv"))))
        for name in ("new", "odd")
    )
    np.testing.assert_array_equal(plain["mean"][1:], odd["mean"][1:])


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet"])
def test_every_format_is_read_and_written_alike(models, suffix):
    train, new = made()[[*INPUTS, "price"]], made(25, 1)[INPUTS]
    if suffix == ".parquet":
        train.to_parquet("t.parquet"), new.to_parquet("n.parquet")
    else:
        for name, frame in (("t", train), ("n", new)):
            frame.to_csv(name + suffix, index=False, sep="\t" if suffix == ".tsv" else ",")
    good(fit(f"t{suffix}", "price", "model.scroll"))
    done = scroll("predict", "model.scroll", f"n{suffix}", "-o", f"out{suffix}", "--keep")
    assert good(done) == ""
    if suffix == ".csv.gz":
        assert gzip.decompress(Path("out.csv.gz").read_bytes()).startswith(b"a,b,kind,flag,mean")
    out = table_files.read(Path(f"out{suffix}"))
    pd.testing.assert_frame_equal(out[INPUTS].fillna("gap"), new.fillna("gap"), check_dtype=False)
    np.testing.assert_array_equal(out["mean"], load(models / "price.scroll").predict(new))


def test_what_is_kept_is_kept_as_it_was_written(models):
    new = pd.read_csv("new.csv").iloc[:3].assign(ID=["00125", "NA", ""], n=["3", "", "1e5"])
    new.to_csv("odd.csv", index=False)
    done = scroll("predict", models / "price.scroll", "odd.csv", "--keep")
    lines = [line.split(",") for line in good(done).splitlines()]
    written = [line.split(",") for line in Path("odd.csv").read_text().splitlines()]
    assert [line[: len(written[0])] for line in lines] == written
    good(scroll("predict", models / "price.scroll", "odd.csv", "--keep", "-o", "out.parquet"))
    assert pd.read_parquet("out.parquet")["a"].dtype == float


def test_a_gap_that_training_never_saw_is_noted_once(models):
    pd.read_csv("new.csv").assign(b=np.nan).to_csv("gaps.csv", index=False)
    done = scroll("predict", models / "price.scroll", "gaps.csv", "--ood")
    good(done)
    assert done.stderr.count("note: No value in column 'b', which training never saw") == 1


def test_python_runs_it_as_a_module():
    words = [sys.executable, "-m", "scroll", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "Usage: scroll" in done.stdout


def test_scores_of_a_number(models):
    done = scroll("evaluate", models / "price.scroll", "train.csv", "--json")
    told, frame = json.loads(good(done)), pd.read_csv("train.csv")
    p = load(models / "price.scroll").predict_dist(frame[INPUTS])
    y = torch.as_tensor(frame["price"].to_numpy())
    assert list(told) == ["rows", "nll", "crps", "rmse", "calibration_error", "coverage_90"]
    assert told["rows"] == 60
    for name in ("nll", "crps", "rmse", "calibration_error"):
        assert told[name] == pytest.approx(float(getattr(metrics, name)(p, y)))
    assert told["coverage_90"] == pytest.approx(float(metrics.coverage(p, y, 0.9)))
    shown = good(scroll("evaluate", models / "price.scroll", "train.csv"))
    assert f"{told['crps']:.4g}" in shown


def test_scores_of_several_numbers_and_of_counts(models):
    done = scroll("evaluate", models / "price,size.scroll", "all.csv", "--json")
    told = json.loads(good(done))
    assert told["targets"].keys() == {"price", "size"}
    assert told["targets"]["price"]["rmse"] < 12
    told = json.loads(good(scroll("evaluate", models / "visits.scroll", "all.csv", "--json")))
    assert list(told) == ["rows", "nll", "crps", "rmse", "calibration_error", "coverage_90"]


@pytest.mark.parametrize("target", ["name", "sold", "stars"])
def test_scores_of_a_class(models, target):
    done = scroll("evaluate", models / f"{target}.scroll", "all.csv", "--json")
    told, frame = json.loads(good(done)), pd.read_csv("all.csv", dtype={"kind": str})
    model = load(models / f"{target}.scroll")
    hit = model.predict(frame[INPUTS]) == frame[target].to_numpy()
    ranked = ["ranked_probability_score"] if target == "stars" else []
    assert list(told) == ["rows", "nll", "accuracy", "brier", "ece", *ranked]
    assert told["accuracy"] == pytest.approx(hit.mean())


def test_pictures_are_drawn(models):
    good(scroll("evaluate", models / "price.scroll", "train.csv", "--plots", "a/b"))
    drawn = {"calibration.png", "pit.png", "spread.png", "ood.png"}
    assert {path.name for path in Path("a/b").iterdir()} == drawn
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in Path("a/b").iterdir())
    good(scroll("evaluate", models / "price,size.scroll", "all.csv", "--plots", "c"))
    assert {"size_pit.png", "price_spread.png", "ood.png"} <= {p.name for p in Path("c").iterdir()}


def test_pictures_of_classes_or_without_a_folder_are_refused(models):
    words = ("--plots", "p")
    refused(scroll("evaluate", models / "name.scroll", "all.csv", *words), "`--plots`", "classes")
    Path("p").write_text("mine")
    refused(scroll("evaluate", models / "price.scroll", "train.csv", *words), "`--plots`", "p")
    assert Path("p").read_text() == "mine"


def test_a_model_from_python_is_asked_for_its_target(models):
    frame = pd.read_csv("train.csv")
    model = ScrollRegressor(max_steps=20, body=(16,), random_state=0)
    model.fit(frame[["a", "b"]].fillna(0).to_numpy(), frame["price"]).save("mine.scroll")
    frame[["a", "b", "price"]].to_csv("numbers.csv", index=False)
    refused(
        scroll("evaluate", "mine.scroll", "numbers.csv"), "record its target column", "--target"
    )
    told = good(scroll("evaluate", "mine.scroll", "numbers.csv", "--target", "price", "--json"))
    assert json.loads(told)["rows"] == 60


def test_info_says_what_a_model_knows(models):
    told = json.loads(good(scroll("info", models / "name.scroll", "--json")))
    assert (told["task"], told["classes"], told["targets"]) == (
        "classification", ["down", "up"], ["name"]
    )  # fmt: skip
    kinds = {column["name"]: column["kind"] for column in told["columns"]}
    assert kinds == {"a": "numeric", "b": "numeric", "kind": "categorical", "flag": "categorical"}
    assert told["versions"].keys() == {"scroll", "torch"}
    shown = good(scroll("info", models / "price.scroll"))
    for word in ("regression", "price", "bodies", "routes", "held out nll", "with gaps"):
        assert word in shown


def test_export_hands_over_the_model(models, monkeypatch):
    calls = []
    monkeypatch.setattr(ScrollRegressor, "export_onnx", lambda self, *rest: calls.append(rest))
    good(scroll("export", models / "price.scroll", "m.onnx"))
    good(scroll("export", models / "price.scroll", "m.onnx", "--quantiles", "0.1"))
    path = Path("m.onnx")
    assert calls == [(path, (0.05, 0.5, 0.95)), (path, (0.1,))]
    refused(scroll("export", models / "price.scroll", "no/m.onnx"), "Create no first")
    refused(scroll("export", models / "price.scroll", "m.onnx", "--quantiles", "5"), "--quantiles")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no.csv", "--target", "price"), ["`table` must be a file", "no.csv"]),
        (("train.xls", "--target", "price"), ["must end in .csv", "train.xls"]),
        (("train.csv", "--target", "cost"), ["`--target`", "'cost'", "'a', 'b', 'kind'"]),
        (("train.csv", "--target", ","), ["`--target`"]),
        (("train.csv", "--target", "price", "--weight", "w"), ["`--weight`", "'w'", "'a'"]),
        (("train.csv", "--target", "price", "--drop", "a,c"), ["`--drop`", "'c'"]),
        (("train.csv", "--target", "price", "--drop", "price"), ["`--target`", "once"]),
        (("train.csv", "--target", "price", "--drop", "a,b,kind,flag"), ["learn from"]),
        (("train.csv", "--target", "kind"), ["`kind`", "1 missing", "row 5"]),
        (("train.csv", "--target", "price", "--weight", "a"), ["`a`", "finite"]),
        (("train.csv", "--target", "price", "--task", "guess"), ["`--task`", "'guess'"]),
        (("train.csv", "--target", "price", "--task", "classification"), ["`price`", "fractions"]),
        (("train.csv", "--target", "flag,price"), ["`--target`", "one column of classes"]),
        (("train.csv", "--target", "price", "--ordered"), ["`price`", "fractions"]),
        (("train.csv", "--target", "price", "--levels", "1,2"), ["`price`", "fractions"]),
        (
            ("train.csv", "--target", "price", "--task", "regression", "--ordered"),
            ["`--ordered`", "--task classif"],
        ),
        (
            ("train.csv", "--target", "price", "--class-weight", "balanced"),
            ["`--class-weight`", "--task classif"],
        ),
        (("train.csv", "--target", "flag", "--class-weight", "heavy"), ["`--class-weight`"]),
        (("train.csv", "--target", "flag", "--levels", "False,No"), ["`--levels`", "'No'"]),
        (("train.csv", "--target", "flag", "--levels", "True"), ["`ordered`", "two classes"]),
        (("train.csv", "--target", "price", "--likelihood", "ova"), ["`price`", "fractions"]),
        (("train.csv", "--target", "price", "--likelihood", "odd"), ["`--likelihood`", "'odd'"]),
        (
            ("train.csv", "--target", "price", "--task", "regression", "--likelihood", "ova"),
            ["`--likelihood`", "'ova'", "--task decides"],
        ),
        (
            ("train.csv", "--target", "price", "--likelihood", "poisson"),
            ["`price`", "counts", "row 1 of train.csv"],
        ),
        (("train.csv", "--target", "b", "--likelihood", "poisson"), ["`b`", "counts", "train.csv"]),
        (("train.csv", "--target", "b,price", "--likelihood", "poisson"), ["one column of counts"]),
        (("words.csv", "--target", "n", "--likelihood", "poisson"), ["`n`", "'many' in row 2"]),
        (("minus.csv", "--target", "n", "--likelihood", "poisson"), ["`n`", "-1 in row 3"]),
        (("train.csv", "--target", "price", "--covariance", "big"), ["`--covariance`", "'big'"]),
        (("train.csv", "--target", "price", "--routing", "odd"), ["`routing`", "'odd'"]),
        (("train.csv", "--target", "price", "--recipe", "cake"), ["`recipe`", "'cake'"]),
        (("train.csv", "--target", "price", "--body", "slim"), ["`body`", "'slim'"]),
        (("train.csv", "--target", "price", "--members", "0"), ["`n_members`", "0"]),
        (("train.csv", "--target", "price", "--max-steps", "0"), ["`max_steps`", "0"]),
        (("train.csv", "--target", "price", "--seed", "-1"), ["`--seed`", "-1"]),
        (("train.csv", "--target", "price", "--eval", "new.csv"), ["none called 'price'"]),
        (("empty.csv", "--target", "price"), ["empty.csv", "No columns"]),
        (("header.csv", "--target", "price"), ["header.csv", "hold rows"]),
        (("one.csv", "--target", "name"), ["two classes", "'up'"]),
        (("ragged.csv", "--target", "b"), ["ragged.csv", "be a table that can be read"]),
        (("long.csv", "--target", "b"), ["long.csv", "be a table that can be read"]),
        (("no.parquet", "--target", "b"), ["no.parquet", "be a table that can be read"]),
        (("no.csv.gz", "--target", "b"), ["no.csv.gz", "be a table that can be read"]),
        (("inf.csv", "--target", "b"), ["`b`", "finite", "row 2"]),
        (("semicolons.csv", "--target", "b"), ["commas between its columns", "'a;b'"]),
        (("euro.csv", "--target", "b"), ["labels that repeat", "30 different ones in 30 rows"]),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_line(words, said):
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("a,b,price\n")
    Path("one.csv").write_text("a,name\n1,up\n2,up\n3,up\n")
    Path("ragged.csv").write_text("a,b\n1,2\n3,4,5\n")
    Path("long.csv").write_text("a,b\n1,2,3\n3,4,5\n")
    Path("semicolons.csv").write_text("a;b\n1;2\n3;4\n")
    Path("inf.csv").write_text("a,b\n1,2\n3,inf\n5,6\n")
    Path("euro.csv").write_text("a,b\n" + "".join(f"{i},€{100 + i}\n" for i in range(30)))
    Path("words.csv").write_text("a,n\n1,3\n2,many\n3,0\n")
    Path("minus.csv").write_text("a,n\n1,3\n2,2\n3,-1\n")
    for name in ("no.parquet", "no.csv.gz", "train.xls"):
        Path(name).write_text("nothing of the kind")
    Path("model.scroll").write_text("mine")
    refused(scroll("fit", *words, "-o", "model.scroll", *_without(words)), *said)
    assert Path("model.scroll").read_text() == "mine"


def _without(words):
    """The quick options that `words` do not set."""
    pairs = zip(FAST[::2], FAST[1::2], strict=True)
    return [word for pair in pairs if pair[0] not in words for word in pair]


@pytest.mark.parametrize(
    ("change", "words", "said"),
    [
        (
            lambda f: f.assign(a=[*["oops"] * 3, *f["a"][3:]]),
            (),
            ["numbers in column 'a' of bad.csv", "'oops' in row 1 and 2 more"],
        ),
        (lambda f: f.drop(columns=["b", "kind"]), (), ["none called 'b', 'kind'", "'a', 'flag'"]),
        (lambda f: f.assign(a=np.inf), (), ["finite", "'a'"]),
        (lambda f: f.iloc[:0], (), ["hold rows"]),
        (lambda f: f.assign(mean=1), ("--keep",), ["`--keep`", "'mean'"]),
        (lambda f: f, ("--quantiles", "0.1,2"), ["`--quantiles`", "0.1,2"]),
        (lambda f: f, ("--quantiles", "low"), ["`--quantiles`", "low"]),
        (lambda f: f, ("--interval", "90"), ["`coverage`", "90"]),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_a_line(models, change, words, said):
    change(pd.read_csv("new.csv").astype({"a": object})).to_csv("bad.csv", index=False)
    Path("out.csv").write_text("mine")
    done = scroll("predict", models / "price.scroll", "bad.csv", "-o", "out.csv", *words)
    refused(done, *said)
    assert Path("out.csv").read_text() == "mine"


def test_a_file_that_is_no_model_is_refused():
    Path("other.scroll").write_bytes(b"\x08" + bytes(30))
    for command, *rest in (("info",), ("predict", "new.csv"), ("evaluate", "new.csv"),
                           ("export", "m.onnx")):  # fmt: skip
        refused(scroll(command, "other.scroll", *rest), "other.scroll", "a model that scroll")
        refused(scroll(command, "none.scroll", *rest), "`model` must be a file", "scroll fit")


def test_classes_have_no_quantiles_and_new_ones_no_score(models):
    name = models / "name.scroll"
    refused(scroll("predict", name, "new.csv", "--quantiles", "0.5"), "`--quantiles`")
    refused(scroll("predict", name, "new.csv", "--interval", "0.5"), "`--interval`")
    pd.read_csv("all.csv").assign(name="sideways").to_csv("bad.csv", index=False)
    refused(scroll("evaluate", name, "bad.csv"), "'sideways'", "'down', 'up'")
    refused(scroll("evaluate", name, "new.csv"), "none called 'name'")


def test_outputs_that_cannot_be_written_are_refused_before_the_work(models, monkeypatch):
    model = models / "price.scroll"
    for module in ("fit", "table_files"):
        monkeypatch.setattr(f"scroll.cli.{module}.read", lambda *_: pytest.fail("read"))
    for words in (("fit", "train.csv", "--target", "price"), ("predict", model, "new.csv")):
        refused(scroll(*words, "-o", "no/m.csv"), "`--output`", "Create no first")
        refused(scroll(*words, "-o", "."), "`--output`")
    refused(scroll("fit", "train.csv", "--target", "a", "-o", "train.csv"), "another file")
    refused(scroll("predict", model, "new.csv", "-o", "new.csv"), "another file")
    refused(scroll("predict", model, "new.csv", "-o", "out.doc"), "must end in .csv")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    refused(scroll("predict", model, "new.csv", "-o", "out.csv"), "written to")


def test_a_full_disk_leaves_the_old_output(models, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    Path("out.csv").write_text("mine")
    monkeypatch.setattr(os, "fsync", full)
    done = scroll("predict", models / "price.scroll", "new.csv", "-o", "out.csv")
    refused(done, "`out.csv` must be writable", "No space left")
    assert Path("out.csv").read_text() == "mine"
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]


def test_a_linked_output_is_followed(models):
    for name in ("m.scroll", "out.csv"):
        Path(f"real.{name}").write_text("old")
        Path(name).symlink_to(f"real.{name}")
    good(fit("train.csv", "price", "m.scroll"))
    good(scroll("predict", models / "price.scroll", "new.csv", "-o", "out.csv"))
    for name in ("m.scroll", "out.csv"):
        assert Path(name).is_symlink()
        assert Path(f"real.{name}").read_bytes()[:3] != b"old"
    load("real.m.scroll")


def test_parquet_without_pyarrow_has_its_remedy(models, monkeypatch):
    Path("n.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for words in (("n.parquet",), ("new.csv", "-o", "out.parquet")):
        done = scroll("predict", models / "price.scroll", *words)
        refused(done, "`pyarrow` must be installed", "pip install 'scroll-torch[arrow]'")
    good(scroll("predict", models / "price.scroll", "new.csv"))


def mixture(members=3, n=7):
    shape = (members, n)
    return Mixture(Normal(torch.randn(shape), torch.rand(shape) + 0.1, torch.rand(shape)))


def test_crps_is_the_integral():
    torch.set_default_dtype(torch.float64)
    blend, y = mixture(), 2 * torch.randn(7)
    single = Normal(*(t[0] for t in (blend.parts.mean, blend.parts.noise_var,
                                     blend.parts.belief_var)))  # fmt: skip
    for p in (single, blend):
        each = []
        for n, at in enumerate(y.tolist()):
            parts = p.parts if isinstance(p, Mixture) else p
            mean, std = parts.mean[..., n].numpy(), parts.stddev[..., n].numpy()
            cdf = lambda t, mean=mean, std=std: np.mean(stats.norm.cdf(t, mean, std))
            left = integrate.quad(lambda t, f=cdf: f(t) ** 2, -40, at, epsabs=1e-12, limit=200)
            right = integrate.quad(
                lambda t, f=cdf: (1 - f(t)) ** 2, at, 40, epsabs=1e-12, limit=200
            )
            each.append(left[0] + right[0])
        assert float(metrics.crps(p, y)) == pytest.approx(np.mean(each), abs=1e-9)


def test_crps_of_counts_is_the_sum():
    torch.set_default_dtype(torch.float64)
    mean, y = torch.tensor([0.1, 1.0, 3.0]), torch.tensor([0.0, 7.0, 15.0])
    part = Count(Poisson(), mean, torch.full((3,), 1e-14))
    k = np.arange(200)[:, None]
    cdf = stats.poisson.cdf(k, np.exp(mean.numpy()))
    want = ((cdf - (k >= y.numpy())) ** 2).sum(0).mean()
    for p in (part, CountMixture((part, part))):  # the tail beyond 1 - 1e-6 is left out
        assert float(metrics.crps(p, y)) == pytest.approx(want, abs=1e-6)
    large = Count(Poisson(), torch.tensor([9.0]), torch.tensor([0.01]))
    draws = large.sample(20_000)[:, 0].numpy()
    apart = 2 * np.mean(np.sort(draws) * (2 * np.arange(1, len(draws) + 1) / len(draws) - 1))
    want = np.abs(draws - 9000).mean() - apart / 2
    assert float(metrics.crps(large, torch.tensor([9000.0]))) == pytest.approx(want, rel=0.02)


def test_brier_and_ece_by_hand():
    probs = torch.tensor([[0.95, 0.05], [0.3, 0.7], [0.25, 0.75], [0.1, 0.9]])
    p, y = Categorical(probs.log()), torch.tensor([0, 1, 0, 1])
    brier = np.mean([2 * 0.05**2, 2 * 0.3**2, 2 * 0.75**2, 2 * 0.1**2])
    assert float(metrics.brier(p, y)) == pytest.approx(brier, rel=1e-5)
    # bins (0.6, 0.7], (0.7, 0.8], (0.8, 0.9] and (0.9, 1]
    want = (0.3 + 0.75 + 0.1 + 0.05) / 4
    assert float(metrics.ece(p, y, 20)) == pytest.approx(want, rel=1e-5)
    many = Categorical(torch.stack([p.log_probs, p.log_probs.flip(0)]))
    both = torch.stack([y, y.flip(0)])
    for metric in (metrics.brier, metrics.ece):
        torch.testing.assert_close(metric(many, both), metric(p, y).expand(2))
    with pytest.raises(ValueError, match="`y` must hold labels"):
        metrics.ece(p, y + 1)
    with pytest.raises(TypeError, match="`predictive` must have a CRPS, but got Categorical"):
        metrics.crps(p, p.mean)
