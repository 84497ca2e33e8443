"""What a practitioner would pick instead, on the same splits: one table from one run.

    python benchmarks/peers.py [--sets yacht,boston] [--seeds 5-9] [--rows scroll,ngboost]
    python benchmarks/peers.py --speed       # fit and predict times as ratios, ONNX latency, memory

Every row fits on the training rows and stops, or chooses, by the validation rows of the same
split. Results are appended to results/peers, a line a fit, and never computed twice; the table
is printed from them. The paper's recipe is read from the records of `scroll bench headline`.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from scroll import ScrollRegressor, metrics
from scroll.bench import datasets, records
from scroll.bench.index import Index
from scroll.predictive import Normal

RESULTS = Path("results")
Data = list[tuple[np.ndarray, np.ndarray]]  # training, validation and test rows
Fitted = Callable[[np.ndarray], Any]  # new rows -> a predictive


def split(name: str, seed: int) -> Data:
    """60/20/20, as in the paper's tables."""
    table = datasets.load(name)
    x, y = np.asarray(table.x, np.float64), np.asarray(table.y, np.float64)
    rest, test = train_test_split(range(len(y)), test_size=0.2, random_state=seed)
    fold, held = train_test_split(rest, test_size=0.25, random_state=seed)
    return [(x[part], y[part]) for part in (fold, held, test)]


def normal(mean: Any, std: Any) -> Normal:
    """N(mean, std^2) of arrays."""
    mean, std = (torch.from_numpy(np.asarray(a, np.float64)) for a in (mean, std))
    return Normal(mean, std.square(), torch.zeros_like(mean))


def scroll(members: int) -> Callable[[Data, int], Fitted]:
    """ScrollRegressor as it comes."""

    def fit(data: Data, seed: int) -> Fitted:
        model = ScrollRegressor(n_members=members, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(*data[0], eval_set=data[1]).predict_dist

    return fit


def ngboost(data: Data, seed: int) -> Fitted:
    """NGBoost's defaults, stopped early."""
    from ngboost import NGBRegressor

    model = NGBRegressor(verbose=False, random_state=seed)
    model.fit(*data[0], X_val=data[1][0], Y_val=data[1][1], early_stopping_rounds=50)

    def predict(x: np.ndarray) -> Normal:
        found = model.pred_dist(x)
        return normal(found.loc, found.scale)

    return predict


def catboost(data: Data, seed: int) -> Fitted:
    """CatBoost's defaults with its loss for uncertainty, the best iteration kept."""
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
        thread_count=torch.get_num_threads(),
    )
    model.fit(*data[0], eval_set=data[1])

    def predict(x: np.ndarray) -> Normal:
        mean, var = model.predict(x).T
        return normal(mean, np.sqrt(var))

    return predict


def process(data: Data, seed: int) -> Fitted | None:
    """An exact Gaussian process with an ARD Matern-5/2 kernel, where there are few rows.

    It has its evidence to choose by, so the validation rows are further training rows.
    """
    import gpytorch

    x, y = (np.concatenate([data[0][i], data[1][i]]) for i in range(2))
    if len(y) > 2000:
        return None
    varies = x.std(0) > 0
    shift, scale = x[:, varies].mean(0), x[:, varies].std(0)
    mean, std = y.mean(), y.std()
    inputs = torch.from_numpy((x[:, varies] - shift) / scale)
    targets = torch.from_numpy((y - mean) / std)

    class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(inputs, targets, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            matern = gpytorch.kernels.MaternKernel(2.5, ard_num_dims=inputs.shape[1])
            self.kernel = gpytorch.kernels.ScaleKernel(matern)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    constraint = gpytorch.constraints.GreaterThan(1e-6)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=constraint)
    model = Exact().double()
    likelihood.double()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    with warnings.catch_warnings(), gpytorch.settings.cholesky_jitter(double_value=1e-8):
        warnings.simplefilter("ignore")
        for _ in range(300):
            adam.zero_grad()
            (-evidence(model(inputs), targets)).backward()
            adam.step()
    model.eval(), likelihood.eval()

    def predict(new: np.ndarray) -> Normal:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            at = likelihood(model(torch.from_numpy((new[:, varies] - shift) / scale)))
            return normal(mean + std * at.mean.numpy(), std * at.stddev.numpy())

    return predict


ROWS: dict[str, tuple[str, Callable[[Data, int], Fitted | None]]] = {
    "scroll": ("ScrollRegressor, 1 member", scroll(1)),
    "scroll-5": ("ScrollRegressor, 5 members", scroll(5)),
    "ngboost": ("NGBoost", ngboost),
    "catboost": ("CatBoost, RMSEWithUncertainty", catboost),
    "gp": ("exact GP, ARD Matern-5/2", process),
}
METRICS = ("nll", "rmse", "calibration", "coverage90", "fit_s", "predict_s")


def measured(row: str, name: str, seed: int) -> dict[str, float] | None:
    """What one fit is worth on the test rows, and how long it took."""
    data = split(name, seed)
    began = time.perf_counter()
    predict = ROWS[row][1](data, seed)
    if predict is None:
        return None
    fitted = time.perf_counter()
    p, y = predict(data[2][0]), torch.from_numpy(data[2][1])
    done = time.perf_counter()
    low, high = p.interval(0.9)
    return {
        "nll": float(metrics.nll(p, y)),
        "rmse": float(metrics.rmse(p, y)),
        "calibration": float(metrics.calibration_error(p, y)),
        "coverage90": float(((low <= y) & (y <= high)).double().mean()),
        "fit_s": fitted - began,
        "predict_s": done - fitted,
    }


