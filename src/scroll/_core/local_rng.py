"""Torch's random functions on a local generator.

Layers draw their initial weights from torch's global generator, which all threads share. Within
`Draws` they draw from a generator of their own: threads do not disturb each other, and the
global generator stays where it was.
"""

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
T = TypeVar("T")
OpOverload: TypeAlias = Any  # an operator of torch, whose type has no public name
FLOATING = (aten.empty, aten.eye, aten.normal, aten.ones, aten.rand, aten.randn, aten.zeros)

_GLOBAL = Lock()  # of torch's global generator, while a function that takes no other draws from it


class Draws(TorchDispatchMode):
    """Within this block, in this thread, torch draws the numbers that follow `manual_seed(seed)`.

    It works in torch's dispatcher, so it also affects modules that take no generator. A generator
    that is passed explicitly is used.

    Args:
        seed: of the generators, one per device.
        dtype: of new floating-point tensors; None is torch's default, which all threads share.
    """

    def __init__(self, seed: int, dtype: torch.dtype | None = None):
        super().__init__()
        self.seed, self.dtype = seed, dtype
        self.generators: dict[torch.device, Generator] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: True, torch's default, imports its compiler first, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> object:
        """Call `func` with the local generator and precision, where it takes any."""
        given = dict(kwargs or {})
        if _has_precision(func) and given.get("dtype") is None and _is_floating(func, args):
            given["dtype"] = self.dtype
        if not _is_random(func):
            return func(*args, **given)
        like = next((a for a in args if isinstance(a, Tensor)), None)
        device = torch.device(given.get("device") or "cpu") if like is None else like.device
        taking = _taking_generator(func)
        if taking is None:
            return self._on_global(device, lambda: func(*args, **given))
        at = _arguments(taking).index("generator")
        if len(args) <= at and given.get("generator") is None:
            given["generator"] = self._generator(device)
        return taking(*args, **given)

    def _generator(self, device: torch.device) -> Generator:
        if device not in self.generators:
            self.generators[device] = Generator(device).manual_seed(self.seed)
        return self.generators[device]

    def _on_global(self, device: torch.device, draw: Callable[[], T]) -> T:
        """Draw on the global generator of the CPU, one thread at a time, and put it back."""
        if device.type != "cpu":
            return draw()
        local = self._generator(device)
        with _GLOBAL, torch.random.fork_rng(devices=()):
            torch.set_rng_state(local.get_state())
            out = draw()
            local.set_state(torch.get_rng_state())
        return out


@cache
def _arguments(func: OpOverload) -> list[str]:
    return [argument.name for argument in func._schema.arguments]


@cache
def _taking_generator(func: OpOverload) -> OpOverload | None:
    """Return `func` or its overload that takes a generator as well; None if there is none."""
    if "generator" in _arguments(func):
        return func
    packet = func.overloadpacket
    for other in (getattr(packet, name) for name in packet.overloads()):
        names = _arguments(other)
        if "generator" in names and [n for n in names if n != "generator"] == _arguments(func):
            return other
    return None


@cache
def _is_random(func: OpOverload) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


@cache
def _has_precision(func: OpOverload) -> bool:
    """True if `func` makes a tensor of torch's default precision where none is given."""
    return func.overloadpacket in (*FLOATING, aten.full) and "dtype" in _arguments(func)


def _is_floating(func: OpOverload, args: tuple[object, ...]) -> bool:
    return func.overloadpacket is not aten.full or isinstance(args[1], float)
