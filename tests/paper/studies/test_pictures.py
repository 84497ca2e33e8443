"""Each study is one command: its tables are finite, and its pictures are written twice."""

import math

import matplotlib
import pytest
import torch

from scroll_paper.studies import routing_selection, study
from scroll_paper.studies.drawing import STYLE, blank, picture
from scroll_paper.studies.registry import STUDIES
from scroll_paper.tables.experiment import Request, Screen
from scroll_paper.tables.table import Cell

QUICK = {
    "routing-vs-selection": 3,
    "linear": 2,
    "toy": 1,
    "cavities": 1,
    "design-space": 1,
}


@pytest.mark.parametrize("name", QUICK)
def test_a_study_in_short(name, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr(routing_selection, "RICHEST", 100)
    said = []
    tables = STUDIES[name].run(Request(output=tmp_path, quick=True), Screen(said.append))
    assert said
    assert len(tables) == QUICK[name]
    for table in tables:
        for block in table.blocks:
            for row in block.values():
                assert set(row) == set(table.columns)
                assert all(c.mean is None or math.isfinite(c.mean) for c in row.values())
    assert {p.name for p in tmp_path.iterdir()} == {f"{name}.png", f"{name}.svg"}
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / f"{name}.svg").read_bytes()
    claims(name, {t.name: t for t in tables})


def claims(name, tables):
    """What holds even in a short run."""
    if name == "routing-vs-selection":
        (rows,) = tables["routing_vs_selection_claims"].blocks
        assert (
            abs(rows["slope of the routing gap against the Jensen gap"]["ours"].mean - 0.91) < 0.1
        )
        assert rows["correlation"]["ours"].mean > 0.99
        assert rows["RMS selection gap at N/H = 50"]["ours"].mean < 2e-3
    if name == "linear":
        (rows,) = tables["linear"].blocks
        free, closed = (rows["heteroscedastic", r]["test NLL"].mean for r in ("free", "closed"))
        assert free < closed - 0.2
    if name == "toy":
        (rows,) = tables["toy"].blocks
        nll = [rows[r]["test NLL"].mean for r in ("truth", "free", "closed")]
        assert nll == sorted(nll)


def test_pictures_have_one_style_and_leave_the_users_alone(tmp_path):
    size = matplotlib.rcParams["font.size"] = 3.0
    with picture(tmp_path / "a.b", 1, 2, (4, 2)) as axes:
        assert axes.shape == (1, 2)
        assert matplotlib.rcParams["font.size"] == STYLE["font.size"]
        blank(axes[0, 0])
        assert not axes[0, 0].spines["left"].get_visible()
        assert axes[0, 1].spines["left"].get_visible()
    assert matplotlib.rcParams["font.size"] == size
    assert {p.name for p in tmp_path.iterdir()} == {"a.b.png", "a.b.svg"}


def test_numbers_of_the_text_stand_beside_ours():
    assert study.printed("linear")["heteroscedastic, closed"] == Cell(1.97, digits=3)
    assert study.printed("toy") == {}
    ours = {name: Cell(1.0) for name in (*study.printed("linear"), "more")}
    (rows,) = study.against_paper("x", "X", "linear", ours).blocks
    assert rows["homoscedastic, free"] == {"ours": Cell(1.0), "paper": Cell(1.4154, digits=4)}
    assert rows["more"] == {"ours": Cell(1.0), "paper": Cell(None)}
