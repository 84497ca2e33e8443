"""Checks of the user's arguments: one form of error message, one switch.

Every message reads: `x` must ..., but got .... Remedy.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import index

import torch
from torch import Tensor

LARGEST_COUNT = 1e12  # the variance of such counts fits in float32: see factors.confined
LARGE_COUNTS = "Count in thousands or millions, or model them as real numbers."

_values_checked: ContextVar[bool] = ContextVar("scroll_values_checked", default=True)


@contextmanager
def unchecked() -> Iterator[None]:
    """Within this block, do not check values (shapes still are).

    Checking a value on an accelerator waits for the device, and under torch.vmap there is no
    value to check. Compiled code never checks values. The block affects only the thread or task
    that enters it.
    """
    if torch.compiler.is_compiling():
        yield
        return
    token = _values_checked.set(False)
    try:
        yield
    finally:
        _values_checked.reset(token)


def checking() -> bool:
    """Return True if values are to be checked here."""
    return not torch.compiler.is_compiling() and _values_checked.get()


def may_hold(ok: Tensor) -> bool:
    """Return `ok` as a bool; True where it has no value, inside vmap and on the meta device."""
    try:
        return bool(ok)
    except RuntimeError:
        return True


def invalid(
    name: str, what: str, got: object, remedy: str = "", error: type[Exception] = ValueError
) -> Exception:
    """Return an exception whose message reads: `name` must `what`, but got `got`. `remedy`

    Each part is shortened to a readable length.
    """
    name, what, given, remedy = map(shortened, (name, what, f"{got}", remedy))
    return error(f"`{name}` must {what}, but got {given}.{' ' + remedy if remedy else ''}")


def shortened(text: str, most: int = 600) -> str:
    """Return `text`, without its middle if it has more than `most` characters."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} ... {text[-most // 4 :]}"


def short_repr(value: object) -> str:
    """Return the repr of a value for a message, shortened to 60 characters."""
    return shortened(repr(value), 60)


def comma_list(names: Iterable[object], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    words = [short_repr(name) for name in names]
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if words[most:] else "")


def require(
    ok: object,
    name: str,
    what: str,
    got: object,
    remedy: str = "",
    error: type[Exception] = ValueError,
) -> None:
    """Raise the exception that `invalid` returns unless `ok`."""
    if not ok:
        raise invalid(name, what, got, remedy, error)


def one_of(name: str, got: str, choices: Collection[str], remedy: str = "") -> None:
    """Require that `got` is one of `choices`."""
    require(got in choices, name, f"be one of {', '.join(map(repr, choices))}", repr(got), remedy)


def positive(name: str, x: object) -> Tensor:
    """Return `x` as a tensor, whose numbers must be positive and finite."""
    t = _numbers(name, x)
    require(bool((t > 0).all() and t.isfinite().all()), name, "be positive and finite", t.tolist())
    return torch.as_tensor(x)


def not_negative(name: str, x: object) -> None:
    """Require that `x` holds finite numbers, zero or positive."""
    t = _numbers(name, x)
    require(
        bool((t >= 0).all() and t.isfinite().all()),
        name,
        "be zero or positive, and finite",
        t.tolist(),
    )


