"""The cavity graphs and the design-space map follow from the library's values."""

import re
from functools import partial

import pytest
import torch

from scroll.objectives import METHODS, ONE_BELIEF, Cavity, Objective, PriorTerm, Route, Score
from scroll.objectives.cavities import CAVITIES
from scroll.objectives.routes import conjugate
from scroll_paper.studies.diagrams import cavities, design_space


def seen(cavity, **where):
    found = cavities.influence(cavity, **where)
    return [i + 1 for i, d in enumerate(found.abs() > cavities.ROUNDING) if d]


def test_each_cavity_has_the_points_of_its_definition():
    """Def. cavity: everything, all but n, and the points before n."""
    expected = {"shared": [1, 2, 3, 4, 5], "leave_one_out": [1, 2, 4, 5], "sequential": [1, 2]}
    assert {c.name: seen(c) for c in CAVITIES} == expected
    assert seen(CAVITIES[2], points=4, scored=0) == []
    assert seen(CAVITIES[1], points=4, scored=3) == [1, 2, 3]


def test_influence_is_the_derivative():
    """d m_n / d y = psi_n' A^-1 psi' at unit noise and alpha, by numpy."""
    g = torch.Generator().manual_seed(0)
    psi = torch.randn(5, 3, generator=g, dtype=torch.float64)
    hat = psi @ torch.linalg.inv(psi.mT @ psi + torch.eye(3)) @ psi.mT
    torch.testing.assert_close(cavities.influence(CAVITIES[0]), hat[2], rtol=1e-9, atol=1e-12)
    left_out = hat[2].clone() / (1 - hat[2, 2])
    left_out[2] = 0
    torch.testing.assert_close(cavities.influence(CAVITIES[1]), left_out, rtol=1e-9, atol=1e-12)


def test_a_new_cavity_gets_its_own_graph():
    """One that ignores point 1, without an edit of the diagram."""

    def late(belief, p):
        less = p._replace(y=p.y * (torch.arange(p.y.shape[-1]) > 0))
        return conjugate(less).project(p.psi)

    cavity = Cavity(late, needs=ONE_BELIEF)
    assert seen(cavity) == [2, 3, 4, 5]
    assert cavities.partners(cavity) == ["free", "conjugate", "conjugate_diag"]


def by_cell(methods):
    return {(p.route, p.cavity): p for p in design_space.places(methods)}


def test_each_method_stands_in_its_cell_and_nowhere_else():
    found = by_cell(METHODS)
    assert sum(g.rows for p in found.values() for g in p.groups) == len(METHODS)
    for key, o in METHODS.items():
        place = found[o.route.name, o.cavity.name]
        (group,) = (g for g in place.groups if (g.score, g.prior) == (o.score.name, o.prior.name))
        assert key.rpartition("-")[0] in group.methods
        assert place.refusal == ""


def test_refused_cells_are_those_that_objective_refuses_and_have_its_reason():
    found = by_cell(METHODS)
    parts = {o.route.name: o.route for o in METHODS.values()}
    columns = {o.cavity.name: o.cavity for o in METHODS.values()}
    refused = 0
    for (route, cavity), place in found.items():
        make = partial(Objective, parts[route], columns[cavity], prior=METHODS["loo-full"].prior)
        if not place.refusal:
            assert make().route.name == route
            continue
        refused += 1
        assert place.groups == ()
        with pytest.raises(ValueError, match=re.escape(f": {place.refusal}. Use ")):
            make()
    assert refused == 7
    assert parts["free"].reason == found["free", "leave_one_out"].refusal


def test_prior_terms_above_a_cavity_are_those_it_accepts():
    found = design_space.priors(METHODS)
    assert found["leave_one_out"] == found["sequential"] == ["none"]
    assert set(found["shared"]) == {o.prior.name for o in METHODS.values()}


@pytest.mark.parametrize("kind", ["named", "parts"])
def test_a_new_row_of_methods_changes_the_map(kind, monkeypatch, tmp_path):
    """In a cell that exists, and with parts of its own; nothing else is edited."""
    before = by_cell(METHODS)
    if kind == "named":
        new, cell = Objective(score=METHODS["robust-full"].score), ("free", "shared")
    else:
        mine = Route(lambda p: conjugate(p), gives={ONE_BELIEF}, name="mine")
        score = Score(lambda p, at: at.mean, name="my_score")
        prior = PriorTerm(lambda belief, p: p.alpha, name="my_prior")
        new, cell = Objective(mine, score=score, prior=prior), ("mine", "shared")
    monkeypatch.setitem(METHODS, "brand-new-full", new)
    after = by_cell(METHODS)
    assert cell in after
    (group,) = (g for g in after[cell].groups if "brand-new" in g.methods)
    assert (group.score, group.prior) == (new.score.name, new.prior.name)
    same = {k: p for k, p in before.items() if k != cell}
    assert {k: after[k] for k in same} == same
    if kind == "parts":
        assert "must give" in after["mine", "sequential"].refusal
        assert "my_prior" in design_space.priors(METHODS)["shared"]
    (table,) = design_space.design_space(tmp_path, True, print)
    labels = [label for block in table.blocks for label in block]
    assert [label for label in labels if "brand-new" in label[3]]
    assert "brand-new" in drawn(tmp_path)


def drawn(folder):
    """The comments of the SVG, in which matplotlib keeps each text."""
    return (folder / "design-space.svg").read_text("utf-8")


def test_a_cell_that_is_allowed_but_empty_is_open(tmp_path):
    less = {k: o for k, o in METHODS.items() if not k.startswith(("closed", "evidence"))}
    place = by_cell(less)["conjugate", "shared"]
    assert place.groups == ()
    assert place.refusal == ""
    design_space.draw(design_space.places(less), design_space.priors(less), tmp_path / "x")
    assert "open: no method yet" in (tmp_path / "x.svg").read_text("utf-8")


def test_a_reason_is_taken_from_the_message():
    message = "`route` must give x for the `c` cavity, but got `r`: it cannot. Use route `s`."
    assert design_space.refusal([message, message]) == "it cannot"
    bare = "`route` must give x for the `c` cavity, but got `r`. Use route `s`."
    assert design_space.refusal([bare]) == "route must give x for the c cavity"
    assert design_space.refusal([message, ""]) == ""
