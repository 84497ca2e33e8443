"""CUDA graphs: capture a sequence of operations once, then replay it."""

from collections.abc import Callable

import torch


def on_side_stream(run: Callable[[], None]) -> None:
    """Call `run` on a separate CUDA stream, as required before it is captured as a graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)


def captured(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Return a function that does what `run` does, faster on a GPU.

    On a GPU the first call runs it, so that libraries initialise outside the capture. The second
    call captures it as a graph, and each call from then on replays that graph. `run` must always
    read and write the same tensors.

    Args:
        run: the operations, without decisions that depend on values.
        device: the device of its tensors.
    """
    if device.type != "cuda":
        return run
    graph, calls = torch.cuda.CUDAGraph(), 0

    def replay() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            on_side_stream(run)
            return
        if calls == 2:
            with torch.cuda.graph(graph):
                run()
        graph.replay()

    return replay
