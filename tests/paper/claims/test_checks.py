"""Checks of claims on small tables made by hand."""

import pytest

from scroll_paper.claims.checks import as_printed, averages, counted, each, every, span, tally
from scroll_paper.claims.claim import (
    Absent,
    Claim,
    Evidence,
    Outcome,
    by_section,
    decide,
    untestable,
)
from scroll_paper.claims.comparisons import (
    ahead,
    alike,
    best_of,
    between,
    difference,
    equal,
    never_best,
    not_worse,
    separated,
)
from scroll_paper.tables import published
from scroll_paper.tables.table import Cell, Table, cell

COLUMNS = ("a", "b", "c", "d")


def seeds(*values):
    return cell(dict(enumerate(values)))


def evidence(**rows):
    """A table `t`: each row gives a mean per column, with three seeds close to it, or None."""
    lines = {
        name: {
            c: Cell(None) if x is None else seeds(x - 0.01, x, x + 0.01)
            for c, x in zip(COLUMNS, means, strict=True)
        }
        for name, means in rows.items()
    }
    return Evidence([Table("t", "", COLUMNS, [lines], given=())])


# Verdicts from counts.


@pytest.mark.parametrize(
    ("yes", "no", "unknown", "claimed", "verdict"),
    [
        (4, 0, 0, None, "holds"),
        (3, 1, 0, None, "partly"),
        (2, 2, 0, None, "partly"),
        (1, 3, 0, None, "fails"),
        (0, 4, 0, None, "fails"),
        (3, 1, 0, 3, "holds"),
        (1, 3, 0, 2, "partly"),
        (3, 0, 1, None, "open"),
        (2, 1, 1, None, "partly"),  # one no refutes "all", whatever is missing
        (2, 1, 1, 3, "open"),
        (3, 0, 1, 3, "holds"),
        (1, 2, 1, 4, "fails"),
    ],
)
def test_a_verdict_is_a_count(yes, no, unknown, claimed, verdict):
    answers = [True] * yes + [False] * no + [None] * unknown
    cases = {f"case {i}": answer for i, answer in enumerate(answers)}
    assert counted(cases, claimed).verdict == verdict


def test_sets_without_records_keep_a_claim_open():
    assert counted({"a": True}, unrun=["b"]) == Outcome("open", "a: yes; not run: b")
    assert counted({"a": False}, unrun=["b"]).verdict == "fails"


def test_texts_name_the_smaller_group():
    assert tally({"a": True, "b": True, "c": False}) == "2 of 3, not c"
    assert tally({"a": True, "b": False, "c": False}) == "1 of 3 (a)"
    assert tally({"a": True, "b": True}) == "2 of 2"
    assert tally({"a": False}) == "a: no"
    assert counted({"a": True, "b": None}, words="x").text == "x 1 of 1; not run: b"
    assert counted({"a": True, "b": False}, 1).text.endswith("; the paper has 1")
    assert span([2.0, 1.0], ".1f") == "1.0 to 2.0"
    assert span([2.0], ".1f") == "2.0"
    assert span([], ".1f") == "no numbers"
    assert averages([1.0, 2.0, 6.0], ".1f") == "mean 3.0, median 2.0"


def test_joined_checks():
    def fixed(verdict):
        return lambda e: Outcome(verdict, verdict)

    def absent(e):
        raise Absent("gone")

    none = Evidence([])
    assert every(fixed("holds"), fixed("holds"))(none) == Outcome("holds", "holds; holds")
    assert every(fixed("holds"), fixed("fails"))(none).verdict == "partly"
    assert every(fixed("fails"), fixed("fails"))(none).verdict == "fails"
    assert every(fixed("holds"), absent)(none) == Outcome("open", "holds; gone")
    assert every(fixed("fails"), absent)(none).verdict == "fails"


# Comparisons of rows.


def test_ahead_counts_lower_means_or_higher_ones():
    e = evidence(x=(1, 1, 3, None), y=(2, 2, 2, 2))
    assert ahead("t", "x", "y")(e) == Outcome("partly", "x ahead of y on 2 of 3, not c; not run: d")
    assert ahead("t", "x", "y", columns=("a", "b"))(e).verdict == "holds"
    assert ahead("t", "x", "y", 1, sign=-1)(e).verdict == "holds"


