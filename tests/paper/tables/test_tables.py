"""Tables of results: rendering, marks, and the paper's numbers."""

import csv
import math
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest

from scroll_paper.data.datasets import LABELLED
from scroll_paper.tables import published
from scroll_paper.tables.published import (
    agreement,
    compare,
    numbers,
    standard_errors,
    tolerance,
)
from scroll_paper.tables.table import Block, Cell, Table, cell, table, to_csv, to_markdown, to_text

SETS = ["yacht", "concrete", "energy", "kin8nm", "naval", "power", "wine", "boston"]
SHAPES = {  # rows, columns, empty cells
    "appendix_cifar": (12, 3, 0),
    "appendix_utkface_e2e": (7, 6, 8),
    "headline_nll": (13, 8, 0),
    "mean_baseline_note": (1, 8, 0),
    "headline_rmse": (12, 8, 0),
    "table1_headline_caliberr": (12, 8, 0),
    "appendix_attribution_full_nll": (11, 8, 3),
    "appendix_attribution_full_rmse": (11, 8, 3),
    "appendix_ens_mixture": (6, 8, 0),
    "appendix_prior_ablation": (8, 8, 0),
    "appendix_arch_full_nll": (4, 8, 0),
    "appendix_arch_diag_nll": (4, 8, 0),
    "appendix_sensitivity": (9, 8, 0),
    "appendix_traintest_gap": (6, 8, 0),
    "appendix_batching": (4, 8, 0),
    "appendix_2l_nll": (10, 8, 0),
    "appendix_2l_baselines_nll": (9, 8, 0),
    "appendix_2l_baselines_caliberr": (9, 8, 0),
    "depth_trajectory": (8, 9, 0),
    "loo_gap": (8, 6, 0),
    "table_scale_nll": (10, 7, 0),
    "ood": (11, 5, 0),
    "appendix_classification_nll": (14, 8, 0),
    "appendix_classification_ece": (14, 8, 0),
    "appendix_classification_0l_nll": (9, 8, 0),
    "appendix_classification_2l_nll": (14, 8, 0),
    "appendix_classification_2l_ece": (14, 8, 0),
}


def seeds(*values):
    return dict(enumerate(values))


def tiny(**options):
    """Full is best, Diag within its noise, MAP behind; Ens on top of its block."""
    ranked = {
        "Full": {"wine": seeds(-1.0, -2.0, -3.0), "power": seeds(1.0, 1.0, 1.0)},
        "Diag": {"wine": seeds(-2.0, -1.0, -2.4), "power": seeds(2.0, 3.0, 4.0)},
    }
    more = {"MAP": {"wine": seeds(-0.5, -1.0, -1.5)}}
    multi = {"Ens": {"wine": seeds(-4.0, -4.0, -4.0)}, "Dropout": {"wine": seeds(0.0, 0.0, 0.0)}}
    plain = {"GP": {"wine": seeds(-9.0)}}
    blocks = [Block(ranked), Block(more), Block(multi, ranked=False), Block(plain, ranked=None)]
    return table("tiny", "Test NLL", ["wine", "power"], blocks, **options)


def test_a_cell_by_hand():
    """Values 1, 2, 6: mean 3, variance (4 + 1 + 9) / 2 = 7, error sqrt(7 / 3)."""
    made = cell(seeds(1.0, 2.0, 6.0), digits=2)
    assert made == Cell(3.0, pytest.approx(math.sqrt(7 / 3), rel=1e-14), 3, digits=2)
    assert cell(seeds(1.5)) == Cell(1.5, None, 1)
    assert cell({}) == Cell(None)
    broken = cell(seeds(1.0, math.inf, 2.0))
    assert broken.mean == math.inf
    assert math.isnan(broken.se)
    with pytest.raises(ValueError, match=r"`mark` must be one of '', 'best', 'tied', 'top', but"):
        Cell(1.0, mark="bold")


