"""Exported graphs: onnxruntime and torch.export compute the same as the estimator."""

import builtins
import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.special
import torch

import scroll
from scroll.estimators import ScrollClassifier, ScrollRegressor

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
ort = pytest.importorskip("onnxruntime")

from scroll.estimators.onnx import export_onnx, traced  # noqa: E402
from scroll.estimators.onnx_graph import Graph, latent  # noqa: E402
from scroll.estimators.onnx_graph import cdf as graph_cdf  # noqa: E402
from scroll.factors import NegativeBinomial, Poisson, ZeroInflated  # noqa: E402
from scroll.heads.likelihoods import CountLikelihood  # noqa: E402
from scroll.predictive import Count, Mapped, Normal, Tail, TargetMap, with_tails  # noqa: E402
from scroll.predictive.mixture import member  # noqa: E402
from sweeps import cases, exhaustive  # noqa: E402

pytestmark = pytest.mark.oldest

LEVELS = (0.001, 0.05, 0.5, 0.95, 1 - 1e-6)
SMALL = {"max_steps": 40, "random_state": 0}


@pytest.fixture(autouse=True)
def _single(_float64_and_seed):
    torch.set_default_dtype(torch.float32)  # as users have it


def table(rows=80, seed=0):
    """Numbers, numbers with gaps, text with gaps, booleans; and noise enough to be uncertain."""
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["a", "b"])
    x.loc[::5, "b"] = np.nan
    x["kind"] = rng.choice(["u", "v", "w", None], rows)
    x["flag"] = rng.random(rows) < 0.5
    return x, x["a"].to_numpy() + (x["kind"] == "u") + 0.3 * rng.normal(size=rows)


def exported(estimator, path, quantiles=LEVELS):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.export_onnx(path, quantiles)
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"])


def run(session, estimator, x):
    names = [out.name for out in session.get_outputs()]
    codes = estimator.schema_.codes(x).astype(np.float64)
    return dict(zip(names, session.run(None, {"codes": codes}), strict=True))


def agrees(session, estimator, x):
    """To the rounding of float32, in which the bodies compute."""
    got = run(session, estimator, x)
    assert all(value.dtype == np.float64 for value in got.values())
    if isinstance(estimator, ScrollClassifier):
        assert list(got) == ["probabilities"]
        columns = metadata(session)["classes"]
        want = estimator.predict_proba(x)[:, [*map(estimator.classes_.tolist().index, columns)]]
        np.testing.assert_allclose(got["probabilities"], want, rtol=1e-5, atol=1e-6)
        return
    mean, std = estimator.predict(x, return_std=True)
    np.testing.assert_allclose((got["mean"] - mean) / std, 0.0, atol=1e-5)
    np.testing.assert_allclose(got["std"], std, rtol=1e-5)
    if "quantiles" in got and estimator.likelihood == "gaussian":
        want = estimator.predict_quantiles(x, LEVELS)
        np.testing.assert_allclose((got["quantiles"] - want) / std[..., None], 0.0, atol=2e-5)


