"""A body and a head on several processes, each with a part of the rows.

    torchrun --nproc-per-node 2 examples/loss.py
    python examples/loss.py

Both give the same model. Stopped and started again, either goes on from its last checkpoint.
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_diabetes
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scroll import RegressionHead
from scroll.distributed import loss
from scroll.distributed.checkpoint import resume, save


def main() -> None:
    """Train, refit, and say how well a test row is known."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=99, help="rows a step, of all ranks together")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--checkpoint", default="diabetes.safetensors")
    asked = parser.parse_args()
    many = "RANK" in os.environ  # torchrun says so
    if many:
        dist.init_process_group("gloo")
    rank, count = (dist.get_rank(), dist.get_world_size()) if many else (0, 1)

    x, y = (torch.as_tensor(a) for a in load_diabetes(return_X_y=True))
    x, y = (x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std()
    train, test = slice(342), slice(342, None)
    mine, targets = x[train][rank::count], y[train][rank::count]  # this rank's rows
    total = loss.total(len(mine))

    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(10, 16), nn.Tanh()).double()
    head = RegressionHead(16).double()
    loss: nn.Module = loss.Loss(body, head, total)
    if many:
        loss = DistributedDataParallel(loss)
    adam = torch.optim.Adam(loss.parameters(), 0.01)

    began = resume(asked.checkpoint, loss=loss, adam=adam)
    if rank == 0:
        print(f"{count} ranks, {total} rows, from step {began}", flush=True)
    for step in range(began, asked.steps):
        rows = batch(step, total, asked.batch)
        own = rows[rows % count == rank] // count  # row i is row i // count of its rank
        adam.zero_grad()
        loss(mine[own], targets[own]).sum().backward()
        adam.step()
        if (step + 1) % asked.every == 0 or step + 1 == asked.steps:
            save(asked.checkpoint, step + 1, loss=loss, adam=adam)

    with torch.no_grad():
        bound = loss.refit(head, body(mine), targets)
        psi = body(x[test])
        nll = [-float(p(psi).log_prob(y[test]).mean()) for p in (head, bound)]
    if rank == 0:
        print(f"test NLL {nll[0]:.10f}, refitted {nll[1]:.10f}")
    if many:
        dist.destroy_process_group()


def batch(step: int, total: int, size: int) -> torch.Tensor:
    """Rows of a step, the same on every rank and after a restart: a function of the step."""
    return torch.randperm(total, generator=torch.Generator().manual_seed(step))[:size]


if __name__ == "__main__":
    main()