def test_marks_are_joint_over_ranked_blocks_and_apart_elsewhere():
    made = tiny()
    marks = {label: row["wine"].mark for block in made.blocks for label, row in block.items()}
    assert marks == {
        "Full": "best",
        "Diag": "tied",
        "MAP": "",  # d = (0.5, 1, 1.5): t = sqrt 12, p = 0.037
        "Ens": "top",
        "Dropout": "",
        "GP": "",
    }
    assert made.blocks[0]["Diag"]["power"].mark == ""  # d = (1, 2, 3)
    assert made.blocks[1]["MAP"]["power"] == Cell(None)


def test_counts_are_whole_and_unmarked():
    block = Block({"MAP": {"Train": seeds(4), "wine": seeds(1.0)}})
    made = table("scale", "", ["Train", "wine"], [block], counts={"Train"})
    assert made.blocks[0]["MAP"] == {
        "Train": Cell(4.0, None, 1, digits=0),
        "wine": Cell(1.0, None, 1, "best"),
    }
    assert to_markdown(made).endswith("| MAP | 4 | **1.000** |\n")


def test_a_row_twice_is_refused():
    with pytest.raises(ValueError, match="`blocks` must name each row once"):
        table("t", "", ["wine"], [Block({"MAP": {}}), Block({("MAP",): {}})])


def test_markdown():
    assert to_markdown(tiny()) == (
        "Test NLL\n"
        "\n"
        "|  | wine | power |\n"
        "| --- | ---: | ---: |\n"
        "| Full | **-2.000** | **1.000** |\n"
        "| Diag | *-1.800* | 3.000 |\n"
        "| MAP | -1.000 | -- |\n"
        "| Ens | <u>-4.000</u> | -- |\n"
        "| Dropout | 0.000 | -- |\n"
        "| GP | -9.000 | -- |\n"
    )
    shown = to_markdown(tiny(show_se=True, digits=2)).splitlines()
    assert shown[4] == "| Full | **-2.00** ± 0.58 | **1.00** ± 0.00 |"
    assert shown[-1] == "| GP | -9.00 | -- |"


def test_text():
    assert to_text(tiny(), styled=False) == (
        "          Test NLL\n"
        "┏━━━━━━━━━┳━━━━━━━━┳━━━━━━━┓\n"
        "┃         ┃   wine ┃ power ┃\n"
        "┡━━━━━━━━━╇━━━━━━━━╇━━━━━━━┩\n"
        "│ Full    │ -2.000 │ 1.000 │\n"
        "│ Diag    │ -1.800 │ 3.000 │\n"
        "├─────────┼────────┼───────┤\n"
        "│ MAP     │ -1.000 │    -- │\n"
        "├─────────┼────────┼───────┤\n"
        "│ Ens     │ -4.000 │    -- │\n"
        "│ Dropout │  0.000 │    -- │\n"
        "├─────────┼────────┼───────┤\n"
        "│ GP      │ -9.000 │    -- │\n"
        "└─────────┴────────┴───────┘\n"
    )


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_styled_text(monkeypatch, terminal):
    monkeypatch.setenv("TERM", terminal)
    lines = to_text(tiny(show_se=True, digits=1)).splitlines()
    assert any("\x1b[1m-2.0\x1b[0m ± 0.6" in line for line in lines)
    assert any("\x1b[3m-1.8\x1b[0m ± 0.4" in line for line in lines)
    assert any("\x1b[4m-4.0\x1b[0m ± 0.0" in line for line in lines)


def test_a_wide_table_is_not_cut():
    row = {f"column {i}": Cell(float(i)) for i in range(60)}
    shown = to_text(Table("wide", "", list(row), [{"[bold]row[/]": row}]), styled=False)
    assert "column 59" in shown
    assert "[bold]row[/]" in shown
    assert len(shown.splitlines()) == 5