def test_best_and_tied_by_the_paired_test():
    rows = {
        "x": {"a": seeds(1.0, 2.0, 3.0)},
        "y": {"a": seeds(1.1, 1.9, 3.01)},  # not separated from x
        "z": {"a": seeds(2.0, 3.0, 4.01)},
    }
    e = Evidence([Table("t", "", ("a",), [rows])])
    assert best_of("t", ("x",), ("y", "z"), tied=False)(e).verdict == "holds"
    assert best_of("t", ("y",), ("x", "z"))(e).verdict == "holds"
    assert best_of("t", ("y",), ("x", "z"), tied=False)(e).verdict == "fails"
    assert best_of("t", ("z",), ("x", "y"))(e).verdict == "fails"
    assert best_of("t", ("z",), ("x", "y"), sign=-1, tied=False)(e).verdict == "holds"
    assert best_of("t", ("y", "x"), ("z",), tied=False)(e).verdict == "holds"
    assert separated("t", "z", "x", e, "a")
    assert not separated("t", "x", "z", e, "a")
    assert alike("t", "x", "y", e, "a")
    assert equal("t", "x", "y")(e).verdict == "holds"
    assert equal("t", "x", "z")(e).verdict == "fails"
    assert not_worse("t", "x", "z")(e).verdict == "holds"
    assert not_worse("t", "z", "x")(e).verdict == "fails"


def test_a_row_of_the_pool_may_lack_a_set_and_the_team_may_not():
    e = evidence(x=(1, 1, 1, None), y=(2, 2, 2, 2), z=(None, 0, None, None))
    found = best_of("t", ("x",), ("y", "z"), tied=False)(e)
    assert found == Outcome("partly", "x best on 2 of 3, not b; not run: d")


def test_one_win_refutes_never():
    e = evidence(x=(3, 3, 1, 3), y=(2, 2, 2, 2))
    assert never_best("t", "x", ("y",))(e) == Outcome("fails", "best on c")
    assert never_best("t", "x", ("y",))(evidence(x=(3,) * 4, y=(2,) * 4)).verdict == "holds"
    assert never_best("t", "x", ("y",))(evidence(x=(3,) * 4, y=(2, 2, 2, None))).verdict == "open"


def test_numbers_in_a_range():
    e = evidence(x=(1, 2, 3, 4), y=(1, 1, 1, 1))
    assert between("t", "x", 1, 4)(e).verdict == "holds"
    assert between("t", "x", 2, 3)(e).text.startswith("x 1.000 to 4.000; from 2 to 3 on 2 of 4")
    assert difference("t", "x", "y", 0, 1, claimed=2)(e).verdict == "holds"
    assert difference("t", "x", "y", -1, -0.5)(e).verdict == "fails"
    assert each("t", lambda e, c: c != "a", 3)(e).verdict == "holds"


def test_numbers_as_printed():
    printed = published.numbers("mean_baseline_note")
    columns = list(printed["Mean predictor"])
    made = Table("mean_baseline_note", "", columns, [printed])
    assert as_printed("mean_baseline_note")(Evidence([made])) == Outcome(
        "holds", "as printed: 8 of 8"
    )
    off = {"Mean predictor": printed["Mean predictor"] | {"wine": Cell(9.0)}}
    found = as_printed("mean_baseline_note")(Evidence([Table(made.name, "", columns, [off])]))
    assert found == Outcome("partly", "as printed: 7 of 8, not Mean predictor on wine")


# Evidence.


def test_evidence_reads_tables():
    lines = {("Ens", "moment"): {"a": seeds(1.0, 3.0)}}
    e = Evidence([Table("t", "", ("N", "a"), [lines], given=("N",))])
    assert e.mean("t", "Ens / moment", "a") == 2.0
    assert e.values("t", "Ens / moment", "a") == {0: 1.0, 1: 3.0}
    assert e.columns("t") == ("a",)
    assert e.table("t").name == "t"
    for keys in (("u", "x", "a"), ("t", "Ens / moment", "b")):
        with pytest.raises(Absent):
            e.cell(*keys)
    with pytest.raises(ValueError, match="`row` must be one of"):
        e.cell("t", "Ens / momant", "a")


def test_a_printed_row_without_records_is_absent_and_a_wrong_name_an_error():
    e = Evidence([Table("depth_trajectory", "", ("Full lin",), [{}])])
    with pytest.raises(Absent, match="no records of naval"):
        e.mean("depth_trajectory", "naval", "Full lin")
    with pytest.raises(ValueError, match="`row` must be one of"):
        e.mean("depth_trajectory", "navel", "Full lin")
    assert len(e.columns("headline_nll")) == 8


def test_a_claim_is_open_without_records():
    none = Evidence([])
    claim = Claim("s", "x", ahead("headline_nll", "MAP", "MVN"), "headline")
    assert decide(claim, none).verdict == "open"
    assert decide(Claim("s", "x", lambda e: Outcome("open", "soon")), none) == Outcome(
        "open", "soon"
    )
    assert decide(Claim("s", "x", untestable("no")), none) == Outcome("not testable here", "no")
    with pytest.raises(ValueError, match="`verdict` must be one of"):
        decide(Claim("s", "x", lambda e: Outcome("maybe", "")), none)


def test_claims_of_a_section_stand_together():
    claims = [Claim(where, str(i), lambda e: Outcome("open", "")) for i, where in enumerate("aba")]
    assert [(k, [c.statement for c in v]) for k, v in by_section(claims)] == [
        ("a", ["0", "2"]),
        ("b", ["1"]),
    ]
