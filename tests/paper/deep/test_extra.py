"""Tables about CIFAR-10 that stand in the paper's text."""

import pytest

from scroll_paper.deep import extra
from scroll_paper.tables.table import to_markdown


def record(method, seed=0, **more):
    fit = {"set": "cifar10", "method": method, "seed": seed, "anneal_head": True}
    odd = {k: more.pop(k) for k in ("alpha_rate", "prior_plates", "mean_outputs") if k in more}
    return {"fit": {**fit, **odd}, "metrics": {"nll": 1.0}, **more}


def test_temperatures():
    (made,) = extra.temperatures({"A": {0: 1.0, 1: 2.0}, "B": {}}, {"A": {0: 3.0}, "B": {}})
    (rows,) = made.blocks
    assert list(rows) == ["A"]
    assert rows["A"]["T*"].mean == 1.5
    assert rows["A"]["T held out"].mean == 3.0
    assert extra.temperatures({"A": {}}, {"A": {}}) == []


def test_seconds_per_epoch():
    runs = {
        "A": [
            record("a", 0, seconds=10.0, scores=[1, 2, 3, 4, 5]),
            record("a", 1, seconds=8.0, scores=[1, 2]),
        ],
        "B": [record("b", 0, scores=[1])],
    }
    (made,) = extra.speed(runs)
    (rows,) = made.blocks
    assert list(rows) == ["A"]
    assert rows["A"]["seconds per epoch"].mean == 3.0
    assert extra.speed({"B": runs["B"]}) == []


def test_interpretations_of_the_loss():
    heads = ("ova-none", "ova-diag", "ova-full")
    first = [record(m, val=v) for m, v in zip(heads, (0.4, 0.2, 0.3), strict=True)]
    kept = [record(m, val=0.1, alpha_rate=0.25) for m in heads]
    half = [record("ova-none", val=0.5, mean_outputs=False)]
    other = [record("ova-none", 1, val=9.0), record("ova-none", prior_plates=True)]
    (made,) = extra.interpretations([*first, *kept, *half, *other])
    means = [row["mean"].mean for row in made.blocks[0].values()]
    assert means[:2] == pytest.approx([0.3, 0.1])
    assert means[2:] == [None, None]
    assert "0.500" in to_markdown(made)
    assert extra.interpretations(first) == []  # nothing to compare with
