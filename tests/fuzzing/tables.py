"""Tables through fit and predict: hostile columns, targets, weights, options and later rows."""

import numpy as np
import pandas as pd
import pytest

import scroll
from fuzzing import judge, values
from scroll import ScrollClassifier, ScrollRegressor

ROWS = (1, 2, 3, 4, 6, 10, 20, 40, 60)
COUNTS = ("poisson", "negbinomial", "zip", "zinb")
LABELS = ("ova", "gaussreg", "ordinal", "levels")
TASKS = ("gaussian", "several", *COUNTS, *LABELS)


def run(rng, folder):
    """One case: what is fitted, predicts and comes back from its file, or is refused in words."""
    n = int(rng.choice(ROWS))
    task = str(rng.choice(TASKS))
    x, y, options = table(rng, n), target(rng, n, task), parameters(rng, task)
    extra = {"sample_weight": weights(rng, n), "eval_set": None}
    if rng.random() < 0.15:
        extra["eval_set"] = (altered(rng, x), target(rng, n, task))
    kind = ScrollClassifier if task in LABELS else ScrollRegressor
    before = judge.generators()
    with judge.watched(folder):
        try:
            model = kind(**options).fit(x, y, **extra)
        except Exception as error:
            judge.refused(error)
            return "refused"
        predicted(model, x)
        if rng.random() < 0.2:
            reloaded(model, x, folder)
        later(model, altered(rng, x))
    if options["random_state"] is not None:  # which draws a seed from numpy's
        judge.require(judge.generators() == before, "moved a global random generator")
    return "fitted"


def table(rng, n):
    """A table of hostile columns, as a frame or an array."""
    count = int(rng.integers(1, 6)) if rng.random() < 0.9 else n + 5
    style = rng.random()
    if style < 0.3:
        return array(rng, n, count)
    pool = values.NUMBERS + values.OTHERS if style < 0.95 else values.OTHERS + values.REFUSED
    names = [f"c{j}" for j in range(count)]
    if rng.random() < 0.2:
        names = [str(name) for name in rng.choice(values.NAMES, count)]  # may repeat
    columns = [series(pick(rng, pool)(rng, n)) for _ in names]
    frame = pd.concat(columns, axis=1, keys=range(count))
    frame.columns = names if rng.random() < 0.95 else range(count)
    if rng.random() < 0.2:  # few distinct rows
        frame = frame.iloc[rng.integers(0, min(n, 3), n)].reset_index(drop=True)
    if rng.random() < 0.2:
        frame.index = rng.permutation(n) if rng.random() < 0.5 else [f"r{i % 2}" for i in range(n)]
    return frame


def series(made):
    """A column of a frame, of the type that it has."""
    return pd.Series(made, dtype=getattr(made, "dtype", None))


def array(rng, n, count):
    """An array (N, D), of a type of its own or of objects."""
    columns = [np.asarray(pick(rng, values.NUMBERS)(rng, n), float) for _ in range(count)]
    x = np.stack(columns, 1)
    kind = rng.choice(["float64", "float32", "object", "lists", "flat", "frozen", "bool"])
    if kind == "lists":
        return x.tolist()
    if kind == "flat":
        return x[:, 0] if rng.random() < 0.3 else x
    if kind == "frozen":
        x.flags.writeable = False
        return x
    if kind == "bool":
        return x > 0
    with np.errstate(over="ignore"):
        return x.astype(str(kind))


def target(rng, n, task):
    """A target for the task, or a hostile one."""
    if rng.random() < 0.15:
        made = pick(rng, values.NUMBERS + values.OTHERS + values.REFUSED)(rng, n)
        return series(made) if rng.random() < 0.5 else np.asarray(made)
    if task in LABELS:
        return labels(rng, n, task)
    if task in COUNTS:
        y = rng.poisson(10.0 ** rng.integers(-1, 3), n).astype(float)
        if rng.random() < 0.3:
            y[rng.integers(n)] = 10.0 ** rng.integers(3, 20)
        return y
    y = pick(rng, values.NUMBERS)(rng, n) if rng.random() < 0.5 else rng.normal(size=n)
    if task == "several":
        return np.stack([np.asarray(y, float), rng.normal(size=n)], 1)
    return pd.Series(y) if rng.random() < 0.2 else y


def labels(rng, n, task):
    """Labels of some type; those of "levels" have an order that is given."""
    if task == "levels":
        return rng.choice(["lo", "mid", "hi"], n)
    many = [["no", "yes"], [0, 1, 2], [True, False], [-1, 7], [1.0, 2.0], [*"abcdefgh"]]
    y = np.asarray(pick(rng, many))
    y = y[rng.integers(0, len(y), n)]
    return pd.Series(y, dtype="category") if rng.random() < 0.2 else y


def weights(rng, n):
    """Weights of the rows, mostly none."""
    if rng.random() < 0.7:
        return None
    some = [
        np.ones(n), rng.random(n), np.zeros(n), np.arange(n), -np.ones(n), np.full(n, np.nan),
        np.full(n, 1e308), 10.0 ** rng.uniform(-300, 300, n), np.ones(n + 1), ["a"] * n,
        rng.integers(0, 3, n), np.full(n, 1e-310),
    ]  # fmt: skip
    return pick(rng, some)


