"""Mixed precision ends at the head: a body may use it, but variances need all their digits."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def full_precision(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], T]:
    """A method of a head, which has `log_alpha`, without autocast."""

    @wraps(method)
    def run(head: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        device = head.log_alpha.device.type
        if device == "meta" or not torch.is_autocast_enabled(device):  # torch has none for meta
            return method(head, *args, **kwargs)
        with torch.autocast(device, enabled=False):
            return method(head, *args, **kwargs)

    return run