def test_csv_is_long_and_exact():
    lines = list(csv.DictReader(to_csv(tiny()).splitlines()))
    assert len(lines) == 12
    assert list(lines[0]) == ["row", "column", "mean", "se", "count", "mark"]
    first, empty = lines[0], lines[5]
    assert float(first.pop("se")) == pytest.approx(math.sqrt(1 / 3), rel=1e-14)
    assert first == {"row": "Full", "column": "wine", "mean": "-2.0", "count": "3", "mark": "best"}
    assert list(empty.values()) == ["MAP", "power", "", "", "0", ""]


def test_signs_stars_and_zeros():
    """A table made of ready cells, as for differences."""
    row = {
        "a": Cell(0.1914, signed=True, star=True),
        "b": Cell(-0.0004, signed=True),
        "c": Cell(-0.0351, mark="best", star=True),
        "d": Cell(184.0, digits=0),
        "e": Cell(math.nan),
    }
    made = Table("batching", "", list("abcdef"), [{"a|b": row}])
    assert to_markdown(made).splitlines()[-1] == (
        "| a\\|b | +0.191\\* | +0.000 | **-0.035\\*** | 184 | nan | -- |"
    )
    assert "a|b,a,0.1914,,0,star\n" in to_csv(made)
    assert "a|b,c,-0.0351,,0,best star\n" in to_csv(made)


def test_labels_of_two_levels():
    kinds = {kind: {"wine": Cell(0.5)} for kind in ("moment", "mixture")}
    rows = {(who, kind): row for who in ("Ens", "MVN") for kind, row in kinds.items()}
    made = Table("mixture", "", ["wine"], [rows, {"MAP": {"wine": Cell(1.0)}}])
    assert to_markdown(made) == (
        "|  |  | wine |\n"
        "| --- | --- | ---: |\n"
        "| Ens | moment | 0.500 |\n"
        "|  | mixture | 0.500 |\n"
        "| MVN | moment | 0.500 |\n"
        "|  | mixture | 0.500 |\n"
        "| MAP |  | 1.000 |\n"
    )
    assert to_csv(made).splitlines()[1] == "Ens / moment,wine,0.5,,0,"


def test_every_table_of_the_paper_has_its_shape():
    assert set(published.names()) == SHAPES.keys()
    for name, (rows, columns, empty) in SHAPES.items():
        read = numbers(name)
        seen = {column for row in read.values() for column in row}
        assert (len(read), len(seen)) == (rows, columns), name
        assert sum(map(len, read.values())) == rows * columns - empty, name
        if columns == 8:
            assert seen == set(LABELLED if "classification" in name else SETS), name


@pytest.mark.parametrize(
    ("name", "row", "column", "expected"),
    [
        ("headline_nll", "SCROLL-Full", "yacht", Cell(2.253)),
        ("headline_nll", "Exact corner (Full)", "naval", Cell(-7.324)),
        ("appendix_prior_ablation", "Full, fixed alpha (tuned)", "boston", Cell(2.754)),
        ("appendix_ens_mixture", ("SCROLL-Ens", "mixture"), "yacht", Cell(1.611)),
        ("appendix_ens_mixture", ("Deep Ensemble", "moment"), "boston", Cell(2.679)),
        ("appendix_sensitivity", "eps=10^-4 (shipped)", "yacht", Cell(2.121, 0.14)),
        ("appendix_traintest_gap", ("Closed route", "gap"), "yacht", Cell(2.196, 0.80)),
        ("appendix_traintest_gap", ("Closed route", "train"), "wine", Cell(0.896)),
        ("appendix_batching", "SCROLL-Full", "kin8nm", Cell(0.191, signed=True, star=True)),
        ("appendix_batching", "SCROLL-Full", "naval", Cell(-0.129)),
        ("depth_trajectory", "yacht", "Full lin", Cell(3.301)),
        ("depth_trajectory", "boston", "None 2L", Cell(2.689)),
        ("depth_trajectory", "naval", "Diag 1L", Cell(-4.072)),
        ("loo_gap", "yacht", "N_train", Cell(184.0, digits=0)),
        ("loo_gap", "yacht", "gap/plate (nats)", Cell(0.2265, 0.1577, digits=4)),
        ("loo_gap", "naval", "d_eff", Cell(34.9, digits=1)),
        ("appendix_classification_nll", "Ordinal-Full", "wine_quality", Cell(0.781)),
        ("appendix_classification_2l_ece", "DeepEns(M=5)", "segment", Cell(0.014)),
        ("table_scale_nll", "MC Dropout", "Infer", Cell(50.0, digits=0)),
        ("appendix_cifar", "OvA-None (T*)", "ECE", Cell(0.012, 0.002)),
        ("appendix_utkface_e2e", "SCROLL-Diag", "fine-tuned RMSE", Cell(19.05, 6.52, digits=2)),
        ("table_scale_nll", "SCROLL-Ens", "utkface", Cell(3.717)),
        ("table_scale_nll", "MAP", "sick", Cell(0.888)),
    ],
)
def test_figures_of_the_paper(name, row, column, expected):
    assert numbers(name)[row][column] == expected


