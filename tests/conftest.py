import sys
from functools import partialmethod

import pytest
import torch

from scroll.posterior.posterior import Posterior


def pytest_configure():
    torch.set_num_threads(1)  # two workers share two cores


@pytest.fixture(autouse=True)
def _float64_and_seed():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


@pytest.fixture(autouse=True)
def _short_hybrids(request, monkeypatch):
    """Estimators train what a hybrid adds in 60 steps, not 600: most of the time of a small fit."""
    if request.node.get_closest_marker("exhaustive") is None:
        monkeypatch.setattr(Posterior, "add", partialmethod(Posterior.add, steps=60))
