"""The paired t-test behind the marks of the tables, against scipy and integration."""

import math

import numpy as np
import pytest
from scipy import integrate, special

from scroll_paper.tables.significance import changed, marks, p_value

SEEDS = range(10)


def by_seed(values):
    return dict(enumerate(values))


def tail(t, freedom):
    """P(T > t) of Student's t, as an integral of its density."""
    scale = special.gamma((freedom + 1) / 2) / special.gamma(freedom / 2)
    scale /= math.sqrt(freedom * math.pi)
    density = lambda u: scale * (1 + u * u / freedom) ** (-(freedom + 1) / 2)
    return integrate.quad(density, t, math.inf, epsabs=0)[0]


def t_of(a, b):
    d = np.subtract(a, b)
    return d.mean() / (d.std(ddof=1) / math.sqrt(len(d)))


@pytest.mark.parametrize("shift", [-0.3, 0.0, 0.2, 0.5, 1.0])
def test_against_an_integral(shift):
    rng = np.random.default_rng(0)
    a = rng.normal(shift, 1, 10)
    b = 0.5 * a + rng.normal(0, 0.5, 10)
    t = t_of(a, b)
    one, two = (p_value(by_seed(a), by_seed(b), kind) for kind in ("greater", "two-sided"))
    assert one == pytest.approx(tail(t, 9), rel=1e-9)
    assert two == pytest.approx(2 * tail(abs(t), 9), rel=1e-9)
    assert changed(by_seed(a), by_seed(b)) == (2 * tail(abs(t), 9) < 0.05)


def test_three_seeds_by_hand():
    """d = (1, 2, 3): t = 2 / (1 / sqrt 3) = 2 sqrt 3; with two degrees, P = (1 - t/r)/2."""
    a, b = {0: 2.0, 1: 4.0, 2: 6.0}, {0: 1.0, 1: 2.0, 2: 3.0}
    t = 2 * math.sqrt(3)
    p = (1 - t / math.sqrt(t * t + 2)) / 2  # 0.037
    assert p_value(a, b, "greater") == pytest.approx(p, rel=1e-12)
    assert p_value(b, a, "greater") == pytest.approx(1 - p, rel=1e-12)
    assert marks({"a": a, "b": b}) == {"a": "", "b": "best"}
    assert marks({"a": a, "b": b}, level=0.03) == {"a": "tied", "b": "best"}
    assert not changed(a, b)
    assert changed(a, b, level=0.08)


def test_pairing_separates_what_a_test_of_two_groups_would_not():
    hard = np.random.default_rng(1).normal(0, 10, 10)  # how hard each seed is
    sign = np.tile([1, -1], 5)
    worse, close = hard + 0.1 + 0.01 * sign, hard + 0.05 + sign
    assert t_of(worse, hard) > 10
    assert t_of(close, hard) < 1.83  # the 95% point with 9 degrees of freedom
    rows = {"worse": by_seed(worse), "close": by_seed(close), "best": by_seed(hard)}
    assert marks(rows) == {"worse": "", "close": "tied", "best": "best"}


def test_only_common_seeds_are_paired():
    a = {0: 2.0, 1: 4.0, 2: 6.0, 7: 0.0}
    b = {0: 1.0, 1: 2.0, 2: 3.0, 8: 100.0}
    only = p_value({s: a[s] for s in range(3)}, {s: b[s] for s in range(3)}, "greater")
    assert p_value(a, b, "greater") == only
    backwards = dict(reversed(b.items()))
    assert p_value(a, backwards, "greater") == only


def test_fewer_than_two_common_seeds_are_no_test():
    rows = {"best": {0: 1.0, 1: 1.5}, "one": {1: 1.6, 2: 1.7}, "none": {5: 1.6}, "empty": {}}
    assert marks(rows) == {"best": "best", "one": "", "none": "", "empty": ""}
    assert marks({"alone": {0: 1.0}}) == {"alone": "best"}
    assert marks({}) == {}
    assert marks({"empty": {}}) == {"empty": ""}
    assert not changed({0: 1.0}, {0: 2.0})
    assert not changed({}, {})


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_constant_differences(scale):
    base = {seed: scale * (0.1 + seed / 3) for seed in SEEDS}
    same, worse = dict(base), {s: v + 0.1 * scale for s, v in base.items()}
    assert marks({"base": base, "same": same, "worse": worse}) == {
        "base": "best",
        "same": "tied",
        "worse": "",
    }
    assert not changed(base, same)
    assert changed(base, worse)
    assert changed(worse, base)
    assert p_value(base, worse, "greater") == 1


def test_rounding_is_no_difference():
    base = {seed: 0.1 + seed / 3 for seed in SEEDS}
    nearly = {seed: np.nextafter(value, math.inf) for seed, value in base.items()}
    assert marks({"base": base, "nearly": nearly}) == {"base": "best", "nearly": "tied"}
    assert not changed(base, nearly)


def test_all_zero():
    assert marks({"a": {0: 0.0, 1: 0.0}, "b": {0: 0.0, 1: 0.0}}) == {"a": "best", "b": "tied"}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_neither_best_nor_tied(bad):
    good = {seed: 1.0 + seed for seed in range(4)}
    broken = {**good, 3: bad}
    elsewhere = {**good, 9: bad}  # not a common seed, but in the mean that is shown
    rows = {"broken": broken, "elsewhere": elsewhere, "good": good}
    assert marks(rows) == {"broken": "", "elsewhere": "", "good": "best"}
    assert marks({"broken": broken}) == {"broken": ""}
    assert not changed(good, broken)


def test_labels_may_be_anything_hashable():
    rows = {("Ens", "moment"): {0: 1.0, 1: 2.0}, ("Ens", "mixture"): {0: 0.5, 1: 1.0}}
    assert marks(rows)["Ens", "mixture"] == "best"
