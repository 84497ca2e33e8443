"""Hostile tables, sheets and model files: no traceback, no number that is not finite, no leftover.

Every case comes from a seed and its number; a failure names both. See `fuzzing`.
"""

import os
import warnings
from traceback import format_exception

import numpy as np
import pytest
import torch

from fuzzing import files, sheets, tables
from scroll.estimators import CollapsedNoise

SEED = int(os.environ.get("FUZZ_SEED", "0"))
CASES = int(os.environ.get("FUZZ_CASES", "500"))
ONLY, _, NUMBER = os.environ.get("FUZZ_ONLY", "").partition(":")
KINDS = {  # what runs a case, how many cases, how many in one test
    "tables": (tables.run, CASES, 20),
    "sheets": (sheets.run, CASES // 5, 20),
    "files": (files.run, CASES * 2, 50),
}


def batches():
    """Kinds and ranges of case numbers."""
    for kind, (_, cases, size) in KINDS.items():
        if ONLY in ("", kind):
            numbers = [int(NUMBER)] if NUMBER else range(cases)
            for start in range(0, len(numbers), size):
                yield kind, numbers[start : start + size]


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
    assert NUMBER or "refused" in outcomes
    assert NUMBER or kind == "files" or "fitted" in outcomes