@pytest.mark.parametrize("kind", cases([(1, "auto"), (3, "auto"), (2, "smooth")], (2, "smooth")))
def test_a_frame_with_gaps_and_categories(kind, tmp_path):
    (members, body), (x, y) = kind, table()
    model = ScrollRegressor(n_members=members, body=body, **SMALL).fit(x, y)
    session = exported(model, tmp_path / "model.onnx")
    for rows in (1, 7, 1000):
        new, _ = table(rows, seed=rows)
        new.loc[rows // 2, "kind"] = "never seen"
        agrees(session, model, new)
        assert run(session, model, new)["quantiles"].shape == (rows, len(LEVELS))
    (codes,) = session.get_inputs()
    assert (codes.name, codes.shape, codes.type) == ("codes", ["N", 4], "tensor(double)")


@pytest.mark.parametrize("members", cases([1, 2], 1))
def test_several_outputs(members, tmp_path):
    x, y = table()
    more = np.stack([y, 50 + 20 * np.random.default_rng(1).normal(size=len(y))], 1)
    model = ScrollRegressor(n_members=members, body="smooth", **SMALL).fit(x, more)
    session = exported(model, tmp_path / "model.onnx")
    agrees(session, model, x)
    shapes = [value.shape for value in run(session, model, x).values()]
    assert shapes == [(80, 2), (80, 2), (80, 2, len(LEVELS))]


@pytest.mark.parametrize(
    ("how", "edges"),
    [
        ({"n_members": 1}, [0.0]),
        pytest.param({"n_members": 2}, [-0.5, 0.5], marks=exhaustive),
        pytest.param({"likelihood": "gaussreg"}, [-0.5, 0.5], marks=exhaustive),
        ({"ordered": ("top", "mid", "low"), "n_members": 2}, [-0.5, 0.5]),
        pytest.param({"class_weight": "balanced"}, [0.0], marks=exhaustive),
    ],
    ids=["binary", "three", "gaussreg", "ordinal", "balanced"],
)
def test_classes(how, edges, tmp_path):
    x, y = table()
    labels = np.array(["low", "mid", "top"])[np.digitize(y, edges)]
    model = ScrollClassifier(body="smooth", **how, **SMALL).fit(x, labels)
    session = exported(model, tmp_path / "model.onnx")
    agrees(session, model, x)
    assert metadata(session)["classes"] == model.levels_.tolist()


@pytest.mark.parametrize("members", cases([1, 2], 1))
@pytest.mark.parametrize("likelihood", cases(CountLikelihood.kinds, "poisson", "zinb"))
def test_counts(likelihood, members, tmp_path):
    x, y = table()
    model = ScrollRegressor(likelihood=likelihood, n_members=members, body="smooth", **SMALL)
    model.fit(x, np.round(np.exp(2 * y)))
    session = exported(model, tmp_path / "model.onnx")
    agrees(session, model, x)
    assert metadata(session)["quantiles"] == list(LEVELS)
    least_counts(run(session, model, x)["quantiles"], model, x)
    for rows in (1, 7):
        assert run(session, model, x[:rows])["quantiles"].shape == (rows, len(LEVELS))
    content = (tmp_path / "model.onnx").read_bytes()
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert b".py" not in content


@exhaustive
@pytest.mark.parametrize("likelihood", CountLikelihood.kinds)
def test_counts_without_quantiles(likelihood, tmp_path):
    x, y = table()
    model = ScrollRegressor(likelihood=likelihood, n_members=2, body="smooth", **SMALL)
    model.fit(x, np.round(np.exp(2 * y)))
    plain = exported(model, tmp_path / "plain.onnx", ())
    assert list(run(plain, model, x)) == ["mean", "std"]
    content = (tmp_path / "plain.onnx").read_bytes()
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert b".py" not in content


def least_counts(got, model, x):
    """Each is the least count that reaches its level, to the rounding of the bodies."""
    p = model.predict_dist(x)
    k, level = torch.from_numpy(got), torch.tensor(LEVELS, dtype=torch.float64)
    cdf = lambda k: torch.stack([p.cdf(column) for column in k.T], -1)
    assert bool((k == k.round()).all())
    assert bool((cdf(k) >= level - 1e-5).all())
    assert bool((cdf(k - 1) < level + 1e-5).all())
    want = model.predict_quantiles(x, LEVELS)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1)
    assert (got == want)[:, :4].mean() > 0.98  # in the far tail, neighbours are as good


FACTORS = [Poisson(), *(NegativeBinomial(torch.tensor(r).double()) for r in (0.05, 0.5, 3.0, 80.0))]
FACTORS += [ZeroInflated(base, torch.tensor(-0.4).double()) for base in (FACTORS[0], FACTORS[3])]


@pytest.mark.parametrize("factor", FACTORS, ids=str)
def test_the_graphs_distribution_function_of_counts(factor):
    """Against the library's own, which has the incomplete gamma and beta functions."""
    rng = np.random.default_rng(0)
    k = np.r_[rng.integers(0, 6, 300), np.floor(np.exp(rng.uniform(0, 12, 300)))]
    std = np.exp(rng.uniform(np.log(1e-5), np.log(3), 600))
    mean = np.log(k + 1) + rng.normal(size=600) * (1 + std)
    k, std, mean = (torch.from_numpy(v) for v in (k, std, mean))
    p = Count(factor, mean, std.square())
    got = graph_cdf(*latent((p,)), k[:, None])[0, :, 0]
    torch.testing.assert_close(got, p.cdf(k), rtol=0, atol=1e-6)


@exhaustive
@pytest.mark.parametrize("size", [1e3, 1e7])
def test_large_counts(size, tmp_path):
    x, y = table()
    model = ScrollRegressor(likelihood="poisson", body=(8,), **SMALL)
    model.fit(x, np.round(size * np.exp(y)))
    session = exported(model, tmp_path / "model.onnx", (0.5, 0.99))
    got = run(session, model, x)["quantiles"]
    # the latent is of float32, and a count of this size as fine as its rounding
    np.testing.assert_allclose(got, model.predict_quantiles(x, [0.5, 0.99]), rtol=2e-5, atol=1)


