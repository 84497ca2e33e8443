"""Tables of studies on record."""

import json
import math

import pytest

from scroll_paper.studies import stored
from scroll_paper.studies.registry import STUDIES
from scroll_paper.studies.study import Study
from scroll_paper.tables.experiment import Request, Results, Screen
from scroll_paper.tables.table import Cell, Table, cell, to_markdown


def example():
    rows = {
        "plain": {"a": cell({0: 1.0, 1: 2.0}), "N": Cell(3.0, digits=0)},
        ("two", "levels"): {"a": Cell(-0.0, 0.5, 4, "best", 2, True, True), "N": Cell(None)},
        "broken": {"a": Cell(math.nan, math.inf)},
    }
    return Table("t", "A title", ["a", "N"], [rows, {"last": {}}], True, "A note.", ["N"])


def test_tables_come_back(tmp_path):
    file = stored.file_of(tmp_path, "moons")
    assert file == tmp_path / "studies" / "moons.json"
    assert stored.load(file) == []
    stored.save(file, [example()], {"device": "cpu"})
    (back,) = stored.load(file)
    assert to_markdown(back) == to_markdown(example())
    assert (back.name, back.given, back.note) == ("t", ["N"], "A note.")
    assert back.blocks[0]["two", "levels"] == example().blocks[0]["two", "levels"]
    broken = back.blocks[0]["broken"]["a"]
    assert math.isnan(broken.mean)
    assert broken.se == math.inf
    content = json.loads(file.read_text(), parse_constant=pytest.fail)  # strict JSON
    assert content["device"] == "cpu"
    stored.save(file, [], {})
    assert stored.load(file) == []  # written whole


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"tables": [{}]}', '{"tables": 3}'])
def test_what_is_no_record_is_refused(tmp_path, text):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"x\.json` must hold tables of a study, .* Remove it"):
        stored.load(file)


def test_a_full_run_replaces_the_record_and_a_quick_one_does_not(tmp_path):
    asked = []

    def answer(output, quick, say):
        asked.append(quick)
        return [example()]

    study, results = Study("a question", answer, "moons"), tmp_path / "results"
    assert study.report(Results(results)) is None
    request = Request(output=tmp_path / "out", results=results, quick=True)
    study.run(request, Screen())
    assert not results.exists()
    study.run(Request(output=tmp_path / "out", results=results), Screen())
    section = study.report(Results(results))
    assert section.about == "a question"
    assert [to_markdown(t) for t in section.tables] == [to_markdown(example())]
    content = json.loads(stored.file_of(results, "moons").read_text())
    assert {"seconds", "device", "versions"} <= content.keys()
    shown = study.run(Request(results=results, tables=True), Screen())
    assert [table.name for table in shown] == ["t"]
    assert asked == [True, False]


def test_a_study_without_a_name_keeps_nothing(tmp_path):
    study = Study("a question", lambda output, quick, say: [example()])
    study.run(Request(output=tmp_path / "out", results=tmp_path / "results"), Screen())
    assert not (tmp_path / "results").exists()


def test_studies_have_names():
    assert {name: study.name for name, study in STUDIES.items()} == {n: n for n in STUDIES}
