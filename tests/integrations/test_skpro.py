"""skpro's own checks, and that the adapter changes no number."""

import inspect
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import quad

from scroll.estimators import ScrollRegressor
from scroll.predictive import Categorical, Mapped, Mixture, Normal, Student, TargetMap

pytest.importorskip("skpro")

from skpro.metrics import CRPS, LogLoss
from skpro.utils import check_estimator

from scroll.integrations.skpro import ScrollProba
from scroll.integrations.skpro_distribution import ScrollDistribution
from sweeps import exhaustive

N = 160
LEVELS = [0.05, 0.5, 0.95]
KINDS = {  # settings, the class in the units of the map, that of its components
    "gaussian": ({"n_members": 1, "tails": "gaussian"}, Normal, Normal),
    "mixture": ({"n_members": 3, "tails": "gaussian"}, Mixture, Normal),
    "lapse": ({"n_members": 2, "tails": "lapse"}, Mixture, Normal),
    "student": ({"n_members": 1, "tails": "student"}, Student, Student),
    "students": ({"n_members": 2, "tails": "student"}, Mixture, Student),
    "log": ({"n_members": 2, "tails": "gaussian", "target": "log"}, Mixture, Normal),
    "log1p": ({"n_members": 1, "tails": "lapse", "target": "log1p"}, Mixture, Normal),
    "logit": ({"n_members": 2, "tails": "student", "target": "logit"}, Mixture, Student),
}
CASES = [(k, 1) for k in KINDS] + [(k, 2) for k in ("gaussian", "lapse", "student", "logit")]
UNMAPPED = {"log": np.exp, "log1p": np.exp, "logit": lambda z: 1 / (1 + np.exp(-z))}


@pytest.fixture(autouse=True)
def _single(_float64_and_seed):
    torch.set_default_dtype(torch.float32)  # as users have it


def table(outputs=1, target="identity"):
    rng = np.random.default_rng(0)
    index = pd.Index(range(100, 100 + N))
    x = pd.DataFrame(rng.normal(size=(N, 2)), index, columns=["a", "b"])
    x["kind"] = pd.Categorical(rng.choice(["u", "v"], N))  # skpro refuses plain text
    z = x["a"].to_numpy()[:, None] + 0.1 * rng.standard_t(2, size=(N, outputs))
    y = UNMAPPED.get(target, lambda z: z)(z)
    return x, pd.DataFrame(y, index, columns=[f"y{k}" for k in range(outputs)])


def fitted(kind, outputs=1):
    how = {"target": "identity"} | KINDS[kind][0]
    x, y = table(outputs, how["target"])
    found = ScrollProba(**how, body=(8,), max_steps=20, random_state=0).fit(x, y)
    return x, y, found


def distributions():
    """One small distribution of each kind; the last one is a scalar."""
    return [ScrollDistribution(**params) for params in ScrollDistribution.get_test_params()]


@exhaustive
@pytest.mark.filterwarnings("ignore::scroll.estimators.CollapsedNoise")
@pytest.mark.filterwarnings("ignore::scroll.estimators.user_warnings.NegativeInterval")
def test_conformance():
    check_estimator(ScrollProba, raise_exceptions=True, verbose=False)


@pytest.mark.filterwarnings("ignore:.*does not have a numerically exact:UserWarning")  # pdfnorm
def test_conformance_of_the_distribution():
    check_estimator(ScrollDistribution, raise_exceptions=True, verbose=False)


def test_parameters_are_those_of_the_regressor():
    ours = inspect.signature(ScrollRegressor).parameters
    theirs = inspect.signature(ScrollProba).parameters
    assert [k for k in ours if k in theirs] == list(theirs)
    assert set(ours) - set(theirs) == {"likelihood", "device", "verbose"}
    for name, parameter in theirs.items():
        assert parameter.default == ours[name].default


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_model_is_that_of_the_regressor(outputs):
    x, y = table(outputs)
    how = {"body": (8,), "max_steps": 20, "random_state": 0, "n_members": 2}
    ours = ScrollRegressor(**how).fit(x, y.to_numpy()[:, 0] if outputs == 1 else y.to_numpy())
    theirs = ScrollProba(**how).fit(x, y)
    want = ours.predict(x).reshape(N, -1)
    pd.testing.assert_frame_equal(theirs.predict(x), pd.DataFrame(want, y.index, y.columns))


