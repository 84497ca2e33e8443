"""A training run's state as one file: tensors and JSON in the safetensors format, no code.

save("run.safetensors", step, model=model, optimizer=optimizer)
step = resume("run.safetensors", model=model, optimizer=optimizer)  # 0 if there is no file
"""

from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from reprlib import repr as short
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .._core.archive import Unreadable, pack, unpack
from .._core.checks import as_integer, comma_list, invalid, require
from .._core.files import write
from .._core.state_dicts import difference
from .consensus import agree, caught

FORMAT = "scroll-checkpoint"

State = dict[str, Any]  # tensors, numbers, text, and lists, tuples and dicts of them


class Stateful(Protocol):
    """What a checkpoint can hold: a module, an optimiser, a scheduler, a `PriorGradient`."""

    def state_dict(self) -> State:
        """Return the state."""

    def load_state_dict(self, state: State, /) -> object:
        """Take over a state."""


class Kept(NamedTuple):
    """The content of a checkpoint; empty if there is no file.

    Attributes:
        step: number of steps taken.
        states: the states of the parts, by name.
        summary: step and checksum in words, which all ranks must agree on.
    """

    step: int
    states: dict[str, State]
    summary: str


def save(path: str | Path, step: int, **parts: Stateful) -> None:
    """Write a checkpoint, completely or not at all; of several ranks the first one writes.

    Args:
        path: the file.
        step: number of steps taken so far.
        parts: modules, optimisers, schedulers, `PriorGradient`, by name. A posterior is no part:
            compute it again by `refit`.
    """
    import torch.distributed as dist

    require(
        as_integer(step, 0) is not None, "step", "be a number of steps, zero or more", repr(step)
    )
    bare = {name: _unwrapped(name, part) for name, part in parts.items()}
    if dist.is_available() and dist.is_initialized() and dist.get_rank() > 0:
        return
    tensors: dict[str, Tensor] = {}
    states = {name: part.state_dict() for name, part in bare.items()}
    content = {"step": int(step), "parts": _flat(states, "", tensors)}
    write(Path(path), pack(FORMAT, content, tensors))


def resume(path: str | Path, **parts: Stateful) -> int:
    """Load a checkpoint into its parts and return its step; 0 if there is no file.

    Every rank reads the file, and all must find the same one. If it does not fit all parts on
    every rank, all of them stay as they were.

    Args:
        path: the file.
        parts: by the names that they were saved by.
    """
    kept = Kept(0, {}, "no file")
    bare, before = dict[str, Stateful](), dict[str, State]()

    def read() -> None:
        nonlocal kept
        bare.update({name: _unwrapped(name, part) for name, part in parts.items()})
        if Path(path).exists():
            kept = _read(Path(path))
            found = kept.states.keys()
            want, got = (comma_list(sorted(names)) for names in (parts, found))
            require(found == parts.keys(), str(path), f"hold the parts {want}", got)
            for name, part in bare.items():
                with suppress(RuntimeError):  # a part that is spread over ranks may have no state
                    before[name] = deepcopy(part.state_dict())

    error = caught(read)
    agree({"checkpoint": kept.summary}, 0, error)
    for name, state in kept.states.items():
        problem = _load(bare[name], before.get(name), state)
        if problem is not None and error is None:
            error = invalid(str(path), f"fit this {name}", problem, "Remove it to begin again.")
    try:
        agree({}, 0, error)
    except Exception:
        for name, state in before.items():
            bare[name].load_state_dict(state)
        raise
    return kept.step


def _load(part: Stateful, before: State | None, state: State) -> str | None:
    """Load a state into a part; return what does not fit, or None."""
    if isinstance(part, nn.Module) and before is not None:
        found = difference(before, state, precision=False)
        if found is not None:
            return found
    try:
        part.load_state_dict(state)
    except Exception as error:
        return " ".join(str(error).split()).rstrip(".")
    return None


def _read(path: Path) -> Kept:
    """Return the content of a file."""
    try:
        content, tensors, checksum = unpack(path, FORMAT)
        step, states = content["step"], _nested(content["parts"], tensors)
        require(as_integer(step, 0) is not None, "step", "be zero or more", short(step))
        require(isinstance(states, dict), "parts", "be a dict of states by name", short(states))
    except (Unreadable, KeyError, TypeError, ValueError, RecursionError) as error:
        got = str(error) if isinstance(error, Unreadable) else f"something else: {error!r}"
        remedy = "Remove it to begin again."
        raise invalid(str(path), "be a checkpoint of scroll", got, remedy) from error
    return Kept(step, states, f"step {step}, checksum {checksum[:8]}")


def _unwrapped(name: str, part: object) -> Stateful:
    """Return a module without its wrappers, so that one process can resume what several began."""
    if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
        remedy = "Modules, optimisers, schedulers and PriorGradient have one."
        raise invalid(name, "have a state_dict", type(part).__name__, remedy, TypeError)
    if isinstance(part, DistributedDataParallel):
        return _unwrapped(name, part.module)
    bare: Stateful = getattr(part, "_orig_mod", part)  # the module that torch.compile wrapped
    return bare


def _flat(value: object, name: str, tensors: dict[str, Tensor]) -> object:
    """Return a state as JSON; its tensors go into `tensors`, by their place."""
    if isinstance(value, Tensor):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        return {"pairs": [[k, _flat(v, f"{name}/{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        items = [_flat(v, f"{name}/{k}", tensors) for k, v in enumerate(value)]
        return items if isinstance(value, list) else {"tuple": items}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise invalid(name, "be a tensor or plain to be saved", type(value).__name__, error=TypeError)


def _nested(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the state that `_flat` was given."""
    if isinstance(value, list):
        return [_nested(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "tuple" in value:
        return tuple(_nested(item, tensors) for item in value["tuple"])
    return {key: _nested(item, tensors) for key, item in value["pairs"]}