@pytest.mark.parametrize("body", cases(["waves", "matern", "linear", (8, 4), "yours"], "yours"))
def test_every_body(body, tmp_path):
    x, y = table()
    if body == "yours":  # 2 numbers, 3 + 2 categories, 2 columns with gaps
        body = torch.nn.Sequential(torch.nn.Linear(9, 5), torch.nn.Tanh())
    model = ScrollRegressor(body=body, **SMALL).fit(x, y)
    agrees(exported(model, tmp_path / "model.onnx", ()), model, x)


def metadata(session):
    return json.loads(session.get_modelmeta().custom_metadata_map["scroll"])


def test_the_file_says_what_its_numbers_mean_and_nothing_of_its_maker(tmp_path):
    x, y = table()
    model = ScrollRegressor(body="smooth", **SMALL).fit(x, y)
    told = metadata(exported(model, tmp_path / "model.onnx", (0.1, 0.9)))
    assert [c["name"] for c in told["columns"]] == list(x.columns)
    assert [c["categories"] for c in told["columns"]] == [[], [], ["u", "v", "w"], [False, True]]
    assert [c["missing"] for c in told["columns"]] == [False, True, True, False]
    assert (told["quantiles"], told["classes"]) == ([0.1, 0.9], None)
    assert (told["estimator"], told["likelihood"]) == ("ScrollRegressor", "gaussian")
    content = (tmp_path / "model.onnx").read_bytes()
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert b".py" not in content
    assert list(tmp_path.iterdir()) == [tmp_path / "model.onnx"]


class Functions(torch.nn.Module):
    """Stands for a model: what ONNX has no name for, in float64."""

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Module()
        self.model.encoder = torch.nn.Module()
        self.model.encoder.columns = 1

    def forward(self, z):
        special = torch.special
        one = special.ndtr(z), special.log_ndtr(z), torch.expm1(z), torch.expm1(z.float())
        return (*one, z.atan(), z + 0.1)


def test_functions_that_onnx_lacks():
    file = traced(Functions(), ["ndtr", "log_ndtr", "expm1", "single", "atan", "sum"])
    session = ort.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    small = np.logspace(-12, -1, 50)
    z = np.concatenate([np.linspace(-37, 37, 5001), np.linspace(-3, 3, 999), small, -small])
    got = session.run(None, {"codes": z[:, None]})
    for name, value in zip(("ndtr", "log_ndtr", "expm1"), got, strict=False):
        # log Phi on the right is that of one minus a tail, to the digits of one
        atol = 1e-15 if name == "log_ndtr" else 0
        want = getattr(scipy.special, name)(z)
        np.testing.assert_allclose(value[:, 0], want, rtol=3e-12, atol=atol, err_msg=name)
    np.testing.assert_allclose(got[3][:, 0], np.expm1(z), rtol=4e-6)  # exp(37) of a rounded 37
    np.testing.assert_allclose(got[4][:, 0], np.arctan(z), rtol=1e-14)
    np.testing.assert_allclose(got[5][:, 0], z + 0.1, rtol=0, atol=0)  # 0.1 is not rounded


class Predicts(torch.nn.Module):
    """Stands for a model: four numbers of a row are the moments of its predictive."""

    def __init__(self, tail, target, members):
        super().__init__()
        self.tail, self.target, self.members = tail, target, members
        self.encoder = torch.nn.Module()
        self.encoder.columns = 4

    def dist(self, x):
        mean, var = torch.stack([x[:, 0], x[:, 1], x[:, 0] - x[:, 2]]), x[:, 1:].mT.square() + 0.01
        stack = Normal(mean, var, var / 3)
        p = with_tails(member(stack, slice(0, self.members)).mixture(), self.tail)
        return p if self.target is None else Mapped(p, self.target)


LAPSE, UNIT = Tail("lapse", share=0.03, factor=2.5), TargetMap("logit", -2.0, 5.0)
CONTINUOUS = {
    "normal": (Tail(), None, 1),
    "log": (Tail(), TargetMap("log"), 3),
    "logit": (Tail(), UNIT, 3),
    "lapse": (LAPSE, None, 3),
    "lapse log1p": (LAPSE, TargetMap("log1p"), 1),
    "lapse logit": (LAPSE, UNIT, 3),
    "student": (Tail("student", df=5), None, 1),
    "students": (Tail("student", df=4), None, 3),
    "students logit": (Tail("student", df=3), UNIT, 3),
}


