"""What is trained: candidate bodies by the kind of target and the number of rows."""

import pytest
import torch

from scroll.fitting.candidates import candidates
from scroll.fitting.plans import FEW, best, default, n_steps, paper


def names(kind, n_rows=5000, body="auto", ranked=3):
    return [c.name for c in default(body, 4, ranked, kind, n_rows).candidates]


def test_bodies_by_kind_of_target_and_number_of_rows():
    """A line is tried for few rows, and always for counts and labels."""
    for kind in ("real", "counts", "labels"):
        assert {"smooth", "waves"} <= {*names(kind)}
        assert names(kind, 10, body="waves") == ["waves"]
        assert not {"waves", "swell"} & {*names(kind, ranked=0)}  # they are functions of ranks
    assert "linear" not in names("real", FEW)
    assert all("linear" in names(*how) for how in (("real", FEW - 1), ("counts",), ("labels",)))
    assert "swell" in names("labels")
    assert "swell" not in names("real")


def test_bodies_for_labels_are_thinned_more_and_start_at_lower_frequencies():
    torch.manual_seed(0)
    for name in ("smooth", "waves"):
        (one,), (two,) = (candidates(name, 4, 3, labels) for labels in (False, True))
        mine, theirs = one.make((50,)), two.make((50,))
        assert (mine.between.p, theirs.between.p) == (0.05, 0.2)
        assert [p.shape for p in mine.parameters()] == [p.shape for p in theirs.parameters()]
    assert mine.frequencies.std().item() == pytest.approx(1.0, rel=0.05)
    assert theirs.frequencies.std().item() == pytest.approx(0.3, rel=0.05)
    (swell,) = candidates("swell", 4, 3, labels=True)
    assert swell.make((50,)).frequencies.std().item() == pytest.approx(0.1, rel=0.05)


def test_the_number_of_steps_grows_with_the_square_root_of_the_rows():
    for kind, least in (("real", 2000), ("counts", 500), ("labels", 500)):
        of = lambda n, kind=kind: n_steps(n, kind)
        assert of(1) == of(least) == pytest.approx(40 * least**0.5, abs=10)
        assert of(least + 100) > of(least)
        assert of(40_000) == pytest.approx(2 * of(10_000), abs=20)
        assert all(of(n) % 20 == 0 for n in (500, 777, 12_345))  # whole evaluations
        assert default("auto", 4, 3, kind, 100).settings.steps == of(100)


@pytest.mark.parametrize("kind", ["real", "counts", "labels"])
def test_bodies_race_after_a_fifth_of_the_steps_and_maps_after_a_quarter(kind):
    """Small tables of numbers train longer, but are compared as early as others."""
    for rows in (100, 5000):
        plan, steps = default("auto", 4, 3, kind, rows), n_steps(rows, "labels")
        assert plan.race[0] == steps // 5
        assert plan.pilot == steps // 4
        assert plan.settings.steps == (1780 if (kind, rows) == ("real", 100) else steps)
    twice = best("auto", 4, 3, kind, 5000)
    assert (twice.settings.steps, twice.pilot) == (2 * steps, steps // 2)
    assert paper(4).race[0] == 0  # all of the paper's are trained to the end
