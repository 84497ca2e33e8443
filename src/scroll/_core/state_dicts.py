"""State dicts compared in words."""

from collections.abc import Mapping

from torch import Tensor


def difference(
    wanted: Mapping[str, Tensor], given: Mapping[str, object], precision: bool = True
) -> str | None:
    """Return the first difference between the wanted and the given tensors, None without one.

    Args:
        wanted: by name.
        given: by name.
        precision: whether a difference in dtype counts.
    """
    for name in sorted({*wanted, *given}):
        if name not in wanted or name not in given:
            return f"{'no' if name in wanted else 'an unknown'} tensor {name:.100}"
        want, found = (_kind(state[name], precision) for state in (wanted, given))
        if want != found:
            return f"{name} is {found}, declared as {want}"
    return None


def _kind(tensor: object, precision: bool) -> str:
    shape = str(tuple(getattr(tensor, "shape", ())))
    return f"{getattr(tensor, 'dtype', None)} {shape}" if precision else shape
