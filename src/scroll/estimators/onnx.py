"""Export a fitted estimator as one ONNX graph. Needs the extra `scroll-torch[export]`.

The graph holds the encoder, `Model.forward` and, for a real target or a count, quantiles. ONNX
runtimes lack Phi and atan in float64; here they are made of operations that runtimes have.
"""

import contextlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from math import pi, sqrt
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from .._core.checks import invalid, require
from .._core.files import write
from .._core.versions import EXPORT, __version__, require_version
from ..fitting.plans import LABELS
from .modelfile import FittedEstimator
from .onnx_graph import Graph

_FLOAT, _DOUBLE = 1, 11  # of onnx.TensorProto
Value: TypeAlias = Any  # objects of onnx and onnxscript, which have no types

KEY = "scroll"  # of the metadata
CENTRE, DEGREE = 3.75, 18  # of the polynomial for erfcx: 1e-13
_ONE_AT_A_TIME = Lock()


def export_onnx(
    estimator: FittedEstimator, path: str | Path, quantiles: Sequence[float] = (0.05, 0.5, 0.95)
) -> None:
    """Write a fitted estimator as an ONNX graph, completely or not at all.

    Input `codes` (N, D), float64: numbers as they are, a category as its index in the metadata's
    list (len(list) if it is unseen), NaN where missing. Outputs, float64: `probabilities` (N, K)
    of a classifier; `mean` and `std` (N,) of a regressor, with `quantiles` (N, Q); of several
    targets (N, K) and (N, K, Q). N is free. Quantiles of counts are integers.

    `json.loads` of the metadata's "scroll" gives the columns with their categories, the levels of
    the quantiles, and the classes in the order of the probabilities.

    Args:
        estimator: a fitted `ScrollRegressor` or `ScrollClassifier`.
        path: of the file.
        quantiles: levels, of a real target or a count; () for none. Classes have none in the
            graph: those of ordered classes follow from their probabilities.
    """
    onnx, model = _onnx(), estimator.model_
    levels = list(map(float, np.ravel(quantiles)))
    inside = all(0 < level < 1 for level in levels)
    require(inside, "quantiles", "lie strictly between 0 and 1", levels, "95 % is 0.95.")
    numbers = model.spec.likelihood not in LABELS
    levels = levels if numbers else []
    names = ["mean", "std"] if numbers else ["probabilities"]
    try:
        file = traced(Graph(model, levels).eval(), [*names, "quantiles"] if levels else names)
    except torch.onnx.OnnxExporterError as error:
        want, remedy = "be able to export the model", "Update torch, or try quantiles=()."
        got = f"version {torch.__version__}, which is not"
        raise invalid("torch", want, got, remedy, RuntimeError) from error
    except ModuleNotFoundError as error:  # torch looks in onnxscript for a module of its version
        want, got = f"support torch {torch.__version__}", f"a version without {error.name}"
        remedy = "Update it with pip install -U onnxscript."
        raise invalid("onnxscript", want, got, remedy, ImportError) from error
    onnx.helper.set_model_props(file, {KEY: json.dumps(_metadata(estimator, levels))})
    write(Path(path), file.SerializeToString())


def traced(graph: Graph, names: list[str]) -> Value:
    """Return the ONNX file of a graph whose outputs have those names."""
    # two rows: with one, the exporter would fix N to 1
    codes = torch.zeros(2, graph.model.encoder.columns, dtype=torch.float64)
    with quiet(), torch.no_grad():
        rows = ({0: torch.export.Dim("N")},)
        made: Value = torch.onnx.export(
            torch.export.export(graph, (codes,), dynamic_shapes=rows),
            (codes,),
            input_names=["codes"],
            custom_translation_table=_translations(),
            dynamo=True,
            verbose=False,
        )
    full = made.model.graph
    for name in [name for name, value in full.initializers.items() if not value.uses()]:
        del full.initializers[name]  # or runtimes would warn
    _anonymous(full)
    for out, name in zip(full.outputs, names, strict=True):
        out.name = name
    file = made.model_proto
    del file.graph.value_info[:], file.graph.metadata_props[:]
    for value in (*file.graph.input, *file.graph.output):
        del value.metadata_props[:]
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    return file


def _anonymous(graph: Value, lead: str = "v") -> None:
    """Rename all values: torch calls some "mean", and metadata of nodes holds paths of files."""
    for i, node in enumerate(graph):
        node.metadata_props.clear()
        for j, out in enumerate(node.outputs):
            out.name = f"{lead}{i}_{j}"
        for inner in (a.value for a in node.attributes.values() if a.name == "body"):  # of a loop
            for j, given in enumerate(inner.inputs):
                given.name = f"{lead}{i}_in{j}"
            _anonymous(inner, f"{lead}{i}_")


def _onnx() -> ModuleType:
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
        require_version(package.__name__, package.__version__, lowest, "export_onnx")
    return onnx