def test_empty_figures_are_left_out():
    row = numbers("appendix_attribution_full_nll")["Diag seq"]
    assert set(row) == {"yacht", "concrete", "energy", "wine", "boston"}


def test_an_unknown_table_is_refused():
    with pytest.raises(ValueError, match=r"`name` must be one of .*'headline_nll'.*, but got 'x'"):
        numbers("x")


@pytest.mark.parametrize("name", SHAPES)
def test_every_table_of_the_paper_can_be_shown_as_printed(name):
    """The figures make a table of ours, and markdown prints them as the paper does."""
    read = numbers(name)
    columns = list(max(read.values(), key=len))
    lines = to_markdown(Table(name, "", columns, [read], show_se=False)).splitlines()[2:]
    raw = (files("scroll_paper.tables") / "csv" / f"{name}.csv").read_text("utf-8").splitlines()
    for line, printed in zip(lines, list(csv.reader(raw))[-len(read) :], strict=True):
        ours = [text.strip().replace("\\", "") for text in line.strip("|").split("|")]
        assert ours == [text.partition(" ± ")[0] for text in printed]


def ours_and_theirs():
    """se 0.2 each where the paper gives none: bound 2 * 0.2 * sqrt 2 = 0.566."""
    ours = {
        "within the error": {"wine": Cell(1.56, 0.2, 10)},
        "beyond the error": {"wine": Cell(1.57, 0.2, 10)},
        "within the rounding": {"wine": Cell(1.0004, 0.0001, 10)},
        "beyond the rounding": {"wine": Cell(0.9994, 0.0001, 10)},
        "their error": {"wine": Cell(1.39, 0.2, 10)},
        "one seed": {"wine": Cell(1.11, None, 1)},
        "broken": {"wine": Cell(math.nan, math.nan, 10)},
        "empty": {"wine": Cell(None)},
        "ours alone": {"wine": Cell(1.0, 0.1, 10)},
    }
    theirs = {label: {"wine": Cell(1.0), "power": Cell(2.0)} for label in ours}
    theirs["their error"] = {"wine": Cell(1.0, 0.0)}
    del theirs["ours alone"]
    return Table("t", "Ours", ["wine"], [ours]), theirs


def test_agreement():
    mine, theirs = ours_and_theirs()
    found = {a.row: a for a in agreement(mine, theirs)}
    assert {row: a.agrees for row, a in found.items()} == {
        "within the error": True,
        "beyond the error": False,
        "within the rounding": True,
        "beyond the rounding": False,
        "their error": True,
        "one seed": False,
        "broken": False,
    }
    first = found["within the error"]
    assert first[:5] == ("within the error", "wine", 1.56, 0.2, 1.0)
    assert first.difference == pytest.approx(0.56)
    wide = {a.row for a in agreement(mine, theirs, lambda label, column: 0.12) if a.agrees}
    assert wide == set(found) - {"beyond the error", "broken"}