def _numbers(name: str, x: object) -> Tensor:
    """Return `x` as a tensor to check: on the CPU, as a default device may have no values."""
    try:
        return x if isinstance(x, Tensor) else torch.as_tensor(x, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise invalid(name, "be a number", repr(x), error=TypeError) from error


def positive_int(name: str, number: int) -> None:
    """Require that `number` is a positive integer."""
    require(as_integer(number) is not None, name, "be a positive integer", repr(number))


def as_integer(number: object, least: int = 1) -> int | None:
    """Return `number` as an integer if it is one of at least `least`; otherwise None."""
    if not isinstance(number, int):
        try:
            number = index(number)  # type: ignore[arg-type]
        except TypeError:
            return None
    return number if number >= least and not isinstance(number, bool) else None


def axes(replicates: tuple[int, ...]) -> tuple[int, ...]:
    """Return `replicates`, which must be a tuple of positive integers."""
    require(
        isinstance(replicates, tuple) and all(isinstance(r, int) and r > 0 for r in replicates),
        "replicates",
        "be a tuple of positive integers",
        repr(replicates),
        "Twenty copies are (20,).",
    )
    return replicates


def tensor(name: str, x: object) -> None:
    """Require that `x` is a tensor."""
    if not isinstance(x, Tensor):
        remedy = f"Convert it with torch.as_tensor({name})."
        raise invalid(name, "be a torch.Tensor", type(x).__name__, remedy, TypeError)


def finite(name: str, x: Tensor) -> None:
    """Require that every element of `x` is real and finite."""
    if x.is_complex():
        raise invalid(name, "be real", x.dtype, error=TypeError)
    if checking() and not may_hold(x.sum().isfinite()):  # the sum first: it is cheap
        bad = ~x.isfinite()
        first = bad.nonzero()[0].tolist() if bool(bad.any()) else []
        require(
            not first,
            name,
            "be finite",
            f"{int(bad.sum())} NaN or infinite values, the first at index {first}",
            "Impute or drop such rows first; if a network made them, lower its learning rate.",
        )


def precise(like: Tensor) -> None:
    """Require a precision in which a head's variances can be computed."""
    remedy = "Keep it in single precision: head.float(). Its features may have any."
    require(like.dtype.itemsize >= 4, "head", "be in float32 or float64", like.dtype, remedy)


def shaped(y: Tensor, shape: torch.Size, name: str = "y") -> None:
    """Require that the targets `y` have the shape of their rows."""
    if y.shape != shape:
        column = y.dim() == len(shape) + 1 and y.shape[-1] == 1
        stacked = y.dim() < len(shape) and y.shape == shape[-y.dim() :]
        remedy = f"Use {name}.squeeze(-1)." if column else ""
        remedy = f"Use {name}.expand{tuple(shape)}." if stacked else remedy
        want = f"have shape {tuple(shape)} to go with the features"
        raise invalid(name, want, tuple(y.shape), remedy)


def counts(y: Tensor, largest: float) -> None:
    """Require that `y` holds integers from 0 to `largest`."""
    finite("y", y)
    if not checking():
        return
    bad = (y < 0) | (y != y.floor() if y.is_floating_point() else False)
    if not may_hold(~bad.any()):
        remedy = "Use RegressionHead for measurements."
        raise invalid("y", "hold counts 0, 1, 2, ...", y[bad].flatten()[:3].tolist(), remedy)
    if y.numel() and not may_hold(y.max() <= largest):
        most = y.max().item()
        remedy = f"Make the head with largest={most:g}." if most <= LARGEST_COUNT else LARGE_COUNTS
        raise invalid("y", f"hold counts up to {largest:g}", f"{most:g}", remedy)


def labels(y: Tensor, rows: torch.Size, count: int, kind: str = "classes") -> Tensor:
    """Return `y` as int64, which must hold labels 0..count-1, one per row."""
    tensor("y", y)
    if y.dim() == len(rows) + 1 and y.shape[-1] == count:
        want = f"hold one label per row, shape {tuple(rows)}"
        raise invalid("y", want, f"{tuple(y.shape)}, one-hot", "Use y.argmax(-1).")
    shaped(y, rows)
    if y.is_floating_point() or y.is_complex():
        remedy = "Convert it with y.long()."
        raise invalid("y", "hold integer labels", y.dtype, remedy, TypeError)
    if checking() and y.numel() and not may_hold(((y >= 0) & (y < count)).all()):
        low, high = (int(t) for t in y.aminmax())
        want = f"hold labels 0..{count - 1} for {count} {kind}"
        remedy = "Subtract 1." if (low, high) == (1, count) else ""
        raise invalid("y", want, f"labels {low}..{high}", remedy)
    return y.long()
