"""Train a body and a head on several processes, each of which holds a part of the rows.

    torchrun --nproc-per-node 2 examples/distributed.py
    python examples/distributed.py

Both commands give the same model. A run that was stopped resumes from its last checkpoint.
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_diabetes
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scroll import RegressionHead, distributed
from scroll.distributed.checkpoint import resume, save


def main() -> None:
    """Train, refit, and print the test NLL of both."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=99, help="rows per step, over all ranks")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--checkpoint", default="diabetes.safetensors")
    options = parser.parse_args()
    parallel = "RANK" in os.environ  # set by torchrun
    if parallel:
        dist.init_process_group("gloo")
    rank, count = (dist.get_rank(), dist.get_world_size()) if parallel else (0, 1)

    x, y = (torch.as_tensor(a) for a in load_diabetes(return_X_y=True))
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    train, test = slice(342), slice(342, None)
    inputs, targets = x[train][rank::count], y[train][rank::count]  # this rank's rows
    total = distributed.total(len(inputs))

    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(10, 16), nn.Tanh()).double()
    head = RegressionHead(16).double()
    loss: nn.Module = distributed.Loss(body, head, total)
    if parallel:
        loss = DistributedDataParallel(loss)
    adam = torch.optim.Adam(loss.parameters(), 0.01)

    first = resume(options.checkpoint, loss=loss, adam=adam)
    if rank == 0:
        print(f"{count} ranks, {total} rows, from step {first}", flush=True)
    for step in range(first, options.steps):
        rows = batch(step, total, options.batch)
        own = rows[rows % count == rank] // count  # row i is row i // count of its rank
        adam.zero_grad()
        loss(inputs[own], targets[own]).sum().backward()
        adam.step()
        if (step + 1) % options.every == 0 or step + 1 == options.steps:
            save(options.checkpoint, step + 1, loss=loss, adam=adam)

    with torch.no_grad():
        bound = distributed.refit(head, body(inputs), targets)
        psi = body(x[test])
        nll = [-float(p(psi).log_prob(y[test]).mean()) for p in (head, bound)]
    if rank == 0:
        print(f"test NLL {nll[0]:.10f}, refitted {nll[1]:.10f}")
    if parallel:
        dist.destroy_process_group()


def batch(step: int, total: int, size: int) -> torch.Tensor:
    """Return the rows of a step; they depend on the step only, so ranks and restarts agree."""
    return torch.randperm(total, generator=torch.Generator().manual_seed(step))[:size]


if __name__ == "__main__":
    main()
