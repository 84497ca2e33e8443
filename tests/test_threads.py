"""Threads share the process, but no setting: checks, default precision, random numbers."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

import scroll
from scroll import RegressionHead


def assert_a_nan_is_refused():
    with pytest.raises(ValueError, match="`psi` must be finite"):
        RegressionHead(2).loss(torch.full((3, 2), torch.nan), torch.randn(3), total=3)


def test_unchecked_holds_for_its_own_thread_only():
    """Two blocks that overlap and end in the order they began, which once left checks off."""
    entered, one_left = Barrier(3), Barrier(3)

    def first():
        with scroll.unchecked():
            entered.wait(10)
        one_left.wait(10)

    def second():
        with scroll.unchecked():
            entered.wait(10)
            one_left.wait(10)

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(first), pool.submit(second)]
        entered.wait(10)
        assert_a_nan_is_refused()  # while both are in their blocks
        one_left.wait(10)
        for job in jobs:
            job.result()
    assert_a_nan_is_refused()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler, of torch itself
def test_unchecked_works_inside_compiled_code():
    head, psi, y = RegressionHead(2), torch.randn(3, 2), torch.randn(3)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def loss():
        with scroll.unchecked():
            return head.loss(psi, y, total=3)

    torch.testing.assert_close(loss(), head.loss(psi, y, total=3))
