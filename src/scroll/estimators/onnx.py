"""A fitted estimator as one ONNX graph, encoder and all. Needs the extra `scroll-torch[export]`.

The graph is that of `Model.forward` and, of a real target or a count, its quantiles. What ONNX
runtimes lack in float64, Phi and its logarithm, is written here in operations that they have.
"""

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor, nn

from .._core.checks import must, refusal
from .._core.files import write
from .._core.versions import EXPORT, require
from .model import COUNTS, Model
from .onnx_counts import quantiles as count_quantiles

_DOUBLE = 11  # onnx.TensorProto.DOUBLE
KEY = "scroll"  # of the metadata
CENTRE, DEGREE = 3.75, 18  # of the polynomial for erfcx: 1e-13
PARTS, ROUNDS, POLISH = 16, 6, 2  # of the search for a quantile: 16^-6 of its bracket, then Newton
_ONE_AT_A_TIME = Lock()


def export_onnx(
    estimator: Any, path: str | Path, quantiles: Sequence[float] = (0.05, 0.5, 0.95)
) -> None:
    """Write a fitted estimator as an ONNX graph, whole or not at all.

    Input `codes` (N, D), float64: numbers as they are, a category as its index in the metadata's
    list (one beyond the last where it is none of them), NaN where missing. Outputs, float64:
    `probabilities` (N, K) of a classifier; `mean` and `std` (N,) of a regressor, with `quantiles`
    (N, Q); of several targets (N, K) and (N, K, Q). N is free. Quantiles of counts are whole.

    `json.loads` of the metadata's "scroll" gives the columns with their categories, the levels of
    the quantiles, and the classes in the order of the probabilities.

    Args:
        estimator: a fitted `ScrollRegressor` or `ScrollClassifier`.
        path: of the file.
        quantiles: levels, of a real target or a count; none for (). Those of ordered classes
            follow from their probabilities, so classes have none in the graph.
    """
    onnx = _onnx()
    model: Model = estimator.model_
    levels = list(map(float, np.ravel(quantiles)))
    inside = all(0 < level < 1 for level in levels)
    must(inside, "quantiles", "lie strictly between 0 and 1", levels, "95 % is 0.95.")
    numbers = model.spec.likelihood in ("gaussian", *COUNTS)
    levels = levels if numbers else []
    names = ["mean", "std"] if numbers else ["probabilities"]
    try:
        file = traced(_Graph(model, levels).eval(), [*names, "quantiles"] if levels else names)
    except torch.onnx.OnnxExporterError as error:
        want, remedy = "be able to export the model", "Update torch, or try quantiles=()."
        got = f"version {torch.__version__}, which is not"
        raise refusal("torch", want, got, remedy, RuntimeError) from error
    except ModuleNotFoundError as error:  # torch looks in onnxscript for a module of its version
        want, got = f"support torch {torch.__version__}", f"a version without {error.name}"
        remedy = "Update it with pip install -U onnxscript."
        raise refusal("onnxscript", want, got, remedy, ImportError) from error
    onnx.helper.set_model_props(file, {KEY: json.dumps(_metadata(estimator, levels))})
    write(Path(path), file.SerializeToString())


def traced(graph: "_Graph", names: list[str]) -> Any:
    """The ONNX file of a graph whose outputs have those names."""
    # two rows, as one would be taken for the only number there is
    codes = torch.zeros(2, graph.model.encoder.columns, dtype=torch.float64)
    with quiet(), torch.no_grad():
        rows = ({0: torch.export.Dim("N")},)
        made: Any = torch.onnx.export(
            torch.export.export(graph, (codes,), dynamic_shapes=rows),
            (codes,),
            input_names=["codes"],
            custom_translation_table=_translations(),
            dynamo=True,
            verbose=False,
        )
    whole = made.model.graph
    for name in [name for name, value in whole.initializers.items() if not value.uses()]:
        del whole.initializers[name]  # or runtimes would tell of it
    _anonymous(whole)
    for out, name in zip(whole.outputs, names, strict=True):
        out.name = name
    file = made.model_proto
    del file.graph.value_info[:], file.graph.metadata_props[:]
    for value in (*file.graph.input, *file.graph.output):
        del value.metadata_props[:]
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    return file


def _anonymous(graph: Any, lead: str = "v") -> None:
    """New names throughout: torch calls values "mean", and nodes tell in whose folders they were
    written."""
    for i, node in enumerate(graph):
        node.metadata_props.clear()
        for j, out in enumerate(node.outputs):
            out.name = f"{lead}{i}_{j}"
        for inner in (a.value for a in node.attributes.values() if a.name == "body"):  # of a loop
            for j, given in enumerate(inner.inputs):
                given.name = f"{lead}{i}_in{j}"
            _anonymous(inner, f"{lead}{i}_")


def _onnx() -> Any:
    """Return the package onnx, new enough, as onnxscript is, by which torch exports."""
    try:
        import onnx
        import onnxscript
    except ImportError as missing:
        raise ImportError(
            f"`{missing.name}` must be installed to export, but got none. "
            "Install it with pip install 'scroll-torch[export]'."
        ) from missing
    for package in (onnx, onnxscript):
        lowest = EXPORT[package.__name__]
        require(package.__name__, package.__version__, lowest, "export_onnx")
    return onnx


