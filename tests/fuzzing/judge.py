"""Judge one case: which errors, warnings, leftover files and allocations are allowed."""

import re
import resource
import time
import traceback
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import torch

MEMORY = 2**30  # bytes above those in use at the start
SECONDS = 20.0  # of processor time, many times what a case takes
LONGEST = 600  # characters of a message

HOUSE = re.compile(r"`.+` must .+, but got .+\.$", re.DOTALL)
# Messages that scikit-learn's own checks expect from an estimator.
SKLEARN = re.compile(
    r"X has \d+ features, but |Found input variables with inconsistent numbers of samples|"
    r"(Input|This \w+ estimator) |Unknown label type|The feature names should match|"
    r"Found array with |y should be a 1d array|Negative values in data|sample_weight\.shape"
)
# Warnings that scikit-learn gives for every estimator.
ADVICE = re.compile(
    r"X does not have valid feature names|The number of unique classes is greater than 50%|"
    r"A column-vector y was passed"
)


class Finding(Exception):
    """A requirement that a case does not meet."""


def require(ok, words):
    """Report `words` unless `ok`."""
    if not ok:
        raise Finding(words)


def refused(error):
    """An error is one that the library has worded itself, on one line."""
    words = str(error)
    kinds = (ValueError, TypeError, OSError, ImportError, RuntimeError, NotImplementedError)
    place = traceback.extract_tb(error.__traceback__)[-1]
    shown = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {words[:300]!r}"
    require(isinstance(error, kinds), shown)
    worded(words, shown)


def worded(words, shown=None):
    """A message has the form that all of them have."""
    shown = shown or repr(words[:400])
    require(HOUSE.match(words) or SKLEARN.match(words), f"not in the house form: {shown}")
    require("\n" not in words, f"more than one line: {shown}")
    require(len(words) <= LONGEST, f"{len(words)} characters: {shown}")


def finite(name, values):
    """Numbers are finite."""
    values = np.asarray(values)
    if values.dtype.kind in "fc":
        bad = ~np.isfinite(values)
        require(not bad.any(), f"{name}: {bad.sum()} of {bad.size} are not finite")
    return values


@contextmanager
def watched(folder=None, expected=()):
    """Within the block no foreign warning, leftover file or memory beyond the bound."""
    before, began, start = _files(folder), time.process_time(), _resident()
    _reset_peak()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for told in caught:
        kind, words = told.category, str(told.message)
        own = kind.__module__.startswith("scroll") or ADVICE.match(words)
        require(own, f"{kind.__name__}: {words[:200]!r} at {told.filename[-40:]}")
    took = time.process_time() - began
    require(took < SECONDS, f"{took:.0f} seconds")
    used = _peak() - start
    require(used < MEMORY, f"{used / 2**20:.0f} MiB above the start")
    left = _files(folder) - before - {*expected}
    require(not left, f"left behind: {sorted(left)}")


def generators():
    """The state of the random generators that a process shares."""
    return torch.get_rng_state().tolist(), str(np.random.get_state())  # noqa: NPY002


def _files(folder):
    return set() if folder is None else {path.name for path in Path(folder).iterdir()}


def _resident():
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return _peak()


def _peak():
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _reset_peak():
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