@pytest.mark.parametrize(("kind", "outputs"), CASES)
def test_values_are_those_of_the_regressor(kind, outputs):
    x, y, theirs = fitted(kind, outputs)
    ours, dist = theirs.estimator_, theirs.predict_proba(x)
    p = ours.predict_dist(x)
    base = p.base if "target" in KINDS[kind][0] else p
    assert (type(base), type(base.members[0])) == KINDS[kind][1:]
    assert isinstance(p, Mapped) == ("target" in KINDS[kind][0])
    mean, std = (m.reshape(N, -1) for m in ours.predict(x, return_std=True))
    at = torch.from_numpy(y.to_numpy().squeeze())
    log_p, below, crps = (f(at).reshape(N, -1).numpy() for f in (p.log_prob, p.cdf, p.crps))
    for found, want in (
        (theirs.predict(x), mean),
        (theirs.predict_var(x), std**2),
        (dist.mean(), mean),
        (dist.var(), std**2),
        (dist.log_pdf(y), log_p),
        (dist.pdf(y), np.exp(log_p)),
        (dist.cdf(y), below),
        (dist.surv(y), 1 - below),
        (dist.ppf(0.2), p.quantile(0.2).reshape(N, -1)),
    ):
        assert found.index.equals(x.index)
        assert list(found.columns) == list(y.columns)
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-11)
    energy = dist.energy(y) - dist.energy() / 2
    np.testing.assert_allclose(energy["energy"], crps.sum(1), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("kind", "outputs"), [("mixture", 1), ("logit", 2)])
def test_quantiles_and_intervals_are_those_of_the_regressor(kind, outputs):
    x, y, theirs = fitted(kind, outputs)
    want = theirs.estimator_.predict_quantiles(x, LEVELS).reshape(N, -1)
    found = theirs.predict_quantiles(x, LEVELS)
    assert list(found.columns) == [(name, level) for name in y for level in LEVELS]
    np.testing.assert_allclose(found, want, rtol=1e-9)
    interval = theirs.predict_interval(x, coverage=0.9)["y0"][0.9]
    np.testing.assert_allclose(interval, want[:, [0, 2]], rtol=1e-9)


def test_scores_of_skpro_are_ours():
    for d in distributions()[:-1]:
        y = d.sample()
        p, at = d.predictive, torch.from_numpy(y.to_numpy())
        at = at if d.shape[1] > 1 else at[:, 0]
        assert CRPS()(y, d) == pytest.approx(float(p.crps(at).mean()), rel=1e-9)
        assert LogLoss()(y, d) == pytest.approx(-float(p.log_prob(at).mean()), rel=1e-9)


def test_student_tails_need_a_mean():
    x, y = table(target="log")
    with pytest.raises(ValueError, match="the mean of a Student-t distribution is infinite"):
        ScrollProba(target="log", tails="student", body=(8,), max_steps=20).fit(x, y)


@pytest.mark.parametrize("k", range(6))
def test_energies_are_integrals_of_the_distribution_function(k):
    d = distributions()[k]
    d = d.iat[0, 0] if d.ndim else d
    low, high = d.ppf(1e-10), d.ppf(1 - 1e-10)
    edges = [low, *(d.ppf(q) for q in (1e-6, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-3, 1 - 1e-6)), high]

    def total(f):
        return sum(quad(f, a, b)[0] for a, b in pairwise(edges))

    assert d.energy() == pytest.approx(total(lambda t: 2 * d.cdf(t) * d.surv(t)), rel=1e-5)
    y = d.ppf(0.3)
    far = total(lambda t: d.cdf(t) if t < y else d.surv(t))
    assert d.energy(y) == pytest.approx(far, rel=1e-5)


def test_the_upper_tail_keeps_its_digits():
    d = ScrollDistribution(Normal(*torch.tensor([0.0, 0.5, 0.5], dtype=torch.float64)))
    assert d.surv(20.0) == pytest.approx(2.7536e-89, rel=1e-4)


def test_samples_follow_the_distribution_and_the_seed():
    for d in distributions():
        np.random.seed(0)  # noqa: NPY002  skpro's generator
        first = d.sample(2000)
        np.random.seed(0)  # noqa: NPY002
        pd.testing.assert_frame_equal(first, d.sample(2000))
        draws = first.to_numpy().reshape(2000, *d.shape)
        share = (draws < np.asarray(d.ppf(0.3))).mean(0)
        np.testing.assert_allclose(share, 0.3, atol=0.05)