def _metadata(estimator: Any, levels: list[float]) -> dict[str, Any]:
    from .._core.versions import __version__

    classes = getattr(estimator, "levels_", None)
    return {
        "version": __version__,
        "estimator": type(estimator).__name__,
        "likelihood": estimator.model_.spec.likelihood,
        "columns": estimator.schema_.to_json()["columns"],
        "quantiles": levels,
        "classes": None if classes is None else classes.tolist(),
    }


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's exporter, which warns of its own future.

    Filters and log levels belong to the process, so that one thread exports at a time.
    """
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        levels = [log.level for log in logs]
        warnings.simplefilter("ignore")
        for log in logs:
            log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for log, level in zip(logs, levels, strict=True):
                log.setLevel(level)


class _Graph(nn.Module):
    """What is exported: the model's summary, and quantiles at Q levels.

    Levels above a half are mirrored: a small tail keeps its digits where one minus it does not.
    """

    level: Tensor
    sign: Tensor
    tail: Tensor
    deviate: Tensor

    def __init__(self, model: Model, levels: list[float]):
        super().__init__()
        self.model = model
        q = torch.tensor(levels, dtype=torch.float64)
        self.register_buffer("level", q)
        self.register_buffer("sign", 1 - 2 * (q > 0.5).double())
        self.register_buffer("tail", torch.minimum(q, 1 - q))
        self.register_buffer("deviate", torch.special.ndtri(self.tail))

    def forward(self, codes: Tensor) -> Any:
        p = self.model.dist(codes)
        out = p.as_tensors()
        if not len(self.tail):
            return out
        if p.discrete:
            return (*out, count_quantiles(p.members, out[0], out[1], self.level))
        mean = torch.stack([m.mean for m in p.members])[..., None] * self.sign
        std = torch.stack([m.stddev for m in p.members])[..., None]
        each = mean + std * self.deviate
        found = each[0] if len(each) == 1 else _search(mean, std, each, self.tail)
        return (*out, found * self.sign)


def _search(mean: Tensor, std: Tensor, each: Tensor, tail: Tensor) -> Tensor:
    """x with 1/M sum_m Phi((x - mean_m) / std_m) = tail, between the members' own (M, ..., Q).

    The bracket is cut into many parts at a time, so that the graph stays short.
    """
    low, high = each.amin(0), each.amax(0)
    cuts = torch.arange(1, PARTS, dtype=low.dtype, device=low.device) / PARTS
    for _ in range(ROUNDS):
        x = low[..., None] + (high - low)[..., None] * cuts
        below = torch.special.ndtr((x - mean[..., None]) / std[..., None]).mean(0) < tail[..., None]
        step = (high - low) / PARTS
        low = low + step * below.sum(-1)
        high = low + step
    x = (low + high) / 2
    for _ in range(POLISH):
        z = (x - mean) / std
        density = ((-z.square() / 2).exp() / (std * sqrt(2 * torch.pi))).mean(0)
        better = x - (torch.special.ndtr(z).mean(0) - tail) / density
        # no density, no step; and none out of the bracket
        better = torch.where(density > 0, better, x)
        x = torch.minimum(torch.maximum(better, low), high)
    return x


def _translations() -> dict[Any, Any]:
    """Phi, its logarithm and exp(x) - 1 in operations that ONNX runtimes have, for torch's own.

    They hold erf in float32 at best, whose tails are not enough for a quantile.
    """
    from onnxscript import opset18

    op: Any = opset18  # its types know no more than that

    def number(value: float, like: Any) -> Any:
        return op.CastLike(op.Constant(value_float=value), like)

    def constant(value: float) -> Any:
        return op.Constant(value=_onnx().helper.make_tensor("c", _DOUBLE, (), [value]))

    def half_erfcx(x: Any) -> Any:
        """exp(x^2) erfc(x) / 2, x >= 0: a polynomial in (x - c)/(x + c), over 1 + 2x."""
        centre = constant(CENTRE)
        u = op.Div(op.Sub(x, centre), op.Add(x, centre))
        first, *rest = reversed(_COEFFICIENTS)
        out = constant(first)
        for c in rest:
            out = op.Add(op.Mul(out, u), constant(c))
        return op.Div(out, op.Add(constant(2.0), op.Mul(constant(4.0), x)))

    def parts(z: Any) -> tuple[Any, Any, Any]:
        """x = |z| / sqrt(2) in float64, its square, and whether z is on the left."""
        wide = op.Cast(z, to=_DOUBLE)
        x = op.Mul(op.Abs(wide), constant(sqrt(0.5)))
        return x, op.Mul(x, x), op.Less(wide, constant(0.0))

    def ndtr(z: Any) -> Any:
        x, square, left = parts(z)
        tail = op.Mul(op.Exp(op.Neg(square)), half_erfcx(x))
        return op.CastLike(op.Where(left, tail, op.Sub(constant(1.0), tail)), z)

    def log_ndtr(z: Any) -> Any:
        x, square, left = parts(z)
        tail = op.Sub(op.Log(half_erfcx(x)), square)
        right = op.Log(op.Sub(constant(1.0), op.Exp(tail)))
        return op.CastLike(op.Where(left, tail, right), z)

    def expm1(x: Any) -> Any:
        """(u - 1) x / log u, u = exp x as rounded, where the difference alone loses its digits."""
        u, one = op.Exp(x), number(1.0, x)
        plain = op.Sub(u, one)
        near = op.Where(op.Equal(u, one), x, op.Div(op.Mul(plain, x), op.Log(u)))
        return op.Where(op.Less(op.Abs(x), number(0.5, x)), near, plain)

    aten = torch.ops.aten
    return {
        aten.special_ndtr.default: ndtr,
        aten.special_log_ndtr.default: log_ndtr,
        aten.expm1.default: expm1,
    }


def _coefficients() -> list[float]:
    def scaled(u: Any) -> Any:
        x = CENTRE * (1 + u) / (1 - u)
        return (1 + 2 * x) * torch.special.erfcx(torch.from_numpy(x)).numpy()

    found: Any = Chebyshev.interpolate(scaled, DEGREE).convert(kind=Polynomial)
    return [float(c) for c in found.coef]


_COEFFICIENTS = _coefficients()