@pytest.mark.parametrize("name", cases(CONTINUOUS, "lapse log1p", "students logit"))
def test_tails_and_transformed_targets(name):
    graph = Graph(Predicts(*CONTINUOUS[name]), list(LEVELS)).eval()
    file = traced(graph, ["mean", "std", "quantiles"])
    session = ort.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    x = torch.randn(40, 4, dtype=torch.float64)
    p, got = graph.model.dist(x), session.run(None, {"codes": x.numpy()})
    want = (p.mean, p.stddev, p.quantile(LEVELS))
    for name, mine, theirs in zip(("mean", "std", "quantiles"), got, want, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-13, err_msg=name)


def test_censored_targets(tmp_path):
    x, y = table()
    open_end = np.arange(len(y)) % 3 == 0
    model = ScrollRegressor(body="linear", n_members=2, **SMALL).fit(x, y, censored=open_end)
    agrees(exported(model, tmp_path / "model.onnx"), model, x)


def test_torch_takes_the_models():
    x, y = table()
    model = ScrollRegressor(n_members=2, body="smooth", **SMALL).fit(x, y)
    codes = torch.from_numpy(model.schema_.codes(x))
    rows = ({0: torch.export.Dim("N")},)
    program = torch.export.export(model.model_, (codes,), dynamic_shapes=rows).module()
    for n in (1, 7, len(x)):
        got = program(codes[:n])
        for a, b in zip(got, model.predict(x[:n], return_std=True), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("covariance", cases(["full", "diag", "lowrank", "none"], "lowrank"))
def test_torch_takes_a_bare_head(covariance):
    head = scroll.RegressionHead(4, 2, covariance=covariance).eval()
    psi = torch.randn(5, 4)
    rows = ({0: torch.export.Dim("N")},)
    program = torch.export.export(head, (psi,), dynamic_shapes=rows).module()
    for n in (1, 7, 100):
        psi = torch.randn(n, 4)
        got, want = program(psi), head(psi)
        assert isinstance(got, scroll.predictive.Normal)
        for name in ("mean", "noise_var", "belief_var"):
            assert getattr(got, name).dtype == torch.float32
            torch.testing.assert_close(getattr(got, name), getattr(want, name))


class Raises:
    def __init__(self, error):
        self.error = error

    def __call__(self, *_, **__):
        raise self.error


def test_bad_levels_places_and_missing_packages(tmp_path, monkeypatch):
    x, y = table()
    model = ScrollRegressor(body="smooth", **SMALL)
    with pytest.raises(ValueError, match="not fitted yet"):
        model.export_onnx(tmp_path / "model.onnx")
    model.fit(x, y)
    with pytest.raises(ValueError, match=r"`quantiles` must lie strictly between 0 and 1.*95 %"):
        export_onnx(model, tmp_path / "model.onnx", (0.5, 95))
    with pytest.raises(FileNotFoundError, match="`path` must lie in a folder that exists"):
        export_onnx(model, tmp_path / "none" / "model.onnx", ())
    torch_error = torch.onnx.OnnxExporterError("no loops")
    with monkeypatch.context() as patched:
        patched.setattr("torch.export.export", Raises(torch_error))
        with pytest.raises(RuntimeError, match=r"`torch` must be able.*or try quantiles=\(\)"):
            export_onnx(model, tmp_path / "model.onnx")
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "onnxscript":
            raise ImportError(name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"`onnxscript` must.*pip install 'scroll-torch\[export"):
        export_onnx(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("package", "version", "want"),
    [
        ("onnx", "1.17.0", "`onnx` must be version 1.18 or newer for export_onnx, but got version"),
        ("onnxscript", "0.6.2", "`onnxscript` must be version 0.7 or newer for export_onnx"),
    ],
)
def test_old_packages_are_named_in_one_line(package, version, want, tmp_path, monkeypatch):
    x, y = table()
    model = ScrollRegressor(body="smooth", **SMALL).fit(x, y)
    monkeypatch.setattr(f"{package}.__version__", version)
    with pytest.raises(ImportError, match=want):
        export_onnx(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_torch_that_onnxscript_does_not_know(tmp_path, monkeypatch):
    """PyTorch imports a module of onnxscript that is named after PyTorch's own version."""
    x, y = table()
    model = ScrollRegressor(body="smooth", **SMALL).fit(x, y)
    missing = ModuleNotFoundError("no such module", name="onnxscript._framework_apis.torch_3_0")
    monkeypatch.setattr("torch.export.export", Raises(missing))
    want = r"`onnxscript` must support torch .*torch_3_0\. Update it with pip install -U onnxscript"
    with pytest.raises(ImportError, match=want):
        export_onnx(model, tmp_path / "model.onnx")