def run(sets: list[str], seeds: list[int], rows: list[str]) -> None:
    """Fit what the records lack."""
    folder = RESULTS / "peers"
    done = records.done(records.load(folder).records)
    for name in sets:
        for seed in seeds:
            for row in rows:
                what = {"set": name, "method": row, "seed": seed}
                if records.key(what) in done or (found := measured(row, name, seed)) is None:
                    continue
                line = {"fit": what, "metrics": {k: round(v, 5) for k, v in found.items()}}
                records.append(records.file_of(folder, name), [line | {"threads": THREADS}])
                print(name, seed, row, line["metrics"], flush=True)


def table(sets: list[str], seeds: list[int]) -> None:
    """Means and standard errors of what is recorded, one table a metric, as Markdown."""
    loaded = records.load(RESULTS / "peers").records
    for metric in METRICS:
        print(f"\n**{metric}**\n\n| | {' | '.join(sets)} |\n|---|{'---:|' * len(sets)}")
        for row, (label, _) in ROWS.items():
            cells = []
            for name in sets:
                mine = [
                    r["metrics"][metric]
                    for r in loaded
                    if r["fit"]["method"] == row
                    and r["fit"]["set"] == name
                    and r["fit"]["seed"] in seeds
                ]
                cells.append(_cell(mine))
            print(f"| {label} | {' | '.join(cells)} |")
        if metric in ("nll", "rmse"):
            index = Index(records.load(RESULTS).records)
            cells = [
                _cell(list(index.values(name, "scroll-full", {}, seeds, metric).values()))
                for name in sets
            ]
            print(f"| the paper's recipe (`scroll bench`) | {' | '.join(cells)} |")


def _cell(values: list[float]) -> str:
    if not values:
        return "--"
    error = f" ± {stdev(values) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{fmean(values):.3f}{error}"


def speed() -> None:
    """Ratios in one run: fits against NGBoost's, predictions of 100,000 rows, one row by ONNX."""
    for name, limit in (("concrete", 3), ("kin8nm", 2)):
        data, times, fits = split(name, 5), {}, {}
        for row in ("ngboost", "scroll", "scroll-5"):
            began = time.perf_counter()
            fits[row] = ROWS[row][1](data, 5)
            times[row] = time.perf_counter() - began
        print(
            f"{name}: NGBoost {times['ngboost']:.1f} s, one member {times['scroll']:.1f} s "
            f"({times['scroll'] / times['ngboost']:.2f}x, limit {limit}), five members "
            f"{times['scroll-5']:.1f} s ({times['scroll-5'] / times['scroll']:.2f}x one, limit 2.5)"
        )
        many = np.tile(data[2][0], (100_000 // len(data[2][0]) + 1, 1))[:100_000]
        for row in fits:
            began = time.perf_counter()
            fits[row](many)
            times[row] = time.perf_counter() - began
        print(
            f"{name}, 100,000 rows: NGBoost {times['ngboost']:.2f} s, one member "
            f"{times['scroll']:.2f} s ({times['ngboost'] / times['scroll']:.0f}x faster, want 20), "
            f"five {times['scroll-5']:.2f} s"
        )
    import onnxruntime

    with TemporaryDirectory() as folder:
        x, y = data[0]
        model = ScrollRegressor(max_steps=100, random_state=0).fit(x, y)
        file = Path(folder) / "model.onnx"
        model.export_onnx(file)
        session = onnxruntime.InferenceSession(str(file))
        one = {"codes": x[:1]}
        session.run(None, one)
        began = time.perf_counter()
        for _ in range(1000):
            session.run(None, one)
        print(f"one row through ONNX: {time.perf_counter() - began:.2f} ms (limit 1)")


def memory() -> None:
    """Peak memory of a fit on 1,000,000 x 20 float32 rows above the data itself."""
    import resource

    rng = np.random.default_rng(0)
    x = rng.standard_normal((1_000_000, 20), dtype=np.float32)
    y = (np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(len(x))).astype(np.float32)
    ScrollRegressor(max_steps=20, random_state=0).fit(x[:1000], y[:1000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    model = ScrollRegressor(random_state=0).fit(x, y)
    spent = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"1,000,000 x 20: {spent:.0f} s, {(after - before) / 2**20:.2f} GiB above the data, "
        f"R2 {model.score(x[:10_000], y[:10_000]):.4f}"
    )


THREADS = int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads()))


def numbers(text: str) -> list[int]:
    """5-9, or 5,6,9."""
    low, dash, high = text.partition("-")
    return list(range(int(low), int(high) + 1)) if dash else [int(n) for n in text.split(",")]


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(datasets.UCI))
    parser.add_argument("--seeds", default="5-9")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--tables", action="store_true", help="fit nothing")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    if given.speed or given.memory:
        (speed if given.speed else memory)()
        return
    sets, seeds = given.sets.split(","), numbers(given.seeds)
    if not given.tables:
        run(sets, seeds, given.rows.split(","))
    table(sets, seeds)


if __name__ == "__main__":
    main()
