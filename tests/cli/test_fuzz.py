"""Random bad tables and files: no traceback, no result that is not finite, no leftover file.

Every case comes from a seed and its number; a failure names both. See `fuzzing`.
"""

import os
import warnings
from traceback import format_exception

import numpy as np
import pytest
import torch

from fuzzing import files, judge, sheets, tables
from scroll.estimators import CollapsedNoise
from sweeps import exhaustive

SEED = int(os.environ.get("FUZZ_SEED", "0"))
CASES = int(os.environ.get("FUZZ_CASES", "500"))
ONLY, _, NUMBER = os.environ.get("FUZZ_ONLY", "").partition(":")
KINDS = {  # what runs a case, how many cases, how many in one test
    "tables": (tables.run, CASES, 20),
    "sheets": (sheets.run, CASES // 5, 20),
    "files": (files.run, CASES * 2, 50),
}


def batches():
    """Kinds and ranges of case numbers; all but the first of each kind are exhaustive."""
    for kind, (_, cases, size) in KINDS.items():
        if ONLY in ("", kind):
            numbers = [int(NUMBER)] if NUMBER else range(cases)
            for start in range(0, len(numbers), size):
                marks = [exhaustive] if start else []
                yield pytest.param(kind, numbers[start : start + size], marks=marks)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the models that are altered."""
    made = tmp_path_factory.mktemp("files")
    (made / "models").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedNoise)
        files.models(made / "models")
    return made


@pytest.mark.parametrize(("kind", "numbers"), [*batches()], ids=str)
def test_hostile_input(kind, numbers, tmp_path, request):
    torch.set_default_dtype(torch.float32)  # what users have
    place = request.getfixturevalue("folder") if kind == "files" else tmp_path
    run, findings, outcomes = KINDS[kind][0], [], set()
    for number in numbers:
        rng = np.random.default_rng([SEED, [*KINDS].index(kind), number])
        try:
            outcomes.add(run(rng, place))
        except Exception as error:
            words = "".join(format_exception(error)[-6:]) if NUMBER else repr(error)
            findings.append(f"{kind} {number}: {words}")
    again = f"make fuzz SEED={SEED} ONLY={kind}:NUMBER runs one again"
    assert not findings, "\n".join([f"{len(findings)} of {len(numbers)}; {again}", *findings])
    if kind != "files" and len(numbers) == KINDS[kind][2]:  # refusals alone would show little
        assert outcomes == {"fitted", "refused"}


def leave(folder):
    (folder / "left").touch()


def judged(error):
    try:
        raise error
    except Exception as caught:
        judge.refused(caught)


FAULTS = {
    "left behind": leave,
    "RuntimeWarning": lambda folder: warnings.warn("odd", RuntimeWarning, stacklevel=1),
    "above the start": lambda folder: np.ones(2**27 + 2**24).sum(),
    "not in the house form": lambda folder: judged(ValueError("odd")),
    "more than one line": lambda folder: judge.worded("`x` must be\n1, but got 2.\nNo."),
    "characters": lambda folder: judge.worded(f"`x` must be {'1' * 600}, but got 2."),
    "KeyError": lambda folder: judged(KeyError("`x` must be 1, but got 2.")),
    "not finite": lambda folder: judge.finite("mean", [1.0, np.inf]),
}


@pytest.mark.parametrize(("words", "fault"), FAULTS.items(), ids=FAULTS)
def test_the_judge_notices(words, fault, tmp_path):
    with pytest.raises(judge.Finding, match=words), judge.watched(tmp_path):
        fault(tmp_path)
