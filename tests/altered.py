"""Ways to alter a model file, and a bound on the memory that reading one may take."""

import resource
from contextlib import contextmanager
from pathlib import Path

from scroll._core.archive import pack, unpack
from scroll.estimators.modelfile import FORMAT

ROOM = 2**30  # bytes beyond those in use


def opened(path):
    """The JSON and the tensors of a file."""
    content, tensors, _ = unpack(path, FORMAT)
    return content, {name: tensor.clone() for name, tensor in tensors.items()}


def sealed(content, tensors):
    """The bytes of a file with a checksum that fits."""
    return pack(FORMAT, content, tensors)


@contextmanager
def little_memory(room=ROOM):
    """Allocations beyond `room` bytes fail within the block."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