def parameters(rng, task):
    """Options of the estimator; one in ten is none that it knows."""
    options = {"max_steps": int(rng.integers(1, 8)), "random_state": int(rng.integers(100))}
    options["n_members"] = int(rng.choice([1, 1, 1, 2, 3]))
    options["body"] = pick(rng, ["linear", "linear", "smooth", "waves", "matern", (8,), (4, 3)])
    options["covariance"] = str(rng.choice(["auto", "full", "diag", "lowrank", "none"]))
    if options["body"] == "matern" and task in LABELS:  # 512 features of up to 60 classes
        options["covariance"] = "diag"
    if task in ("gaussian", "several", "gaussreg"):
        routes = ["free", "closed", "auto", "hybrid"]
        options["routing"] = str(rng.choice(routes, p=[0.45, 0.45, 0.05, 0.05]))
    if task in (*COUNTS, "ova", "gaussreg"):
        options["likelihood"] = task
    if task in ("ordinal", "levels"):
        options["ordered"] = True if task == "ordinal" else ["lo", "mid", "hi"]
    if task in LABELS and rng.random() < 0.2:
        options["class_weight"] = pick(rng, ["balanced", {0: 2.0}, {"no": 0.0}, "heavy"])
    odd = {
        "recipe": ["paper"], "beta": [0.5, 1, 2, -1, "x"], "batch_size": [1, 7, 0, 2.5],
        "learning_rate": [1e-8, 10.0, 1e30, -1, float("nan")], "n_members": [0, -1, 2.0, None],
        "validation_fraction": [0.01, 0.99, 0, 1, "half"], "body": ["deep", (), (0,), 3, None],
        "covariance": ["whole", 1], "routing": ["open", None], "device": ["tpu", "cuda:9"],
        "random_state": [None, "seed", -1, np.random.default_rng(0)], "verbose": [0],
    }  # fmt: skip
    for name in odd:
        if rng.random() < 0.012 if name != "recipe" else rng.random() < 0.05:
            options[name] = pick(rng, odd[name])
    return options


def altered(rng, x):
    """Later rows, as they were or as they should not be."""
    if not isinstance(x, pd.DataFrame):
        x = np.array(x, object if isinstance(x, list) else None)
        ways = [
            lambda: x, lambda: x[:1], lambda: x[:0], lambda: x[:, ::-1], lambda: x[:, :-1],
            lambda: x * np.nan, lambda: x * 1e200, lambda: pd.DataFrame(x),
        ]  # fmt: skip
        return attempted(pick(rng, ways), x)
    ways = [
        lambda: x, lambda: x.iloc[:1], lambda: x.iloc[:0], lambda: x.iloc[:, ::-1],
        lambda: x.iloc[:, 1:], lambda: x.assign(more=1), lambda: x.astype(object),
        lambda: x.astype(str), lambda: x.map(lambda v: None), lambda: x.map(lambda v: "unseen"),
        lambda: x.rename(columns=str.upper), lambda: x.to_numpy(), lambda: x * 1e300,
        lambda: x.mask(rng.random(x.shape) < 0.5), lambda: x.map(lambda v: float("inf")),
    ]  # fmt: skip
    return attempted(pick(rng, ways), x)


def attempted(way, x):
    """The altered rows where their types allow it, else the rows."""
    try:
        with np.errstate(all="ignore"):
            return way()
    except (TypeError, ValueError, ArithmeticError, AttributeError, IndexError):
        return x


def later(model, x):
    """Rows that are altered are predicted or refused in words."""
    try:
        model.predict(x)
    except Exception as error:
        judge.refused(error)
    else:
        predicted(model, x)


def predicted(model, x):
    """All that a model says of rows is finite and makes sense."""
    if isinstance(model, ScrollClassifier):
        p = judge.finite("probabilities", model.predict_proba(x))
        judge.require((p >= 0).all() and np.allclose(p.sum(1), 1, atol=1e-6), "p do not sum to 1")
        judge.finite("log probabilities", model.predict_log_proba(x))
        judge.require(np.isin(model.predict(x), model.classes_).all(), "predicts no class")
        if model.ordered is not False:
            model.predict_interval(x)
    else:
        _, std = (judge.finite(name, v) for name, v in named(model, x))
        judge.require((std >= 0).all(), "a negative standard deviation")
        low, high = (judge.finite("interval", end) for end in model.predict_interval(x, 0.8))
        judge.require((low <= high).all(), "an interval whose ends are swapped")
        quantiles = judge.finite("quantiles", model.predict_quantiles(x, [0.1, 0.5, 0.9]))
        judge.require((np.diff(quantiles) >= 0).all(), "quantiles that do not ascend")
        judge.finite("samples", model.sample(x, 2, random_state=0))
    judge.require((judge.finite("ood_score", model.ood_score(x)) >= 0).all(), "ood_score < 0")


def named(model, x):
    return zip(("mean", "std"), model.predict(x, return_std=True), strict=True)


def reloaded(model, x, folder):
    """A model that comes back from its file predicts the same."""
    path = folder / "model.scroll"
    try:
        if not plain(getattr(model, "levels_", np.empty(0))):  # dates, or labels of any class
            with pytest.raises(
                ValueError, match="must have plain parameters and labels to be saved"
            ):
                model.save(path)
            return
        model.save(path)
        again = scroll.load(path)
        same = np.array_equal(again.predict(x), model.predict(x))
        judge.require(same, "predicts otherwise once it is loaded")
    finally:
        path.unlink(missing_ok=True)


def plain(labels):
    """True for labels that JSON can hold."""
    kinds = str | int | float
    return labels.dtype.kind in "biufUO" and all(isinstance(v, kinds) for v in labels.tolist())


def pick(rng, options):
    """One of some things of any kind."""
    return options[int(rng.integers(len(options)))]