def _metadata(estimator: FittedEstimator, levels: list[float]) -> dict[str, object]:
    classes = estimator.task_.levels
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
    """Silence the warnings and logs of torch's exporter.

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


class _Functions:
    """Functions and constants in float64, made of operations that ONNX runtimes have.

    Their own erf is exact to float32 at best, which is not enough for the tails of a quantile.
    """

    def __init__(self, op: Value):
        self.op = op

    def ndtr(self, z: Value) -> Value:
        """Phi(z)."""
        op = self.op
        x, square, left = self._parts(z)
        tail = op.Mul(op.Exp(op.Neg(square)), self._half_erfcx(x))
        return op.CastLike(op.Where(left, tail, op.Sub(self._constant(1.0), tail)), z)

    def log_ndtr(self, z: Value) -> Value:
        """log Phi(z)."""
        op = self.op
        x, square, left = self._parts(z)
        tail = op.Sub(op.Log(self._half_erfcx(x)), square)
        right = op.Log(op.Sub(self._constant(1.0), op.Exp(tail)))
        return op.CastLike(op.Where(left, tail, right), z)

    def expm1(self, x: Value) -> Value:
        """(u - 1) x / log u, u = exp x as rounded, where u - 1 alone loses its digits."""
        op = self.op
        u, one = op.Exp(x), self._number(1.0, x)
        plain = op.Sub(u, one)
        near = op.Where(op.Equal(u, one), x, op.Div(op.Mul(plain, x), op.Log(u)))
        return op.Where(op.Less(op.Abs(x), self._number(0.5, x)), near, plain)

    def atan(self, x: Value) -> Value:
        """4 atan of a quarter of the angle, by its series; pi/2 - atan(1/x) beyond 1."""
        op, constant = self.op, self._constant
        wide = op.Abs(op.Cast(x, to=_DOUBLE))
        one, steep = constant(1.0), op.Greater(wide, constant(1.0))
        u = op.Where(steep, op.Div(one, wide), wide)
        for _ in range(2):  # tan of half the angle
            u = op.Div(u, op.Add(one, op.Sqrt(op.Add(one, op.Mul(u, u)))))
        square, total = op.Mul(u, u), constant(0.0)
        for k in range(12, 0, -1):
            total = op.Mul(op.Add(constant((-1) ** k / (2 * k + 1)), total), square)
        angle = op.Mul(op.Mul(constant(4.0), u), op.Add(one, total))
        angle = op.Where(steep, op.Sub(constant(pi / 2), angle), angle)
        return op.CastLike(op.Mul(angle, op.Sign(op.Cast(x, to=_DOUBLE))), x)

    def scalar(self, number: float, dtype: int) -> Value:
        """A constant with all its digits; torch's exporter would round it to float32."""
        return self.op.Cast(self._constant(number), to=dtype if dtype > 0 else _FLOAT)

    def _half_erfcx(self, x: Value) -> Value:
        """exp(x^2) erfc(x) / 2, x >= 0: a polynomial in (x - c)/(x + c), over 1 + 2x."""
        op, constant = self.op, self._constant
        centre = constant(CENTRE)
        u = op.Div(op.Sub(x, centre), op.Add(x, centre))
        first, *rest = reversed(_COEFFICIENTS)
        out = constant(first)
        for c in rest:
            out = op.Add(op.Mul(out, u), constant(c))
        return op.Div(out, op.Add(constant(2.0), op.Mul(constant(4.0), x)))

    def _parts(self, z: Value) -> tuple[Value, Value, Value]:
        """x = |z| / sqrt(2) in float64, its square, and whether z < 0."""
        op = self.op
        wide = op.Cast(z, to=_DOUBLE)
        x = op.Mul(op.Abs(wide), self._constant(sqrt(0.5)))
        return x, op.Mul(x, x), op.Less(wide, self._constant(0.0))

    def _number(self, value: float, like: Value) -> Value:
        return self.op.CastLike(self.op.Constant(value_float=value), like)

    def _constant(self, value: float) -> Value:
        return self.op.Constant(value=_onnx().helper.make_tensor("c", _DOUBLE, (), [value]))


def _translations() -> dict[Callable[..., Value], Callable[..., Value]]:
    """Return the functions that replace torch's own in the graph."""
    from onnxscript import opset18

    functions, aten = _Functions(opset18), torch.ops.aten

    def ndtr(z: Value) -> Value:  # the exporter sets attributes, which methods do not allow
        return functions.ndtr(z)

    def log_ndtr(z: Value) -> Value:
        return functions.log_ndtr(z)

    def expm1(x: Value) -> Value:
        return functions.expm1(x)

    def atan(x: Value) -> Value:
        return functions.atan(x)

    def scalar_tensor(
        s: float, dtype: int = -1, layout: str = "", device: str = "", pin_memory: bool = False
    ) -> Value:
        return functions.scalar(s, dtype)

    return {
        aten.atan.default: atan,
        aten.scalar_tensor.default: scalar_tensor,
        aten.special_ndtr.default: ndtr,
        aten.special_log_ndtr.default: log_ndtr,
        aten.expm1.default: expm1,
    }


def _coefficients() -> list[float]:
    """Return the coefficients of the polynomial for (1 + 2x) erfcx(x)."""

    def scaled(u: NDArray[np.float64]) -> NDArray[np.float64]:
        x = CENTRE * (1 + u) / (1 - u)
        return (1 + 2 * x) * torch.special.erfcx(torch.from_numpy(x)).numpy()

    found = Chebyshev.interpolate(scaled, DEGREE).convert(kind=Polynomial)
    return [float(c) for c in found.coef]


_COEFFICIENTS = _coefficients()
