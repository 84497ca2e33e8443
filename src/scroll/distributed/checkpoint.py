"""Where a training run stands, as one file: tensors and JSON in the safetensors format, no code.

save("run.safetensors", step, model=model, optimizer=optimizer)
step = resume("run.safetensors", model=model, optimizer=optimizer)  # 0 if there is none
"""

from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from reprlib import repr as short
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .._core.archive import Unreadable, pack, unpack
from .._core.checks import must, refusal, whole
from .._core.files import write
from .._core.state_dicts import difference
from .consensus import agree

FORMAT = "scroll-checkpoint"


def save(path: str | Path, step: int, **parts: Any) -> None:
    """Write what has a `state_dict`, whole or not at all; of several ranks the first writes.

    Modules, optimisers, schedulers, `PriorGradient`. What `refit` gives is found anew from rows.
    """
    import torch.distributed as dist

    must(whole(step, 0) is not None, "step", "be a number of steps, zero or more", repr(step))
    bare = {name: _bare(name, part) for name, part in parts.items()}
    if dist.is_available() and dist.is_initialized() and dist.get_rank() > 0:
        return
    tensors: dict[str, Tensor] = {}
    states = {name: part.state_dict() for name, part in bare.items()}
    content = {"step": int(step), "parts": _flat(states, "", tensors)}
    write(Path(path), pack(FORMAT, content, tensors))


def resume(path: str | Path, **parts: Any) -> int:
    """Put the parts back to where they were saved, and give the step; 0 where there is no file.

    Every rank reads the file, and all must find the same one. Where it does not fit all parts on
    every rank, all of them stay as they were.
    """
    step, found, wrong = 0, "no file", None
    states: dict[str, Any] = {}
    bare: dict[str, Any] = {}
    before: dict[str, Any] = {}
    try:
        bare = {name: _bare(name, part) for name, part in parts.items()}
        if Path(path).exists():
            step, states, checksum = _read(Path(path))
            found = f"step {step}, checksum {checksum[:8]}"
            must(states.keys() == parts.keys(), str(path), f"hold {set(parts)}", set(states))
            for name, part in bare.items():
                with suppress(RuntimeError):  # one that is spread over ranks may not say its state
                    before[name] = deepcopy(part.state_dict())
    except Exception as error:
        wrong = error
    agree({"checkpoint": found}, 0, wrong)
    for name, state in states.items():
        got = None
        if isinstance(bare[name], nn.Module) and name in before:
            got = difference(before[name], state, precision=False)
        try:
            if got is None:
                bare[name].load_state_dict(state)
        except Exception as error:
            got = " ".join(str(error).split()).rstrip(".")
        if got is not None and wrong is None:
            wrong = refusal(str(path), f"fit this {name}", got, "Remove it to begin again.")
    try:
        agree({}, 0, wrong)
    except Exception:
        for name, state in before.items():
            bare[name].load_state_dict(state)
        raise
    return step


def _read(path: Path) -> tuple[int, dict[str, Any], str]:
    """Return the step, the states of the parts and the checksum of a file."""
    try:
        content, tensors, checksum = unpack(path, FORMAT)
        step, states = content["step"], _nested(content["parts"], tensors)
        must(whole(step, 0) is not None, "step", "be zero or more", short(step))
        must(isinstance(states, dict), "parts", "be by name", short(states))
    except (Unreadable, KeyError, TypeError, ValueError, RecursionError) as error:
        got = str(error) if isinstance(error, Unreadable) else f"something else: {error!r}"
        remedy = "Remove it to begin again."
        raise refusal(str(path), "be a checkpoint of scroll", got, remedy) from error
    return step, states, checksum


def _bare(name: str, part: Any) -> Any:
    """A module without its wrappers, so that one process can go on where several stopped."""
    if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
        remedy = "Modules, optimisers, schedulers and PriorGradient have one."
        raise refusal(name, "have a state_dict", type(part).__name__, remedy, TypeError)
    if isinstance(part, DistributedDataParallel):
        return _bare(name, part.module)
    return getattr(part, "_orig_mod", part)  # what torch.compile was given


def _flat(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """A state as JSON; its tensors go beside it, by their place."""
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
    raise refusal(name, "be a tensor or plain to be saved", type(value).__name__, error=TypeError)


def _nested(value: Any, tensors: dict[str, Tensor]) -> Any:
    """What `_flat` was given."""
    if isinstance(value, list):
        return [_nested(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "tuple" in value:
        return tuple(_nested(item, tensors) for item in value["tuple"])
    return {key: _nested(item, tensors) for key, item in value["pairs"]}
