"""Remarks: every measured number in them comes from the records."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from scroll_paper.claims.claim import Absent, Evidence
from scroll_paper.prose import VIEWS, fill, joined
from scroll_paper.registry import EXPERIMENTS
from scroll_paper.report import agreement, remark
from scroll_paper.tables.table import Cell, Table, cell

ROOT = Path(__file__).parents[3]
REMARKS = sorted(
    file.name.removesuffix(".md")
    for file in (files("scroll_paper") / "remarks").iterdir()
    if file.name.endswith(".md")
)
SETTINGS = {  # decimals that are written out: step sizes, weights and the level of a test
    "cells-layers": {"0.1", "0.01", "0.02"},
    "introduction": {"0.05"},
    "protocol": {"0.03", "0.01"},
    "headline": {"0.03"},
    "prior-ablation": {"0.01", "0.1"},
    "classification": {"0.1"},
    "classification-0l": {"0.1"},
    "classification-0l-start": {"0.1"},
    "in-text": {"0.1"},
    "ood": {"0.03"},
    "text-shift": {"0.03"},
    "utkface-e2e": {"0.5", "0.0003", "0.001", "0.003", "0.1", "0.01"},
}


def source(name):
    return (files("scroll_paper") / "remarks" / f"{name}.md").read_text("utf-8")


def test_every_remark_belongs_to_the_page():
    assert set(REMARKS) <= {*EXPERIMENTS, "introduction", "protocol"}
    assert set(SETTINGS) <= set(REMARKS)


def recorded(keys, evidence):
    """Whether the table of an expression is there, with its column."""
    try:
        table = evidence.table(keys[0])
    except Absent:
        return False
    return len(keys) < 3 or keys[-1] in table.columns


@pytest.mark.parametrize("name", REMARKS)
def test_every_number_of_a_remark_is_in_the_records(name, evidence):
    """Tables and data sets that have not been run yet leave "--"."""
    assert "{" not in remark(name, evidence)
    for expression in re.findall(r"\{[^}]*\}", source(name)):
        keys = re.findall(r"\[([^\]]*)\]", expression)
        if recorded(keys, evidence):
            assert fill(expression, evidence) != "--", expression


@pytest.mark.parametrize("name", REMARKS)
def test_only_settings_are_written_out(name):
    plain = re.sub(r"\{[^}]*\}", "", source(name))
    assert set(re.findall(r"-?\d+\.\d+", plain)) <= SETTINGS.get(name, set())


def test_numbers_follow_the_tables():
    rows = {
        "MAP": {"wine": cell({4: 3.0, 5: 1.0, 9: 2.0, 12: 2.0}), "power": Cell(5.0, mark="best")},
        ("Ens", "moment"): {"wine": Cell(0.5, 0.25, mark="top"), "power": Cell(6.0, mark="tied")},
    }
    made = Evidence([Table("t", "", ["wine", "power"], [rows])])
    asked = (
        "{ours[t][MAP][wine]:.1f} {few[t][MAP][wine]:.1f} {se[t][Ens / moment][wine]:.2f} "
        "{lead[t][MAP][Ens / moment][wine]:+.1f} {most[t][MAP]:.0f} {least[t][MAP]:.0f} "
        "{best[t][MAP]}; {tied[t][Ens / moment]}; {best[t][none]}"
    )
    assert fill(asked, made) == "2.0 1.5 0.25 +1.5 5 2 power; wine and power; no set"
    assert fill("{paper[headline_nll][MAP][wine]:.3f}", made) == "0.984"
    assert fill("{ours[u][MAP][wine]:.1f}, {agree[u]} of {count[u]}", made) == "--, -- of --"
    with pytest.raises(ValueError, match="`row` must be one of"):
        fill("{ours[t][MAPP][wine]:.1f}", made)
    with pytest.raises(KeyError):
        fill("{theirs[t][MAP][wine]}", made)


def test_the_table_of_the_page_on_shifted_inputs_is_that_of_the_records(evidence):
    rows = {
        "features and inputs": "SCROLL-Full, refit with inputs",
        "features only": "SCROLL-Full, then refit",
        "inputs only": "Linear in the inputs",
    }
    page = (ROOT / "docs" / "ood.md").read_text()
    for name, row in rows.items():
        written = re.search(rf"^\| {name} \| (.*) \|$", page, re.M)[1].split(" | ")
        means = [evidence.mean("ood", row, kind) for kind in ("Text", "Vision", "Wine")]
        assert written == [f"{mean:.2f}" for mean in means]


def test_counts_of_agreement(evidence):
    name = "headline_nll"
    lines = list(agreement({"headline": [evidence.table(name)]}))
    agree, count = fill("{agree[headline_nll]} {count[headline_nll]}", evidence).split()
    share = f"{100 * int(agree) / int(count):.0f} %"
    assert lines[2] == f"| [headline](#headline): {name} | {count} | {agree} | {share} |"
    assert lines[3].endswith(f"| {count} | {agree} | {share} |")
    assert list(agreement({}))[-1].endswith("| 0 | 0 | -- |")


def test_lists_in_sentences():
    assert joined(["a"]) == "a"
    assert joined(["a", "b"]) == "a and b"
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert joined([]) == "no set"


def test_every_view_is_explained():
    import scroll_paper.prose

    text = Path(scroll_paper.prose.__file__).read_text()
    explained = re.search(r'"""What stands before the brackets.*?"""', text, re.S)[0]
    assert all(re.search(rf"\b{name}\b", explained) for name in VIEWS)
