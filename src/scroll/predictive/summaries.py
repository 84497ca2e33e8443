"""One short line for the `repr` of a predictive: its shape and the range of its values."""

from torch import Size, Tensor


def summary(name: str, shape: Size | tuple[int, ...], *words: str, **ranges: Tensor) -> str:
    """Return `Name(shape=(100,), words, mean -1.2..3.4, ...)`, one range per keyword."""
    parts = [f"shape={tuple(shape)}", *words]
    parts += [f"{key.replace('_', ' ')} {_range(x)}" for key, x in ranges.items()]
    return f"{name}({', '.join(parts)})"


def _range(x: Tensor) -> str:
    """Return the smallest and largest finite value of x, and how many are not finite."""
    try:
        x = x.detach()
        finite = x[x.isfinite()]
        bad = x.numel() - finite.numel()
        if not finite.numel():
            return "not finite" if bad else "of no rows"
        low, high = finite.amin().item(), finite.amax().item()
    except RuntimeError:  # a meta tensor, or inside vmap or a compiled graph
        return "unknown"
    return f"{low:.3g}..{high:.3g}" + (f" ({bad} not finite)" if bad else "")
