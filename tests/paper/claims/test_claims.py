"""The list of claims: links resolve, and the records of the repository decide them."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from scroll_paper.claims.claim import VERDICTS, Claim, Evidence, Outcome, decide, proved, proven
from scroll_paper.claims.lists import CLAIMS
from scroll_paper.claims.lists.sections import ORDER
from scroll_paper.claims.page import page, tally, where
from scroll_paper.registry import EXPERIMENTS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def outcomes(evidence):
    return {claim: decide(claim, evidence) for claim in CLAIMS}


def test_statements_are_sentences_and_stand_once():
    assert max(Counter(claim.statement for claim in CLAIMS).values()) == 1
    for claim in CLAIMS:
        assert claim.statement[0].isupper(), claim.statement
        assert claim.statement.endswith("."), claim.statement
    assert list(dict.fromkeys(claim.where for claim in CLAIMS)) == list(ORDER)


def test_each_claim_names_a_command_or_a_test_or_what_is_missing(outcomes):
    for claim, outcome in outcomes.items():
        assert claim.experiment in {"", *EXPERIMENTS} or outcome.verdict == "open"
        assert claim.experiment or claim.tests or "needs" in outcome.text, claim.statement


def test_every_test_that_a_claim_names_exists():
    known = {}
    for claim in CLAIMS:
        for name in claim.tests:
            file, _, function = name.partition("::")
            if file not in known:
                tree = ast.parse((ROOT / file).read_text())
                known[file] = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
            assert function in known[file], name
    assert sum(bool(claim.tests) for claim in CLAIMS) > 25


def test_records_decide_the_claims(outcomes):
    verdicts = Counter(outcome.verdict for outcome in outcomes.values())
    assert set(verdicts) <= set(VERDICTS)
    assert verdicts["holds"] > 50
    assert all(outcome.text for outcome in outcomes.values())


def test_only_the_data_and_weights_that_cannot_be_had_are_untestable(outcomes):
    texts = [o.text for o in outcomes.values() if o.verdict == "not testable here"]
    assert len(texts) == 2
    assert "data are not on this machine" in texts[0]
    assert "weights of both encoders" in texts[1]


def test_open_claims_say_what_is_missing(outcomes):
    for claim, outcome in outcomes.items():
        if outcome.verdict == "open":
            assert re.search(r"needs|not run:|no records|no seconds", outcome.text), claim.statement


def test_claims_follow_the_tables(evidence):
    """The same check, on a table in which two rows have changed places, gives another verdict."""
    name = "appendix_ens_mixture"
    table = evidence.table(name)
    (block,) = table.blocks
    moment, mixture = ("SCROLL-Ens", "moment"), ("SCROLL-Ens", "mixture")
    swapped = {**block, moment: block[mixture], mixture: block[moment]}
    (claim,) = (c for c in CLAIMS if c.statement.startswith("The exact mixture of the SCROLL"))
    other = Evidence([type(table)(name, "", table.columns, [swapped])])
    assert decide(claim, evidence).verdict == "holds"
    assert decide(claim, other).verdict == "fails"


def test_the_page_has_each_claim_and_counts_them(evidence, sections):
    lines = list(page(CLAIMS, evidence))
    counts = dict(re.findall(r"^\| ([a-z ]+) \| (\d+) \|", "\n".join(lines), re.M))
    assert counts.keys() == VERDICTS.keys()
    assert sum(map(int, counts.values())) == len(CLAIMS)
    text = "\n".join(lines)
    for claim in CLAIMS:
        assert claim.statement.replace("|", "\\|") in text
    for line in lines:
        for anchor in re.findall(r"\]\(#([a-z0-9-]+)\)", line):
            assert anchor in sections or "| open |" in line
    for file in re.findall(r"\]\(\.\./([^)]+)\)", text):
        assert (ROOT / file).is_file()
    assert all(line.count("|") >= 5 for line in lines if line.startswith("| **"))


def test_a_row_of_the_page():
    claim = proved("Part", "One | two.", "a.py::test_x")
    assert proven(Evidence([])) == Outcome("holds", "tested")
    assert where(claim) == "[`test_x`](../tests/a.py)"
    assert where(Claim("Part", "x", proven, "headline")) == "[`scroll bench headline`](#headline)"
    assert where(Claim("Part", "x", proven)) == "--"
    *_, last = page([claim], Evidence([]))
    wrong = Claim("Part", "x", lambda e: Outcome("fails", "0 of 1"), "headline", why="As known.")
    *_, above, row = page([wrong], Evidence([]))
    assert above == "| **Part** | | 1 fails | |"
    assert row == "| x | 0 of 1. As known. | **fails** | [`scroll bench headline`](#headline) |"
    right = Claim("Part", "x", lambda e: Outcome("holds", "1 of 1"), "headline", why="As known.")
    assert "As known" not in "".join(page([right], Evidence([])))
    assert tally([Outcome("open", ""), Outcome("holds", ""), Outcome("holds", "")]) == (
        "2 holds, 1 open"
    )
    assert last == r"| One \| two. | tested | holds | [`test_x`](../tests/a.py) |"
