import sys

import pytest
import torch


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
