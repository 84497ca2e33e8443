"""A file of JSON and tensors in the safetensors format, with a checksum, never code.

The JSON is the file's only metadata entry, so the same content gives the same bytes. Its field
`sha256` covers the JSON and the name, dtype, shape and bytes of every tensor.
"""

import json
from hashlib import sha256
from pathlib import Path
from reprlib import repr as short
from typing import Any, NamedTuple

import torch
from torch import Tensor

VERSION = 3
UNSEALED = "0" * 64  # stands where the checksum will be


class Unreadable(ValueError):
    """Raised for a file that is not a valid archive; the message names the reason."""


class Archive(NamedTuple):
    """The content of a file.

    Attributes:
        content: the JSON.
        tensors: by name.
        checksum: SHA-256 of both, in hexadecimal.
    """

    content: dict[str, Any]
    tensors: dict[str, Tensor]
    checksum: str


def pack(kind: str, content: dict[str, Any], tensors: dict[str, Tensor]) -> bytes:
    """Return the bytes of a file of that kind."""
    from safetensors.torch import save

    apart = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    unsealed = json.dumps({"version": VERSION, "sha256": UNSEALED} | content)
    sealed = unsealed.replace(UNSEALED, _checksum(unsealed, apart), 1)
    return save(apart, metadata={kind: sealed})


def unpack(path: Path, kind: str) -> Archive:
    """Return what `pack` was given; raise `Unreadable` for a file that it has not written."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(kind)
            content = None if text is None else json.loads(text)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception as error:  # whatever a foreign file makes the readers raise
        words = " ".join(str(error).split())[:200].rstrip(".")
        raise Unreadable(f"something that cannot be read: {words}") from error
    if text is None:
        raise Unreadable("another file")
    if not isinstance(content, dict):
        raise Unreadable(f"the metadata {short(content)}")
    version = content.pop("version", None)
    if version != VERSION:
        raise Unreadable(f"version {short(version)} of the format instead of {VERSION}")
    checksum = content.pop("sha256", None)
    if not isinstance(checksum, str) or len(checksum) != len(UNSEALED):
        raise Unreadable("a file without its checksum")
    if _checksum(text.replace(checksum, UNSEALED, 1), tensors) != checksum:
        raise Unreadable("a modified file: its checksum does not match")
    return Archive(content, tensors, checksum)


def _checksum(text: str, tensors: dict[str, Tensor]) -> str:
    found = sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(json.dumps([name, str(tensor.dtype), [*tensor.shape]]).encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