def test_samples_of_a_table_with_an_index_of_two_levels():
    d = distributions()[0]
    index = pd.MultiIndex.from_tuples([("u", 1), ("u", 2), ("v", 1)], names=["a", "b"])
    two = ScrollDistribution(d.predictive, index, d.columns)
    want = pd.concat([two.mean()] * 2, keys=range(2)).index
    assert two.sample(2).index.equals(want)
    assert list(two.loc["u"].index) == [("u", 1), ("u", 2)]
    assert two.loc[("v", 1)].mean().equals(two.mean().loc[[("v", 1)]])
    assert two.cdf(two.mean()).index.equals(index)


def test_subsets_are_those_of_pandas():
    rows = pd.Index(["u", "v", "w"])
    for d in distributions()[:-1]:
        d = ScrollDistribution(d.predictive, rows, pd.Index(["a", "b"][: d.shape[1]]))
        mean = d.mean()
        for key in (["w", "u"], slice("u", "v"), np.array([True, False, True]), mean["a"] > -0.5):
            pd.testing.assert_frame_equal(d.loc[key].mean(), mean.loc[key])
            pd.testing.assert_frame_equal(d.loc[key, ["a"]].mean(), mean.loc[key, ["a"]])
        for key in ([2, 0], slice(1, None), [-1], np.array([False, True, True]), []):
            pd.testing.assert_frame_equal(d.iloc[key].var(), d.var().iloc[key])
            pd.testing.assert_frame_equal(d.iloc[key, [0]].var(), d.var().iloc[key, [0]])
        assert d.loc["v"].shape == (1, d.shape[1])
        assert d.loc[:, "a"].shape == (3, 1)
        for one in (d.iat[1, 0], d.at["v", "a"], d.loc["v", "a"], d.iloc[1, 0], d.iat[-2, 0]):
            assert one.ndim == 0
            assert one.ppf(0.2) == d.ppf(0.2).loc["v", "a"]
        assert list(d.head(2).index) == ["u", "v"]
        with pytest.raises(KeyError, match="x"):
            d.loc[["x"]]
        with pytest.raises(KeyError, match="x"):
            d.at["x", "a"]
        with pytest.raises(IndexError):
            d.iloc[[3]]
        with pytest.raises(ValueError, match="one row and one column"):
            d.iat[[0], [0]]


def test_rows_may_share_a_label():
    d = distributions()[0]
    same = ScrollDistribution(d.predictive, ["u", "u", "v"], d.columns)
    np.testing.assert_array_equal(same.cdf(same.mean()), 0.5)
    assert len(same.loc["u"]) == 2


def test_parameters_of_the_components():
    mean = torch.tensor([1.0, 2.0], dtype=torch.float64)
    pair = Student(torch.stack([mean, -mean]), torch.stack([mean, mean]), 4)
    weights = torch.tensor([0.75, 0.25], dtype=torch.float64)
    p = Mapped(Mixture(pair, weights), TargetMap("logit"))
    d = ScrollDistribution(p, columns=["y"])
    found = d.to_df()["y"]
    want = {"mean_0": [1.0, 2.0], "scale_0": [1.0, 2.0], "weight_0": 0.75, "df": 4.0}
    want |= {"mean_1": [-1.0, -2.0], "scale_1": [1.0, 2.0], "weight_1": 0.25}
    pd.testing.assert_frame_equal(found, pd.DataFrame(want)[list(found.columns)])
    assert set(found.columns) == set(want)
    assert d.get_params()["predictive"] is p
    one = ScrollDistribution(Student(mean[0], mean[0], 5)).to_df()
    assert one.to_dict("list") == {"mean": [1.0], "scale": [1.0], "df": [5.0]}
    equal = ScrollDistribution(Mixture(pair)).to_df()
    assert (equal[0][["weight_0", "weight_1"]] == 0.5).all(None)


def test_other_predictives_and_labels_are_refused():
    p = Normal(*torch.ones(3, 2))
    with pytest.raises(TypeError, match="`predictive` must be one of a real number, but got Cat"):
        ScrollDistribution(Categorical(torch.zeros(2, 3)))
    with pytest.raises(ValueError, match=r"shape \(\), \(N,\) or \(N, K\), but got \(4, 2, 1\)"):
        ScrollDistribution(Normal(*torch.ones(3, 4, 2, 1)))
    with pytest.raises(ValueError, match="`index` must have 2 labels, as the predictive"):
        ScrollDistribution(p, index=["a"])
    with pytest.raises(ValueError, match="`columns` must have 1 labels, as the predictive"):
        ScrollDistribution(p, columns=["a", "b"])