def test_their_error_counts_if_it_is_given():
    mine = Table("t", "", ["wine"], [{"MAP": {"wine": Cell(1.4, 0.1)}}])
    for se, agrees in ((None, False), (0.0, False), (0.18, True)):  # bounds 0.28, 0.2, 0.41
        assert agreement(mine, {"MAP": {"wine": Cell(1.0, se)}})[0].agrees == agrees


def test_given_numbers_are_not_compared():
    row = {"MAP": {"Train": Cell(4.0), "wine": Cell(1.0, 0.1)}}
    mine = Table("t", "", ["Train", "wine"], [row], given=["Train"])
    assert [a.column for a in agreement(mine, row)] == ["wine"]
    made = tiny(counts=["power"])
    assert list(made.given) == ["power"]


def test_printed_deviations_become_standard_errors():
    read, errors = (f("appendix_cifar")["OvA-None"]["NLL"] for f in (numbers, standard_errors))
    assert (read.mean, read.se) == (errors.mean, 0.005)
    assert errors.se == pytest.approx(0.005 / 10**0.5)
    assert standard_errors("appendix_sensitivity") == numbers("appendix_sensitivity")


def test_the_tolerance_is_a_tenth_of_the_spread_of_the_same_set_and_metric():
    column = [row["wine"].mean for row in numbers("headline_nll").values()]
    low, high = np.quantile(column, [0.25, 0.75])
    assert tolerance("headline_nll")("MAP", "wine") == pytest.approx(0.1 * (high - low))
    row = [cell.mean for cell in numbers("depth_trajectory")["yacht"].values()]
    low, high = np.quantile(row, [0.25, 0.75])
    assert tolerance("depth_trajectory")("yacht", "Full lin") == pytest.approx(0.1 * (high - low))
    assert tolerance("loo_gap")("yacht", "d_eff") == 0  # its rows are different sets
    assert tolerance("mean_baseline_note")("Mean predictor", "wine") == 0  # one number


def test_comparison():
    rows = {"Full": {"yacht": Cell(2.5, 0.1, 20, "best"), "wine": Cell(0.95, 0.02, 20)}}
    mine = Table("headline_nll", "Test NLL", ["yacht", "wine"], [{**rows, "New": rows["Full"]}])
    theirs = {"Full": {"yacht": Cell(2.0), "wine": Cell(0.959, 0.01), "boston": Cell(1.0)}}
    assert to_markdown(compare(mine, theirs)) == (
        "Test NLL\n"
        "\n"
        "|  |  | yacht | wine |\n"
        "| --- | --- | ---: | ---: |\n"
        "| Full | ours | **2.500** ± 0.100 | 0.950 ± 0.020 |\n"
        "|  | paper | 2.000 | 0.959 ± 0.010 |\n"
        "|  | difference | +0.500\\* ± 0.141 | -0.009 ± 0.022 |\n"
        "| New | ours | **2.500** ± 0.100 | 0.950 ± 0.020 |\n"
        "|  | paper | -- | -- |\n"
        "|  | difference | -- | -- |\n"
    )
    wide = compare(mine, theirs, lambda label, column: 0.6)
    assert "+0.500 ± 0.141" in to_text(wide, styled=False)


def test_comparison_of_labels_of_two_levels():
    read = numbers("appendix_ens_mixture")
    shown = compare(Table("appendix_ens_mixture", "", SETS, [read]), read)
    lines = to_markdown(shown).splitlines()
    assert lines[2].startswith("| SCROLL-Ens | moment | ours | 1.715 |")
    assert lines[4].startswith("|  |  | difference | +0.000 |")
    assert lines[5].startswith("|  | mixture | ours | 1.611 |")


def test_heavy_libraries_wait():
    """Records are kept and tables written where there is no rich."""
    code = (
        "import sys; sys.modules |= dict.fromkeys(('rich', 'scipy', 'matplotlib'))\n"
        "from scroll_paper.tables import published, records, significance, table\n"
        "t = table.Table('t', '', ['wine'], [published.numbers('headline_nll')])\n"
        "print(table.to_markdown(t), table.to_csv(t))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
